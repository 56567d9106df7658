"""Facts about comprehensions that several passes ask for."""

from __future__ import annotations

from collections.abc import Iterable

from dlang.ir.affine import Knowledge
from dlang.ir.anf import FLOATS, Array, Axis, Cast, Comp, Keep, Lit, Op, Prim, Read, Size, SizeOf, Var, poly
from dlang.ir.types import dtype_of

ZERO: Size = poly(0)


def extent(axis: Axis) -> Size | None:
    """The number of points of an axis that starts at 0 and has one upper bound, else None."""
    if len(axis.highs) == 1 and len(axis.lows) == 1 and axis.lows[0] == ZERO:
        return axis.highs[0]
    return None


def point_of(comp: Comp, k: int) -> tuple[Var | None, ...] | None:
    """For a result that holds the value of each point, none left out: the axis that each index entry is.

    None in place of an axis: the only index along an axis of size 1. None for the whole: it is another kind of result,
    reduced, combined with an older array, or with elements that no point reaches.
    """
    d = comp.destinations[k]
    if not isinstance(d, Keep) or d.into is not None or not d.shape:
        return None
    extents = {axis.var: extent(axis) for axis in comp.axes}
    entries: list[Var | None] = []
    for size, index in zip(d.shape, d.index, strict=True):
        axis = index.atom
        if axis is not None and axis in extents and axis not in entries:
            if extents[axis] != size:
                return None
            entries.append(axis)
        elif index == ZERO and size == poly(1):
            entries.append(None)
        else:
            return None
    return tuple(entries) if len(entries) - entries.count(None) == len(comp.axes) else None


def surely_total(op: Op, axes: Iterable[Axis]) -> bool:
    """Whether scalar code may run at every point of `axes`, also where nothing around it did run before."""
    match op:
        case Prim(name, args) if name in ("floordiv", "mod", "shift_left", "shift_right"):
            return dtype_of(args[0]) in FLOATS or (isinstance(args[1], Lit) and args[1].value != 0)
        case Prim() | Cast() | SizeOf():
            return True
        case Read():
            return surely_inside(op, axes)
        case _:
            return False


def surely_inside(read: Read, axes: Iterable[Axis]) -> bool:
    """Whether a read is in range at every point of `axes`, whatever else does or does not run around it."""
    assert isinstance(read.array.type, Array)
    known = Knowledge()
    known.saw([read.array.type])
    return known.within(axes).inside(read.index, read.array.type.shape)
