"""Writes the files of the extension for VS Code that are made: `python -m dlang.tools.highlighting editors/vscode`.

One of them is a TextMate grammar, which VS Code and others colour programs by before the language server has answered.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import dlang
from dlang.drafts import write
from dlang.grammar import lexer
from dlang.tools.highlighting import (
    BUILTIN_FUNCTIONS,
    BUILTIN_TYPES,
    EFFECT_NAMES,
    END,
    PRELUDE_CONSTRUCTORS,
    SUFFIX,
    TYPE_CLASSES,
)

# ---- the grammar -----------------------------------------------------------------------------------------------------
Rule = dict[str, Any]


def grammar() -> Rule:
    """The grammar, as the data of its JSON."""
    return {
        "name": "dlang",
        "scopeName": "source.dlang",
        "fileTypes": ["dl"],
        "patterns": [{"include": "#code"}],
        "repository": {
            "code": {"patterns": [{"include": f"#{name}"} for name in _PARTS]},
            **{name: {"patterns": rules} for name, rules in _PARTS.items()},
        },
    }


def _words(names: tuple[str, ...], scope: str, *, called: bool = False) -> Rule:
    """Whole words. called: only in front of a `(`."""
    ahead = r"(?=\s*\()" if called else ""
    return _rule(rf"(?<![\w'.])(?:{'|'.join(names)}){END}{ahead}", scope)


def _rule(match: str, scope: str) -> Rule:
    return {"match": match, "name": f"{scope}.dlang"}


def _declared(keywords: str, keyword: str, name: str) -> Rule:
    """A keyword with the name that it declares."""
    scopes = {"1": {"name": f"{keyword}.dlang"}, "2": {"name": f"{name}.dlang"}}
    return {"match": rf"(?<![\w'.])({keywords})[ \t]+({lexer.NAME})", "captures": scopes}


_MODULE: Rule = {
    "begin": r"(?<![\w'.])(import)[ \t]+",
    "end": r"(?![\w'.])",
    "beginCaptures": {"1": {"name": "keyword.control.import.dlang"}},
    "patterns": [_rule(lexer.NAME, "entity.name.namespace"), _rule(r"\.", "punctuation.accessor")],
}
_STRING: Rule = {
    "begin": '"',
    "end": '"|$',
    "name": "string.quoted.double.dlang",
    "patterns": [
        _rule(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]{1,6}\}|.)", "constant.character.escape"),
        _rule(r"\{\{|\}\}", "constant.character.escape"),
        {
            "begin": r"\{",
            "end": r'(:[^{}":]*)?(\})|(?=["\n])',
            "name": "meta.interpolation.dlang",
            "beginCaptures": {"0": {"name": "punctuation.section.embedded.begin.dlang"}},
            "endCaptures": {
                "1": {"name": "constant.other.format-specification.dlang"},
                "2": {"name": "punctuation.section.embedded.end.dlang"},
            },
            "patterns": [{"include": "#code"}],
        },
    ],
}
_PARTS: dict[str, list[Rule]] = {
    "comments": [_rule("##.*$", "comment.line.documentation"), _rule("#.*$", "comment.line.number-sign")],
    "strings": [_STRING],
    "declarations": [
        _declared("fn", "keyword.declaration.function", "entity.name.function"),
        _declared("struct|enum|type", "keyword.declaration.type", "entity.name.type"),
        _declared("pullback|pushforward", "keyword.declaration.rule", "entity.name.function"),
        _declared("const", "keyword.declaration.constant", "variable.other.constant"),
        _MODULE,
    ],
    "keywords": [
        *(
            _rule(rf"(?<![\w'.]){word}{END}(?={ahead})", "keyword.declaration")
            for word, ahead in lexer.CONTEXTUAL.items()
        ),
        _words(lexer.DECLARATIONS, "keyword.declaration"),
        _words(lexer.CONTROL, "keyword.control"),
        _words(lexer.WORDS_OF_OPERATORS, "keyword.operator.word"),
        _words(lexer.CONSTANTS, "constant.language"),
    ],
    "types": [
        _words(BUILTIN_TYPES, "support.type"),
        _words(("Idx", *TYPE_CLASSES), "support.class"),
        _words(PRELUDE_CONSTRUCTORS, "support.constant"),
        _rule(rf"(?<=! |\+ )(?:{'|'.join(EFFECT_NAMES)}){END}", "support.type.effect"),
        _rule(rf"(?<![\w'])(?=[A-Z]){lexer.NAME}", "entity.name.type"),
    ],
    "functions": [
        _words(BUILTIN_FUNCTIONS, "support.function", called=True),
        _rule(rf"(?<![\w'.]){lexer.NAME}(?=\()", "entity.name.function.call"),
        {
            "match": rf"(\.)({lexer.NAME})",
            "captures": {
                "1": {"name": "punctuation.accessor.dlang"},
                "2": {"name": "variable.other.property.dlang"},
            },
        },
        _rule(rf"{lexer.NAME}", "variable.other"),
    ],
    "numbers": [
        _rule(rf"{lexer.FLOAT}{SUFFIX}{END}", "constant.numeric.float"),
        _rule(rf"{lexer.INTEGER}{SUFFIX}{END}", "constant.numeric.integer"),
    ],
    "operators": [
        _rule("|".join(re.escape(o) for o in sorted(lexer.OPERATORS, key=len, reverse=True)), "keyword.operator"),
        _rule(r"[\[\](){}]", "punctuation.section.brackets"),
        _rule(f"[{re.escape(''.join(lexer.SEPARATORS))}]", "punctuation.separator"),
    ],
}  # fmt: skip


def configuration() -> Rule:
    """Returns VS Code's configuration of brackets, comments and indentation."""
    brackets = [[open_, close] for open_, close in lexer.BRACKETS.items()]
    quotes = {"open": '"', "close": '"', "notIn": ["string", "comment"]}
    return {
        "comments": {"lineComment": "#"},
        "brackets": brackets,
        "autoClosingPairs": [*({"open": a, "close": b} for a, b in lexer.BRACKETS.items()), quotes],
        "surroundingPairs": [*brackets, ['"', '"']],
        "wordPattern": lexer.NAME,
        "indentationRules": {
            "increaseIndentPattern": r"^.*[\[({]\s*(#.*)?$|^.*(=|->|=>)\s*(#.*)?$",
            "decreaseIndentPattern": r"^\s*[\])}].*$",
        },
        "onEnterRules": [{"beforeText": {"pattern": r"^\s*##.*$"}, "action": {"indent": "none", "appendText": "## "}}],
    }


# ---- the files -------------------------------------------------------------------------------------------------------
def main(folder: Path) -> None:
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, text)


GRAMMAR = "syntaxes/dlang.tmLanguage.json"

# Kinds of names that the server tells apart, with a scope for themes that know none of their own.
SCOPES = {
    "namespace": "entity.name.namespace",
    "struct": "entity.name.type",
    "enum": "entity.name.type",
    "type": "entity.name.type",
    "interface": "support.class",
    "typeParameter": "variable.parameter.type",
    "parameter": "variable.parameter",
    "variable": "variable.other",
    "property": "variable.other.property",
    "enumMember": "variable.other.enummember",
    "function": "entity.name.function",
}


def manifest() -> dict[str, Any]:
    """`package.json`."""
    return {
        "name": "dlang",
        "displayName": "dlang",
        "description": "The differentiable array language dlang: colours, messages, types and names as you type",
        "version": dlang.__version__.partition(".dev")[0],
        "publisher": "dlang",
        "license": "Apache-2.0",
        "private": True,
        "repository": {"type": "git", "url": "file:../.."},
        "categories": ["Programming Languages", "Snippets", "Formatters"],
        "keywords": ["arrays", "automatic differentiation", "scientific computing"],
        "engines": {"vscode": "^1.91.0"},
        "main": "./extension.js",
        "activationEvents": [],
        "files": [
            "extension.js", "language-configuration.json", "syntaxes", "snippets", "README.md", "LICENSE",
            "node_modules",
        ],
        "contributes": {
            "languages": [
                {
                    "id": "dlang",
                    "aliases": ["dlang"],
                    "extensions": [".dl"],
                    "configuration": "./language-configuration.json",
                }
            ],
            "grammars": [{"language": "dlang", "scopeName": "source.dlang", "path": f"./{GRAMMAR}"}],
            "snippets": [{"language": "dlang", "path": "./snippets/dlang.json"}],
            "semanticTokenScopes": [
                {"language": "dlang", "scopes": {kind: [f"{scope}.dlang"] for kind, scope in SCOPES.items()}}
            ],
            "configurationDefaults": {"[dlang]": {"editor.tabSize": 2, "editor.insertSpaces": True}},
            "configuration": {
                "title": "dlang",
                "properties": {
                    "dlang.command": {
                        "type": "array",
                        "items": {"type": "string"},
                        "default": ["dlc"],
                        "markdownDescription": "The command `dlc`, as words: `[\"/path/to/.venv/bin/dlc\"]`.",
                    },
                    "dlang.trace.server": {
                        "type": "string",
                        "enum": ["off", "messages", "verbose"],
                        "default": "off",
                        "description": "What is said between the editor and the language server.",
                    },
                },
            },
            "commands": [
                {"command": "dlang.restart", "title": "dlang: Restart the language server"},
                {"command": "dlang.runFile", "title": "dlang: Run this file"},
                {"command": "dlang.testFile", "title": "dlang: Run the tests of this file"},
            ],
        },
        "scripts": {
            "vscode:prepublish": "node -e \"require('fs').copyFileSync('../../LICENSE', 'LICENSE')\"",
            "package": "vsce package --no-rewrite-relative-links",
        },
        "dependencies": {"vscode-languageclient": "^9.0.1"},
        "devDependencies": {"@vscode/vsce": "^3.6.0"},
    }  # fmt: skip


def files() -> dict[str, str]:
    """The files that are made, by their names in the folder of the extension."""
    contents = {
        "package.json": manifest(),
        "language-configuration.json": configuration(),
        GRAMMAR: grammar(),
    }
    return {name: json.dumps(data, indent=2, ensure_ascii=False) + "\n" for name, data in contents.items()}


if __name__ == "__main__":
    main(Path(*sys.argv[1:2]))
