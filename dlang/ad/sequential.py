"""A comprehension as nested loops that update their results: the form whose adjoint always exists.

Used where the adjoint has no parallel form, such as loops over arrays inside of the body. The cost stays in
proportion; products use it too, because the adjoint of the running product has no division and is exact at zeros.

Where points read of an array only the elements that they set in it, the loops read these in their state. So the array
before the loops is not read in them: its cotangent is that of the state, and no second one is added up beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.ir import anf
from dlang.ir.builder import Builder
from dlang.ir.comprehension_queries import without_results
from dlang.ir.substitution import Renaming
from dlang.ir.types import I64, dtype_of, type_of
from dlang.ir.writes import reads_only_what_it_sets
from dlang.ops.monoids import COMBINE, identity


def sequential(let: anf.Let, op: anf.Comp, chosen: Sequence[int], b: Builder, active: set[anf.Var]) -> list[anf.Let]:
    """The results `chosen`, active ones, computed by loops; the others, if any, by the comprehension as before.

    What the loops bind joins `active` where it carries a derivative.
    """
    lets = without_results(let, chosen)
    renaming = Renaming({}, renew=True)
    destinations = [op.destinations[k] for k in chosen]
    with b.scope() as emitted:
        init: list[anf.Atom] = []
        for k, d in zip(chosen, destinations, strict=True):
            dtype = dtype_of(let.vars[k])
            identity = _identity(d, dtype)
            init.append(d.into if d.into is not None else b.full(d.shape, identity) if d.shape else identity)
        loop = _nest(b, active, op, chosen, list(op.axes), init, renaming)
        final = anf.Let(tuple(let.vars[k] for k in chosen), loop, let.span)
    for old, new in renaming.env.items():
        if old in active and isinstance(new, anf.Var):
            active.add(new)
    return [*lets, *emitted, final]


def by_element(let: anf.Let, op: anf.Comp, k: int, active: set[anf.Var]) -> anf.Let | None:
    """Result k as a parallel comprehension over its elements, each a reduction of its own to a scalar.

    None where points of some element depend on more than its index, or the index may miss elements.
    """
    d = op.destinations[k]
    axes = {a.var: a for a in op.axes}
    kept = [e.atom for e in d.index]
    if not d.shape or d.into is not None or len(set(kept)) < len(kept) or isinstance(d, anf.ScatterAdd):
        return None
    for v, size in zip(kept, d.shape, strict=True):
        if v not in axes or axes[v].highs != (size,) or [low.constant for low in axes[v].lows] != [0]:
            return None
    renaming = Renaming({}, renew=True)
    outer = [a for a in op.axes if a.var in kept]
    inner = [a for a in op.axes if a.var not in kept]
    around = tuple([anf.Axis(renaming.bind(a.var), a.lows, a.highs) for a in outer])
    element = anf.Comp(tuple(inner), anf.Block(op.body.lets, (op.body.results[k],)), (anf.Reduce((), (), d.monoid),))
    value = anf.fresh(let.vars[k].name, type_of(dtype_of(let.vars[k]), ()))
    copy = renaming.let(anf.Let((value,), element, let.span))
    for old, new in [*renaming.env.items(), (let.vars[k], copy.vars[0])]:
        if old in active and isinstance(new, anf.Var):
            active.add(new)
    whole = anf.Comp(
        around, anf.Block((copy,), copy.vars), (anf.Reduce(d.shape, tuple(map(renaming.size, d.index)), "set"),)
    )
    return anf.Let((let.vars[k],), whole, let.span)


def _monoid(d: anf.Destination) -> str:
    return "sum" if isinstance(d, anf.ScatterAdd) else d.monoid


def _nest(
    b: Builder,
    active: set[anf.Var],
    op: anf.Comp,
    chosen: Sequence[int],
    axes: list[anf.Axis],
    init: Sequence[anf.Atom],
    renaming: Renaming,
) -> anf.For:
    """The loop over the first of `axes`, around those over the others."""
    axis, *inner = axes
    low = b.bound([*map(renaming.size, axis.lows)], "maximum")
    high = b.bound([*map(renaming.size, axis.highs)], "minimum")
    index = anf.fresh(axis.var.name, I64)
    renaming.env[axis.var] = index
    params = tuple(anf.fresh(a.name if isinstance(a, anf.Var) else "acc", a.type) for a in init)
    active.update(params)
    results: tuple[anf.Atom, ...]
    with b.scope() as lets:
        if inner and all(isinstance(p.type, anf.Array) for p in params) and _only_reduced(op, chosen, inner):
            # The rest of the nest combines into one element: its state is that, not the array.
            places = [tuple(map(renaming.size, op.destinations[k].index)) for k in chosen]
            start: list[anf.Atom] = []
            for k, p, place in zip(chosen, params, places, strict=True):
                d = op.destinations[k]
                start.append(_identity(d, dtype_of(p)) if d.into is None else b.one(anf.Read(p, place)))
            active.update(a for a in start if isinstance(a, anf.Var))
            loop = _nest(b, active, op, chosen, inner, start, renaming)
            ends = [anf.fresh(p.name, p.type) for p in loop.params]
            active.update(ends)
            b.emit_as(ends, loop)
            results = tuple([b.update(p, at, r) for p, at, r in zip(params, places, ends, strict=True)])
            active.update(r for r in results if isinstance(r, anf.Var))
        elif inner:
            loop = _nest(b, active, op, chosen, inner, params, renaming)
            results = tuple(anf.fresh(p.name, p.type) for p in params)
            active.update(r for r in results if isinstance(r, anf.Var))
            b.emit_as([r for r in results if isinstance(r, anf.Var)], loop)
        else:
            for k, p in zip(chosen, params, strict=True):
                if (into := op.destinations[k].into) is not None and reads_only_what_it_sets(op, k):
                    renaming.env[into] = p
            for let in op.body.lets:
                b.append(renaming.let(let))
            results = tuple(
                _combined(b, active, op.destinations[k], p, renaming.atom(op.body.results[k]), renaming)
                for k, p in zip(chosen, params, strict=True)
            )
    return anf.For(index, low, high, params, tuple(init), anf.Block(tuple(lets), results))


def _only_reduced(op: anf.Comp, chosen: Sequence[int], axes: Sequence[anf.Axis]) -> bool:
    """Tells whether all points of `axes` are combined into one element, which is known before, of each result."""
    inside = {a.var for a in axes} | {v for let in op.body.lets for v in let.vars}
    destinations = [op.destinations[k] for k in chosen]
    return all(d.shape and not any(e.mentions(inside) for e in d.index) for d in destinations)


def _identity(d: anf.Destination, dtype: str) -> anf.Lit:
    return anf.Lit(identity(_monoid(d), dtype), dtype)


def _combined(
    b: Builder, active: set[anf.Var], d: anf.Destination, acc: anf.Var, value: anf.Atom, renaming: Renaming
) -> anf.Atom:
    """The next state: acc with `value` combined into the element at the destination's index."""
    monoid = _monoid(d)
    index = tuple(renaming.size(e) for e in d.index)
    if monoid == "set":
        new = value
    else:
        old: anf.Atom = acc
        if isinstance(acc.type, anf.Array):
            old = b.one(anf.Read(acc, index))
            active.add(old)
        new = b.prim(COMBINE[monoid], old, value)
        active.add(new)
    if not isinstance(acc.type, anf.Array):
        return new
    out = b.update(acc, index, new)
    active.add(out)
    return out
