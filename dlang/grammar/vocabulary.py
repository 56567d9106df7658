"""The words and the signs of the language, by what they are for: the lexer knows them from here, and so does whatever
colours programs."""

from __future__ import annotations

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
