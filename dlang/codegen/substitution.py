"""Triangular systems with many right-hand sides, in blocks of rows: what is known goes into a block by a product.

Blocks are of two sizes, so that products are large and what is left is small. In the smallest the unknowns of a column
follow from each other in registers, with as many columns at once as a vector has lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dlang.codegen.blas import Block, Routines
from dlang.codegen.loops import Allocate, Body, Branch, Buffer, For, Free, Matrix, Slice
from dlang.codegen.memory import ZERO
from dlang.codegen.packing import matrix_product
from dlang.ir.anf import Atom, Lit, Scalar, Size, Var, fresh, poly

ROWS, FEW = 64, 16  # of a block, and of the blocks in it
I64 = Scalar("i64")


@dataclass(frozen=True, slots=True)
class Triangle:
    """A triangular matrix of n rows by its elements; forward: it is the lower triangle; unit: with a diagonal of ones.

    Elements of the other triangle are not asked for.
    """

    n: Size
    element: Callable[[Size, Size], Atom]
    forward: bool
    unit: bool


def substitute(r: Routines, t: Triangle, x: Block, columns: Size) -> None:
    """Solves t y = x, y in place of x, whose rows lie one after another."""
    s = r.s
    room = Block(Buffer("known", r.dtype), ZERO, t.n)
    small = Block(Buffer("diagonal", r.dtype), ZERO, poly(FEW))
    spare = Buffer("rows", r.dtype)
    s.out += [
        Allocate(room.buffer, (poly(ROWS), t.n), 0, s.span),
        Allocate(small.buffer, (small.stride, small.stride), 0, s.span),
        Allocate(spare, (poly(FEW), columns), 0, s.span),
    ]

    def block(first: Size, end: Size) -> None:
        _without_known(r, t, x, columns, room, (first, end), (ZERO, t.n))
        _in_blocks(r, t, first, end, FEW, lambda low, high: few(low, high, first, end))

    def few(low: Size, high: Size, first: Size, end: Size) -> None:
        _without_known(r, t, x, columns, room, (low, high), (first, end))
        _last(r, t, x, columns, (small, spare), low, high)

    _in_blocks(r, t, ZERO, t.n, ROWS, block)
    s.out += [Free(room.buffer), Free(small.buffer), Free(spare)]


def _in_blocks(
    r: Routines, t: Triangle, first: Size, end: Size, most: int, block: Callable[[Size, Size], None]
) -> None:
    """Blocks of so many rows one after another, in the order in which unknowns become known."""
    turn = fresh("turn", I64)
    count = r.compute("floordiv", r.evaluate(end - first + (most - 1)), Lit(most, "i64"))
    with r.s.collect() as stmts:
        if t.forward:
            low = first + poly(turn) * most
            block(low, poly(r.compute("minimum", r.evaluate(low + most), r.evaluate(end))))
        else:
            high = end - poly(turn) * most
            block(poly(r.compute("maximum", r.evaluate(high - most), r.evaluate(first))), high)
    r.s.out.append(For(turn, ZERO, poly(count), (), (), Body(tuple(stmts), ()), ()))


def _without_known(
    r: Routines,
    t: Triangle,
    x: Block,
    columns: Size,
    room: Block,
    rows: tuple[Size, Size],
    around: tuple[Size, Size],
) -> None:
    """Takes what known unknowns of the rows around contribute from the right-hand sides of some rows."""
    low, high = rows
    known, count = (around[0], low - around[0]) if t.forward else (high, around[1] - high)

    def product() -> None:
        r.map(high - low, count, lambda i, k: r.compute("neg", t.element(low + poly(i), known + poly(k))), room)
        a = Matrix(room.buffer, room.offset, room.stride, False)
        b, c = (Matrix(x.buffer, x.at(row, 0), x.stride, False) for row in (known, low))
        matrix_product(r.s, a, b, c, (high - low, columns, count), adds=True)

    r.when(r.compute("gt", r.evaluate(count), Lit(0, "i64")), product)


def _last(r: Routines, t: Triangle, x: Block, columns: Size, room: tuple[Block, Buffer], low: Size, high: Size) -> None:
    """Solves the rows of a small block, which is filled up by ones on its diagonal."""
    s, size = r.s, high - low
    small, spare = room
    r.fill(small, small.stride, small.stride, 0.0)
    r.loop(size, FEW, lambda k: r.store(small, poly(k), poly(k), r.real(1.0)))

    def copied(i: Var, j: Var) -> None:
        r.store(small, poly(i), poly(j), t.element(low + poly(i), low + poly(j)))

    def reciprocal(k: Var) -> None:
        here = low + poly(k)
        value = r.real(1.0) if t.unit else r.compute("div", r.real(1.0), t.element(here, here))
        r.store(small, poly(k), poly(k), value)

    if t.forward:
        r.loop(0, size, lambda i: r.loop(0, poly(i), lambda j: copied(i, j)))
    else:
        r.loop(0, size, lambda i: r.loop(poly(i) + 1, size, lambda j: copied(i, j)))
    r.loop(0, size, reciprocal)
    there, used, extra = Buffer("there", r.dtype), Buffer("rows", r.dtype), Block(spare, ZERO, columns)
    part = x.part(low, 0)
    with s.collect() as copy:
        r.map(size, columns, lambda k, j: r.load(part, poly(k), poly(j)), extra)
        r.loop(size, FEW, lambda k: r.loop(0, columns, lambda j: r.store(extra, poly(k), poly(j), r.real(0.0))))
    full = r.compute("eq", r.evaluate(size), Lit(FEW, "i64"))
    s.out.append(Slice(there, x.buffer, part.offset))
    s.out.append(Branch(full, Body((), (there,)), Body(tuple(copy), (spare,)), (used,)))
    rows = Block(used, ZERO, columns)
    order = range(FEW) if t.forward else range(FEW - 1, -1, -1)

    def column(j: Var) -> None:
        y: list[Atom] = [r.load(rows, k, poly(j)) for k in range(FEW)]
        for k in order:
            if not t.unit:
                y[k] = r.compute("mul", y[k], r.load(small, k, k))
            for i in range(k + 1, FEW) if t.forward else range(k):
                y[i] = r.compute("sub", y[i], r.compute("mul", y[k], r.load(small, i, k)))
        for k in range(FEW):
            r.store(rows, k, poly(j), y[k])

    r.loop(0, columns, column)
    r.when(full, lambda: None, lambda: r.map(size, columns, lambda k, j: r.load(extra, poly(k), poly(j)), part))
