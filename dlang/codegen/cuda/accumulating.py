"""Loops in an iteration that add to an element as reductions, and perfect nests of them as one loop.

loop i in 0..n                    loop i in 0..n
  t = &x[m*i + j]                   t = &x[m*i + j]
  &y[j] = &y[j] + t                 s = s + t
                                  &y[j] = &y[j] + s
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlang.codegen.cuda.flattening import flattened
from dlang.codegen.loops import At, Load, Loop, Reduction, Slice, Stmt, Store
from dlang.codegen.traverse import bound_by, map_inside, walk
from dlang.ir.anf import Scalar, Var, fresh


def accumulated(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Statements of an iteration in which no loop, from the innermost on, adds to an element that all its iterations
    share."""
    out: list[Stmt] = []
    for stmt in stmts:
        stmt = map_inside(stmt, accumulated)
        if isinstance(stmt, Loop):
            stmt, behind = _with_totals(stmt)
            out += [_as_one(stmt), *behind]
        else:
            out.append(stmt)
    return tuple(out)


def _with_totals(loop: Loop) -> tuple[Loop, list[Stmt]]:
    """A loop that adds to totals, and what adds these to memory."""
    bound = {slot for s in walk(loop.stmts) for slot in bound_by(s)} | {loop.var}
    variables = [slot for slot in bound if isinstance(slot, Var)]
    inside: list[Stmt] = []
    behind: list[Stmt] = []
    reductions = list(loop.reductions)
    for s in loop.stmts:
        if isinstance(s, Store) and s.monoid != "set" and _is_only_use(s, loop) and s.buffer not in bound:
            if not s.offset.mentions(variables):
                total = fresh("total", Scalar(s.buffer.dtype))
                reductions.append(Reduction(s.monoid, total, s.value))
                behind.append(replace(s, value=total))
                continue
        inside.append(s)
    return replace(loop, stmts=tuple(inside), reductions=tuple(reductions)), behind


def _is_only_use(store: Store, loop: Loop) -> bool:
    for s in walk(loop.stmts):
        match s:
            case Load(_, buffer) | Slice(_, buffer) | Store(buffer) if buffer is store.buffer and s is not store:
                return False
            case _:
                pass
    return True


def _as_one(loop: Loop) -> Loop:
    """A loop with one loop inside as one loop, if what each iteration does depends on both together alone."""
    inside = [s for s in loop.stmts if not isinstance(s, At)]
    if len(inside) != 1 or not isinstance(inside[0], Loop):
        return loop
    inner = inside[0]
    reductions = handed_on(loop.reductions, inner.reductions)
    extents = (*loop.highs, *inner.highs)
    if reductions is None or any(c < 0 for extent in extents for c in extent.terms.values()):
        return loop
    levels, stmts, _ = flattened((loop, inner), inner.stmts, reductions)
    return loop if len(levels) > 1 else replace(levels[0], stmts=stmts, reductions=reductions)


def handed_on(outer: Sequence[Reduction], inner: Sequence[Reduction]) -> tuple[Reduction, ...] | None:
    """The reductions of two loops as one: each of the outer one's is that of what the inner one gives."""
    if len(outer) != len(inner):
        return None
    made = {r.result: r for r in inner}
    out = []
    for r in outer:
        part = made.get(r.value) if isinstance(r.value, Var) else None
        if part is None or part.monoid != r.monoid or r.rank is not part.position:
            return None
        out.append(replace(r, value=part.value, rank=part.rank))
    return tuple(out)
