"""Text → tokens, by one regular expression.

A token's kind is the terminal of the grammar: its own text for keywords and symbols, else `NAME`, `UNAME`, `INT`,
`FLOAT`, `STRING`, `TUPLE_INDEX`. Three kinds the grammar doesn't know: `newline` (newlines.py turns it into `NL` or
drops it), `unclosed` (a string without its end) and `bad` (no token of the language), which the parser reports.
Repetitions are possessive (`*+`): the others keep a state for each of their turns, some hundred bytes a character.
A token never spans lines (but `newline`), so any range of whole lines can be lexed alone.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from dlang.diagnostics import BIDIRECTIONAL
from dlang.grammar import vocabulary
from dlang.grammar.vocabulary import BRACKETS, FLOAT, NAME, OPERATORS, SEPARATORS

KEYWORDS = vocabulary.KEYWORDS
CONTEXTUAL = {word: re.compile(ahead) for word, ahead in vocabulary.CONTEXTUAL.items()}

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
            elif value in CONTEXTUAL and CONTEXTUAL[value].match(text, match.end()):
                kind = value
            else:
                kind = "UNAME" if value[0].isupper() else "NAME"
        assert kind is not None
        append(Token(kind, value, match.start(), match.end()))
    return tokens
