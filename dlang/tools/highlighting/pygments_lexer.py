"""A lexer for Pygments: `pygmentize program.dl`, and blocks of code in Sphinx, MkDocs and Jupyter."""

from __future__ import annotations

import re
from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, default, include, words
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, String, Text, Whitespace

from dlang.grammar import lexer
from dlang.tools.highlighting import BUILTIN_FUNCTIONS, BUILTIN_TYPES, END, PRELUDE_CONSTRUCTORS, SUFFIX, TYPE_CLASSES

_SIGNS = sorted(lexer.OPERATORS, key=len, reverse=True)
_BRACKETS = "".join((*lexer.BRACKETS.keys(), *lexer.BRACKETS.values(), *lexer.SEPARATORS))


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
            (rf"(fn)([ \t]+)({lexer.NAME})", bygroups(Keyword.Declaration, Whitespace, Name.Function)),
            (rf"(struct|enum|type)([ \t]+)({lexer.NAME})", bygroups(Keyword.Declaration, Whitespace, Name.Class)),
            (r"(?<![\w'.])(import)([ \t]+)", bygroups(Keyword.Namespace, Whitespace), "path"),
            (
                rf"(pullback|pushforward)([ \t]+)({lexer.NAME})",
                bygroups(Keyword.Declaration, Whitespace, Name.Function),
            ),
            *((rf"{word}{END}(?={ahead})", Keyword.Declaration) for word, ahead in lexer.CONTEXTUAL.items()),
            (_word(lexer.DECLARATIONS), Keyword.Declaration),
            (_word(lexer.CONTROL), Keyword),
            (_word(lexer.WORDS_OF_OPERATORS), Operator.Word),
            (_word(lexer.CONSTANTS), Keyword.Constant),
            (_word(BUILTIN_TYPES), Keyword.Type),
            (_word(("Idx", *TYPE_CLASSES)), Name.Builtin),
            (_word(PRELUDE_CONSTRUCTORS), Name.Builtin),
            (_word(BUILTIN_FUNCTIONS), Name.Builtin),
            (rf"(\.)({lexer.NAME})", bygroups(Punctuation, Name.Attribute)),
            (rf"(?=[A-Z])({lexer.NAME})", Name.Class),
            (rf"({lexer.NAME})(?=\()", Name.Function),
            (lexer.NAME, Name),
            (rf"(?:{lexer.FLOAT}){SUFFIX}{END}", Number.Float),
            (rf"{lexer.INTEGER}{SUFFIX}{END}", Number.Integer),
            (r'"', String, "string"),
            (words(tuple(_SIGNS)), Operator),
            (rf"[{re.escape(_BRACKETS)}]", Punctuation),
        ],
        "path": [(lexer.NAME, Name.Namespace), (r"\.", Punctuation), default("#pop")],
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
