"""Arrays that an iteration makes for itself are computed where it reads them, so that it may be a point.

    for i (s) { a = comp j { f(x[j], i) }; t = comp j { a[j] * v[j] } to sum; s' = s + t }
→   for i (s) { t = comp j { f(x[j], i) * v[j] } to sum; s' = s + t }

All iterations at once would keep such an array for each of them. Those stay that cost much and are read several times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlang.ir import anf
from dlang.ir.comprehension_queries import point_of, without_results
from dlang.ir.sharing import additions
from dlang.ir.substitution import Renaming, refresh
from dlang.ir.traverse import count_uses, mentioned, walk
from dlang.ops import figures
from dlang.ops.monoids import COMBINE
from dlang.optimize.fuse import inlined_producers, merged
from dlang.optimize.producers import Inliner, Producer


def without_arrays(loop: anf.For) -> anf.For:
    """The loop whose iterations make no arrays that are as well computed where they are read."""
    return replace(loop, body=_sums_where_read(inlined_producers(_in_passes(rows_in_place(_cheap_where_read(loop))))))


def _cheap_where_read(loop: anf.For) -> anf.Block:
    """The body, with arrays of cheap elements computed where these are read, however often.

    They are those of which all iterations have no more elements than an array that an iteration reads its own part of:
    the law of sharing keeps them where that pays.
    """
    chosen: dict[anf.Var, tuple[Producer, int]] = {}
    inside = {v for let in loop.body.lets for v in let.vars}.union(loop.params)
    for let in loop.body.lets:
        op = let.op
        if not isinstance(op, anf.Comp) or len(let.vars) != 1 or point_of(op, 0) is None:
            continue
        reads = [inner.op for inner in op.body.lets if isinstance(inner.op, anf.Read)]
        own = {loop.index, *[a.var for a in op.axes]}
        cheap = Producer(op).code(0, figures.COPIED_CODE) is not None and is_cheap(let)
        pure = all(inner.op.IS.point for inner in op.body.lets) and inside.isdisjoint(r.array for r in reads)
        if cheap and pure and any(own == {e.atom for e in r.index} for r in reads):
            chosen[let.vars[0]] = Producer(op), 0
    if not chosen:
        return loop.body
    body = Inliner(chosen).block(loop.body)
    gone = chosen.keys() - {*mentioned(body), *body.results}
    return anf.Block(tuple([let for let in body.lets if gone.isdisjoint(let.vars)]), body.results)


def _in_passes(block: anf.Block) -> anf.Block:
    """The block, with comprehensions over the same points as one where that is possible, and without what only they
    read of each other: arrays of an iteration between two steps that are done point by point."""
    joined = merged(block, frozenset())
    if joined is block:
        return block
    uses = {*mentioned(joined)}
    lets: list[anf.Let] = []
    for let in joined.lets:
        if isinstance(let.op, anf.Comp):
            followed = {d.after for d in let.op.destinations if isinstance(d, anf.Reduce)}
            gone = {k for k, v in enumerate(let.vars) if v not in uses and k not in followed}
            lets += without_results(let, gone) if gone else [let]
        else:
            lets.append(let)
    return anf.Block(tuple(lets), joined.results)


def _sums_where_read(block: anf.Block) -> anf.Block:
    """The block, with reductions of which each element is read once, at a point of its own, computed at that point."""
    lets = list(block.lets)
    reductions = [k for k, let in enumerate(lets) if _is_reduction(let)]
    if not reductions:
        return block
    uses = count_uses(block)
    makers = {v: k for k in reductions for v in lets[k].vars if uses[v] == 1}
    gone: set[int] = set()
    for k, let in enumerate(lets):
        if not isinstance(let.op, anf.Comp):
            continue
        own = {a.var for a in let.op.axes}
        body: list[anf.Let] = []
        for inner in let.op.body.lets:
            made = makers.get(inner.op.array) if isinstance(inner.op, anf.Read) else None
            if made is not None and isinstance(inner.op, anf.Read):
                places = [a for e in inner.op.index if (a := e.atom) is not None]
                if len(places) == len(inner.op.index) == len(own) and {*places} == own:
                    inner = anf.Let(inner.vars, _element(lets[made].op, places), inner.span)
                    gone.add(made)
            body.append(inner)
        if any(a is not b for a, b in zip(body, let.op.body.lets, strict=True)):
            op = replace(let.op, body=anf.Block(tuple(body), let.op.body.results))
            lets[k] = anf.Let(let.vars, op, let.span)
    return anf.Block(tuple([let for k, let in enumerate(lets) if k not in gone]), block.results) if gone else block


def _is_reduction(let: anf.Let) -> bool:
    """Tells whether a let makes an array whose elements are reductions over axes, of scalars that always exist."""
    match let.op:
        case anf.Comp(destinations=(anf.Reduce(index=index, monoid=monoid, into=None, after=None, shape=shape),)) as op:
            kept = [e.atom for e in index]
            ends = {a.var: a for a in op.axes}
            whole = all(
                a in ends and ends[a].lows == (anf.ZERO,) and ends[a].highs == (size,)
                for a, size in zip(kept, shape, strict=True)
            )
            plain = whole and len({*kept}) == len(kept) and 0 < len(kept) < len(ends)
            return plain and monoid in COMBINE and not may_fail(let) and not has_comps(op.body)
        case _:
            return False


def _element(op: anf.Op, places: Sequence[anf.Atom]) -> anf.Comp:
    """The reduction that gives one element of such an array."""
    assert isinstance(op, anf.Comp)
    (d,) = op.destinations
    kept = {e.atom: place for e, place in zip(d.index, places, strict=True)}
    axes = tuple([a for a in op.axes if a.var not in kept])
    monoid = d.monoid if isinstance(d, anf.Reduce) else "sum"
    env = {v: place for v, place in kept.items() if isinstance(v, anf.Var)}
    one = Renaming(env, renew=True).op(anf.Comp(axes, op.body, (anf.Reduce((), (), monoid),)))
    assert isinstance(one, anf.Comp)
    return one


def rows_in_place(block: anf.Block) -> anf.Block:
    """The block, with rows that are made and then set in an array computed where they are set."""
    lets = list(block.lets)
    makers = {v: let.op for let in lets if isinstance(let.op, anf.Comp) for v in let.vars}
    gone: set[anf.Var] = set()
    uses = count_uses(block)
    for k, let in enumerate(lets):
        match let.op:
            case (
                anf.Comp(
                    body=anf.Block((anf.Let((value,), anf.Read(row, entries)),), (result,)),
                    destinations=(anf.Reduce(monoid="set", into=anf.Var()),),
                ) as op
            ) if row in makers and uses[row] == 1 and value is result:
                points = point_of(makers[row], 0) if len(makers[row].destinations) == 1 else None
                atoms = [e.atom for e in entries]
                if points is not None and None not in points and None not in atoms:
                    env = {p: a for p, a in zip(points, atoms, strict=True) if p is not None and a is not None}
                    body = refresh(makers[row].body, env)
                    lets[k] = anf.Let(let.vars, replace(op, body=body), let.span)
                    gone.add(row)
    return anf.Block(tuple([let for let in lets if gone.isdisjoint(let.vars)]), block.results)


def has_comps(block: anf.Block) -> bool:
    """Tells whether there is a comprehension in a block."""
    return any(isinstance(let.op, anf.Comp) for let in walk(block))


def is_cheap(let: anf.Let) -> bool:
    """Tells whether nothing in a let takes longer than an addition."""
    return all(additions(inner.op) <= figures.ADDITION for inner in walk(anf.Block((let,), ())))


def may_fail(let: anf.Let) -> bool:
    """Tells whether there is a check in a let."""
    return any(inner.op.IS.fails for inner in walk(anf.Block((let,), ())))
