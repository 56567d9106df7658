"""Arrays that an iteration makes for itself, where several iterations go at once: lanes are their innermost axis.

    loop i                           loop i by 8
      &a = allocate f64[m]             f = i of the first lane
      … &a[j] …                 →      &a = allocate f64[8 m]
      free &a                          … &a[8 j + i - f] …
                                       free &a

So what the lanes have in one element of such an array lies side by side. What a derivative saves of a loop inside, to
go back through it, is one; and what it saves in each iteration of that loop, of one further inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlang.codegen.loops import Allocate, Buffer, FirstLane, For, Free, Load, Loop, Stmt, Store
from dlang.codegen.traverse import binds, indices, map_inside, walk
from dlang.ir.anf import Var, fresh, is_reference, poly
from dlang.ir.types import I64, product


@dataclass(frozen=True, slots=True)
class LaneArrays:
    """The arrays that the iterations of a loop have of their own. first: the variable of the first lane."""

    loop: Loop
    made: frozenset[Buffer]
    first: Var

    def elements(self, lanes: int) -> tuple[Stmt, ...]:
        """The statements of an iteration, with arrays of so many lanes."""
        return self._inside(self.loop.stmts, lanes) if self.made else self.loop.stmts

    def computed(self) -> tuple[Stmt, ...]:
        """The statements of an iteration of one lane, without what makes and frees the arrays."""
        return self._without(self.elements(1)) if self.made else self.loop.stmts

    def _without(self, stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        others = [s for s in stmts if not (isinstance(s, Allocate | Free) and s.buffer in self.made)]
        return tuple([map_inside(s, self._without) for s in others])

    def whole(self, stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """Such statements behind what they need to know."""
        return (FirstLane(self.first, poly(self.loop.var)), *stmts) if self.made else tuple(stmts)

    def _inside(self, stmts: Sequence[Stmt], lanes: int) -> tuple[Stmt, ...]:
        return tuple([self._statement(s, lanes) for s in stmts])

    def _statement(self, stmt: Stmt, lanes: int) -> Stmt:
        match stmt:
            case Load(buffer=buffer, offset=offset) | Store(buffer=buffer, offset=offset) if buffer in self.made:
                return replace(stmt, offset=offset * lanes + poly(self.loop.var) - poly(self.first))
            case Allocate(buffer, shape) if buffer in self.made:
                return replace(stmt, shape=(product(shape) * lanes,))
            case _:
                return map_inside(stmt, lambda inside: self._inside(inside, lanes))


def lane_arrays(loop: Loop) -> LaneArrays:
    """The arrays of numbers that each iteration of a loop makes and frees, all of one size."""
    stmts = list(walk(loop.stmts))
    freed = {s.buffer for s in stmts if isinstance(s, Free)}
    counted = {v for s in stmts if isinstance(s, For) for v in indices(s)}
    local = {loop.var, *(v for s in stmts for v in binds(s) if isinstance(v, Var))} - counted
    made = {
        s.buffer
        for s in stmts
        if isinstance(s, Allocate) and s.buffer in freed and not (s.extra or is_reference(s.buffer.dtype))
        if not any(size.mentions(local) for size in s.shape)
    }
    return LaneArrays(loop, frozenset(made), fresh("first", I64))
