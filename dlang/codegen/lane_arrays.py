"""Arrays that an iteration makes for itself, where several iterations go at once: lanes are their innermost axis.

    loop i                           loop i by 8
      &a = allocate f64[m]             f = i of the first lane
      … &a[j] …                 →      &a = allocate f64[8 m]
      free &a                          … &a[8 j + i - f] …
                                       free &a

So what the lanes have in one element of such an array lies side by side. What a derivative saves of a loop inside, to
go back through it, is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlang.codegen.loops import Allocate, Buffer, FirstLane, Free, Load, Loop, Stmt, Store
from dlang.codegen.traverse import bound_by, map_inside
from dlang.ir.anf import Size, Var, fresh, is_reference, poly
from dlang.ir.types import I64, product


@dataclass(frozen=True, slots=True)
class LaneArrays:
    """A loop of which the arrays of an iteration are known. stmts: what is left of its body.

    made: the arrays and their sizes. first: the variable of the first lane.
    """

    stmts: tuple[Stmt, ...]
    made: Mapping[Buffer, Size]
    first: Var
    index: Size

    def elements(self, lanes: int) -> tuple[Stmt, ...]:
        """The statements that are left, with accesses to the arrays of so many lanes."""
        return self._inside(self.stmts, lanes)

    def whole(self, stmts: Sequence[Stmt], lanes: int) -> tuple[Stmt, ...]:
        """Such statements with what makes the arrays and frees them."""
        if not self.made:
            return tuple(stmts)
        makes = [Allocate(buffer, (size * lanes,)) for buffer, size in self.made.items()]
        return (FirstLane(self.first, self.index), *makes, *stmts, *map(Free, self.made))

    def _inside(self, stmts: Sequence[Stmt], lanes: int) -> tuple[Stmt, ...]:
        return tuple([self._statement(s, lanes) for s in stmts]) if self.made else tuple(stmts)

    def _statement(self, stmt: Stmt, lanes: int) -> Stmt:
        if isinstance(stmt, Load | Store) and stmt.buffer in self.made:
            return replace(stmt, offset=stmt.offset * lanes + self.index - poly(self.first))
        return map_inside(stmt, lambda inside: self._inside(inside, lanes))


def lane_arrays(loop: Loop) -> LaneArrays:
    """The arrays of numbers that each iteration of a loop makes and frees, all of one size."""
    freed = {s.buffer for s in loop.stmts if isinstance(s, Free)}
    local = {loop.var, *(v for s in loop.stmts for v in bound_by(s) if isinstance(v, Var))}
    sizes = {
        s.buffer: product(s.shape)
        for s in loop.stmts
        if isinstance(s, Allocate) and s.buffer in freed and not (s.extra or is_reference(s.buffer.dtype))
        if not any(size.mentions(local) for size in s.shape)
    }
    stmts = tuple([s for s in loop.stmts if not (isinstance(s, Allocate | Free) and s.buffer in sizes)])
    return LaneArrays(stmts, sizes, fresh("first", I64), poly(loop.var))
