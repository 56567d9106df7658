"""Updates of almost all of an array, as comprehensions of all of it: the elements at its ends stay, by a condition.

    y = comp i in 0..n - 2 { t = read a[i]; yield t } to keep [n] [i + 1] set into x

becomes

    y = comp i in 0..n {
      u = read x[i]; c = and(ge(i, 1), lt(i, n - 1)); v = if c { t = read a[i - 1]; yield t } else { yield u }
      yield v
    } to keep [n] [i] set

The two mean the same and cost alike where few elements are left out. So a step of a simulation is one program whether
it is written as updates of slices or as a comprehension with conditions at the borders: what is read of the result is
computed where it is read, updates that follow each other are one pass, and no array holds what they set meanwhile. What
derivatives add to a window of an array is such an update, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from dlang.ir import anf
from dlang.ir.axes import Relocation
from dlang.ir.builder import Builder
from dlang.ir.comprehension_queries import point_of, taken_apart
from dlang.ir.sharing import additions
from dlang.ir.traverse import count_uses, map_bodies, map_inner, walk, with_lets
from dlang.ir.types import I64, dtype_of
from dlang.ir.writes import Range, determines, ranges
from dlang.ops import figures
from dlang.ops.dtypes import WHOLE
from dlang.ops.monoids import identity
from dlang.optimize.fuse import read_once
from dlang.optimize.producers import Inliner, Producer


def whole_updates(program: anf.Program) -> anf.Program:
    """The program with comprehensions of whole arrays in the place of updates that leave out a few elements."""
    return map_bodies(program, _block)


def _block(block: anf.Block) -> anf.Block:
    block = map_inner(block, _block)
    uses: dict[anf.Var, int] | None = None
    lets: list[anf.Let] = []
    for let in block.lets:
        if not isinstance(let.op, anf.Comp) or not _changed(let.op):
            lets.append(let)
            continue
        uses = uses or count_uses(block)
        op = _computed_in_place(let.op, lets, uses)
        lets += _whole(anf.Let(let.vars, op, let.span), op)
    return with_lets(block, lets, block.results)


def _computed_in_place(op: anf.Comp, before: list[anf.Let], uses: Mapping[anf.Var, int]) -> anf.Comp:
    """An update that computes what it reads of arrays that nothing else needs, and no such arrays `before` it.

    Only what takes little is computed in it: a derivative computes it again, in place of saving it.
    """
    made = {let.vars[0]: let for let in before if len(let.vars) == 1 and isinstance(let.op, anf.Comp)}
    while True:
        reads = [inner.op for inner in op.body.lets if isinstance(inner.op, anf.Read)]
        chosen = {
            r.array: (Producer(producer), 0)
            for r in reads
            if uses[r.array] == 1 and r.array in made and read_once(r, op.axes)
            if isinstance(producer := made[r.array].op, anf.Comp) and _is_term(producer)
        }
        if not chosen:
            return op
        new = Inliner(chosen).op(op)
        assert isinstance(new, anf.Comp)
        op = new
        before[:] = [let for let in before if not let.vars or let.vars[0] not in chosen]


def _is_term(op: anf.Comp) -> bool:
    """Tells whether a comprehension only makes an array of light terms."""
    return point_of(op, 0) is not None and all(
        let.op.IS.point and additions(let.op) < figures.ROOT for let in op.body.lets
    )


def _changed(op: anf.Comp) -> dict[int, anf.Reduce]:
    """The destinations of a comprehension that change almost all of an array."""
    return {k: d for k, d in enumerate(op.destinations) if isinstance(d, anf.Reduce) and _written(op, k, d)}


def _whole(let: anf.Let, op: anf.Comp) -> list[anf.Let]:
    """A comprehension, of whole arrays if all that it does is to change all but a few elements of them; what else it
    does is apart if it is light."""
    changed = _changed(op)
    if not changed:
        return [let]
    first = next(iter(changed.values()))
    if len({_places(d) for d in changed.values()}) > figures.WINDOWS:
        return [let]
    together = [k for k, d in changed.items() if _places(d) == _places(first)]
    rest = [k for k in range(len(op.destinations)) if k not in together]
    if rest:
        if any(inner.op.IS.fails for inner in walk(op.body)) or not _is_light(op, together):
            return [let]
        other, let = taken_apart(let, [rest, together])
        assert isinstance(other.op, anf.Comp) and isinstance(let.op, anf.Comp)
        return [*_whole(other, other.op), *_whole(let, let.op)]
    return [anf.Let(let.vars, _of_all(op, first, _written(op, 0, first)), let.span)]


def _places(d: anf.Reduce) -> tuple[object, ...]:
    return d.index, d.shape, d.into is None


def _is_light(op: anf.Comp, positions: Sequence[int]) -> bool:
    """Tells whether results of a comprehension take little more than to read what they are made of."""
    producer = Producer(op)
    code = [producer.code(k, figures.LIGHT_TERM) for k in positions]
    return all(c is not None and all(additions(let.op) < figures.ROOT for let in c) for c in code)


def _written(op: anf.Comp, k: int, d: anf.Reduce) -> list[Range]:
    """The ranges of the index of a destination that changes an array all but a few elements of which it reaches, and
    not each at its own point; else none.

    What a loop made from the end on is read so, too.
    """
    value = op.body.results[k]
    if d.monoid not in ("set", "sum") or d.after is not None or isinstance(value.type, anf.Array):
        return []
    if dtype_of(value) not in WHOLE:
        return []
    if not d.index or not determines(op.axes, d.index):
        return []
    written = [r for r in ranges(op.axes, d.index) if r is not None and r.axis is not None]
    if not len(written) == len(d.shape) == len({r.axis for r in written}):
        return []
    if all(r.is_all(size) for r, size in zip(written, d.shape, strict=True)):
        moved = any(entry.atom is None for entry in d.index)
        turned = any(entry.terms[(r.axis,)] != 1 for entry, r in zip(d.index, written, strict=True) if r.axis)
        return written if moved and not turned else []
    grows = d.into is not None or d.monoid == "sum"
    return written if grows and all(map(_almost_all, written, d.shape)) else []


def _almost_all(written: Range, size: anf.Size) -> bool:
    """Tells whether few values along an axis of a size are not among these."""
    before, behind = written.low.constant, (size - written.high).constant
    if before is None or behind is None or before < 0 or behind < 0:
        return False
    return before + behind <= figures.LEFT_OUT and (size.constant is None or 2 * (before + behind) <= size.constant)


def _of_all(op: anf.Comp, like: anf.Reduce, written: Sequence[Range]) -> anf.Comp:
    """The comprehension of all elements of what another one changes a part of. like: one of its destinations."""
    b = Builder()
    at = {r.axis: anf.fresh(r.axis.name, I64) for r in written if r.axis is not None}
    sizes = dict(zip(at, like.shape, strict=True))
    axes = tuple([anf.Axis(at[a.var], (anf.ZERO,), (sizes[a.var],)) for a in op.axes])
    index = tuple(map(anf.poly, at.values()))
    places: dict[anf.Var, anf.Size] = {}
    for entry, here, axis in zip(like.index, index, at, strict=True):
        others = entry.without(axis)
        places[axis] = here - others if entry.terms[(axis,)] == 1 else others - here
    moved = Relocation(places, {})
    body = moved.block(op.body)
    body = anf.Block((*moved.numbers, *body.lets), body.results)
    # those of an axis together, as other updates have the same
    ends = [
        [("ge", i, r.low)] * (r.low != anf.ZERO) + [("lt", i, r.high)] * (r.high != size)
        for r, i, size in zip(written, at.values(), like.shape, strict=True)
    ]
    if not any(ends):
        return anf.Comp(axes, body, tuple([replace(d, index=index) for d in op.destinations]))

    def changed() -> list[anf.Atom]:
        values = b.inline(body)
        sums = [isinstance(d, anf.Reduce) and d.monoid == "sum" for d in op.destinations]
        return [b.add(o, v) if s and like.into else v for o, v, s in zip(old, values, sums, strict=True)]

    with b.scope() as lets:
        old = [
            anf.Lit(identity("sum", dtype_of(value)), dtype_of(value))
            if d.into is None
            else b.one(anf.Read(d.into, index))
            for d, value in zip(op.destinations, op.body.results, strict=True)
        ]
        both = partial(b.prim, "and")
        conditions = [[b.prim(comparison, i, b.size(end)) for comparison, i, end in of_axis] for of_axis in ends]
        inside = reduce(both, [reduce(both, of_axis) for of_axis in conditions if of_axis])
        values = b.emit(anf.If(inside, b.block(changed), anf.Block((), tuple(old))))
    return anf.Comp(
        axes, anf.Block(tuple(lets), values), tuple([anf.Reduce(d.shape, index, "set") for d in op.destinations])
    )
