"""The tangent of a comprehension: more results of the same one.

    y[o] = Σ f(x[i], w[j])        ẏ[o] = Σ ẋ[i] ∂f/∂x[i] + ẇ[j] ∂f/∂w[j]

Sums, scatters and plain stores share this rule. `max` and `min` also give the position of their first extremum, and
their tangent is that of the body at this point. Products, and what has no such form, are loops.
"""

from __future__ import annotations

from dataclasses import replace

from dlang.ad.comprehension import attained, needs_loop, positions_of
from dlang.ad.dual import Dual
from dlang.ad.sequential import by_element, sequential
from dlang.ir.affine import Knowledge, axes_of
from dlang.ir.anf import Axis, Block, Comp, Destination, Let, Read, Reduce, Var, fresh
from dlang.ir.comprehension_queries import without_results
from dlang.ir.substitution import Renaming
from dlang.ir.types import type_of


def push_comp(let: Let, op: Comp, s: Dual) -> None:
    """Emits a comprehension with active results, and their tangents."""
    chosen = [k for k, v in enumerate(let.vars) if v in s.active]
    loops = [k for k in chosen if needs_loop(op, k)]
    if loops:
        elements = [by_element(let, op, k, s.active) for k in loops]
        found = [element for element in elements if element is not None]
        split = len(found) == len(loops)
        s.walk([*without_results(let, loops), *found] if split else sequential(let, op, loops, s.b, s.active), s)
        return
    with s.b.scope() as lets:
        s.walk(op.body.lets, s)
    vars, results, destinations = list(let.vars), list(op.body.results), list(op.destinations)
    extrema: list[tuple[int, Var]] = []
    for k in chosen:
        var, value, d = let.vars[k], op.body.results[k], op.destinations[k]
        if _reduced_extremum(op, d):
            assert isinstance(d, Reduce)
            where = fresh("where", type_of("i64", d.shape))
            extrema.append((k, where))
            vars.append(where)
            results.append(value)
            destinations.append(replace(d, monoid=f"arg{d.monoid}"))
            continue
        dot, into = s.dot(value), s.dot(d.into)
        if dot is None and into is None:
            continue
        sets = isinstance(d, Reduce) and d.monoid != "sum"
        if dot is None and not sets:
            s.set(var, into)
            continue
        assert into is None or isinstance(into, Var)
        vars.append(s.bind(var))
        with s.b.scope() as more:
            results.append(s.zero(value.type) if dot is None else dot)
        lets += more
        destinations.append(
            replace(d, into=into, monoid="set") if isinstance(d, Reduce) and sets else replace(d, into=into)
        )
    body = Block(tuple(lets), tuple(results))
    s.b.append(Let(tuple(vars), Comp(op.axes, body, tuple(destinations)), let.span))
    for k, where in extrema:
        _push_extremum(let, op, k, where, s)


def _kept(op: Comp, d: Destination) -> set[Var]:
    """The axes that the index of a destination determines."""
    names = [a.var for a in op.axes]
    return {a for e in d.index for a in axes_of(e, names)}


def _reduced_extremum(op: Comp, d: Destination) -> bool:
    return isinstance(d, Reduce) and d.monoid in ("max", "min") and len(_kept(op, d)) < len(op.axes)


def _push_extremum(let: Let, op: Comp, k: int, where: Var, s: Dual) -> None:
    """y[o] = max f(x[i]) over the reduced axes r, attained first at r*[o]: ẏ[o] is the tangent of f at (o, r*[o])."""
    b, d = s.b, op.destinations[k]
    kept = _kept(op, d)
    renaming = Renaming({}, renew=True)
    axes: list[Axis] = []
    reduced: list[Axis] = []
    for a in op.axes:
        lows, highs = tuple(map(renaming.size, a.lows)), tuple(map(renaming.size, a.highs))
        if a.var in kept:
            axes.append(Axis(renaming.bind(a.var), lows, highs))
        else:
            reduced.append(Axis(a.var, lows, highs))
    index = tuple(map(renaming.size, d.index))
    points = attained(axes, reduced, Knowledge())
    with b.scope() as lets:
        rank = points.position(b.one(Read(where, index)) if d.shape else where, b)
        renaming.env.update(positions_of(rank, reduced, b))
        copies = [renaming.let(inner) for inner in op.body.lets]
        s.active |= {new for old, new in renaming.env.items() if old in s.active and isinstance(new, Var)}
        s.walk(copies, s)
        dot = s.dot(renaming.atom(op.body.results[k]))
    if dot is None:
        return
    if points.axes or d.shape:
        monoid = "sum" if points.single is not None else "set"
        found = Comp(points.axes, Block(tuple(lets), (dot,)), (Reduce(d.shape, index, monoid),))
        b.append(Let((s.bind(let.vars[k]),), found, let.span))
    else:
        b.inline(Block(tuple(lets), ()))
        s.set(let.vars[k], dot)
