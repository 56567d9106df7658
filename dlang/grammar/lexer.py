"""Text → tokens, by one regular expression.

The words and the signs of the language stand in its tables by what they are for; whatever colours programs reads them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from dlang.diagnostics import BIDIRECTIONAL, Diagnostic, Fix, Source, Span

GREEK = "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u03ff"
LETTER = f"[A-Za-z_{GREEK}]"
NAME = rf"{LETTER}[A-Za-z0-9_{GREEK}]*'*"

CONTROL = ("if", "else", "match", "for", "while", "break", "continue", "return", "assert")
DECLARATIONS = ("fn", "let", "var", "struct", "enum", "const", "extern", "import")
WORDS_OF_OPERATORS = ("and", "or", "not", "as", "in", "by")
CONSTANTS = ("true", "false")
KEYWORDS = frozenset((*CONTROL, *DECLARATIONS, *WORDS_OF_OPERATORS, *CONSTANTS))

# A contextual keyword is one only before what must follow it; the parser takes it for a name where none may stand.
_TEXT_AHEAD = r'[ \t]*"'
_WORD_AHEAD = rf"[ \t]+(?!(?:and|or|not|as|in|if|for|by|else)\b)(?={LETTER})"
CONTEXTUAL = {
    "test": _TEXT_AHEAD,
    "bench": _TEXT_AHEAD,
    "type": _WORD_AHEAD,
    "pullback": _WORD_AHEAD,
    "pushforward": _WORD_AHEAD,
    "nodiff": _WORD_AHEAD + r"|[ \t]*\(",
}

# Of two signs that begin alike the longer one comes first.
OPERATORS = (
    "->", "=>", "|>", "==", "!=", "<=", ">=", "+=", "-=", "**", "*=", "//", "/=", "..",
    "-", "+", "*", "/", "%", "@", "<", ">", "=", "|", "?", "!",
)  # fmt: skip
BRACKETS = {"(": ")", "[": "]", "{": "}"}
SEPARATORS = (",", ".", ":", ";")

FLOAT = r"[0-9][0-9_]*(?:\.[0-9][0-9_]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)"
INTEGER = r"[0-9][0-9_]*"
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"', "'": "'"}
"""The escapes behind a `\\` in a string, beside `x41`, `u0041` and `u{41}`."""


_AHEAD = {word: re.compile(ahead) for word, ahead in CONTEXTUAL.items()}

_SIGNS = (*OPERATORS, *BRACKETS.keys(), *BRACKETS.values(), *SEPARATORS)
_LONG = "|".join(re.escape(sign) for sign in _SIGNS if len(sign) > 1)
_SYMBOL = f"{_LONG}|[{re.escape(''.join(sign for sign in _SIGNS if len(sign) == 1))}]"
_TOKEN = re.compile(
    rf"""
      (?P<skip>[ \t\r\f\ufeff{BIDIRECTIONAL}]+|\#[^\n]*)
    | (?P<newline>\n(?:[ \t\r\f]*+(?:\#[^\n]*+)?+\n)*+[ \t\r\f]*+)
    | (?P<word>{NAME})
    | (?P<FLOAT>{FLOAT}[A-Za-z0-9_]*)
    | (?P<INT>[0-9][A-Za-z0-9_]*)
    | (?P<STRING>"(?:[^"\\\n]++|\\[^\n])*+")
    | (?P<unclosed>"(?:[^"\\\n]|\\[^\n])*?\\?(?=[)\]}}\s,;]*$|\s*\{{\s*$))
    | (?P<TUPLE_INDEX>\.[0-9]+)
    | (?P<symbol>{_SYMBOL})
    | (?P<bad>&&?|'[^'\n]*'|.)
    """,
    re.VERBOSE | re.MULTILINE,
)


class Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


def tokenize(text: str, start: int = 0, end: int | None = None) -> list[Token]:
    """The tokens of `text[start:end]`; positions are those in `text`."""
    tokens: list[Token] = []
    append = tokens.append
    for match in _TOKEN.finditer(text, start, len(text) if end is None else end):
        kind = match.lastgroup
        if kind == "skip":
            continue
        value = match[0]
        if kind == "symbol":
            kind = value
        elif kind == "word":
            if value in KEYWORDS:
                kind = value
            elif value == "_":
                kind = "_"
            elif value in CONTEXTUAL and _AHEAD[value].match(text, match.end()):
                kind = value
            else:
                kind = "UNAME" if value[0].isupper() else "NAME"
        assert kind is not None
        append(Token(kind, value, match.start(), match.end()))
    return tokens


# ---- characters that are not seen ------------------------------------------------------------------------------------
# Characters that are not seen, but change how what is around them is read: a comment may look like code.

_HIDDEN = re.compile(rf"[{BIDIRECTIONAL}]|(?<!\A)\ufeff")


def hidden(source: Source) -> list[Diagnostic]:
    """A message for each line that has such characters, wherever they stand."""
    diagnostics: list[Diagnostic] = []
    line = 0
    for match in _HIDDEN.finditer(source.text):
        span = Span(source, match.start(), match.end())
        if span.line == line:
            continue
        line = span.line
        name = f"U+{ord(match[0]):04X}"
        what = "marks the order of bytes" if match[0] == "\ufeff" else "turns the direction of writing"
        message = f"the character {name}, which {what}, is not seen: what is read is not what runs"
        help = (f"leave it out; in a string, write `\\u{ord(match[0]):04x}`",)
        fixes = (Fix(f"Leave out {name}", span, ""),)
        diagnostics.append(Diagnostic("E0117", message, span, "it stands here", help=help, fixes=fixes))
    return diagnostics
