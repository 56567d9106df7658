"""Facts about comprehensions that several passes ask for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dlang.ir.affine import Knowledge
from dlang.ir.anf import FLOATS, Array, Axis, Cast, Comp, For, Lit, Op, Prim, Read, Size, SizeOf, Var, poly
from dlang.ir.own_points import is_replaced, own_elements
from dlang.ir.types import dtype_of

ZERO: Size = poly(0)


@dataclass(frozen=True, slots=True)
class Loops:
    """The loops around some code: their indices, which are within their bounds there, and their states."""

    indices: tuple[Axis, ...] = ()
    states: frozenset[Var] = frozenset()

    def inside(self, loop: For) -> Loops:
        """Those around the body of a loop."""
        return Loops((*self.indices, Axis(loop.index, (loop.low,), (loop.high,))), self.states | set(loop.params))


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
    return own_elements(comp, k) if comp.destinations[k].into is None else None


def without_replaced(comp: Comp) -> Comp:
    """A comprehension that goes on from no array of which it leaves nothing."""
    replaced = [is_replaced(comp, k) for k in range(len(comp.destinations))]
    if not any(replaced):
        return comp
    pairs = zip(comp.destinations, replaced, strict=True)
    return replace(comp, destinations=tuple([replace(d, into=None) if gone else d for d, gone in pairs]))


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
