"""Functions that may take a value, judged by types alone: quick, and wrong only by taking too much."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dlang.lazy_modules import lazy_module
from dlang.ops.functions import SCHEMES
from dlang.typecheck import builtins
from dlang.typecheck.program import Checked
from dlang.typecheck.scope import BuiltinEntry, FnEntry
from dlang.typecheck.types import (
    CLASSES,
    DTYPES,
    Type,
    TypeArray,
    TypeCon,
    TypeData,
    TypeFn,
    TypeTuple,
    TypeVar,
    resolve,
)

if TYPE_CHECKING:
    from dlang.typecheck import declarations
else:
    declarations = lazy_module("dlang.typecheck.declarations")


def functions(checked: Checked) -> Iterator[tuple[str, FnEntry | BuiltinEntry]]:
    """All functions in scope, those of the module first; of what the compiler knows those with a signature."""
    for name in dict.fromkeys(checked.program.value_names(checked.table)):
        if name.startswith("_") or name in DTYPES:
            continue
        entry = checked.program.value(checked.table, name)
        if isinstance(entry, BuiltinEntry) and name in SCHEMES:
            entry = builtins.builtin_entry(declarations.checker(checked.program, checked.table), name)
        if isinstance(entry, FnEntry | BuiltinEntry):
            yield name, entry


def taking(checked: Checked, t: Type | None) -> Iterator[tuple[str, FnEntry]]:
    """The functions whose first parameter may be of a type; all that have one, if it is not known."""
    for name, entry in functions(checked):
        if isinstance(entry, FnEntry) and entry.scheme.params and entry.decl.kind != "const":
            if t is None or takes(entry.scheme.params[0], t):
                yield name, entry


def takes(parameter: Type, value: Type) -> bool:
    """Tells whether a value of a type may be an argument, judged by dtypes and ranks."""
    wanted, found = resolve(parameter), resolve(value)
    if isinstance(found, TypeVar):
        return True
    match wanted:
        case TypeVar():
            return _of_classes(wanted, found)
        case TypeArray(element, shape):
            element = resolve(element)
            rank = len(shape.pre) + len(shape.post)
            if not isinstance(found, TypeArray):
                return shape.row is not None and rank == 0 and takes(element, found)
            own = len(found.shape.pre) + len(found.shape.post)
            fits = own >= rank if shape.row is not None else own == rank or found.shape.row is not None
            return fits and takes(element, found.element)
        case TypeTuple(items):
            return (
                isinstance(found, TypeTuple) and len(items) == len(found.items) and all(map(takes, items, found.items))
            )
        case TypeFn(params):
            return isinstance(found, TypeFn) and len(params) == len(found.params)
        case TypeData(decl):
            return isinstance(found, TypeData) and (found.decl is decl or found.decl.name == decl.name)
        case TypeCon():
            return found == wanted


def _of_classes(v: TypeVar, t: Type) -> bool:
    if v.atomic and isinstance(t, TypeArray):
        return False
    classes = v.classes - {"Vector"}
    if not classes:
        return True
    return isinstance(t, TypeCon) and all(t.name in CLASSES.get(c, ()) for c in classes)
