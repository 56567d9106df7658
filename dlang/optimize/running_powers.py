"""Sums over powers of one number keep the power from one term to the next.

    y[i] = sum(c[j] * x[i] ** j for j < k)    becomes    for j < k (p = 1, s = 0) { s += c[j] * p; p *= x[i] }

for each i: a recurrence at many points, whose terms take two multiplications however large j is. The exponent grows by
one from term to term, from 0 or more, and what is raised depends on all axes around the sum: where another factor has
an axis of its own, the powers are a matrix that many rows share, and their sums a product (`contractions.py`).

What is the same in all terms is computed in front of the loop, if it may be where there is no term.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from functools import partial

from dlang.ir import anf
from dlang.ir.affine import Depends, axes_behind, slope
from dlang.ir.comprehension_queries import sizes_named, surely_inside, surely_total
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_blocks, map_bodies, mentioned, walk, with_lets, with_op
from dlang.ir.types import dtype_of
from dlang.ir.writes import determines
from dlang.ops.dtypes import WHOLE


def running_powers(program: anf.Program) -> anf.Program:
    """The program with such sums as loops at each point of the axes around them."""

    def body(block: anf.Block) -> anf.Block:
        raised = any(isinstance(let.op, anf.Prim) and let.op.name == "powi" for let in walk(block))
        return _block(block, axes_behind(block), (), ()) if raised else block

    return map_bodies(program, body)


Axes = tuple[anf.Axis, ...]


def _block(block: anf.Block, depends: Depends, around: Axes, indices: Axes) -> anf.Block:
    """around: the axes of comprehensions around the block; indices: of loops."""
    lets: list[anf.Let] = []
    for let in block.lets:
        within, counted = around, indices
        match let.op:
            case anf.Comp(axes):
                within = (*around, *axes)
            case anf.For(index, low, high):
                counted = (*indices, anf.Axis(index, (low,), (high,)))
            case _:
                pass
        op = map_blocks(let.op, partial(_block, depends=depends, around=within, indices=counted))
        new = with_op(let, let.vars, op)
        looped = _looped(new, op, depends, within, indices) if isinstance(op, anf.Comp) else None
        lets += looped or [new]
    return with_lets(block, lets, block.results)


def _looped(let: anf.Let, op: anf.Comp, depends: Depends, around: Axes, indices: Axes) -> list[anf.Let] | None:
    """The lets of a sum over powers with a loop in the place of its axis; None if it is no such sum. around: the axes
    around a term, those of the sum among them."""
    if not all(isinstance(d, anf.Reduce) and d.monoid == "sum" and d.after is None for d in op.destinations):
        return None
    if not all(isinstance(inner.op, anf.Prim | anf.Cast | anf.IndexExpr | anf.Read) for inner in op.body.lets):
        return None
    if any(dtype_of(v) not in WHOLE for inner in op.body.lets for v in inner.vars):
        return None
    if len(op.axes) == 1 and any(d.shape for d in op.destinations):
        return None
    for axis in op.axes:
        others = tuple([a for a in around if a is not axis])
        points = (*indices, *others)  # where there may be no term
        if surely_inside(replace(op, axes=tuple([a for a in op.axes if a is not axis])), points):
            before, terms = _apart(op.body.lets, axis, points)
            there = {v for inner in terms for v in inner.vars}
            powers = [p for p in _powers(op, axis, depends, {a.var for a in others}) if there.isdisjoint(_raised(p))]
            if powers:
                return _as_loop(let, op, axis, powers, before, terms)
    return None


def _apart(lets: Sequence[anf.Let], axis: anf.Axis, points: Axes) -> tuple[list[anf.Let], list[anf.Let]]:
    """The code that is the same in all terms and may run at points without any, and the rest."""
    varying, before, terms = {axis.var}, list[anf.Let](), list[anf.Let]()
    for let in lets:
        if varying.isdisjoint(mentioned(let.op)) and surely_total(let.op, points):
            before.append(let)
        else:
            terms.append(let)
            varying.update(let.vars)
    return before, terms


def _raised(power: anf.Let) -> tuple[anf.Atom, ...]:
    """The base of a power."""
    return power.op.args[:1] if isinstance(power.op, anf.Prim) else ()


def _powers(op: anf.Comp, axis: anf.Axis, depends: Depends, around: Set[anf.Var]) -> list[anf.Let]:
    """The powers whose exponent grows by one along an axis, of numbers that depend on all others around; none if the
    axis can't be a loop."""
    others = [a for a in op.axes if a is not axis]
    ends = [e for a in others for e in (*a.lows, *a.highs)] + [e for d in op.destinations for e in d.index]
    if len(axis.lows) != 1 or len(axis.highs) != 1 or any(e.mentions((axis.var,)) for e in ends):
        return []
    named = {axis.var: anf.poly(axis.var), **sizes_named(op.body)}
    powers: list[anf.Let] = []
    for let in op.body.lets:
        match let.op:
            case anf.Prim("powi", (anf.Var() as x, anf.Var() as exponent)) if exponent in named:
                first = named[exponent].substitute({axis.var: axis.lows[0]}.get).constant
                grows = slope(named[exponent], axis.var) == 1
                if (
                    grows
                    and first is not None
                    and first >= 0
                    and dtype_of(x) in anf.FLOATS
                    and around
                    and depends.get(x) == around
                ):
                    powers.append(let)
            case _:
                pass
    return powers


def _as_loop(
    let: anf.Let,
    op: anf.Comp,
    axis: anf.Axis,
    powers: Sequence[anf.Let],
    before: list[anf.Let],
    terms: list[anf.Let],
) -> list[anf.Let]:
    """The lets with a loop. before: the code of a term that stands in front of it; terms: the rest."""
    named = {axis.var: anf.poly(axis.var), **sizes_named(op.body)}
    terms = [inner for inner in terms if not any(inner is p for p in powers)]
    init: list[anf.Atom] = []
    following: list[anf.Atom] = []
    for power in powers:
        assert isinstance(power.op, anf.Prim)
        (x, exponent), (var,) = power.op.args, power.vars
        assert isinstance(exponent, anf.Var)
        start = named[exponent].substitute({axis.var: axis.lows[0]}.get).constant
        first, again = anf.fresh(var.name, var.type), anf.fresh(var.name, var.type)
        before.append(anf.Let((first,), anf.Prim("powi", (x, anf.Lit(int(start or 0), "i64"))), power.span))
        terms.append(anf.Let((again,), anf.Prim("mul", (var, x)), power.span))
        init.append(first)
        following.append(again)
    totals = [anf.fresh("s", anf.Scalar(dtype_of(r))) for r in op.body.results]
    for total, value in zip(totals, op.body.results, strict=True):
        new = anf.fresh("s", total.type)
        terms.append(anf.Let((new,), anf.Prim("add", (total, value)), let.span))
        init.append(anf.Lit(0.0, dtype_of(total)) if dtype_of(total) in anf.FLOATS else anf.Lit(0, dtype_of(total)))
        following.append(new)
    params = (*(p.vars[0] for p in powers), *totals)
    loop = anf.For(
        axis.var, axis.lows[0], axis.highs[0], params, tuple(init), anf.Block(tuple(terms), tuple(following))
    )
    results = tuple([anf.fresh(p.name, p.type) for p in params])
    block = anf.Block((*before, anf.Let(results, loop, let.span)), results[len(powers) :])
    axes = tuple([a for a in op.axes if a is not axis])
    if not axes:
        return [*before, anf.Let((*results[: len(powers)], *let.vars), loop, let.span)]
    destinations = [
        replace(d, monoid="set") if isinstance(d, anf.Reduce) and d.into is None and determines(axes, d.index) else d
        for d in op.destinations
    ]
    return [anf.Let(let.vars, Renaming({}, renew=True).op(anf.Comp(axes, block, tuple(destinations))), let.span)]
