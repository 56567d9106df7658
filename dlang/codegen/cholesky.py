"""The derivative of Cholesky's factor in blocks, from the last to the first, nearly all of it products of matrices.

    l = [ r d ]     the rows of a block, left of its diagonal part d and that part;    below them b and c
        [ b c ]

What the rows of a block were computed from is undone: c = (a - b rᵀ) d⁻ᵀ, d = the factor of a - r rᵀ. This is the
blocked algorithm of Murray, Differentiation of the Cholesky decomposition (2016).
"""

from __future__ import annotations

from dlang.codegen.blas import ANY_DIAGONAL, LEFT, LOWER, PLAIN, RIGHT, TRANSPOSED, Block, Routines
from dlang.ir.anf import Atom, Lit, Size, Var, poly

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
        _block(r, n, poly(first), poly(end), l, out, (d, x, y))

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


def _block(
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
