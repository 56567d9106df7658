"""The indices among Python's arguments: what a function asks for by `Idx<n>` is checked before the call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from dlang.diagnostics import DlangError, error
from dlang.host.placed import fetched, placed
from dlang.polynomials import Poly
from dlang.specialize.structs import field_names, variant_of
from dlang.typecheck import types as ty
from dlang.typecheck.headers import FnDecl, Param
from dlang.typecheck.printing import Names
from dlang.typecheck.refinements import field_type, of_field, of_part, written
from dlang.typecheck.types import Below, DataDecl, Elements, Items, Refinement, Shape, Size, Type


def asks_for_indices(decl: FnDecl) -> bool:
    """Tells whether an argument may be refused because of the values of its integers."""
    return any(p.local.refinement is not None or _holds(p.local.type, set()) for p in decl.params)


def indices_asked(decl: FnDecl) -> list[tuple[int, Poly[Any]]] | None:
    """The parameters that are an index or an array of indices, by position, and below what they are.

    None if indices are inside of other arguments.
    """
    out: list[tuple[int, Poly[Any]]] = []
    for k, p in enumerate(decl.params):
        match ty.resolve(p.local.type), p.local.refinement:
            case ty.TypeCon(), Below(size):
                out.append((k, ty.resolve_size(size).poly))
            case ty.TypeArray(element), Elements(Below(size)) if isinstance(ty.resolve(element), ty.TypeCon):
                out.append((k, ty.resolve_size(size).poly))
            case t, None if not _holds(t, set()):
                pass
            case _:
                return None
    return out


def check_indices(given: Mapping[Param, Any], value_of: Callable[[Size], int | None]) -> None:
    """Raises a `DlangError` where a matched argument has an index that is out of range.

    value_of: the number that a size is in this call.
    """
    for p, value in given.items():
        if p.local.refinement is None and not _holds(p.local.type, set()):
            continue
        for index, size in _indices(value, p.local.type, p.local.refinement):
            bound = value_of(size)
            outside = index if bound is None else _outside(index, bound)
            if outside is not None:
                raise _refused(p, size, bound, outside)


def _outside(index: Any, bound: int) -> Any:
    """The first of one or more integers that is not an index below the bound."""
    indices = np.asarray(index if placed(index) is None else fetched(index))
    wrong = indices[(indices < 0) | (indices >= bound)]
    return wrong.flat[0] if wrong.size else None


def _refused(p: Param, size: Size, bound: int | None, index: Any) -> DlangError:
    names = Names()
    asked = written(p.local.type, p.local.refinement, names)
    below = names(size) if bound is None or names(size) == str(bound) else f"{names(size)} = {bound}"
    message = f"argument `{p.local.name}`: expected {asked}, got the index {index}, which is not below {below}"
    help = "indices count from 0"
    if bound is None:
        message = f"argument `{p.local.name}`: expected {asked}, and no argument says what {below} is"
        help = "declare a parameter for it" + (f": `{below}: size`" if below.isidentifier() else ", of the type `size`")
    elif index < 0:
        message = f"argument `{p.local.name}`: expected {asked}, got the index {index}, which is negative"
    return error("E0960", message, p.local.span, help=(help,))


def _indices(whole: Any, of: Type, asked: Refinement | None) -> Iterator[tuple[Any, Size]]:
    """The integers in a value that are indices, one or an array of them, and the size below which they are."""
    work: list[tuple[Any, Type, Refinement | None]] = [(whole, of, asked)]
    while work:
        value, t, r = work.pop()
        t = ty.resolve(t)
        match t, r:
            case _, Below(size):
                yield value, size
            case ty.TypeArray(element, _), Elements(Below(size)):
                yield np.asarray(value, dtype=np.int64) if isinstance(value, list) else value, size
            case ty.TypeArray(element, _), _:
                if r is not None or _holds(element, set()):
                    part = of_part(r, element)
                    work += [
                        (v, t if isinstance(v, list) else element, r if isinstance(v, list) else part) for v in value
                    ]
            case ty.TypeTuple(items), _:
                parts = r.items if isinstance(r, Items) else (None,) * len(items)
                work += zip(value or (), items, parts, strict=False)
            case ty.TypeData(decl, _), _:
                variant = decl.variants[0] if decl.is_struct else variant_of(value, decl)
                if variant is not None and _holds(t, set()):
                    tag = decl.variants.index(variant)
                    for i, name in enumerate(field_names(variant)):
                        work.append((getattr(value, name), field_type(t, i, tag), of_field(t, i, None, tag)))
            case _:
                continue


def _holds(t: Type | Shape | Size, seen: set[DataDecl]) -> bool:
    """Tells whether a value of the type may have fields that are indices."""
    if isinstance(t, Shape | Size):
        return False
    t = ty.resolve(t)
    if isinstance(t, ty.TypeData) and t.decl not in seen:
        seen.add(t.decl)
        variants = t.decl.variants
        if any(r is not None for v in variants for r in v.refinements):
            return True
        if any(_holds(f, seen) for v in variants for _, f in v.fields):
            return True
    return any(_holds(part, seen) for part in ty.children(t))
