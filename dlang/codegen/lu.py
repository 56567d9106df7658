"""LU with partial pivoting, and what is made of the factors: solutions, inverses.

Factors are found in blocks of a few columns, several of which are a panel. When a block has been factored, the rows of
u beside it follow by substitution, and what is below them loses one product: within the panel, and with the last block
of a panel, all of it is used for the columns behind it. A block is factored in a copy that has its columns one after
another, so that the search for a pivot and the elimination go along vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dlang.codegen.blas import Block, Routines
from dlang.codegen.loops import Buffer, Convert, Matrix, Move, Reduction, Store
from dlang.codegen.packing import matrix_product
from dlang.codegen.substitution import FEW, Factor, Triangle, by_library, substitute
from dlang.ir.anf import Atom, Lit, Scalar, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64
from dlang.ops import figures

PANEL = 4 * FEW  # columns


def lu_factor(r: Routines, n: Size, packed: Block, order: Buffer) -> tuple[Atom, Atom]:
    """The factors in place of a matrix, and the order of its rows.

    Gives how many rows were exchanged, and the first zero on the diagonal of u, counted from 1, or 0.
    """
    pivots = Block(r.workspace("pivots", (n,), "i64"), ZERO, n)
    if r.s.short:
        _by_lapack(r, n, packed, pivots)
    else:
        large = r.compute("ge", r.evaluate(n), Lit(figures.BLOCKED_LU_FROM, "i64"))
        r.when(large, lambda: _in_blocks(r, n, packed, pivots), lambda: _by_lapack(r, n, packed, pivots))
    with r.s.little_code():
        return _ordered(r, n, packed, pivots, order)


def _ordered(r: Routines, n: Size, packed: Block, pivots: Block, order: Buffer) -> tuple[Atom, Atom]:
    k, one, count = fresh("k", I64), fresh("one", I64), fresh("exchanges", I64)
    with r.s.collect() as stmts:
        r.s.out.append(Convert(one, r.compute("ne", r.load(pivots, 0, poly(k)), k)))
    r.s.loop(k, (ZERO,), (n,), stmts, [Reduction("sum", count, one)])
    r.loop(0, n, lambda i: r.s.out.append(Store(order, poly(i), i)))
    numbers = Block(order, ZERO, poly(1))
    r.in_turn(n, lambda k: _exchange(r, numbers, poly(k), poly(r.load(pivots, 0, poly(k))), (ZERO, poly(1))))
    info = r.first(n, lambda i: r.compute("eq", r.load(packed, poly(i), poly(i)), r.real(0.0)))
    return count, info


def lu_solution(
    r: Routines, n: Size, packed: Block, order: Buffer, b: Block, columns: Size, x: Block, transposed: bool
) -> None:
    """x with a x = b, or aᵀ x = b, where u has no zero on its diagonal."""
    rows = Block(order, ZERO, n)

    def row(i: Var) -> None:
        there = poly(r.load(rows, 0, poly(i)))
        if transposed:
            r.loop(0, columns, lambda j: r.store(x, there, poly(j), r.load(work, poly(i), poly(j))))
        else:
            r.loop(0, columns, lambda j: r.store(x, poly(i), poly(j), r.load(b, there, poly(j))))

    def in_order() -> None:
        with r.s.little_code():
            r.loop(0, n, row)

    if not transposed:
        _substituted(r, n, packed, x, columns, in_order, transposed=False)
        return
    with r.temporary("work", n, columns) as work:
        start = Move(work.buffer, b.buffer, n * columns)
        _substituted(r, n, packed, work, columns, lambda: r.s.out.append(start), transposed=True)
        in_order()


def lu_inverted(r: Routines, n: Size, packed: Block, order: Buffer, x: Block) -> None:
    """x = a⁻¹ = u⁻¹ l⁻¹ p, where u has no zero on its diagonal: l⁻¹ is a lower triangle, p puts columns in order."""
    with r.temporary("work", n, n) as work, r.temporary("places", poly(1), n, "i64") as places:

        def one() -> None:
            with r.s.little_code():
                r.fill(work, n, n, 0.0)
                r.loop(0, n, lambda i: r.store(work, poly(i), poly(i), r.real(1.0)))

        with r.s.little_code():
            r.loop(0, n, lambda i: r.store(places, 0, poly(r.load(Block(order, ZERO, n), 0, poly(i))), i))
        _substituted(r, n, packed, work, n, one, transposed=False, triangular=True)
        with r.s.little_code():
            r.map(n, n, lambda i, j: r.load(work, poly(i), poly(r.load(places, 0, poly(j)))), x)


def _substituted(
    r: Routines,
    n: Size,
    packed: Block,
    x: Block,
    columns: Size,
    start: Callable[[], None],
    *,
    transposed: bool,
    triangular: bool = False,
) -> None:
    """Substitution with both factors, in place. start: emits what x is before. triangular: x is a lower triangle."""

    def element(i: Size, j: Size) -> Atom:
        return r.load(packed, j, i) if transposed else r.load(packed, i, j)

    def own() -> None:
        start()
        for forward in (True, False):
            t = Triangle(n, element, forward, unit=forward != transposed)
            substitute(r, t, x, columns, triangular=triangular and forward)

    def library() -> None:
        both = [Factor.known(lower, transposed, unit=lower) for lower in (not transposed, transposed)]
        by_library(r, n, packed, both, x, columns, start)

    if columns == 1:
        library()
    else:
        r.when(many(r, n, columns), own, library)


def many(r: Routines, n: Size, columns: Size) -> Atom:
    """Emits a test whether products of our own are faster than the library's substitution."""
    enough = r.compute("ge", r.evaluate(n), Lit(figures.BLOCKED_LU_FROM, "i64"))
    return r.compute("and", enough, r.compute("ge", r.evaluate(columns), Lit(figures.BLOCKED_LU_COLUMNS, "i64")))


# ---- factors ---------------------------------------------------------------------------------------------------------
def _by_lapack(r: Routines, n: Size, packed: Block, pivots: Block) -> None:
    with r.s.little_code(), r.temporary("columns", n, n) as work, r.temporary("pivots", poly(1), n, "i32") as exchanges:
        r.transposed(work, packed, n, n)
        r.lapack("getrf_work", r.int32(n), r.int32(n), work.buffer, r.leading(n), exchanges.buffer)
        r.transposed(packed, work, n, n)
        last = r.int32(n)

        def pivot(i: Var) -> None:  # of NaN no pivot is the largest
            row, wide = r.load(exchanges, 0, poly(i)), fresh("row", I64)
            wrong = r.compute("or", r.compute("lt", row, Lit(1, "i32")), r.compute("gt", row, last))
            r.s.out.append(Convert(wide, r.compute("select", wrong, last, row)))
            r.store(pivots, 0, poly(i), r.evaluate(poly(wide) - 1))

        r.loop(0, n, pivot)


def _in_blocks(r: Routines, n: Size, packed: Block, pivots: Block) -> None:
    with r.temporary("columns", poly(FEW), n) as columns, r.temporary("left", n, poly(PANEL)) as left:
        factors = _Factors(r, n, packed, pivots, columns, left)
        r.in_turn(poly(r.compute("floordiv", r.evaluate(n + (FEW - 1)), Lit(FEW, "i64"))), factors.block)


@dataclass(frozen=True, slots=True)
class _Factors:
    """columns: memory for the columns of a block, one after another; left: for the left factor of a product."""

    r: Routines
    n: Size
    packed: Block
    pivots: Block
    columns: Block
    left: Block

    def block(self, turn: Var) -> None:
        r, low = self.r, poly(turn) * FEW
        high = poly(r.compute("minimum", r.evaluate(low + FEW), r.evaluate(self.n)))
        self.factor(low, high)
        first = poly(r.compute("floordiv", turn, Lit(PANEL // FEW, "i64"))) * PANEL
        end = r.compute("minimum", r.evaluate(first + PANEL), r.evaluate(self.n))
        last = r.compute("eq", r.evaluate(high), end)
        known = poly(r.compute("select", last, r.evaluate(first), r.evaluate(low)))
        until = poly(r.compute("select", last, r.evaluate(self.n), end))
        more = r.compute("lt", r.evaluate(high), r.evaluate(self.n))
        r.when(more, lambda: self.eliminate(known, high, until))

    def eliminate(self, low: Size, high: Size, end: Size) -> None:
        """Continues the factors that are known between low and high in the columns from high to end."""
        r, packed, inner = self.r, self.packed, high - low
        corner = packed.part(low, low)
        t = Triangle(inner, lambda i, j: r.load(corner, i, j), forward=True, unit=True)
        substitute(r, t, packed.part(low, high), end - high, (FEW,))
        below = self.n - high
        r.map(below, inner, lambda i, k: r.compute("neg", r.load(packed, high + poly(i), low + poly(k))), self.left)
        a = Matrix(self.left.buffer, ZERO, self.left.stride, False)
        b, c = (Matrix(packed.buffer, packed.at(row, high), packed.stride, False) for row in (low, high))
        matrix_product(r.s, a, b, c, (below, end - high, inner), adds=True)

    def factor(self, first: Size, end: Size) -> None:
        """Factors the columns from first to end, and exchanges rows in all of them."""
        with self.r.s.little_code():
            self.columns_alone(first, end)
            self.exchange(first, end)

    def columns_alone(self, first: Size, end: Size) -> None:
        r, packed, columns = self.r, self.packed, self.columns
        width, rows = end - first, self.n - first
        corner, pivots = packed.part(first, first), self.pivots.part(0, first)
        r.transposed(columns, corner, width, rows)

        def column(k: Var) -> None:
            best = self.pivot(poly(k), rows)
            r.store(pivots, 0, poly(k), r.evaluate(first + poly(best)))
            apart = r.compute("ne", best, k)

            def exchange() -> None:
                def elements(j: Var) -> None:
                    _swap(r, (columns, poly(j), poly(k)), (columns, poly(j), poly(best)))

                r.loop(0, width, elements)

            r.when(apart, exchange)
            self.scale(poly(k), rows)

            def update(j: Var) -> None:
                u = r.load(columns, poly(j), poly(k))
                r.subtract(columns, j, k, u, (poly(k) + 1, rows))

            r.loop(poly(k) + 1, width, update)

        r.in_turn(width, column)
        r.transposed(corner, columns, rows, width)

    def exchange(self, first: Size, end: Size) -> None:
        """Exchanges rows outside of the columns from first to end as it was done there."""
        r, packed, pivots = self.r, self.packed, self.pivots.part(0, first)

        def others(k: Var) -> None:
            row, there = first + poly(k), poly(r.load(pivots, 0, poly(k)))
            apart = r.compute("ne", r.evaluate(row), r.evaluate(there))

            def exchange() -> None:
                for part in ((ZERO, first), (end, self.n)):
                    _exchange(r, packed, row, there, part)

            r.when(apart, exchange)

        r.in_turn(end - first, others)

    def pivot(self, k: Size, rows: Size) -> Var:
        """The first row, from k on, where a column is largest."""
        r, i = self.r, fresh("i", I64)
        largest, best = fresh("largest", Scalar(r.dtype)), fresh("best", I64)
        with r.s.collect() as stmts:
            size = r.compute("abs", r.load(self.columns, k, poly(i)))
        r.s.loop(i, (k,), (rows,), stmts, [Reduction("argmax", largest, size, best, i, ascending=True)])
        return best

    def scale(self, k: Size, rows: Size) -> None:
        """Divides a column by its pivot, if that is not zero."""
        r = self.r
        pivot = r.load(self.columns, k, k)
        inverse = r.compute("div", r.real(1.0), pivot)

        def by(name: str, x: Atom) -> Callable[[], None]:
            def element(i: Var) -> None:
                r.store(self.columns, k, poly(i), r.compute(name, r.load(self.columns, k, poly(i)), x))

            return lambda: r.loop(k + 1, rows, element)

        zero = r.compute("eq", pivot, r.real(0.0))
        some = r.compute("isfinite", inverse)
        r.when(zero, lambda: None, lambda: r.when(some, by("mul", inverse), by("div", pivot)))


def _exchange(r: Routines, matrix: Block, row: Size, other: Size, columns: tuple[Size, Size]) -> None:
    """Exchanges two rows between two columns."""
    low, high = columns
    r.loop(low, high, lambda j: _swap(r, (matrix, row, poly(j)), (matrix, other, poly(j))))


def _swap(r: Routines, first: tuple[Block, Size, Size], there: tuple[Block, Size, Size]) -> None:
    x, y = r.load(*first), r.load(*there)
    r.store(*first, y)
    r.store(*there, x)
