"""Values between a session and Python: numbers, texts and arrays both ways; tuples, structs and enums outwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dlang.diagnostics import error
from dlang.ir import anf
from dlang.ir.anf import fresh, poly
from dlang.runtime.values import as_array, dtype_name
from dlang.specialize.structs import StructClasses
from dlang.specialize.types import MonoArray
from dlang.specialize.values import ArrayV, DataV, EnumV, ScalarV, TupleV, Value, leaves, template
from dlang.tools.repl.session import Session
from dlang.tools.repl.state import Kept
from dlang.tools.repl.values import on_host
from dlang.typecheck.printing import Names
from dlang.typecheck.terms import array, number
from dlang.typecheck.types import Type, TypeCon

_SCALARS = {bool: "bool", int: "i64", float: "f64", str: "str"}


def take(session: Session, name: str, value: Any) -> None:
    """Puts a value of Python into a session, under its name. Raises `DlangError`."""
    import numpy as np

    dtype = _SCALARS.get(type(value)) or (dtype_name(value.dtype) if isinstance(value, np.generic) else None)
    if dtype is not None:
        _put(session, name, TypeCon(dtype), anf.Scalar(dtype), value)
        return
    held = as_array(value, None)
    dtype = None if held is None else dtype_name(held.dtype)
    if dtype is None or not held.ndim:
        kind = type(value).__name__
        help = ("numbers, texts and arrays can be taken",)
        raise error("E0998", f"`{name}` is a {kind}, which the language has no value for", None, help=help)
    t = array(TypeCon(dtype), *map(number, held.shape))
    _put(session, name, t, MonoArray(anf.Scalar(dtype), tuple(map(poly, held.shape))), held)


def _put(session: Session, name: str, t: Type, mono: anf.Scalar | MonoArray, leaf: Any) -> None:
    from dataclasses import replace

    form = template(mono, lambda u: fresh("x", u))
    kept = Kept(form, (leaf,), t, Names(scheme=True)(t))
    session.state = replace(session.state, values={**session.state.values, name: kept})


def give(session: Session, name: str, classes: StructClasses) -> Any:
    """The value that a name stands for, as Python has it. Raises `DlangError`."""
    kept = session.state.values.get(name)
    if not isinstance(kept, Kept):
        what = "is a function, or a value that contains itself" if kept is not None else "is no value of the session"
        raise error("E0998", f"`{name}` {what}, so it can't be given to Python", None, help=(
            "functions that a cell declares are functions of Python already",))  # fmt: skip
    return _outward(kept.form, map(on_host, kept.leaves), classes, name)


def _outward(form: Value, held: Iterator[Any], classes: StructClasses, name: str) -> Any:
    match form:
        case ScalarV():
            leaf = next(held)
            return leaf.item() if form.dtype in ("f64", "i64", "bool") and hasattr(leaf, "item") else leaf
        case ArrayV():
            return next(held)
        case TupleV(items):
            return tuple([_outward(i, held, classes, name) for i in items]) if items else None
        case DataV(decl, fields):
            return classes.of(decl)(*[_outward(x, held, classes, name) for x in fields])
        case EnumV(decl, _, variants):
            tag = int(next(held))
            made: Any = None
            for k, (fields, variant) in enumerate(zip(variants, decl.variants, strict=True)):
                own = [next(held) for x in fields for _ in leaves(x)]
                if k == tag:
                    parts = iter(own)
                    made = classes.variant(decl, variant)(*[_outward(x, parts, classes, name) for x in fields])
            return made
        case _:
            raise error("E0998", f"`{name}` has a part that Python has no value for", None)
