"""Loops whose iterations need memory of their own, made such that one of these memories is there for each iteration.

loop i in 0..n                  &B = allocate f64[n, m]
  &b = allocate f64[m]          loop i in 0..n
  …                               &b = address &B[m*i]
  free &b                         …
                                free &B
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlang.codegen import loops
from dlang.codegen.cuda.nests import is_number, nest_of
from dlang.codegen.traverse import bound_by, captures, kept, map_inside, walk, with_stmts
from dlang.ir.anf import Lit, Scalar, Size, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64, product


def expanded(body: loops.Body) -> loops.Body:
    """A body whose outermost loops are nests for kernels, where memory for all of their iterations makes them such."""

    def statements(stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
        out: list[loops.Stmt] = []
        for stmt in stmts:
            expanded = with_memory(stmt) if isinstance(stmt, loops.Loop) and nest_of(stmt) is None else None
            out += [map_inside(stmt, statements)] if expanded is None else expanded
        return kept(stmts, out)

    return with_stmts(body, statements(body.stmts))


def with_memory(loop: loops.Loop) -> list[loops.Stmt] | None:
    """The loop with memory for its iterations around it; None if that makes no nest."""
    if not any(isinstance(s, loops.Allocate | loops.Move) for s in walk(loop.stmts)):
        return None
    levels = [loop]
    while (inner := _only(levels[-1])) is not None and not any(
        size.mentions([level.var for level in levels]) for size in (*inner.lows, *inner.highs)
    ):
        levels.append(inner)
    if any(len(level.lows) > 1 or len(level.highs) > 1 for level in levels):
        return None
    iteration, iterations = ZERO, ZERO + 1
    before: list[loops.Stmt] = []
    for level in levels:
        extent = level.highs[0] - level.lows[0]
        if extent.constant is None and (extent.atom is None or level.lows[0].terms):
            count, at_least_zero = fresh("count", I64), fresh("extent", I64)
            before += [loops.Evaluate(count, extent), loops.Compute(at_least_zero, "maximum", (count, Lit(0, "i64")))]
            extent = poly(at_least_zero)
        iteration, iterations = iteration * extent + poly(level.var) - level.lows[0], iterations * extent
    maker = _Expansion(iteration, iterations)
    expanded = maker.statement(loop)
    outside = {*captures((loop,), ()), *[slot for stmt in before for slot in bound_by(stmt)]}
    if any(v not in outside for buffer in maker.made for size in buffer.shape for v in size.atoms()):
        return None
    if not isinstance(expanded, loops.Loop) or nest_of(expanded) is None:
        return None
    return [*before, *maker.made, expanded, *[loops.Free(stmt.buffer) for stmt in reversed(maker.made)]]


def _only(loop: loops.Loop) -> loops.Loop | None:
    """The loop that is all there is in a loop."""
    stmts = [s for s in loop.stmts if not isinstance(s, loops.At)]
    return stmts[0] if len(stmts) == 1 and isinstance(stmts[0], loops.Loop) and not loop.reductions else None


@dataclass(slots=True)
class _Expansion:
    """The walk over a loop. iteration: the number of an iteration, of so many; made: the memory for all of them."""

    iteration: Size
    iterations: Size
    made: list[loops.Allocate] = field(default_factory=list)
    own: set[loops.Buffer] = field(default_factory=set)

    def statements(self, stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
        return tuple([s for stmt in stmts if (s := self.statement(stmt)) is not None])

    def statement(self, stmt: loops.Stmt) -> loops.Stmt | None:
        match stmt:
            case loops.Allocate(buffer, shape, extra, span) if is_number(buffer.dtype):
                all = loops.Buffer(buffer.name, buffer.dtype)
                size = product(shape) + extra
                self.made.append(loops.Allocate(all, (self.iterations, size), 0, span))
                self.own.add(buffer)
                return loops.Slice(buffer, all, self.iteration * size)
            case loops.Free(buffer) if buffer in self.own:
                return None
            case loops.Move(target, source, count):
                k, x = fresh("k", I64), fresh("x", Scalar(target.dtype))
                copied = (loops.Load(x, source, poly(k)), loops.Store(target, poly(k), x))
                return loops.Loop(k, (ZERO,), (count,), copied)
            case _:
                return map_inside(stmt, self.statements)
