"""Calls of functions of the language with something lazy among their arguments: they are recorded too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dlang.host.classes import fields_of
from dlang.host.values import NUMPY, dtype_name, is_taken
from dlang.python.lazy.arrays import Lazy, unknown
from dlang.python.lazy.values import Apply, Node
from dlang.python.operators import Described, Plans, described, paths, whole
from dlang.specialize.frame import substituted
from dlang.specialize.structs import declaration
from dlang.typecheck import types as ty
from dlang.typecheck.types import Type

if TYPE_CHECKING:
    from dlang.python.function import Function


def has_lazy(values: Iterable[Any]) -> bool:
    """Tells whether something lazy is among values, or in the tuples and structs among them."""
    return any(isinstance(v, Lazy) or (bool(parts := _parts(v)) and has_lazy(parts)) for v in values)


def _parts(value: Any) -> tuple[Any, ...]:
    """Returns the items of a tuple or a struct, but none of a tree: no tree that a call takes has lazy parts."""
    if isinstance(value, tuple):
        return value
    decl = declaration(value)
    struct = decl is not None and decl.is_struct
    return tuple([getattr(value, f) for f in fields_of(type(value))]) if struct else ()


def recorded(f: Function, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The result of a call as something lazy, or a structure of such. Raises `DlangError`."""
    plans = Plans.of(f)
    given = {p.local.name: _widened(v, p.local.type) for p, v in f.assigned(tuple(args), dict(named)).items()}
    path = f.program.checked.table.path
    if f.program.checked.module.functions.get(f.decl.name) is not f.decl:
        raise unknown(f"a call of `{f.decl.name}`, a function that Python has made of another,")
    if path.startswith("<"):
        raise unknown(f"a call of `{f.decl.name}`, a function of a text and not of a file,")
    if f.draws():
        raise unknown(f"a call of `{f.decl.name}`, which draws random numbers,")
    leaves = described(f, {name: _stand_in(v) for name, v in given.items()}, plans.result)
    operands = tuple([_operand(v, f) for v in given.values()])
    arguments = ", ".join(f"{name} = {{{k}}}" for k, name in enumerate(given))
    text = f"{{m}}.{f.decl.name}({arguments})"
    if plans.result is None:
        (leaf,) = leaves
        return Lazy(Apply(leaf.shape, np.dtype(leaf.stand_in().dtype), expression=text, operands=operands, module=path))
    call = Apply(None, None, expression=text, operands=operands, module=path)
    parts = zip(paths(plans.result), leaves, strict=True)
    return whole(plans.result, iter([_part(call, where, leaf) for where, leaf in parts]))


def _widened(value: Any, t: Type) -> Any:
    """An argument with integers in i64 where its type says i64 and a call takes them for it."""
    t = ty.resolve(t)
    match t, value:
        case (ty.TypeCon(dtype), _) | (ty.TypeArray(ty.TypeCon(dtype)), _):
            if isinstance(value, Lazy | np.ndarray | np.generic) and dtype_name(value.dtype) != dtype:
                return value.astype(NUMPY[dtype]) if is_taken(dtype_name(value.dtype), dtype) else value
        case ty.TypeTuple(items), tuple() if len(items) == len(value):
            return tuple([_widened(v, i) for v, i in zip(value, items)])
        case ty.TypeData(decl, args), _ if decl.is_struct and declaration(value) is decl:
            by = dict(zip(decl.params, args, strict=True))
            types = [substituted(field, by) for _, field in decl.variants[0].fields]
            return type(value)(*[_widened(v, field) for v, field in zip(_parts(value), types, strict=True)])
    return value


def _stand_in(value: Any) -> Any:
    """A value of which no more is known than when it is recorded."""
    if isinstance(value, Lazy):
        name = dtype_name(value.dtype)
        assert name is not None
        return Described(name, value.shape).stand_in()
    if not has_lazy((value,)):
        return int(value) if isinstance(value, np.int64) else value
    parts = [_stand_in(p) for p in _parts(value)]
    return tuple(parts) if isinstance(value, tuple) else type(value)(*parts)


def _operand(value: Any, f: Function) -> Node:
    if isinstance(value, Lazy):
        return value.node
    if has_lazy((value,)):
        return _made(value, f)
    array = value if isinstance(value, np.ndarray | np.generic) else None
    if array is None and isinstance(value, bool | int | float):
        array = np.asarray(value)
    return Node(None, None, value) if array is None else Node(array.shape, array.dtype, array)


def _made(value: Any, f: Function) -> Node:
    """A tuple or a struct that is put together of recorded parts."""
    operands = tuple([_operand(p, f) for p in _parts(value)])
    decl = declaration(value)
    if decl is None:
        items = ", ".join(f"{{{k}}}" for k in range(len(operands)))
        return Apply(None, None, expression=f"({items},)" if len(operands) == 1 else f"({items})", operands=operands)
    names = [name for name, _ in decl.variants[0].fields]
    fields = ", ".join(f"{{{k}}}" if name is None else f"{name} = {{{k}}}" for k, name in enumerate(names))
    checked = f.program.checked
    table = checked.table if decl.module == checked.module.name else checked.modules.get(decl.module)
    if table is None:
        raise unknown(f"a `{decl.name}` of a module that `{f.decl.name}` does not know")
    return Apply(None, None, expression=f"{{m}}.{decl.name}({fields})", operands=operands, module=table.path)


def _part(call: Apply, where: str, leaf: Described) -> Lazy:
    return Lazy(Apply(leaf.shape, np.dtype(leaf.stand_in().dtype), expression=f"{{0}}{where}", operands=(call,)))
