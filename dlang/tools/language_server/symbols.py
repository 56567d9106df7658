"""The declarations of files: as an outline, by a part of their name, and with lenses above them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lsprotocol import types as lsp

from dlang.diagnostics import Span
from dlang.grammar import syntax as s
from dlang.identity import ByIdentity
from dlang.tools.language_server.describe import entry_of
from dlang.tools.language_server.documents import Document, Project
from dlang.tools.language_server.protocol import range_of
from dlang.tools.language_server.references import declarations, location, own
from dlang.typecheck.schemes import scheme_names
from dlang.typecheck.scope import FnEntry
from dlang.typecheck.types import FLOATS, DataDecl, Type, TypeArray, TypeCon, TypeData, TypeTuple, TypeVar, resolve

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
    name: str, kind: lsp.SymbolKind, span: Span, name_span: Span, inside: list[lsp.DocumentSymbol] | None = None,
    detail: str | None = None,
) -> lsp.DocumentSymbol:  # fmt: skip
    return lsp.DocumentSymbol(name or "_", kind, range_of(span), range_of(name_span), detail=detail, children=inside)


def workspace_symbols(project: Project, wanted: str) -> list[lsp.WorkspaceSymbol]:
    """The declarations of all files whose names have the letters of `wanted`, in that order."""
    symbols: list[lsp.WorkspaceSymbol] = []
    for document in project.files():
        for (space, name), d in declarations(document).items():
            if d.span is None or (space == "constructor" and d.kind == "struct") or not fits(wanted, name):
                continue
            symbols.append(lsp.WorkspaceSymbol(location(project, d.span), name, _KINDS[d.kind]))
            if len(symbols) >= _MOST:
                return symbols
    return symbols


def fits(wanted: str, name: str) -> bool:
    """Tells whether the letters stand in the name, in this order, perhaps with others between them."""
    letters = iter(name.lower())
    return all(c in letters for c in wanted.lower())


# ---- lenses ----------------------------------------------------------------------------------------------------------
# Code lenses above declarations: run a test, a bench or the program, see the type of a gradient.

RUN, TEST, BENCH = "dlang.run", "dlang.test", "dlang.bench"


def code_lenses(document: Document) -> list[Any]:
    """The lenses of a file, as plain data. The client knows how to run something; what a gradient is, is only shown.
    An item that is where it was, and of which the checker knows what it did, has the lens that it had."""
    items = document.analysis.module.items
    functions = [i for i in items if isinstance(i, s.Fn)]
    entries: ByIdentity[s.Item, FnEntry | None] = ByIdentity((i, _entry(document, i)) for i in functions)
    return document.lenses.answer(
        ((item, (item.span.line, entries.get(item))) for item in items),
        lambda item: _lens(document, item, entries.get(item)),
    )


def _lens(document: Document, item: s.Item, entry: FnEntry | None) -> lsp.CodeLens | None:
    match item:
        case s.Test():
            command = lsp.Command("▶ Run test", TEST, arguments=[document.path, item.name])
            return lsp.CodeLens(range_of(item.span.head(len("test"))), command)
        case s.Bench():
            command = lsp.Command("▶ Run bench", BENCH, arguments=[document.path, item.name])
            return lsp.CodeLens(range_of(item.span.head(len("bench"))), command)
        case s.Fn(name="main"):
            command = lsp.Command("▶ Run", RUN, arguments=[document.path])
            return lsp.CodeLens(range_of(item.name_span), command)
        case s.Fn() if entry is not None and (gradient := gradient_type(entry)) is not None:
            return lsp.CodeLens(range_of(item.name_span), lsp.Command(f"grad: {gradient}", ""))
        case _:
            return None


def _entry(document: Document, f: s.Fn) -> FnEntry | None:
    function = own(document, f.name, "value")
    return entry_of(document, function) if function is not None and function.item is f else None


def gradient_type(entry: FnEntry) -> str | None:
    """The type of `grad(f)`, which is in the type of the first parameter; None if the function has no such gradient."""
    if not entry.scheme.params or entry.decl.params[0].nodiff:
        return None
    scheme = entry.scheme
    if not isinstance(resolve(scheme.result), TypeCon | TypeVar) or not holds_floats(scheme.result):
        return None
    if not holds_floats(scheme.params[0]):
        return None
    names = scheme_names(scheme)
    return f"({', '.join(map(names, scheme.params))}) -> {names(scheme.params[0])}"


def holds_floats(t: Type, around: frozenset[DataDecl] = frozenset()) -> bool:
    """Tells whether a value of the type holds floats. around: structs that it is in, which may contain themselves."""
    t = resolve(t)
    match t:
        case TypeCon(name):
            return name in FLOATS
        case TypeVar():
            return "Float" in t.classes
        case TypeArray(element, _):
            return holds_floats(element, around)
        case TypeTuple(items):
            return any(holds_floats(i, around) for i in items)
        case TypeData(decl, _) if decl.is_struct and decl not in around:
            return any(holds_floats(f, around | {decl}) for v in decl.variants for _, f in v.fields)
        case _:
            return False
