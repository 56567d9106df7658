"""Cholesky's factor in blocks of rows and columns, nearly all of it products of matrices.

l = [ r d ]     the columns of a block are d and what is below, c; what they lose to those before is one product,
    [ b c ]     [d; c] - [r; b] rᵀ. Then d is factored, and c is what solves c dᵀ = what is left.

The derivative of Cholesky's factor in blocks, from the last to the first, nearly all of it products of matrices.

    l = [ r d ]     the rows of a block, left of its diagonal part d and that part;    below them b and c
        [ b c ]

What the rows of a block were computed from is undone: c = (a - b rᵀ) d⁻ᵀ, d = the factor of a - r rᵀ. This is the
blocked algorithm of Murray, Differentiation of the Cholesky decomposition (2016).
"""

from __future__ import annotations

from dlang.codegen.blas import ANY_DIAGONAL, LEFT, LOWER, PLAIN, RIGHT, TRANSPOSED, Block, Routines, letter
from dlang.codegen.loops import Allocate, Body, Buffer, For, Free, Matrix
from dlang.codegen.packing import matrix_product
from dlang.ir.anf import Atom, Lit, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64

COLUMNS = 16  # of a block


def cholesky_factor(r: Routines, n: Size, l: Block) -> Var:
    """The lower factor in place of a symmetric matrix, of which the lower triangle is read; gives LAPACK's `info`.

    Above the diagonal has to be zero.
    """
    s = r.s
    work = Block(Buffer("before", r.dtype), ZERO, poly(COLUMNS))
    s.out.append(Allocate(work.buffer, (n, work.stride), 0, s.span))
    turn, before, info = (fresh(name, I64) for name in ("turn", "info", "info"))
    blocks = r.compute("floordiv", r.evaluate(n + (COLUMNS - 1)), Lit(COLUMNS, "i64"))

    def factored() -> Atom:
        first = r.evaluate(poly(turn) * COLUMNS)
        end = r.compute("minimum", r.evaluate(poly(first) + COLUMNS), r.evaluate(n))
        return _block(r, n, poly(first), poly(end), l, work)

    with s.collect() as stmts:
        fine = r.compute("eq", before, Lit(0, "i64"))
        outcome = r.choose(fine, factored, lambda: before)
    s.out.append(For(turn, ZERO, poly(blocks), (before,), (Lit(0, "i64"),), Body(tuple(stmts), (outcome,)), (info,)))
    s.out.append(Free(work.buffer))
    return info


def _block(r: Routines, n: Size, first: Size, end: Size, l: Block, work: Block) -> Atom:
    """The columns from first to end; gives `info`."""
    s, size, below = r.s, end - first, n - end
    diagonal = l.part(first, first)

    def without_those_before() -> None:
        def turned(j: Var, i: Var) -> Atom:
            return r.compute("neg", r.load(l, first + poly(i), poly(j)))

        r.map(first, size, turned, work)
        a = Matrix(l.buffer, l.at(first, 0), l.stride, False)
        b = Matrix(work.buffer, work.offset, work.stride, False)
        c = Matrix(l.buffer, diagonal.offset, l.stride, False)
        matrix_product(s, a, b, c, (n - first, size, first), adds=True)

    r.when(r.compute("gt", r.evaluate(first), Lit(0, "i64")), without_those_before)
    info = r.lapack("potrf_work", letter("U"), r.int32(size), r.pointer(diagonal), r.leading(l.stride))
    r.loop(0, size, lambda i: r.loop(poly(i) + 1, size, lambda j: r.store(diagonal, poly(i), poly(j), r.real(0.0))))
    r.when(
        r.compute("gt", r.evaluate(below), Lit(0, "i64")), lambda: _solve(r, size, below, diagonal, l.part(end, first))
    )
    wrong = r.evaluate(first + poly(info))
    return r.compute("select", r.compute("eq", info, Lit(0, "i64")), Lit(0, "i64"), wrong)


def _solve(r: Routines, size: Size, rows: Size, d: Block, c: Block) -> None:
    """x in place of c with x dᵀ = c, where d is lower triangular: all rows at once, so the elements of one are vectors.

    d is made as large as a block can be by ones on its diagonal.
    """
    s = r.s
    small = Block(Buffer("diagonal", r.dtype), ZERO, poly(COLUMNS))
    turned = Block(Buffer("turned", r.dtype), ZERO, rows)
    s.out += [
        Allocate(small.buffer, (small.stride, small.stride), 0, s.span),
        Allocate(turned.buffer, (small.stride, rows), 0, s.span),
    ]
    r.fill(small, small.stride, small.stride, 0.0)
    r.loop(size, COLUMNS, lambda k: r.store(small, poly(k), poly(k), r.real(1.0)))
    r.loop(
        0, size, lambda j: r.loop(0, poly(j), lambda k: r.store(small, poly(j), poly(k), r.load(d, poly(j), poly(k))))
    )
    r.loop(
        0, size, lambda k: r.store(small, poly(k), poly(k), r.compute("div", r.real(1.0), r.load(d, poly(k), poly(k))))
    )
    r.transposed(turned, c, size, rows)
    r.loop(size, COLUMNS, lambda k: r.loop(0, rows, lambda i: r.store(turned, poly(k), poly(i), r.real(0.0))))

    def row(i: Var) -> None:
        x: list[Atom] = [r.load(turned, k, poly(i)) for k in range(COLUMNS)]
        for k in range(COLUMNS):
            x[k] = r.compute("mul", x[k], r.load(small, k, k))
            for j in range(k + 1, COLUMNS):
                x[j] = r.compute("sub", x[j], r.compute("mul", x[k], r.load(small, j, k)))
        for k in range(COLUMNS):
            r.store(turned, k, poly(i), x[k])

    r.loop(0, rows, row)
    r.map(rows, size, lambda i, k: r.load(turned, poly(k), poly(i)), c)
    s.out += [Free(small.buffer), Free(turned.buffer)]


# ---- its derivative --------------------------------------------------------------------------------------------------
ROWS = 32  # of a block


def cholesky_pullback(r: Routines, n: Size, l: Block, bar: Block, out: Block) -> None:
    """out = the cotangent of the symmetric matrix whose lower factor is l; above its diagonal that of l is not read."""
    r.loop(0, n, lambda i: r.loop(0, poly(i) + 1, lambda j: _copy(r, out, bar, i, j)))
    d, x, y = (r.matrix(name, poly(ROWS), poly(ROWS)) for name in ("d", "x", "y"))
    blocks = r.compute("floordiv", r.evaluate(n + (ROWS - 1)), Lit(ROWS, "i64"))

    def block(turn: Var) -> None:
        blocks_below = r.evaluate(poly(blocks) - poly(turn) - 1)
        first = r.evaluate(poly(blocks_below) * ROWS)
        end = r.compute("minimum", r.evaluate(poly(first) + ROWS), r.evaluate(n))
        _block_of_derivative(r, n, poly(first), poly(end), l, out, (d, x, y))

    r.in_turn(poly(blocks), block)

    # each element below the diagonal stands for two
    def row(i: Var) -> None:
        def half(j: Var) -> None:
            value = r.compute("mul", r.load(out, poly(i), poly(j)), r.real(0.5))
            r.store(out, poly(i), poly(j), value)

        r.loop(0, poly(i), half)

    r.loop(0, n, row)
    r.loop(
        0, n, lambda i: r.loop(poly(i) + 1, n, lambda j: r.store(out, poly(i), poly(j), r.load(out, poly(j), poly(i))))
    )


def _copy(r: Routines, out: Block, source: Block, i: Var, j: Var) -> None:
    r.store(out, poly(i), poly(j), r.load(source, poly(i), poly(j)))


def _block_of_derivative(
    r: Routines, n: Size, first: Size, end: Size, l: Block, out: Block, work: tuple[Block, Block, Block]
) -> None:
    """Undoes the rows from first to end: what is below and right of them is done already."""
    size, below = end - first, n - end
    left, diagonal = l.part(first, 0), l.part(first, first)
    c_bar, b_bar, d_bar, r_bar = out.part(end, first), out.part(end, 0), out.part(first, first), out.part(first, 0)
    d, x, y = work
    many, across = r.int32(below), r.int32(size)
    one, stride = r.real(1.0), r.leading(l.stride)

    def under() -> None:
        at = r.pointer(diagonal), stride, r.pointer(c_bar), r.leading(out.stride)
        r.blas("trsm", RIGHT, LOWER, PLAIN, ANY_DIAGONAL, many, across, one, *at)
        r.product(b_bar, c_bar, left, (below, first, size), -1.0, 1.0)
        r.product(x, c_bar, l.part(end, first), (size, size, below), 1.0, 0.0, turn_a=True)

        def taken(i: Var, j: Var) -> None:
            value = r.compute("sub", r.load(d_bar, poly(i), poly(j)), r.load(x, poly(i), poly(j)))
            r.store(d_bar, poly(i), poly(j), value)

        r.loop(0, size, lambda i: r.loop(0, poly(i) + 1, lambda j: taken(i, j)))

    r.when(r.compute("gt", r.evaluate(below), Lit(0, "i64")), under)
    _diagonal(r, size, diagonal, d_bar, d, x, y, stride)

    def before() -> None:
        def both() -> None:
            r.product(r_bar, c_bar, l.part(end, 0), (size, first, below), -1.0, 1.0, turn_a=True)

        r.when(r.compute("gt", r.evaluate(below), Lit(0, "i64")), both)
        r.product(r_bar, y, left, (size, first, size), -1.0, 1.0)

    r.when(r.compute("gt", r.evaluate(first), Lit(0, "i64")), before)


def _diagonal(r: Routines, size: Size, l: Block, bar: Block, d: Block, x: Block, y: Block, stride: Atom) -> None:
    """The derivative of a small factor in place, and in y the sum of that and its transpose.

    l⁻ᵀ Φ(lᵀ l̄) l⁻¹, where Φ takes the lower triangle and half of the diagonal.
    """
    dense = r.leading(poly(ROWS))
    short = r.int32(size)
    zero, half = r.real(0.0), r.real(0.5)

    def lower(i: Var, j: Var) -> Atom:
        inside = r.compute("ge", i, j)
        # the upper triangle is not of the factor; it may hold anything
        return r.compute("select", inside, r.load(bar, poly(i), poly(j)), zero)

    r.map(size, size, lower, d)
    corner = r.pointer(l)
    trmm = LEFT, LOWER, TRANSPOSED, ANY_DIAGONAL, short, short, r.real(1.0), corner, stride, d.buffer, dense
    r.blas("trmm", *trmm)

    def phi(i: Var, j: Var) -> Atom:
        value = r.load(d, poly(i), poly(j))
        kept = r.compute("select", r.compute("gt", i, j), value, zero)
        return r.compute("select", r.compute("eq", i, j), r.compute("mul", value, half), kept)

    r.map(size, size, phi, x)
    solve = ANY_DIAGONAL, short, short, r.real(1.0), corner, stride, x.buffer, dense
    r.blas("trsm", LEFT, LOWER, TRANSPOSED, *solve)
    r.blas("trsm", RIGHT, LOWER, PLAIN, *solve)

    def summed(i: Var, j: Var) -> Atom:
        return r.compute("add", r.load(x, poly(i), poly(j)), r.load(x, poly(j), poly(i)))

    # y: the cotangent of an element and of its mirror image; the diagonal counts once in bar, twice in the products
    r.map(size, size, summed, y)

    def stored(i: Var, j: Var) -> None:
        value = r.load(y, poly(i), poly(j))
        once = r.compute("mul", value, half)
        r.store(bar, poly(i), poly(j), r.compute("select", r.compute("eq", i, j), once, value))

    r.loop(0, size, lambda i: r.loop(0, poly(i) + 1, lambda j: stored(i, j)))
