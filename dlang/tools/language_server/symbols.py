"""The outline of a file, and the declarations of all files by a part of their name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lsprotocol import types as lsp

from dlang.diagnostics import Span
from dlang.grammar import syntax as s
from dlang.tools.language_server.definitions import declarations
from dlang.tools.language_server.documents import Document, Project
from dlang.tools.language_server.positions import range_of
from dlang.tools.language_server.references import location

_KINDS = {
    "function": lsp.SymbolKind.Function,
    "constant": lsp.SymbolKind.Constant,
    "struct": lsp.SymbolKind.Struct,
    "enum": lsp.SymbolKind.Enum,
    "alias": lsp.SymbolKind.Interface,
    "constructor": lsp.SymbolKind.EnumMember,
}
_MOST = 500  # symbols of an answer


def document_symbols(document: Document) -> list[Any]:
    """The outline, as plain data; an item that is where it was is what it was."""
    return document.outlined.answer(((item, item.span.line) for item in document.outline.items), _symbol)


def _symbol(item: s.Item) -> lsp.DocumentSymbol | None:
    match item:
        case s.Fn(parameters=parameters) | s.Extern(parameters=parameters):
            detail = ", ".join(" ".join(p.span.text.split()) for p in parameters)
            return _made(item.name, lsp.SymbolKind.Function, item.span, item.name_span, detail=f"({detail})")
        case s.Const():
            return _made(item.name, lsp.SymbolKind.Constant, item.span, item.name_span)
        case s.Struct():
            return _made(item.name, lsp.SymbolKind.Struct, item.span, item.name_span, list(_fields(item.fields)))
        case s.Enum():
            variants = [
                _made(c.name, lsp.SymbolKind.EnumMember, c.span, c.span.head(len(c.name)), list(_fields(c.fields)))
                for c in item.constructors
            ]
            return _made(item.name, lsp.SymbolKind.Enum, item.span, item.name_span, variants)
        case s.Alias():
            return _made(item.name, lsp.SymbolKind.Interface, item.span, item.name_span)
        case s.Test():
            return _made(f'test "{item.name}"', lsp.SymbolKind.Event, item.span, item.span.head(len("test")))
        case s.Bench():
            return _made(f'bench "{item.name}"', lsp.SymbolKind.Event, item.span, item.span.head(len("bench")))
        case s.Rule():
            return _made(f"{item.kind} {item.name}", lsp.SymbolKind.Operator, item.span, item.name_span)
        case s.Let(pattern=s.PatternName() as p) | s.Var(pattern=s.PatternName() as p):
            return _made(p.name, lsp.SymbolKind.Variable, item.span, p.span)
        case _:
            return None


def _fields(fields: tuple[s.FieldDecl, ...]) -> Iterator[lsp.DocumentSymbol]:
    for f in fields:
        if f.name is not None:
            yield _made(f.name, lsp.SymbolKind.Field, f.span, f.span.head(len(f.name)), detail=f.type.span.text)


def _made(
    name: str, kind: lsp.SymbolKind, span: Span, own: Span, inside: list[lsp.DocumentSymbol] | None = None,
    detail: str | None = None,
) -> lsp.DocumentSymbol:  # fmt: skip
    return lsp.DocumentSymbol(name or "_", kind, range_of(span), range_of(own), detail=detail, children=inside)


def workspace_symbols(project: Project, wanted: str) -> list[lsp.WorkspaceSymbol]:
    """The declarations of all files whose names have the letters of `wanted`, in that order."""
    found: list[lsp.WorkspaceSymbol] = []
    for document in project.files():
        for (space, name), made in declarations(document).items():
            if made.span is None or (space == "constructor" and made.kind == "struct") or not fits(wanted, name):
                continue
            found.append(lsp.WorkspaceSymbol(location(project, made.span), name, _KINDS[made.kind]))
            if len(found) >= _MOST:
                return found
    return found


def fits(wanted: str, name: str) -> bool:
    """Tells whether the letters stand in the name, in this order, perhaps with others between them."""
    letters = iter(name.lower())
    return all(c in letters for c in wanted.lower())
