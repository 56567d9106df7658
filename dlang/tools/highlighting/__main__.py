"""Writes the files of the extension for VS Code that are made: `python -m dlang.tools.highlighting editors/vscode`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import dlang
from dlang.drafts import write
from dlang.tools.highlighting.textmate import configuration, grammar


def main(folder: Path) -> None:
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, text)


if __name__ == "__main__":
    main(Path(*sys.argv[1:2]))


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
