"""Types with sizes of their own in place of quotients that are rounded down, as in `f64[n // 2]`."""

from __future__ import annotations

from dlang.polynomials import Poly
from dlang.typecheck.types import (
    Floor,
    Shape,
    Size,
    SizeAtom,
    SizeVar,
    Type,
    TypeArray,
    TypeData,
    TypeTuple,
    resolve,
    resolve_shape,
    resolve_size,
)


def freed(t: Type, own: dict[Floor, SizeVar]) -> Type:
    """The type where each quotient is a variable, which `own` learns."""
    t = resolve(t)
    match t:
        case TypeArray(element, shape):
            return TypeArray(freed(element, own), _freed_shape(shape, own))
        case TypeTuple(items):
            return TypeTuple(tuple([freed(i, own) for i in items]))
        case TypeData(decl, args):
            return TypeData(decl, tuple([_freed_argument(a, own) for a in args]))
        case _:
            return t


def _freed_argument(a: Type | Size | Shape, own: dict[Floor, SizeVar]) -> Type | Size | Shape:
    if isinstance(a, Size):
        return _freed_size(a, own)
    return _freed_shape(a, own) if isinstance(a, Shape) else freed(a, own)


def _freed_shape(shape: Shape, own: dict[Floor, SizeVar]) -> Shape:
    s = resolve_shape(shape)
    return Shape(tuple([_freed_size(n, own) for n in s.pre]), s.row, tuple([_freed_size(n, own) for n in s.post]))


def _freed_size(size: Size, own: dict[Floor, SizeVar]) -> Size:
    def free(a: SizeAtom) -> Poly[SizeAtom] | None:
        return Poly.of(own.setdefault(a, SizeVar(0, "n", rigid=True))) if isinstance(a, Floor) else None

    return Size(resolve_size(size).poly.substitute(free), size.origin)
