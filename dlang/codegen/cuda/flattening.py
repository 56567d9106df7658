"""Levels of a nest whose iterations are one range: `x[m*i + j]` for i and j is `x[k]` for one k.

Then no thread divides, and the elements of an iteration lie side by side however short the rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dlang.codegen.loops import Loop, Reduction, Stmt
from dlang.codegen.traverse import captures, rebuild, sizes, walk
from dlang.ir.anf import Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64

Merged = tuple[tuple[Loop, ...], tuple[Stmt, ...], tuple[tuple[Loop, ...], ...]]


def flattened(levels: Sequence[Loop], stmts: tuple[Stmt, ...], reductions: Sequence[Reduction]) -> Merged:
    """The levels that are left, the statements of an iteration, and for each level those that it stands for."""
    out = [levels[0]]
    merged: list[tuple[Loop, ...]] = [(levels[0],)]
    for level in levels[1:]:
        if not _are_one(out[-1], level, stmts, reductions):
            out.append(level)
            merged.append((level,))
            continue
        var = fresh(level.var.name, I64)
        stmts = _with_one_index(stmts, out[-1].var, level.var, var)
        disjoint = tuple([b for b in level.disjoint if b in out[-1].disjoint])
        out[-1] = replace(level, var=var, highs=(out[-1].highs[0] * level.highs[0],), disjoint=disjoint)
        merged[-1] = (*merged[-1], level)
    return tuple(out), stmts, tuple(merged)


def _are_one(outer: Loop, inner: Loop, stmts: Sequence[Stmt], reductions: Sequence[Reduction]) -> bool:
    """Tells whether the body of two loops depends on their iterations only by the number of both together."""
    if outer.lows != (ZERO,) or inner.lows != (ZERO,) or len(outer.highs) != 1 or len(inner.highs) != 1:
        return False
    pair, extent = (outer.var, inner.var), inner.highs[0]
    if any(v in pair for r in reductions for v in (r.value, r.rank)):
        return False
    for size in (size for stmt in walk(stmts) for size in sizes(stmt)):
        if not size.mentions(pair):
            continue
        try:
            step, above = size.coefficient(inner.var), size.coefficient(outer.var)
        except ValueError:
            return False
        if step.mentions(pair) or above != step * extent:
            return False
    return not any(v in pair for v in captures(_without_sizes(stmts), ()))


def with_sizes(stmts: Sequence[Stmt], change: Callable[[Size], Size]) -> tuple[Stmt, ...]:
    """Statements of a kernel with their polynomials changed."""
    return tuple([rebuild(s, size=change, block=lambda inner: with_sizes(inner, change)) for s in stmts])


def _without_sizes(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    return with_sizes(stmts, lambda _: ZERO)


def _with_one_index(stmts: Sequence[Stmt], outer: Var, inner: Var, both: Var) -> tuple[Stmt, ...]:
    def change(size: Size) -> Size:
        if not size.mentions((outer, inner)):
            return size
        return size.without(outer).without(inner) + size.coefficient(inner) * poly(both)

    return with_sizes(stmts, change)
