"""Code lenses above declarations: run a test, a bench or the program, see the type of a gradient."""

from __future__ import annotations

from typing import Any

from lsprotocol import types as lsp

from dlang.grammar import syntax as s
from dlang.identity import ByIdentity
from dlang.tools.language_server.definitions import own
from dlang.tools.language_server.describe import entry_of
from dlang.tools.language_server.documents import Document
from dlang.tools.language_server.positions import range_of
from dlang.typecheck.schemes import scheme_names
from dlang.typecheck.scope import FnEntry
from dlang.typecheck.types import FLOATS, DataDecl, Type, TypeArray, TypeCon, TypeData, TypeTuple, TypeVar, resolve

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
    found = own(document, f.name, "value")
    return entry_of(document, found) if found is not None and found.item is f else None


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
