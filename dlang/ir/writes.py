"""Says which elements of an array are written, by what, and who goes on with the memory of whom.

    y = comp i in 0..h { … } to keep [2*h] [h + i] sum into x

Each point writes an element of its own, the points together the part `h..2*h` of y, and y goes on with x. Passes ask
this before they leave an array unfilled, set what was added, write two parts in one pass, make one array in the place
of another, or copy what somebody still holds. What is claimed here is proven, and all of it is symbolic: polynomials
in sizes. `update_chains.py` follows arrays through branches and loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dlang.ir.anf import (
    ONE,
    ZERO,
    Array,
    Axis,
    Block,
    Comp,
    Read,
    Reduce,
    Scalar,
    Size,
    Var,
)  # fmt: skip
from dlang.ir.traverse import mentioned, walk
from dlang.ir.types import dtype_of
from dlang.ops.monoids import STAYS

if TYPE_CHECKING:
    from dlang.ir.affine import Knowledge


# ---- the elements that an index reaches ------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Range:
    """The values low <= i < high of an entry of an index, each of which it has at just one point of its axis.

    axis: None where the entry is the same at all points, and so the only value.
    """

    axis: Var | None
    low: Size
    high: Size

    def is_all(self, size: Size) -> bool:
        """Tells whether these are all the values that an axis of this size has."""
        return self.low == ZERO and self.high == size


def ranges(axes: Sequence[Axis], index: Sequence[Size]) -> list[Range | None]:
    """The range of each entry of an index at the points of `axes`; None where it is no range, or not known to be one.

    Whatever else the index mentions is taken to be the same at all points.
    """
    by_var = {axis.var: axis for axis in axes}
    return [_range(entry, by_var) for entry in index]


def _range(entry: Size, axes: Mapping[Var, Axis]) -> Range | None:
    inside = {v for v in entry.atoms() if v in axes}
    if not inside:
        return Range(None, entry, entry + ONE)
    axis = axes[inside.pop()]
    if inside or len(axis.lows) > 1 or len(axis.highs) > 1:
        return None
    (low,), (high,) = axis.lows, axis.highs
    if low.mentions(axes) or high.mentions(axes):
        return None
    rest = entry.without(axis.var)
    if entry.terms.get((axis.var,)) == 1 and len(entry.terms) == len(rest.terms) + 1:
        return Range(axis.var, rest + low, rest + high)
    if entry.terms.get((axis.var,)) == -1 and len(entry.terms) == len(rest.terms) + 1:
        return Range(axis.var, rest - high + ONE, rest - low + ONE)
    return None


def elements(axes: Sequence[Axis], shape: Sequence[Size], index: Sequence[Size]) -> tuple[Var | None, ...] | None:
    """The axis that each entry of an index is, if each point has its own element of a shape, and none is left out.

    None in place of an axis: the only index along an axis of size 1. None for the whole: it is not so, or not so plain.
    """
    if not shape or len(index) < len(shape):
        return None
    left = {axis.var: axis for axis in axes}
    entries: list[Var | None] = []
    for size, entry in zip(shape, index, strict=True):
        axis = left.pop(entry.atom, None) if isinstance(entry.atom, Var) else None
        if axis is not None and axis.lows == (ZERO,) and axis.highs == (size,):
            entries.append(axis.var)
        elif axis is None and entry == ZERO and size == ONE:
            entries.append(None)
        else:
            return None
    return None if left else tuple(entries)


def covers(axes: Sequence[Axis], shape: Sequence[Size], index: Sequence[Size]) -> bool:
    """Tells whether the points reach each element of a shape, unless there are none along an axis that the index lacks;
    may say no where they do."""
    runs = ranges(axes, index)
    return all(r is not None and r.is_all(size) for r, size in zip(runs, shape, strict=True)) and _once(runs)


def determines(axes: Sequence[Axis], index: Sequence[Size]) -> bool:
    """Tells whether the index of a `Reduce` is another one at each point: it is then missing no axis."""
    return {axis.var for axis in axes} <= {v for entry in index for v in entry.atoms()}


def _once(runs: Iterable[Range | None]) -> bool:
    """Tells whether no axis is in two entries: then the index has all combinations of their values."""
    axes = [r.axis for r in runs if r is not None and r.axis is not None]
    return len(set(axes)) == len(axes)


def apart(one: Iterable[Range | None], other: Iterable[Range | None], known: Knowledge) -> bool:
    """Tells whether two indices never give the same element, at whatever points."""
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    return any(known.at_least_zero(b.low - a.high) or known.at_least_zero(a.low - b.high) for a, b in pairs)


# ---- parts of arrays -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Part:
    """The elements of an array whose index at one position is in low <= i < high."""

    position: int
    low: Size
    high: Size


def part(axes: Sequence[Axis], shape: Sequence[Size], index: Sequence[Size]) -> Part | None:
    """The part of an array, or all of it, that the points write, unless there are none along an axis that the index
    lacks; None where they write no such part."""
    if not shape or len(index) < len(shape):
        return None
    runs = ranges(axes, index)
    if not _once(runs):
        return None
    found: Part | None = None
    for position, (run, size) in enumerate(zip(runs, shape, strict=True)):
        if run is None:
            return None
        if not run.is_all(size):
            if found is not None:
                return None
            found = Part(position, run.low, run.high)
    return found or Part(0, ZERO, shape[0])


@dataclass(slots=True)
class Parts:
    """The parts of an array that are written, and how far they go on from each other.

    reached: the positions, each with the ends up to which there is part after part from 0 on. ahead: by where they
    begin, the ends of parts that are not reached.
    """

    all: list[Part] = field(default_factory=list)
    reached: set[tuple[int, Size]] = field(default_factory=set)
    ahead: dict[tuple[int, Size], list[Size]] = field(default_factory=dict)

    def add(self, part: Part) -> None:
        self.all.append(part)
        at = part.position
        self.reached.add((at, ZERO))
        if (at, part.low) not in self.reached:
            self.ahead.setdefault((at, part.low), []).append(part.high)
            return
        ends = [part.high]
        while ends:
            end = ends.pop()
            if (at, end) not in self.reached:
                self.reached.add((at, end))
                ends += self.ahead.pop((at, end), ())

    def cover(self, shape: Sequence[Size]) -> bool:
        """Tells whether they are all of an array."""
        return any((position, size) in self.reached for position, size in enumerate(shape))


# ---- what a comprehension does to its arrays -------------------------------------------------------------------------
def own_elements(op: Comp, position: int) -> tuple[Var | None, ...] | None:
    """Says of a result what `elements` does, if it is not an array that several results write."""
    d = op.destinations[position]
    return elements(op.axes, d.shape, d.index) if isinstance(d, Reduce) and d.after is None else None


def is_overwritten(op: Comp, position: int) -> bool:
    """Tells whether each point of a comprehension sets an element of a result, and together they set each once."""
    d = op.destinations[position]
    scalar = isinstance(op.body.results[position].type, Scalar)
    place = isinstance(d, Reduce) and d.monoid in STAYS
    return scalar and not place and own_elements(op, position) is not None


def is_replaced(op: Comp, position: int) -> bool:
    """Tells whether a result overwrites all of the array that it replaces, so that it may as well be elsewhere."""
    d = op.destinations[position]
    return isinstance(d, Reduce) and d.into is not None and d.monoid == "set" and is_overwritten(op, position)


def read_at(body: Block, index: Sequence[Size], sizes: Mapping[Var, Size] | None = None) -> Counter[Var]:
    """How often a body reads each array at just this index. sizes: the variables that the index has been rid of."""
    reads = [let.op for let in walk(body) if isinstance(let.op, Read)]
    if not sizes:
        return Counter(r.array for r in reads if r.index == index)
    return Counter(r.array for r in reads if tuple([e.substitute(sizes.get) for e in r.index]) == index)


def arrays_at_own_points(op: Comp, position: int) -> list[Var]:
    """The arrays of which each point reads only the element that it sets of a result, which is of the same type.

    So the result may take the place of such an array, if nothing needs that any more: an element is read before it is
    written. Where a check may fail and there are several axes, there are none: in lanes, points are done once more if
    it does. With one axis a check is before all that is stored.
    """
    if not is_overwritten(op, position) or _may_repeat(op):
        return []
    d = op.destinations[position]
    uses = Counter(mentioned(op))
    type = Array(dtype_of(op.body.results[position]), d.shape)
    return [x for x, count in read_at(op.body, d.index).items() if count == uses[x] and x.type == type]


def reads_its_place(op: Comp, position: int) -> bool:
    """Tells whether a result takes the place of an array of which each point reads only the element that it sets."""
    d = op.destinations[position]
    if d.into is None or not isinstance(d, Reduce) or not isinstance(op.body.results[position].type, Scalar):
        return False
    if _may_repeat(op) or not determines(op.axes, d.index):
        return False
    return mentioned(op).count(d.into) == read_at(op.body, d.index)[d.into] + 1


def _may_repeat(op: Comp) -> bool:
    """Tells whether points may be done once more."""
    return len(op.axes) > 1 and any(let.op.IS.fails for let in walk(op.body))
