"""A lexer for Pygments: `pygmentize program.dl`, and blocks of code in Sphinx, MkDocs and Jupyter."""

from __future__ import annotations

import re
from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, default, include, words
from pygments.token import (
    Comment,
    Error,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    Whitespace,
)

from dlang.grammar import vocabulary as v
from dlang.tools.highlighting import BUILTIN_FUNCTIONS, BUILTIN_TYPES, END, PRELUDE_CONSTRUCTORS, SUFFIX, TYPE_CLASSES

_SIGNS = sorted(v.OPERATORS, key=len, reverse=True)
_BRACKETS = "".join((*v.BRACKETS.keys(), *v.BRACKETS.values(), *v.SEPARATORS))


def _word(names: tuple[str, ...]) -> words:
    return words(names, prefix=r"(?<![\w'.])", suffix=END)


class DlangLexer(RegexLexer):  # type: ignore[misc]  # Pygments has no types
    """Colours programs of dlang; what is no token of the language is an error."""

    name = "dlang"
    url = "https://pypi.org/project/dlang/"
    aliases: ClassVar[list[str]] = ["dlang", "dl"]
    filenames: ClassVar[list[str]] = ["*.dl"]
    mimetypes: ClassVar[list[str]] = ["text/x-dlang"]
    flags = re.MULTILINE

    tokens: ClassVar[dict[str, list[tuple[object, ...] | object]]] = {
        "root": [
            (r"[ \t\r\f\ufeff]+", Whitespace),
            (r"\n", Whitespace),
            (r"##[^\n]*", Comment.Special),
            (r"#[^\n]*", Comment.Single),
            (rf"(fn)([ \t]+)({v.NAME})", bygroups(Keyword.Declaration, Whitespace, Name.Function)),
            (rf"(struct|enum|type)([ \t]+)({v.NAME})", bygroups(Keyword.Declaration, Whitespace, Name.Class)),
            (r"(?<![\w'.])(import)([ \t]+)", bygroups(Keyword.Namespace, Whitespace), "path"),
            (rf"(pullback|pushforward)([ \t]+)({v.NAME})", bygroups(Keyword.Declaration, Whitespace, Name.Function)),
            *((rf"{word}{END}(?={ahead})", Keyword.Declaration) for word, ahead in v.CONTEXTUAL.items()),
            (_word(v.DECLARATIONS), Keyword.Declaration),
            (_word(v.CONTROL), Keyword),
            (_word(v.WORDS_OF_OPERATORS), Operator.Word),
            (_word(v.CONSTANTS), Keyword.Constant),
            (_word(BUILTIN_TYPES), Keyword.Type),
            (_word(("Idx", *TYPE_CLASSES)), Name.Builtin),
            (_word(PRELUDE_CONSTRUCTORS), Name.Builtin),
            (_word(BUILTIN_FUNCTIONS), Name.Builtin),
            (rf"(\.)({v.NAME})", bygroups(Punctuation, Name.Attribute)),
            (rf"(?=[A-Z])({v.NAME})", Name.Class),
            (rf"({v.NAME})(?=\()", Name.Function),
            (v.NAME, Name),
            (rf"(?:{v.FLOAT}){SUFFIX}{END}", Number.Float),
            (rf"{v.INTEGER}{SUFFIX}{END}", Number.Integer),
            (r'"', String, "string"),
            (words(tuple(_SIGNS)), Operator),
            (rf"[{re.escape(_BRACKETS)}]", Punctuation),
        ],
        "path": [(v.NAME, Name.Namespace), (r"\.", Punctuation), default("#pop")],
        "string": [
            (r'"', String, "#pop"),
            (r"\n", Error, "#pop"),
            (r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]{1,6}\}|.)", String.Escape),
            (r"\{\{|\}\}", String.Escape),
            (r"\{", String.Interpol, "interpolation"),
            (r'[^"\\{}\n]+', String),
            (r"\}", String),
        ],
        "interpolation": [
            (r"\}", String.Interpol, "#pop"),
            (r'(:)([^{}":]*)(\})', bygroups(String.Interpol, String.Interpol, String.Interpol), "#pop"),
            (r'(?=["\n])', Text, "#pop"),
            include("root"),
        ],
    }


__all__ = ["DlangLexer"]
