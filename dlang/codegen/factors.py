"""Cholesky's factor in blocks of rows and columns, nearly all of it products of matrices.

l = [ r d ]     the columns of a block are d and what is below, c; what they lose to those before is one product,
    [ b c ]     [d; c] - [r; b] rᵀ. Then d is factored, and c is what solves c dᵀ = what is left.
"""

from __future__ import annotations

from dlang.codegen.blas import Block, Routines, letter
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
