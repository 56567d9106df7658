"""Names that an import would bring: modules beside the file and of the standard library, and what they declare."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lsprotocol import types as lsp

from dlang.diagnostics import Span
from dlang.tools.language_server.definitions import imports
from dlang.tools.language_server.documents import Document
from dlang.tools.language_server.items import IMPORTABLE, plain_item
from dlang.tools.language_server.positions import range_of
from dlang.typecheck.messages import imported

_DECLARED = re.compile(r"^(fn|const|struct|enum|extern\b.*\bfn) (\w+)", re.MULTILINE)
_KINDS = {"const": lsp.CompletionItemKind.Constant, "struct": lsp.CompletionItemKind.Struct,
          "enum": lsp.CompletionItemKind.Enum}  # fmt: skip


def importable(document: Document, stem: str) -> Iterator[lsp.CompletionItem]:
    """Lists names that begin with `stem` and are not imported, each with the edit that imports it."""
    if not stem:
        return
    whole = {i.path[0] for i in imports(document) if i.names is None}
    for name, text in _modules(document):
        if name not in whole and name.startswith(stem):
            yield _item(document, name, lsp.CompletionItemKind.Module, f"import {name}")
        for keyword, declared in _DECLARED.findall(text):
            if declared.startswith(stem) and not declared.startswith("_"):
                kind = _KINDS.get(keyword, lsp.CompletionItemKind.Function)
                yield _item(document, declared, kind, f"import {name} {{ {declared} }}")


def _modules(document: Document) -> Iterator[tuple[str, str]]:
    """The modules that the file could import, with their texts."""
    for name in document.project.finder.known(Path(document.path)):
        found = document.project.imported((name,), document)
        if found is not None:
            yield name, found.text


def _item(document: Document, name: str, kind: lsp.CompletionItemKind, line: str) -> lsp.CompletionItem:
    fix = imported(Span(document.analysis.source, 0, 0), line)
    item = plain_item(name, kind, IMPORTABLE, line)
    item.additional_text_edits = [lsp.TextEdit(range_of(fix.span), fix.text)]
    return item
