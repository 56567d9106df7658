"""Colours of what is being typed, by the lexer's tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from dlang.grammar.lexer import CONTEXTUAL, KEYWORDS, Token, tokenize
from dlang.typecheck.types import DTYPES

STYLE = Style.from_dict(
    {
        "keyword": "ansimagenta",
        "number": "ansicyan",
        "string": "ansigreen",
        "type": "ansiyellow",
        "function": "ansiblue",
        "command": "bold ansimagenta",
        "comment": "ansibrightblack italic",
        "mistake": "ansired underline",
        "auto-suggestion": "ansibrightblack",
        "matching-bracket.cursor": "bold reverse",
        "matching-bracket.other": "bold reverse",
        "bottom-toolbar": "noreverse ansibrightblack",
        "bottom-toolbar.argument": "bold noreverse",
    }
)
_CLASSES = {
    "INT": "class:number",
    "FLOAT": "class:number",
    "STRING": "class:string",
    "unclosed": "class:string",
    "UNAME": "class:type",
    "bad": "class:mistake",
}


class Highlighter(Lexer):
    """For prompt_toolkit."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = list(_lines(document.text))
        return lambda number: lines[number] if number < len(lines) else []


def coloured(text: str) -> list[tuple[str, str]]:
    """The parts of a text with their styles; together they are the text."""
    if text.startswith(":"):
        end = len(text.split(maxsplit=1)[0])
        return [("class:command", text[:end]), *coloured(text[end:])] if end < len(text) else [("class:command", text)]
    out: list[tuple[str, str]] = []
    at = 0
    tokens = tokenize(text)
    for k, token in enumerate(tokens):
        if token.start > at:
            out.append(_between(text[at : token.start]))
        out.append((_style(token, tokens[k + 1] if k + 1 < len(tokens) else None), token.text))
        at = token.end
    if at < len(text):
        out.append(_between(text[at:]))
    return out


def _between(text: str) -> tuple[str, str]:
    return ("class:comment" if "#" in text else "", text)


def _style(token: Token, following: Token | None) -> str:
    if token.kind in KEYWORDS or (token.kind in CONTEXTUAL and token.kind == token.text):
        return "class:keyword"
    if token.kind == "NAME":
        if token.text in DTYPES:
            return "class:type"
        return "class:function" if following is not None and following.kind == "(" else ""
    if token.kind == "newline":
        return "class:comment" if "#" in token.text else ""
    return _CLASSES.get(token.kind, "")


def _lines(text: str) -> Iterator[StyleAndTextTuples]:
    line: StyleAndTextTuples = []
    for style, part in coloured(text):
        first, *others = part.split("\n")
        line.append((style, first))
        for other in others:
            yield line
            line = [(style, other)]
    yield line
