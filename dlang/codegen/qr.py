"""QR by Householder's reflections in blocks, nearly all of it products of matrices.

The reflections of some columns, applied one after another, are I - V T Vᵀ: the columns of V are their vectors and T is
an upper triangle (Schreiber and Van Loan, A storage-efficient WY representation for products of Householder
transformations, 1989). A block of a few columns is reflected on its own, in a copy that has them one after another;
what it does to the rest of a panel of several blocks is three products, and so is what a panel does to the columns
behind it. T is kept negated. Signs are those of LAPACK: an element of the diagonal of r has not that of what was there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dlang.codegen.blas import Block, Routines
from dlang.codegen.loops import Matrix, Reduction
from dlang.codegen.packing import matrix_product
from dlang.ir.anf import Atom, Lit, Scalar, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64

FEW = 16  # columns of a block
PANEL = 4 * FEW


def qr_factors(r: Routines, m: Size, n: Size, k: Size, a: Block, q: Block, upper: Block) -> None:
    """q with k orthonormal columns, and r, of k rows; a has m rows and n columns, of which k is the smaller number."""
    with (
        r.temporary("work", m, n) as work,
        r.temporary("vectors", m, k) as vectors,
        r.temporary("turned", k, m) as turned,
        r.temporary("triangles", k, poly(PANEL)) as triangles,
        r.temporary("inner", poly(FEW), poly(PANEL)) as inner,
        r.temporary("first", poly(PANEL), n) as first,
        r.temporary("second", poly(PANEL), n) as second,
    ):
        r.map(m, n, lambda i, j: r.load(a, poly(i), poly(j)), work)
        f = _Reflections(r, m, n, k, work, vectors, turned, triangles, inner, first, second)
        r.fill(triangles, k, poly(PANEL), 0.0)
        f.blocks(FEW, f.block)
        with r.s.little_code():

            def row(i: Var) -> None:
                r.loop(0, poly(i), lambda j: r.store(upper, poly(i), poly(j), r.real(0.0)))
                r.loop(poly(i), n, lambda j: r.store(upper, poly(i), poly(j), r.load(work, poly(i), poly(j))))

            r.loop(0, k, row)
            r.fill(q, m, k, 0.0)
            r.loop(0, k, lambda i: r.store(q, poly(i), poly(i), r.real(1.0)))
        f.blocks(PANEL, lambda low, high: f.apply(low, high, ZERO, q, (low, k), turned=False), back=True)


@dataclass(frozen=True, slots=True)
class _Reflections:
    """work: m by n, becomes r. vectors: V, m by k; turned: its transpose. triangles: the negated T of each panel.

    inner: memory for products of vectors; first, second: for what is applied.
    """

    r: Routines
    m: Size
    n: Size
    k: Size
    work: Block
    vectors: Block
    turned: Block
    triangles: Block
    inner: Block
    first: Block
    second: Block

    def blocks(self, width: int, body: Callable[[Size, Size], None], back: bool = False) -> None:
        """The reflections in blocks, one after another."""
        r = self.r
        count = r.compute("floordiv", r.evaluate(self.k + (width - 1)), Lit(width, "i64"))

        def block(turn: Var) -> None:
            low = (poly(count) - 1 - poly(turn) if back else poly(turn)) * width
            body(low, poly(r.compute("minimum", r.evaluate(low + width), r.evaluate(self.k))))

        r.in_turn(poly(count), block)

    def block(self, low: Size, high: Size) -> None:
        r = self.r
        start = poly(r.compute("floordiv", r.evaluate(low), Lit(PANEL, "i64"))) * PANEL
        end = r.compute("minimum", r.evaluate(start + PANEL), r.evaluate(self.k))
        with r.s.little_code():
            self.columns(start, low, high)
        self.triangle(start, low, high)
        last = r.compute("eq", r.evaluate(high), end)
        known = poly(r.compute("select", last, r.evaluate(start), r.evaluate(low)))
        until = poly(r.compute("select", last, r.evaluate(self.n), end))
        more = r.compute("lt", r.evaluate(high), r.evaluate(until))
        r.when(more, lambda: self.apply(known, high, known - start, self.work, (high, until), turned=True))

    # ---- the vectors of a block --------------------------------------------------------------------------------------
    def columns(self, start: Size, low: Size, high: Size) -> None:
        """Reflects the columns from low to high, whose vectors are V; start: of the panel."""
        r, work, turned, width = self.r, self.work, self.turned.part(low, 0), high - low
        r.map(width, self.m - low, lambda j, i: r.load(work, low + poly(i), low + poly(j)), turned.part(0, low))

        def column(j: Var) -> None:
            row = low + poly(j)
            scale = self.reflect(turned, j, row)
            r.store(self.triangles, row, row - start, r.compute("neg", scale))
            apart = r.compute("ne", scale, r.real(0.0))

            def others() -> None:
                r.loop(poly(j) + 1, width, lambda c: self.reflected(turned, j, c, row, scale))

            r.when(apart, others)

        r.in_turn(width, column)

        def finish(j: Var) -> None:
            row = low + poly(j)
            r.loop(low, row + 1, lambda i: r.store(work, poly(i), row, r.load(turned, poly(j), poly(i))))
            r.loop(start, row, lambda i: r.store(turned, poly(j), poly(i), r.real(0.0)))
            r.store(turned, poly(j), row, r.real(1.0))

        r.loop(0, width, finish)
        out = self.vectors.part(start, low)
        r.map(self.m - start, width, lambda i, j: r.load(turned, poly(j), start + poly(i)), out)

    def reflect(self, x: Block, j: Var, row: Size) -> Atom:
        """Finds the vector of a reflection, I - s v vᵀ, that leaves a column zero below a row; gives s.

        The diagonal gets what is left. Elements are divided by the largest before they are squared.
        """
        r = self.r
        alpha = r.load(x, poly(j), row)
        below = self.over(row + 1, "max", lambda i: r.compute("abs", r.load(x, poly(j), poly(i))))
        largest = r.compute("maximum", below, r.compute("abs", alpha))

        def square(i: Var) -> Atom:
            y = r.compute("div", r.load(x, poly(j), poly(i)), largest)
            return r.compute("mul", y, y)

        norm = r.compute("mul", largest, r.compute("sqrt", self.over(row, "sum", square)))
        negative = r.compute("lt", r.compute("div", r.real(1.0), alpha), r.real(0.0))  # -0.0 as well
        beta = r.compute("select", negative, norm, r.compute("neg", norm))
        less = r.compute("sub", alpha, beta)
        none = r.compute("le", below, r.real(0.0))  # or there are none

        def scaled() -> None:
            r.store(x, poly(j), row, beta)
            r.loop(
                row + 1,
                self.m,
                lambda i: r.store(x, poly(j), poly(i), r.compute("div", r.load(x, poly(j), poly(i)), less)),
            )

        r.when(none, lambda: None, scaled)
        scale = r.compute("div", r.compute("neg", less), beta)
        return r.compute("select", none, r.real(0.0), scale)

    def reflected(self, x: Block, j: Var, c: Var, row: Size, scale: Atom) -> None:
        """Reflects another column by the vector of column j, which has 1 at a row."""
        r = self.r
        top = r.load(x, poly(c), row)
        below = self.over(
            row + 1, "sum", lambda i: r.compute("mul", r.load(x, poly(j), poly(i)), r.load(x, poly(c), poly(i)))
        )
        along = r.compute("mul", r.compute("add", top, below), scale)
        r.store(x, poly(c), row, r.compute("sub", top, along))
        r.subtract(x, c, j, along, (row + 1, self.m))

    def over(self, first: Size, monoid: str, value: Callable[[Var], Atom]) -> Var:
        """A reduction over the rows from the first one on."""
        i, total = fresh("i", I64), fresh("total", Scalar(self.r.dtype))
        with self.r.s.collect() as stmts:
            value_there = value(i)
        self.r.s.loop(i, (first,), (self.m,), stmts, [Reduction(monoid, total, value_there)])
        return total

    # ---- all of them at once -----------------------------------------------------------------------------------------
    def triangle(self, start: Size, low: Size, high: Size) -> None:
        """The columns of -T from low to high, above the diagonal: -s T Vᵀv, where v is the vector and s its scale."""
        r, triangles, inner, rows = self.r, self.triangles, self.inner, self.m - start
        a = Matrix(self.turned.buffer, self.turned.at(low, start), self.turned.stride, False)
        b = Matrix(self.vectors.buffer, self.vectors.at(start, start), self.vectors.stride, False)
        matrix_product(r.s, a, b, Matrix(inner.buffer, ZERO, inner.stride, False), (high - low, high - start, rows))

        def column(j: Var) -> None:
            place = low - start + poly(j)
            scale = r.load(triangles, low + poly(j), place)

            def element(i: Var) -> None:
                c, total = fresh("c", I64), fresh("total", Scalar(r.dtype))
                with r.s.collect() as stmts:
                    value = r.compute(
                        "mul", r.load(triangles, start + poly(i), poly(c)), r.load(inner, poly(j), poly(c))
                    )
                r.s.loop(c, (poly(i),), (place,), stmts, [Reduction("sum", total, value)])
                r.store(triangles, start + poly(i), place, r.compute("mul", scale, total))

            r.loop(0, place, element)

        with r.s.little_code():
            r.in_turn(high - low, column)

    def apply(self, low: Size, high: Size, place: Size, x: Block, columns: tuple[Size, Size], turned: bool) -> None:
        """x - V T Vᵀ x, or with Tᵀ, in place of columns of x; V: the vectors from low to high.

        place: where T begins in its panel.
        """
        rows, width, count = self.m - low, high - low, columns[1] - columns[0]

        def matrix(block: Block, i: Size, j: Size, turned: bool = False) -> Matrix:
            return Matrix(block.buffer, block.at(i, j), block.stride, turned)

        first, second = matrix(self.first, ZERO, ZERO), matrix(self.second, ZERO, ZERO)
        part = matrix(x, low, columns[0])
        matrix_product(self.r.s, matrix(self.turned, low, low), part, first, (width, count, rows))
        matrix_product(self.r.s, matrix(self.triangles, low, place, turned), first, second, (width, count, width))
        matrix_product(self.r.s, matrix(self.vectors, low, low), second, part, (rows, count, width), adds=True)
