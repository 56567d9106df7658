"""Triangular systems with many right-hand sides, in blocks of rows: what has become known leaves the rest by a product.

Blocks are of two sizes, so that products are large and what is left is small. In the smallest the unknowns of a column
follow from each other in registers, with as many columns at once as a vector has lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlang.codegen.blas import ANY_DIAGONAL, LEFT, LOWER, PLAIN, TRANSPOSED, UNIT, UPPER, Block, Routines
from dlang.codegen.loops import Allocate, Body, Branch, Buffer, Free, Matrix, Slice
from dlang.codegen.packing import matrix_product
from dlang.ir.anf import Atom, Lit, Size, Var, poly
from dlang.ir.terms import ZERO

FEW = 16  # rows of a smallest block
HEIGHTS = (64, FEW)  # of blocks, and of the blocks in them


@dataclass(frozen=True, slots=True)
class Triangle:
    """A triangular matrix of n rows by its elements; forward: it is the lower triangle; unit: with a diagonal of ones.

    Elements of the other triangle are not asked for.
    """

    n: Size
    element: Callable[[Size, Size], Atom]
    forward: bool
    unit: bool


@dataclass(frozen=True, slots=True)
class Factor:
    """A triangle of a matrix in memory, by flags that may be known only when the program runs.

    lower: it is the lower triangle; transposed: and stands for its transpose; unit: its diagonal counts as ones.
    """

    lower: Atom
    transposed: Atom
    unit: Atom

    @staticmethod
    def known(lower: bool, transposed: bool, unit: bool) -> Factor:
        return Factor(Lit(lower, "bool"), Lit(transposed, "bool"), Lit(unit, "bool"))


def by_library(
    r: Routines,
    n: Size,
    a: Block,
    factors: Sequence[Factor],
    x: Block,
    columns: Size,
    start: Callable[[], None],
) -> None:
    """Solves with one triangle of `a` after the other, in place of x. start: emits the right-hand side into x.

    Kernels of BLAS may spread a NaN, or an infinity, into elements that substitution does not compute from it, so a
    result that is not finite is computed once more, element by element.
    """
    start()
    for factor in factors:
        flags = (
            r.select(factor.lower, LOWER, UPPER),
            r.select(factor.transposed, TRANSPOSED, PLAIN),
            r.select(factor.unit, UNIT, ANY_DIAGONAL),
        )
        matrix = r.int32(n), a.buffer, r.leading(n), x.buffer
        if columns == 1:
            r.blas("trsv", *flags, *matrix, Lit(1, "i32"))
        else:
            size, *matrix_rest = matrix
            r.blas("trsm", LEFT, *flags, size, r.int32(columns), r.real(1.0), *matrix_rest, r.leading(columns))

    def again() -> None:
        start()
        with r.s.little_code():
            for factor in factors:
                _one_by_one(r, n, a, factor, x, columns)

    r.when(r.finite(n, lambda i: columns, x), lambda: None, again)


def _one_by_one(r: Routines, n: Size, a: Block, factor: Factor, x: Block, columns: Size) -> None:
    """Takes what each unknown contributes from the rows that come after it."""

    def place(turn: Var) -> Atom:
        plain = r.select(factor.lower, turn, last(turn))
        return r.select(factor.transposed, r.select(factor.lower, last(turn), turn), plain)

    def last(turn: Var) -> Atom:
        return r.evaluate(n - 1 - poly(turn))

    def element(i: Atom, j: Atom) -> Atom:
        row, column = r.select(factor.transposed, j, i), r.select(factor.transposed, i, j)
        return r.load(a, poly(row), poly(column))

    def unknown(turn: Var) -> None:
        k = place(turn)
        pivot = r.select(factor.unit, r.real(1.0), element(k, k))

        def divided(j: Var) -> None:
            r.store(x, poly(k), poly(j), r.compute("div", r.load(x, poly(k), poly(j)), pivot))

        def row(later: Var) -> None:
            i = place(later)
            factor_of_row = element(i, k)

            def taken(j: Var) -> None:
                part = r.compute("mul", factor_of_row, r.load(x, poly(k), poly(j)))
                r.store(x, poly(i), poly(j), r.compute("sub", r.load(x, poly(i), poly(j)), part))

            r.loop(0, columns, taken)

        r.loop(0, columns, divided)
        r.loop(poly(turn) + 1, n, row)

    r.in_turn(n, unknown)


def substitute(
    r: Routines, t: Triangle, x: Block, columns: Size, heights: tuple[int, ...] = HEIGHTS, triangular: bool = False
) -> None:
    """Solves t y = x, y in place of x, whose rows lie one after another.

    heights: of blocks, none for a triangle of few rows. triangular: t and x are lower triangles, and so is y.
    """
    s = r.s
    height = poly(heights[0]) if heights else ZERO
    work = Block(Buffer("known", r.dtype), ZERO, height)
    small = Block(Buffer("diagonal", r.dtype), ZERO, poly(FEW))
    spare = Buffer("rows", r.dtype)
    s.out += [
        Allocate(work.buffer, (t.n, height), 0, s.span),
        Allocate(small.buffer, (small.stride, small.stride), 0, s.span),
        Allocate(spare, (poly(FEW), x.stride), 0, s.span),
    ]

    def solved(first: Size, end: Size, heights: tuple[int, ...]) -> None:
        if not heights:
            with s.little_code():
                _last(r, t, x, end if triangular else columns, (small, spare), first, end)
            return

        def block(turn: Var) -> None:
            low, high = first + poly(turn) * most, end - poly(turn) * most
            if t.forward:
                high = poly(r.compute("minimum", r.evaluate(low + most), r.evaluate(end)))
            else:
                low = poly(r.compute("maximum", r.evaluate(high - most), r.evaluate(first)))
            solved(low, high, heights[1:])
            others = (high, end) if t.forward else (first, low)
            _leaves(r, t, x, high if triangular else columns, work, (low, high), others)

        most = heights[0]
        r.in_turn(poly(r.compute("floordiv", r.evaluate(end - first + (most - 1)), Lit(most, "i64"))), block)

    solved(ZERO, t.n, heights)
    s.out += [Free(work.buffer), Free(small.buffer), Free(spare)]


def _leaves(
    r: Routines, t: Triangle, x: Block, columns: Size, work: Block, known: tuple[Size, Size], others: tuple[Size, Size]
) -> None:
    """Takes what the unknowns of some rows contribute from the right-hand sides of others."""
    (low, high), (first, end) = known, others

    def product() -> None:
        r.map(end - first, high - low, lambda i, k: r.compute("neg", t.element(first + poly(i), low + poly(k))), work)
        a = Matrix(work.buffer, work.offset, work.stride, False)
        b, c = (Matrix(x.buffer, x.at(row, 0), x.stride, False) for row in (low, first))
        matrix_product(r.s, a, b, c, (end - first, columns, high - low), adds=True)

    r.when(r.compute("gt", r.evaluate(end - first), Lit(0, "i64")), product)


def _last(r: Routines, t: Triangle, x: Block, columns: Size, work: tuple[Block, Buffer], low: Size, high: Size) -> None:
    """Solves the rows of a small block, which is filled up by ones on its diagonal."""
    s, size = r.s, high - low
    small, spare = work
    r.fill(small, small.stride, small.stride, 0.0)
    r.loop(size, FEW, lambda k: r.store(small, poly(k), poly(k), r.real(1.0)))

    def copied(i: Var, j: Var) -> None:
        r.store(small, poly(i), poly(j), t.element(low + poly(i), low + poly(j)))

    def reciprocal(k: Var) -> None:
        row = low + poly(k)
        value = r.real(1.0) if t.unit else r.compute("div", r.real(1.0), t.element(row, row))
        r.store(small, poly(k), poly(k), value)

    if t.forward:
        r.loop(0, size, lambda i: r.loop(0, poly(i), lambda j: copied(i, j)))
    else:
        r.loop(0, size, lambda i: r.loop(poly(i) + 1, size, lambda j: copied(i, j)))
    r.loop(0, size, reciprocal)
    there, used, extra = Buffer("there", r.dtype), Buffer("rows", r.dtype), Block(spare, ZERO, x.stride)
    part = x.part(low, 0)
    with s.collect() as copy:
        r.map(size, columns, lambda k, j: r.load(part, poly(k), poly(j)), extra)
        r.loop(size, FEW, lambda k: r.loop(0, columns, lambda j: r.store(extra, poly(k), poly(j), r.real(0.0))))
    full = r.compute("eq", r.evaluate(size), Lit(FEW, "i64"))
    s.out.append(Slice(there, x.buffer, part.offset))
    s.out.append(Branch(full, Body((), (there,)), Body(tuple(copy), (spare,)), (used,)))
    rows = Block(used, ZERO, x.stride)
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
