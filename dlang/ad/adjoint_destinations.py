"""Finds the destinations of the adjoints of a comprehension's reads.

In y[o] = Σ f(… x[i] …) the adjoint of the read is x̄[i] += g at every point. By what the index says:

- its affine entries determine axes, one by one or as digits of a mixed radix (`i`, `n - 1 - i`, `i*m + j`), and every
  axis that its data entries depend on: x̄ is a `Reduce` at that same index, over the primal's own axes. Axes that the
  index misses are reduced, which makes the adjoint of a product a product;
- an entry leaves several axes undetermined (`i + p`): the axes are changed so that t = i + p is one. The points stay
  the same. Offsets stay in the index, so reads that differ by an offset share a pass. Where that would compute an
  expensive body again, the contributions are first summed over the axes that the index misses, at the primal's own
  points, and the axes of these sums are changed;
- an entry is clipped or wrapped at the ends of an axis: what leads from the elements back to the points makes x̄ a
  `Reduce` like that of the first kind, and passes over few points add what is read at the ends of the axis
  (`clipped_indices.py`);
- anything else: a `ScatterAdd`, after a reduction over the axes that the index does not depend on. Of several reads of
  an array the first has its `ScatterAdd` in the pass that computes the cotangents, which keeps those of the others;
  each of these follows in a pass of its own, in which nothing is computed again.

Adjoints with equal axes are results of one comprehension. A contribution is added into an earlier one where that is
cheaper than a pass of its own.

Where elements of an array were set, its cotangent is that of the result, changed in place at them (`Setting`): a loop
that sets a few elements in each iteration has an adjoint that changes as few in each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product as combinations
from math import inf

from dlang.ad.clipped_indices import Bent, Piece, Points, at_most_one, end_of, opened
from dlang.ad.elements import emit_comp, with_axes_as_values
from dlang.ad.scope import Contribution, NoParallelAdjoint, Scope
from dlang.ir import anf
from dlang.ir.affine import (
    Box,
    Change,
    Knowledge,
    axes_of,
    bound_last,
    changed,
    dependencies,
    extent,
    far_fewer,
    hull,
    linear,
    nonempty,
    rebase,
    slope,
    solved_axes,
    span,
)
from dlang.ir.traverse import pruned, used_by, walk
from dlang.ir.types import array_type, dtype_of, product, type_of
from dlang.ops import figures
from dlang.ops.primitives import COST, GUARDS
from dlang.polynomials import Poly


@dataclass(slots=True)
class _Group:
    """Adjoints that share a comprehension: its axes, and what the primal's axes are in terms of them."""

    change: Change
    lets: Sequence[anf.Let]
    results: list[tuple[anf.Var, anf.Atom, anf.Destination]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Setting:
    """Elements that were set in an array at `index`: in the cotangent `bar` of the result they become g.

    So that is the cotangent of the array before: g is what the values read of the same elements, or 0.
    """

    array: anf.Var
    index: tuple[anf.Size, ...]
    bar: anf.Var
    g: anf.Atom


@dataclass(slots=True)
class _Placement:
    scope: Scope
    axes: tuple[anf.Axis, ...]
    lets: list[anf.Let]
    known: Knowledge
    box: Box | None
    depends: dict[anf.Var, set[anf.Var]]
    digits: Box
    groups: dict[object, _Group] = field(default_factory=dict)
    after: list[tuple[Change, Sequence[anf.Let], anf.Var, anf.Atom, anf.Destination]] = field(default_factory=list)
    before: list[tuple[Change, Sequence[anf.Let], anf.Var, anf.Atom, anf.Destination]] = field(default_factory=list)
    mine: set[anf.Var] = field(default_factory=set)
    bars: dict[anf.Var, list[anf.Atom]] = field(default_factory=dict)
    ends: list[tuple[Contribution, tuple[anf.Axis, ...]]] = field(default_factory=list)
    later: dict[object, _Group] = field(default_factory=dict)  # of what the others give


def place_adjoint(
    scope: Scope,
    axes: tuple[anf.Axis, ...],
    lets: Sequence[anf.Let],
    wanted: Sequence[Contribution],
    digits: Box | None = None,
    settings: Sequence[Setting] = (),
) -> None:
    """Emits the comprehensions that compute contributions; `lets` is the body that computes their cotangents.

    digits: the least and greatest values of integers of the body, such as the position of a maximum in its window.
    Raises `NoParallelAdjoint`, before anything is emitted, if one has no place.
    """
    if scope.sink is not None:
        for c in wanted:  # whole arrays of outside have no place at a point of the comprehension around
            if isinstance(c.array.type, anf.Array) and c.array not in scope.sink.inside:
                raise NoParallelAdjoint
    body = with_axes_as_values(lets, [a.var for a in axes])
    known = scope.known.within(axes)
    for digit, (low, high) in (digits or {}).items():
        known.facts.between(digit, (low,), (high + 1,))
    p = _Placement(scope, axes, body, known, hull(axes, known), dependencies(body, axes), digits or {})
    boxes: dict[anf.Var, _Box] = {}
    for contribution in [_in_box(c, p, boxes) if c.array in scope.summed else c for c in wanted]:
        p.bars.setdefault(contribution.array, list(scope.bars.get(contribution.array, [])))
        if not (_of_an_arm(p, contribution) if contribution.where else _straightened(p, contribution)):
            _decide(p, contribution)
    for contribution, beyond in p.ends:
        _add_end(p, contribution, beyond)
    _set_elements(p, settings)
    for change, body_lets, var, atom, destination in p.before:
        emit_comp(scope.b, change, body_lets, [(var, atom, destination)])
    for group in (*p.groups.values(), *p.later.values()):
        emit_comp(scope.b, group.change, group.lets, group.results)
    for change, body_lets, var, atom, destination in p.after:
        emit_comp(scope.b, change, body_lets, [(var, atom, destination)])
    for array, bars in p.bars.items():
        if array in boxes:
            bar = scope.total(bars)
            assert isinstance(bar, anf.Var)
            scope.add_box(boxes[array].array, bar, boxes[array].low)
            continue
        if not isinstance(array.type, anf.Array):
            bars = [scope.total(bars)]
        scope.bars[array] = bars


@dataclass(frozen=True, slots=True)
class _Box:
    """Elements of an array whose cotangent is a sum: those from index `low` on, as many as there are in `shape`."""

    array: anf.Var
    low: tuple[anf.Size, ...]
    shape: tuple[anf.Size, ...]


def _in_box(c: Contribution, p: _Placement, boxes: dict[anf.Var, _Box]) -> Contribution:
    """A contribution to an array from a node, as one to the box of its elements that the points reach.

    A row is one, where the number of the row is the same at all points, and a window. Few elements that lie apart are
    in no box: where this runs many times, that raises `NoParallelAdjoint`, and each is a term of its own. boxes: those
    so far, with a variable for each.
    """
    shape = array_type(c.array).shape
    ends = [None if c.conditional else _ends(e, p) for e in c.index]
    reached = [size if end is None else end[1] - end[0] + 1 for end, size in zip(ends, shape, strict=True)]
    if not far_fewer(product(reached), product(shape)):
        ends = [end if end is not None and end[0] == end[1] else None for end in ends]
    if p.scope.repeated and p.box is not None and not p.digits:
        points = product([high - low + 1 for low, high in p.box.values()])
        elements = product(
            [size if end is None else end[1] - end[0] + 1 for end, size in zip(ends, shape, strict=True)]
        )
        if elements.constant is None and far_fewer(points, elements):
            raise NoParallelAdjoint
    low = tuple([anf.poly(0) if end is None else end[0] for end in ends])
    sizes = tuple(
        [size if end is None else extent(p.scope.b, end, p.scope.known) for end, size in zip(ends, shape, strict=True)]
    )
    box = _Box(c.array, low, sizes)
    var = next((v for v, other in boxes.items() if other == box), None)
    if var is None:
        var = anf.fresh(c.array.name, anf.Array(dtype_of(c.array), sizes))
        boxes[var] = box
    return replace(c, array=var, index=tuple([e - start for e, start in zip(c.index, low, strict=True)]))


def _count(ends: Iterable[tuple[anf.Size, anf.Size]]) -> anf.Size:
    """How many elements there are between the least and the greatest values of the entries of an index."""
    return product([high - low + 1 for low, high in ends])


def _ends(entry: anf.Size, p: _Placement) -> tuple[anf.Size, anf.Size] | None:
    """The least and the greatest value of an entry of an index at all points, each of which it has at some point if
    there are any; None if they are not known before."""
    names = {a.var for a in p.axes}
    if not entry.mentions(names | p.depends.keys()):
        return entry, entry
    bounds = [b for a in p.axes for b in (*a.lows, *a.highs)]
    if p.box is None or entry.mentions(p.depends) or len(bounds) > 2 * len(p.axes):
        return None
    return None if any(b.mentions(names) for b in bounds) else span(entry, p.box, p.known)


def _set_elements(p: _Placement, settings: Sequence[Setting]) -> None:
    """Sets elements in cotangents: in the only pass that there is, or behind all that read them as they were."""
    alone = len(p.groups) <= 1 and not (p.before or p.after or p.later)
    for s in settings:
        bar = anf.fresh(s.bar.name, s.bar.type)
        keep = anf.Reduce(array_type(s.bar).shape, s.index, "set", s.bar)
        change = Change(p.axes, {})
        if alone and all(group.change.axes == p.axes for group in p.groups.values()):
            _join(p, next(iter(p.groups), None), change, p.lets, bar, s.g, keep)
        else:
            p.after.append((change, p.lets, bar, s.g, keep))
        p.bars.setdefault(s.array, list(p.scope.bars.get(s.array, []))).append(bar)


def _decide(p: _Placement, c: Contribution) -> None:
    names = [a.var for a in p.axes]
    array, index = c.array, c.index
    shape = array.type.shape if isinstance(array.type, anf.Array) else ()
    local = p.depends.keys() - p.digits.keys()
    data_entries = [e for e in index if e.mentions(local)]
    affine = [e for e in index if not e.mentions(local)]
    data: set[anf.Var] = set()
    for e in index:
        for a in e.atoms():
            data |= p.depends.get(a, set())
    by_data = any(e.mentions(p.depends) for e in index)
    for e in data_entries:
        data |= set(axes_of(e, names))
    over = data.union(*(axes_of(e, names) for e in affine))
    solved, left = _solved(p, affine, names)
    into, apart = _into(p, array, shape, over)
    bar = anf.fresh(f"{array.name}_bar", array.type)
    inside = not c.conditional or p.known.inside(index, shape)
    key: object = object() if apart else None
    absent, checked = _absent(p, over, index, shape)
    if data <= solved and not left and inside and absent:
        _add_where_it_is(p, c, absent, over, into, checked)
        return
    if data <= solved and not left:
        change = Change(p.axes, {})
        keep = anf.Reduce(shape, index, "sum", into)
        if into is None and inside and _joins(p, p.groups.get(None), c):
            return
        wide = apart and inside and not by_data and not checked
        if wide and (summed := _summed(p, over, c.g) or _summed_around(p, over, c.g, index, shape)) is not None:
            p.after.append((*summed[:2], bar, summed[2], keep))
        else:
            if not inside:
                change = _clipped(change, data_entries, index, shape, p)
                key = key or change.axes
            _join(p, key, change, p.lets, bar, c.g, keep)
    elif inside and not by_data and not checked and (second := _summed_first(p, over, index, c.g)) is not None:
        moved_change, read = second
        g = anf.fresh("g", c.g.type)
        moved = tuple(e.substitute(moved_change.env.get) for e in index)
        p.after.append((moved_change, [anf.Let((g,), read)], bar, g, anf.Reduce(shape, moved, "sum", into)))
    elif not by_data and (key_change := _rebased(p, index, key)) is not None:
        key, change = key_change
        moved = tuple(e.substitute(change.env.get) for e in index)
        if not inside:
            change = _clipped(change, [], moved, shape, p)
            key = change.axes
        _join(p, key, change, p.lets, bar, c.g, anf.Reduce(shape, moved, "sum", into))
    elif not inside:
        raise NoParallelAdjoint
    elif (first := _reduced_first(p, over, c.g, by_data or checked)) is not None:
        space, read = first
        g = anf.fresh("g", c.g.type)
        _join(p, object(), space, [*p.lets, anf.Let((g,), read)], bar, g, anf.ScatterAdd(shape, index, into))
    elif apart and over >= set(names) and _reads_as_many(p) and (summed := _summed(p, over, c.g)) is not None:
        p.after.append((summed[0], [*p.lets, *summed[1]], bar, summed[2], anf.ScatterAdd(shape, index, into)))
    else:
        _join(p, key, Change(p.axes, {}), p.lets, bar, c.g, anf.ScatterAdd(shape, index, into))
    p.bars[array].append(bar)
    p.mine.add(bar)


# ---- clipped and wrapped indices -------------------------------------------------------------------------------------
def _straightened(p: _Placement, c: Contribution) -> bool:
    """Decides on a contribution at an index that is clipped or wrapped; False if it is not, or not as known here."""
    shape = c.array.type.shape if isinstance(c.array.type, anf.Array) else ()
    local = p.depends.keys() - p.digits.keys()
    if c.conditional or p.box is None or not any(e.mentions(local) for e in c.index):
        return False
    points = Points(p.axes, p.lets, p.known, p.box, p.scope.sizes)
    bent = points.bent(c.index, shape)
    return _led_back(p, c, points, bent) if bent else False


def _of_an_arm(p: _Placement, c: Contribution) -> bool:
    """Decides on a contribution of an arm that runs between bounds of the axes; False if it is not known where."""
    if p.box is None or not isinstance(c.array.type, anf.Array):
        return False
    shape, names = c.array.type.shape, [a.var for a in p.axes]
    points = Points(p.axes, p.lets, p.known, p.box, p.scope.sizes)
    makers = {v: let.op for let in walk(anf.Block(tuple(p.lets), ())) for v in let.vars}
    c.index = tuple([opened(e, makers) for e in c.index])
    if any(e.mentions(p.depends.keys() - p.digits.keys()) for e in c.index):
        return False
    known = {condition: (holds, points.gaps(condition, holds, makers)) for condition, holds in c.where}
    gaps = [gap for _, of_one in known.values() for gap in of_one]
    if not gaps:
        return False
    axes, few = points.narrowed(gaps)
    moved = None if few else points.chosen(c.index, shape, gaps)
    if moved is not None:
        led = [[b.axis] for b in moved.values()]
        decided = {
            condition: anf.Lit(holds, "bool")
            for condition, (holds, of_one) in known.items()
            if isinstance(condition, anf.Var) and points.decides(condition, holds, makers)
            if all(axes_of(gap, names) in led for gap in of_one)
        }
        return _led_back(p, c, points, moved, decided) if moved else False
    inside = p.scope.known.within(axes)
    if not all(map(inside.inside, [(e,) for e in c.index], [(size,) for size in shape])):
        return False
    if _solved(p, c.index, names)[1]:
        return False
    index = list(c.index)
    beyond: list[anf.Axis] = []
    for k, entry in enumerate(index):
        if not entry.mentions(names) and not p.scope.known.inside((entry,), (shape[k],)):
            beyond.append(at_most_one(entry, shape[k]))
            index[k] = anf.poly(beyond[-1].var)
    p.ends.append((Contribution(c.array, tuple(index), c.g, False), (*beyond, *axes)))
    return True


def _led_back(
    p: _Placement,
    c: Contribution,
    points: Points,
    bent: Mapping[int, Bent],
    decided: Mapping[anf.Var, anf.Lit] | None = None,
) -> bool:
    """Decides on a contribution by what leads back from the elements; False if some entries determine no axes.

    decided: the conditions that hold, or do not, at the points that are led back to.
    """
    shape = array_type(c.array).shape
    names = [a.var for a in p.axes]
    if _solved(p, [anf.poly(bent[k].axis) if k in bent else e for k, e in enumerate(c.index)], names)[1]:
        return False
    ways: list[tuple[tuple[Piece | None, ...], tuple[anf.Axis, ...]]] = []
    for choice in combinations(*[(None, *b.ends) for b in bent.values()]):
        axes = points.behind([(b, end) for b, end in zip(bent.values(), choice, strict=True) if end is not None])
        if axes is None:
            return False
        ways.append((choice, axes))
    over = {a for e in c.index for v in e.atoms() for a in p.depends.get(v, set())}
    over |= {v for e in c.index for v in axes_of(e, names)}
    others = [k for k in range(len(shape)) if k not in bent]
    _, checked = _absent(p, over, [c.index[k] for k in others], [shape[k] for k in others])
    stored = _stored(p, over, c.g) if not checked and _is_expensive(p.lets, c.g) else None
    g = c.g if stored is None else stored
    for choice, axes in ways:
        index = list(c.index)
        beyond: list[anf.Axis] = []
        for (k, b), end in zip(bent.items(), choice, strict=True):
            index[k] = anf.poly(b.axis)
            if end is not None:
                index[k], more = end_of(b, end, axes, p.scope.known)
                beyond += more
        straight = [b for b, end in zip(bent.values(), choice, strict=True) if end is None]
        lets, cotangent = points.back(straight, g, decided if stored is None else None)
        p.lets.extend(lets)
        p.depends = dependencies(p.lets, p.axes)
        if stored is not None:
            axes = tuple([a for a in axes if a.var in over])
        if len(straight) < len(bent):
            for k, entry in enumerate(index):
                if k not in bent and not entry.mentions(names):
                    one = at_most_one(entry, shape[k])
                    index[k] = anf.poly(one.var)
                    beyond.append(one)
            axes = (*beyond, *axes)
        new = Contribution(c.array, tuple(index), cotangent, False)
        if len(straight) < len(bent):
            p.ends.append((new, axes))
        elif stored is None:
            _decide(p, new)
        else:
            _add_later(p, new, axes)
    return True


def _stored(p: _Placement, over: set[anf.Var], g: anf.Atom) -> anf.Var | None:
    """The sums of g over the axes other than `over`, from an array; None if the axes depend on those others."""
    space = _over(p, over)
    if not space:
        return None
    read = _read_of_sums(p, space, g)
    value = anf.fresh("g", g.type)
    p.lets.append(anf.Let((value,), read))
    return value


def _over(p: _Placement, over: set[anf.Var]) -> list[anf.Axis] | None:
    """The axes of some variables, if their bounds are known without the other axes, and a box around all."""
    others = {a.var for a in p.axes if a.var not in over}
    space = [a for a in p.axes if a.var in over]
    apart = not any(b.mentions(others) for a in space for b in (*a.lows, *a.highs))
    return space if p.box is not None and apart else None


def _sums(p: _Placement, space: Sequence[anf.Axis], g: anf.Atom) -> tuple[anf.Var, anf.Reduce]:
    """The array of the sums of g at each point of some axes, and the destination of these sums."""
    assert p.box is not None
    shape = tuple([extent(p.scope.b, p.box[a.var], p.scope.known) for a in space])
    at = tuple([anf.poly(a.var) - p.box[a.var][0] for a in space])
    return anf.fresh("sums", type_of(dtype_of(g), shape)), anf.Reduce(shape, at)


def _read_of_sums(p: _Placement, space: Sequence[anf.Axis], g: anf.Atom) -> anf.Read:
    """Makes these sums with whatever else is computed at the primal's own points; returns the read of one."""
    sums, to = _sums(p, space, g)
    _join(p, None, Change(p.axes, {}), p.lets, sums, g, to)
    return anf.Read(sums, to.index)


def _joins(p: _Placement, group: _Group | None, c: Contribution) -> bool:
    """Adds a contribution to another one of its pass if both go to the same elements; tells whether it did."""
    for n, (bar, g, d) in enumerate(group.results if group is not None else ()):
        if isinstance(d, anf.Reduce) and d.index == c.index and d.monoid == "sum" and bar in p.bars[c.array]:
            total = anf.fresh("t", g.type)
            p.lets.append(anf.Let((total,), anf.Prim("add", (g, c.g))))
            assert group is not None
            group.results[n] = bar, total, d
            return True
    return False


def _add_later(p: _Placement, c: Contribution, axes: tuple[anf.Axis, ...]) -> None:
    """Adds what is read of sums that another pass makes."""
    if _joins(p, p.later.get(axes), c):
        return
    shape, over = array_type(c.array).shape, {a.var for a in axes}
    into = _into(p, c.array, shape, over)[0] if p.box is not None and over <= p.box.keys() else None
    bar = anf.fresh(f"{c.array.name}_bar", c.array.type)
    keep = anf.Reduce(shape, c.index, "sum", into)
    if into is not None and into in _made_later(p):
        p.after.append((Change(axes, {}), p.lets, bar, c.g, keep))
    else:
        p.later.setdefault(axes, _Group(Change(axes, {}), p.lets)).results.append((bar, c.g, keep))
    p.bars[c.array].append(bar)
    p.mine.add(bar)


def _add_end(p: _Placement, c: Contribution, axes: tuple[anf.Axis, ...]) -> None:
    """Adds a contribution at the end of a clipped axis, in a pass of its own."""
    bars = p.bars[c.array]
    into = bars.pop() if bars else None
    assert into is None or isinstance(into, anf.Var)
    bar = anf.fresh(f"{c.array.name}_bar", c.array.type)
    p.after.append((Change(axes, {}), p.lets, bar, c.g, anf.Reduce(array_type(c.array).shape, c.index, "sum", into)))
    bars.append(bar)
    p.mine.add(bar)


# ---- elements that may not be there ----------------------------------------------------------------------------------
def _absent(
    p: _Placement, over: set[anf.Var], index: Sequence[anf.Size], shape: Sequence[anf.Size]
) -> tuple[list[int], bool]:
    """The entries of an index that may be out of range where axes that it misses are empty, and whether there are
    others that are, of its axes: these are in range because each point has checked them."""
    missed = [a for a in p.axes if a.var not in over]
    if not missed:
        return [], False
    names = {a.var for a in p.axes}
    known = p.scope.known.copy()
    for axis in p.axes:
        if axis.var in over and any(b.mentions(names) for b in (*axis.lows, *axis.highs)) and p.box is not None:
            known.facts.between(axis.var, (p.box[axis.var][0],), (p.box[axis.var][1] + 1,))
        elif axis.var in over:
            known = known.within([axis])
    for axis in missed:
        counts = [high - low for high in axis.highs for low in axis.lows]
        if all(not count.mentions(names) and p.scope.known.positive(count) for count in counts):
            known = known.within([axis])
    out = []
    checked = False
    for k, (e, size) in enumerate(zip(index, shape, strict=True)):
        if not e.mentions(p.depends) and not known.inside((e,), (size,)):
            if not e.mentions(names) or p.known.inside((e,), (size,)):
                out.append(k)
            else:
                checked = True
    return out, checked


def _add_where_it_is(
    p: _Placement, c: Contribution, absent: Sequence[int], over: set[anf.Var], into: anf.Var | None, checked: bool
) -> None:
    """Adds a sum over axes that may be empty to an element that is not there if they are. checked: whether it may not
    be there for an entry that is not `absent`, either."""
    shape = array_type(c.array).shape
    bar = anf.fresh(f"{c.array.name}_bar", c.array.type)
    names = [a.var for a in p.axes]
    fixed = not any(c.index[k].mentions(names) for k in absent) and not any(e.mentions(p.depends) for e in c.index)
    summed = _summed(p, over, c.g) if fixed and not checked else None
    if summed is None:
        p.after.append((Change(p.axes, {}), p.lets, bar, c.g, anf.ScatterAdd(shape, c.index, into)))
    else:
        ones = {k: at_most_one(c.index[k], shape[k]) for k in absent}
        index = tuple([anf.poly(ones[k].var) if k in ones else e for k, e in enumerate(c.index)])
        change = Change((*ones.values(), *summed[0].axes), {})
        p.after.append((change, summed[1], bar, summed[2], anf.Reduce(shape, index, "sum", into)))
    p.bars[c.array].append(bar)
    p.mine.add(bar)


def _solved(
    p: _Placement, affine: Sequence[anf.Size], names: Sequence[anf.Var]
) -> tuple[set[anf.Var], Sequence[anf.Size]]:
    """The axes that entries determine, those of at most one point among them, and the entries left."""
    single = {a.var for a in p.axes if any(high - low == anf.poly(1) for low in a.lows for high in a.highs)}
    if p.box is not None:
        solved, left = solved_axes(affine, [*names, *p.digits], {**p.box, **p.digits}, p.known)
        return {*solved, *single}, left
    solved = set(single)
    for e in affine:
        axes = axes_of(e, names)
        coefficients = linear(e, axes)
        if len(axes) > 1 or coefficients is None or any(c.constant is None for c in coefficients):
            raise NoParallelAdjoint
        solved |= set(axes)
    return solved, ()


def _into(p: _Placement, array: anf.Var, shape: Sequence[anf.Size], over: set[anf.Var]) -> tuple[anf.Var | None, bool]:
    """The earlier cotangent that a contribution is added to, if so; and whether that needs a pass of its own.

    An earlier one from another pass is always taken. Of the same pass, dense ones stay apart and are added once; a
    sparse one follows in a pass of its own, which reads what the shared pass has summed.
    """
    earlier = p.bars[array]
    if not shape or not earlier:
        return None, False
    last = earlier[-1]
    if not isinstance(last, anf.Var):
        return None, False
    if last in p.mine and not _sparse(p, shape, over):
        return None, False
    earlier.pop()
    return last, last in p.mine


def _sparse(p: _Placement, shape: Sequence[anf.Size], over: set[anf.Var]) -> bool:
    if p.box is None:
        return False
    points = product(p.box[v][1] - p.box[v][0] + 1 for v in over)
    return far_fewer(points, product(shape))


def _join(
    p: _Placement,
    key: object,
    change: Change,
    lets: Sequence[anf.Let],
    bar: anf.Var,
    g: anf.Atom,
    destination: anf.Destination,
) -> None:
    if destination.into is not None and destination.into in _made_later(p):
        p.after.append((change, lets, bar, g, destination))
        return
    p.groups.setdefault(key, _Group(change, lets)).results.append((bar, g, destination))


def _made_later(p: _Placement) -> set[anf.Var]:
    """The cotangents of passes behind those over the primal's own points."""
    return {bar for group in p.later.values() for bar, _, _ in group.results} | {bar for _, _, bar, _, _ in p.after}


def _rebased(p: _Placement, index: Sequence[anf.Size], key: object) -> tuple[object, Change] | None:
    """The change of axes that solves an index, shared by indices that differ by offsets."""
    names = {a.var for a in p.axes}
    same = tuple(Poly({m: c for m, c in e.terms.items() if any(a in names for a in m)}) for e in index)
    if key is None and same in p.groups:
        return same, p.groups[same].change
    change = rebase(index, p.axes, p.known)
    return None if change is None else (same if key is None else key, change)


def _summed_first(
    p: _Placement, over: set[anf.Var], index: Sequence[anf.Size], g: anf.Atom
) -> tuple[Change, anf.Read] | None:
    """The change of axes that solves an index, of sums over the axes that it misses, and the read of these sums.

    None if it misses none, or if it is cheap to compute the cotangents where they are needed. The sums are made with
    whatever else is computed at the primal's own points.
    """
    space = _over(p, over)
    if not space or len(space) == len(p.axes) or not _is_expensive(p.lets, g):
        return None
    change = rebase(index, space, p.known)
    if change is None:
        return None
    return change, _read_of_sums(p, space, g)


def _summed(p: _Placement, over: set[anf.Var], g: anf.Atom) -> tuple[Change, Sequence[anf.Let], anf.Atom] | None:
    """A pass over the axes that an index mentions, which finds the sums over the others in an array, or a scalar.

    The sums are made with whatever else is computed at the primal's own points. None if the axes depend on the others,
    or if it is as cheap to compute the cotangents again.
    """
    return _summed_at(p, _over(p, over), g)


def _summed_around(
    p: _Placement, over: set[anf.Var], g: anf.Atom, index: Sequence[anf.Size], shape: Sequence[anf.Size]
) -> tuple[Change, Sequence[anf.Let], anf.Atom] | None:
    """The same over a box around axes that depend on the others, which is no larger than all points together; None if
    it has points at which there is no element."""
    if p.box is None:
        return None
    box, names = p.box, [a.var for a in p.axes]
    axes = [a for a in p.axes if a.var in over]
    for bound in [b for a in axes for b in (*a.lows, *a.highs)]:
        if any(slope(bound, v) not in (1, -1) for v in axes_of(bound, names)):
            return None
    space = [anf.Axis(a.var, (box[a.var][0],), (box[a.var][1] + 1,)) for a in axes]
    return _summed_at(p, space, g) if p.scope.known.within(space).inside(index, shape) else None


def _summed_at(
    p: _Placement, space: list[anf.Axis] | None, g: anf.Atom
) -> tuple[Change, Sequence[anf.Let], anf.Atom] | None:
    if space is None:
        return None
    computed = any(isinstance(let.op, anf.Prim) or let.op.IS.long for let in pruned(p.lets, [g]))
    if len(space) == len(p.axes) and not computed:
        return None
    read = _read_of_sums(p, space, g)
    if not space:
        return Change((), {}), [], read.array
    value = anf.fresh("g", g.type)
    return Change(tuple(space), {}), [anf.Let((value,), read)], value


def _reads_as_many(p: _Placement) -> bool:
    """Tells whether the body reads an array with as many elements as there are points, so that another may be kept."""
    if p.box is None:
        return False
    points = product(high - low + 1 for low, high in (p.box[a.var] for a in p.axes))
    read = {let.op.array for let in p.lets if isinstance(let.op, anf.Read)}
    return any(not far_fewer(product(array_type(a).shape), points) for a in read)


def _is_expensive(lets: Sequence[anf.Let], g: anf.Atom) -> bool:
    """Tells whether it is so expensive to compute g that it is better to store and read sums of it."""
    return _additions(lets, [g]) > figures.RECOMPUTED_BODY


def _additions(lets: Sequence[anf.Let], wanted: Sequence[anf.Atom]) -> float:
    """About how many additions take as long as computing some atoms: of a branch, the arm that takes longer."""
    code = pruned(lets, wanted)
    used = {*wanted, *(v for let in code for v in used_by(let))}
    total = 0.0
    for let in code:
        match let.op:
            case anf.Prim(name):
                total += 1 if COST[name] <= figures.ROUNDING or name in GUARDS else figures.RECOMPUTED_OP
            case anf.If(then=then, otherwise=otherwise):
                places = [k for k, v in enumerate(let.vars) if v in used]
                arms = [_additions(arm.lets, [arm.results[k] for k in places]) for arm in (then, otherwise)]
                total += max(arms)
            case op if op.IS.long:
                return inf
    return total


def _clipped(
    change: Change,
    data_entries: Sequence[anf.Size],
    index: Sequence[anf.Size],
    shape: Sequence[anf.Size],
    p: _Placement,
) -> Change:
    """The points at which the index is in range: at the others a branch did not read, and the cotangent is 0."""
    known = p.scope.known.within(change.axes)
    lows = {a.var: list(a.lows) for a in change.axes}
    highs = {a.var: list(a.highs) for a in change.axes}
    names = [a.var for a in change.axes]
    for e, size in zip(index, shape, strict=True):
        for gap in (e, size - 1 - e):
            if known.at_least_zero(gap):
                continue
            if e in data_entries or not gap.mentions(names) or not bound_last(gap, names, lows, highs):
                raise NoParallelAdjoint
    axes = tuple(
        anf.Axis(a.var, tuple(dict.fromkeys(lows[a.var])), tuple(dict.fromkeys(highs[a.var]))) for a in change.axes
    )
    return Change(axes, change.env)


def _reduced_first(p: _Placement, over: set[anf.Var], g: anf.Atom, by_data: bool) -> tuple[Change, anf.Read] | None:
    """The sum of g over the axes that an index does not depend on, as an array over the others; None if it has none.

    The array has an element for every point of the box of the others, and the second pass goes over that box, or over
    nothing where an axis that is summed over is empty (data may then be out of range).
    """
    summed = [a for a in p.axes if a.var not in over]
    space = _over(p, over)
    if not summed or p.box is None or space is None:
        return None
    if by_data and any(b.mentions([a.var for a in space]) for a in summed for b in (*a.lows, *a.highs)):
        return None  # at some points of the others there may be nothing to sum: data may be out of range just there
    identity: dict[anf.Var, anf.Size] = {}
    order = [a.var for a in (*space, *summed)]
    change = changed(p.axes, identity, order, p.box)
    if change is None:
        return None
    first, to = _sums(p, space, g)
    p.before.append((change, p.lets, first, g, to))
    if by_data:
        space = nonempty(space, summed, p.box, p.scope.known)
    return Change(tuple(space), {}), anf.Read(first, to.index)
