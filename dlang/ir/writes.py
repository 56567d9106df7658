"""Says which elements of an array are written, by what, and who goes on with the memory of whom.

    y = comp i in 0..h { … } to keep [2*h] [h + i] sum into x

Each point writes an element of its own, the points together the segment `h..2*h` of y, and y goes on with x. Passes ask
this before they leave an array unfilled, set what was added, write two parts in one pass, make one array in the place
of another, or copy what somebody still holds. What is claimed here is proven, and all of it is symbolic: polynomials
in sizes. `update_chains.py` follows arrays through branches and loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from dlang.ir import anf
from dlang.ir.affine import Knowledge, slope
from dlang.ir.traverse import bound_vars, count_uses, mentioned, walk
from dlang.ir.types import dtype_of
from dlang.ops.monoids import STAYS


# ---- whose memory an array goes on with ------------------------------------------------------------------------------
class How(Enum):
    """The relation of an array to the one with whose memory it goes on."""

    SAME = "the same value"
    SEEN = "elements of it"
    CHANGED = "it, with elements written: it is consumed"


class Link(NamedTuple):
    """A variable, and a value with whose memory it goes on if it is an array."""

    var: anf.Var
    source: anf.Atom
    how: How


Continues = Mapping[str, tuple[tuple[int, int], ...]]
"""For each function the positions of results, each with that of the parameter which it continues."""


def links(let: anf.Let, continues: Continues | None = None) -> Sequence[Link]:
    """The arrays that a let binds in the memory of others, but for those that a branch or a loop gives."""
    op, vars = let.op, let.vars
    match op:
        case anf.Update():
            return (Link(vars[0], op.array, How.CHANGED),)
        case anf.View() | anf.Reshape():
            return (Link(vars[0], op.array, How.SEEN),)
        case anf.StopGradient():
            return (Link(vars[0], op.arg, How.SAME),)
        case anf.Assert():
            return [Link(var, value, How.SAME) for var, value in zip(vars, op.guarded, strict=True)]
        case anf.Call() if continues:
            return [Link(vars[j], op.args[k], How.CHANGED) for j, k in continues.get(op.function, ())]
        case anf.Comp():
            older = [older_of(d, vars) for d in op.destinations]
            return [Link(var, o, How.CHANGED) for var, o in zip(vars, older, strict=True) if o is not None]
        case _:
            return ()


def older_of(d: anf.Destination, vars: Sequence[anf.Var]) -> anf.Var | None:
    """The array that a destination goes on with, of a comprehension that binds `vars`."""
    if isinstance(d, anf.Reduce) and d.after is not None:
        return vars[d.after]
    return d.into


def choices(let: anf.Let) -> Sequence[tuple[anf.Var, tuple[anf.Atom, ...]]]:
    """The variables that a branch or a loop binds, its state included, each with the values that it may be."""
    op = let.op
    match op:
        case anf.If():
            return [*zip(let.vars, zip(op.then.results, op.otherwise.results, strict=True), strict=True)]
        case anf.For() | anf.While():
            firsts = zip(op.params, zip(op.init, op.body.results[op.early :], strict=True), strict=True)
            return [*zip(let.vars, zip(op.params), strict=True), *firsts]
        case _:
            return ()


# ---- the elements that an index reaches ------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Range:
    """The values low <= i < high of an entry of an index, each of which it has at just one point of its axis.

    axis: None where the entry is the same at all points, and so the only value.
    """

    axis: anf.Var | None
    low: anf.Size
    high: anf.Size

    def is_all(self, size: anf.Size) -> bool:
        """Tells whether these are all the values that an axis of this size has."""
        return self.low == anf.ZERO and self.high == size


def ranges(axes: Sequence[anf.Axis], index: Sequence[anf.Size]) -> list[Range | None]:
    """The range of each entry of an index at the points of `axes`; None where it is no range, or not known to be one.

    Whatever else the index mentions is taken to be the same at all points.
    """
    by_var = {axis.var: axis for axis in axes}
    return [_range(entry, by_var) for entry in index]


def _range(entry: anf.Size, axes: Mapping[anf.Var, anf.Axis]) -> Range | None:
    inside = {v for v in entry.atoms() if v in axes}
    if not inside:
        return Range(None, entry, entry + anf.ONE)
    axis = axes[inside.pop()]
    if inside or len(axis.lows) > 1 or len(axis.highs) > 1:
        return None
    (low,), (high,) = axis.lows, axis.highs
    if low.mentions(axes) or high.mentions(axes):
        return None
    others = entry.without(axis.var)
    if entry.terms.get((axis.var,)) == 1 and len(entry.terms) == len(others.terms) + 1:
        return Range(axis.var, others + low, others + high)
    if entry.terms.get((axis.var,)) == -1 and len(entry.terms) == len(others.terms) + 1:
        return Range(axis.var, others - high + anf.ONE, others - low + anf.ONE)
    return None


def elements(
    axes: Sequence[anf.Axis], shape: Sequence[anf.Size], index: Sequence[anf.Size]
) -> tuple[anf.Var | None, ...] | None:
    """The axis that each entry of an index is, if each point has its own element of a shape, and none is left out.

    None in place of an axis: the only index along an axis of size 1. None for the whole: it is not so, or not so plain.
    """
    if not shape or len(index) < len(shape):
        return None
    left = {axis.var: axis for axis in axes}
    entries: list[anf.Var | None] = []
    for size, entry in zip(shape, index, strict=True):
        axis = left.pop(entry.atom, None) if isinstance(entry.atom, anf.Var) else None
        if axis is not None and axis.lows == (anf.ZERO,) and axis.highs == (size,):
            entries.append(axis.var)
        elif axis is None and entry == anf.ZERO and size == anf.ONE:
            entries.append(None)
        else:
            return None
    return None if left else tuple(entries)


def covers(axes: Sequence[anf.Axis], shape: Sequence[anf.Size], index: Sequence[anf.Size]) -> bool:
    """Tells whether the points reach each element of a shape, unless there are none along an axis that the index lacks;
    may say no where they do."""
    by_var = {axis.var: axis for axis in axes}
    used = [v for entry in index for v in set(entry.atoms()) if v in by_var]
    if len(set(used)) < len(used):
        return False
    for entry, size in zip(index, shape, strict=True):
        if (reached := _range(entry, by_var)) is not None:
            if not reached.is_all(size):
                return False
        # two numbers below 0 have a product above it, and no point
        elif sum(by_var[v].highs[0].constant is None for v in set(entry.atoms()) & by_var.keys()) > 1:
            return False
        elif digits_end(entry, by_var) != size:
            return False
    return True


def digits_end(entry: anf.Size, axes: Mapping[anf.Var, anf.Axis]) -> anf.Size | None:
    """The end of the numbers from 0 on that an entry is, each at one point of its axes: these are its digits, as in
    n * i + j for j < n. None if it is no such number."""
    left = [axes[v] for v in dict.fromkeys(entry.atoms()) if v in axes]
    end, rest = anf.ONE, entry
    while left:
        inner = next((a for a in left if entry.is_linear(a.var) and entry.coefficient(a.var) == end), None)
        if inner is None or inner.lows != (anf.ZERO,) or len(inner.highs) != 1 or inner.highs[0].mentions(axes):
            return None
        left = [a for a in left if a is not inner]
        rest = rest - end * anf.poly(inner.var)
        end = end * inner.highs[0]
    return end if rest == 0 else None


def missing(axes: Sequence[anf.Axis], index: Sequence[anf.Size]) -> list[anf.Axis]:
    """The axes that an index lacks."""
    named = {v for entry in index for v in entry.atoms()}
    return [axis for axis in axes if axis.var not in named]


def determines(axes: Sequence[anf.Axis], index: Sequence[anf.Size]) -> bool:
    """Tells whether the index of a `Reduce` is another one at each point: it then lacks no axis."""
    return not missing(axes, index)


def _once(runs: Iterable[Range | None]) -> bool:
    """Tells whether no axis is in two entries: then the index has all combinations of their values."""
    axes = [r.axis for r in runs if r is not None and r.axis is not None]
    return len(set(axes)) == len(axes)


def differ(a: Sequence[anf.Size], b: Sequence[anf.Size]) -> bool:
    """Tells whether two indices of one array surely differ, at one point."""
    return any((x - y).constant not in (None, 0) for x, y in zip(a, b, strict=True))


def apart(one: Iterable[Range | None], other: Iterable[Range | None], known: Knowledge) -> bool:
    """Tells whether two indices never give the same element, at whatever points."""
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    return any(known.at_least_zero(b.low - a.high) or known.at_least_zero(a.low - b.high) for a, b in pairs)


# ---- segments of arrays ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Segment:
    """The elements of an array whose index at one position is in low <= i < high."""

    position: int
    low: anf.Size
    high: anf.Size


def segment(axes: Sequence[anf.Axis], shape: Sequence[anf.Size], index: Sequence[anf.Size]) -> Segment | None:
    """The segment of an array that the points write, which may be all of it, unless there are none along an axis that
    the index lacks; None where they write no segment."""
    if not shape or len(index) < len(shape):
        return None
    runs = ranges(axes, index)
    if not _once(runs):
        return None
    partial: Segment | None = None
    for position, (run, size) in enumerate(zip(runs, shape, strict=True)):
        if run is None:
            return None
        if not run.is_all(size):
            if partial is not None:
                return None
            partial = Segment(position, run.low, run.high)
    return partial or Segment(0, anf.ZERO, shape[0])


@dataclass(slots=True)
class Segments:
    """The segments of an array that are written, and how far they go on from each other.

    reached: the positions, each with the ends up to which there is one after another from 0 on. ahead: by where they
    begin, the ends of segments that are not reached.
    """

    all: list[Segment] = field(default_factory=list)
    reached: set[tuple[int, anf.Size]] = field(default_factory=set)
    ahead: dict[tuple[int, anf.Size], list[anf.Size]] = field(default_factory=dict)

    def add(self, new: Segment) -> None:
        self.all.append(new)
        at = new.position
        self.reached.add((at, anf.ZERO))
        if (at, new.low) not in self.reached:
            self.ahead.setdefault((at, new.low), []).append(new.high)
            return
        ends = [new.high]
        while ends:
            end = ends.pop()
            if (at, end) not in self.reached:
                self.reached.add((at, end))
                ends += self.ahead.pop((at, end), ())

    def cover(self, shape: Sequence[anf.Size]) -> bool:
        """Tells whether they are all of an array."""
        return any((position, size) in self.reached for position, size in enumerate(shape))


def write_all(places: Iterable[tuple[Sequence[anf.Axis], anf.Destination]]) -> bool:
    """Tells whether destinations of one array, each with the axes of its points, write every element between them."""
    written = Segments()
    for axes, d in places:
        written_by_place = segment(axes, d.shape, d.index)
        if written_by_place is None or not determines(axes, d.index):
            return False
        written.add(written_by_place)
        if written.cover(d.shape):
            return True
    return False


# ---- what a comprehension does to its arrays -------------------------------------------------------------------------
def own_elements(axes: Sequence[anf.Axis], d: anf.Destination) -> tuple[anf.Var | None, ...] | None:
    """Says of a destination what `elements` does, if its array is not one that several results write."""
    return elements(axes, d.shape, d.index) if isinstance(d, anf.Reduce) and d.after is None else None


def is_overwritten(op: anf.Comp, position: int) -> bool:
    """Tells whether each point of a comprehension sets an element of a result, and together they set each once."""
    d = op.destinations[position]
    scalar = isinstance(op.body.results[position].type, anf.Scalar)
    place = isinstance(d, anf.Reduce) and d.monoid in STAYS
    return scalar and not place and own_elements(op.axes, d) is not None


def is_replaced(op: anf.Comp, position: int) -> bool:
    """Tells whether a result overwrites all of the array that it replaces, so that it may as well be elsewhere."""
    d = op.destinations[position]
    return isinstance(d, anf.Reduce) and d.into is not None and d.monoid == "set" and is_overwritten(op, position)


def read_at(
    body: anf.Block, index: tuple[anf.Size, ...], sizes: Mapping[anf.Var, anf.Size] | None = None
) -> Counter[anf.Var]:
    """How often a body reads each array at just this index. sizes: the variables that the index has been rid of."""
    reads = [let.op for let in walk(body) if isinstance(let.op, anf.Read)]
    if not sizes:
        return Counter(r.array for r in reads if r.index == index)
    return Counter(r.array for r in reads if tuple([e.substitute(sizes.get) for e in r.index]) == index)


def arrays_at_own_points(op: anf.Comp, position: int) -> list[anf.Var]:
    """The arrays of which each point reads only the element that it sets of a result, which is of the same type.

    So the result may take the place of such an array, if nothing needs that any more: an element is read before it is
    written. Where a check may fail and there are several axes, there are none: in lanes, points are done once more if
    it does. With one axis a check is before all that is stored.
    """
    if not is_overwritten(op, position) or _may_repeat(op):
        return []
    d = op.destinations[position]
    uses = Counter(mentioned(op))
    type = anf.Array(dtype_of(op.body.results[position]), d.shape)
    return [x for x, count in read_at(op.body, d.index).items() if count == uses[x] and x.type == type]


def reads_only_what_it_sets(op: anf.Comp, position: int) -> bool:
    """Tells whether each point changes an element of an array that no other point does, and reads no other of it."""
    d = op.destinations[position]
    if d.into is None or not determines(op.axes, d.index):
        return False
    return read_at(op.body, d.index)[d.into] == [v for let in op.body.lets for v in mentioned(let.op)].count(d.into)


def reads_only_its_place(op: anf.Comp, position: int) -> bool:
    """Tells whether a result takes the place of an array of which each point reads only the element that it sets."""
    return _other_reads(op, position) == []


def reads_its_place(op: anf.Comp, position: int, known: Knowledge | None = None) -> bool:
    """Tells whether a result takes the place of an array of which each point reads only the element that it sets, and
    such as no point sets. known: what is known around."""
    others, d = _other_reads(op, position), op.destinations[position]
    known = Knowledge() if known is None else known
    return others is not None and isinstance(d, anf.Reduce) and (not others or _never_set(op, d, others, known))


def reads_ahead(op: anf.Comp, position: int) -> bool:
    """Tells whether a result takes the place of an array of which each point reads only the element that it sets, and
    such as points set that are further along the first axis."""
    others, d = _other_reads(op, position), op.destinations[position]
    if not others or not op.axes:
        return others is not None
    axis = op.axes[0].var
    slopes = [(k, slope(e, axis)) for k, e in enumerate(d.index)]

    def is_ahead(index: Sequence[anf.Size]) -> bool:
        steps = [((index[k] - d.index[k]).constant, c) for k, c in slopes]
        return any(step is not None and step * c > 0 for step, c in steps)

    return all(map(is_ahead, others))


def _other_reads(op: anf.Comp, position: int) -> list[tuple[anf.Size, ...]] | None:
    """The indices other than its own at which a point reads the array in the place of which a result is.

    None if there is no such array, points are done once more, or it is used in another way.
    """
    d = op.destinations[position]
    if d.into is None or not isinstance(d, anf.Reduce) or not isinstance(op.body.results[position].type, anf.Scalar):
        return None
    if _may_repeat(op) or not determines(op.axes, d.index):
        return None
    uses = mentioned(op).count(d.into) - 1
    if uses == 0:
        return []
    reads = [let.op.index for let in walk(op.body) if isinstance(let.op, anf.Read) and let.op.array is d.into]
    return [index for index in reads if index != d.index] if len(reads) == uses else None


def _never_set(op: anf.Comp, d: anf.Reduce, indices: Sequence[Sequence[anf.Size]], known: Knowledge) -> bool:
    """Tells whether elements are none of those that a destination of a comprehension sets."""
    inside = set(bound_vars(op.body))
    written = ranges(op.axes, d.index)
    if any(entry.mentions(inside) for entry in d.index):
        return False
    for index in indices:
        read = [None if e.mentions(inside) else r for e, r in zip(index, ranges(op.axes, index), strict=True)]
        if not apart(read, written, known):
            return False
    return True


def _may_repeat(op: anf.Comp) -> bool:
    """Tells whether points may be done once more."""
    return len(op.axes) > 1 and any(let.op.IS.fails for let in walk(op.body))


def sums_in(loop: anf.For, k: int, monoid: str = "sum") -> frozenset[anf.Var]:
    """The versions of an array that a loop carries, up to what an iteration hands on, if iterations do no more with it
    than to combine elements with values; none of them else."""
    used = count_uses(loop.body)
    makers = {v: let for let in loop.body.lets for v in let.vars}
    array: anf.Atom | None = loop.body.results[loop.early + k]
    versions: set[anf.Var] = set()
    while isinstance(array, anf.Var) and used.get(array) == 1:
        versions.add(array)
        if array is loop.params[k]:
            return frozenset(versions)
        let = makers.get(array)
        match None if let is None else let.op:
            case anf.Comp() as op if let is not None:
                d = op.destinations[let.vars.index(array)]
                array = d.into if monoid == ("sum" if isinstance(d, anf.ScatterAdd) else d.monoid) else None
            case anf.For() as inner if let is not None and sums_in(inner, let.vars.index(array), monoid):
                array = inner.init[let.vars.index(array)]
            case _:
                break
    return frozenset()
