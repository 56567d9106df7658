"""Sums that lanes add to in loops inside: each lane has places of its own, which are added up behind the loop of lanes.

    loop i by 8                      &s = zeros f64[8 m]
      for j in 0..m                  loop i by 8
        … x …                          f = i of the first lane
        &g[j] sum= x         →         for j in 0..m
                                         … x …
                                         &s[8 j + i - f] sum= x
                                     loop j in 0..m
                                       &g[j] sum= (the sum of &s[8 j], …, &s[8 j + 7])

The lanes of a vector are then added up once for each element, and not once for each element and vector. That is a row
of what a derivative adds up over all points of a loop at each of them. This comes before loops are cut into pieces, so
each piece has such an array of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlang.codegen.loops import (
    Allocate,
    Buffer,
    Compute,
    Evaluate,
    FirstLane,
    For,
    Free,
    Function,
    Load,
    Loop,
    Program,
    Reduction,
    Stmt,
    Store,
)
from dlang.codegen.nests import identity
from dlang.codegen.parallel import sizes_of_buffers
from dlang.codegen.traverse import bound_by, kept, map_inside, mentions, walk, with_stmts
from dlang.ir.anf import Lit, Size, Var, fresh, poly, scalar
from dlang.ir.terms import ZERO
from dlang.ir.types import I64
from dlang.ops.dtypes import PARTIAL


def lane_sums(program: Program) -> Program:
    """The program whose lanes have places of their own for such sums."""
    return replace(program, functions={name: _function(f) for name, f in program.functions.items()})


def _function(f: Function) -> Function:
    if not any(isinstance(s, Loop) and s.lanes > 1 for s in walk(f.body.stmts)):
        return f
    sizes = sizes_of_buffers(f)

    def statements(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in stmts:
            if isinstance(stmt, Loop) and stmt.lanes > 1:
                summed = _summed(stmt)
                out += _with_places(stmt, {b: n for b in summed if (n := sizes.get(b)) is not None})
            else:
                out.append(map_inside(stmt, statements))
        return kept(stmts, out)

    body = with_stmts(f.body, statements(f.body.stmts))
    return f if body is f.body else replace(f, body=body)


def _summed(loop: Loop) -> list[Buffer]:
    """The arrays that loops inside of a loop of lanes only add to, at places that are the same for all lanes."""
    varying = {loop.var, *(v for s in walk(loop.stmts) for v in bound_by(s) if isinstance(v, Var))}
    indices = {s.index for s in walk(loop.stmts) if isinstance(s, For)} | {
        s.var for s in walk(loop.stmts) if isinstance(s, Loop)
    }
    found: dict[Buffer, bool] = {}
    for outer in loop.stmts:
        for stmt in walk([outer]):
            match stmt:
                case Store(buffer, offset, _, "sum") if buffer.dtype in PARTIAL:
                    inside = isinstance(outer, For | Loop) and offset.mentions(indices)
                    alike = not offset.mentions(varying - indices)
                    found[buffer] = found.get(buffer, True) and inside and alike
                case _:
                    found |= {b: False for b in (*mentions(stmt), *bound_by(stmt)) if isinstance(b, Buffer)}
    return [buffer for buffer, so in found.items() if so and buffer not in loop.disjoint]


def _with_places(loop: Loop, sizes: dict[Buffer, Size]) -> list[Stmt]:
    """A loop of lanes in which each has places of its own for what is added to some arrays of these sizes."""
    if not sizes or len(loop.lows) > 1 or len(loop.highs) > 1:
        return [loop]
    lanes, first = fresh("lanes", I64), fresh("first", I64)
    places = {buffer: Buffer(buffer.name, buffer.dtype) for buffer in sizes}

    def moved(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple([_moved(s) for s in stmts])

    def _moved(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store) and stmt.buffer in places:
            offset = stmt.offset * poly(lanes) + poly(loop.var) - poly(first)
            return replace(stmt, buffer=places[stmt.buffer], offset=offset)
        return map_inside(stmt, moved)

    new = replace(loop, stmts=(FirstLane(first, poly(loop.var)), *moved(loop.stmts)))
    count = fresh("count", I64)
    out: list[Stmt] = [  # which are in use
        Evaluate(count, loop.highs[0] - loop.lows[0]),
        Compute(lanes, "minimum", (count, Lit(loop.lanes, "i64"))),
    ]
    for buffer, size in sizes.items():
        out += _zeros(places[buffer], size * poly(lanes))
    out.append(new)
    for buffer, size in sizes.items():
        out += _added_up(buffer, places[buffer], size, lanes)
    return out


def _zeros(buffer: Buffer, size: Size) -> list[Stmt]:
    i = fresh("i", I64)
    store = Store(buffer, poly(i), identity("sum", buffer.dtype))
    return [Allocate(buffer, (size,)), Loop(i, (ZERO,), (size,), (store,))]


def _added_up(buffer: Buffer, places: Buffer, size: Size, lanes: Var) -> list[Stmt]:
    """The loop that adds the lanes' sums to an array, in their order."""
    j, lane = fresh("j", I64), fresh("lane", I64)
    value, total = (fresh(buffer.name, scalar(buffer.dtype)) for _ in range(2))
    load = Load(value, places, poly(j) * poly(lanes) + poly(lane))
    each = Loop(lane, (ZERO,), (poly(lanes),), (load,), (Reduction("sum", total, value),), short=True)
    return [Loop(j, (ZERO,), (size,), (each, Store(buffer, poly(j), total, "sum")), disjoint=(buffer,)), Free(places)]
