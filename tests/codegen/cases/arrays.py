"""Programs of whole arrays: views, gathers and scatters, sizes known only when they run, products, libraries."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from dlang.ir.anf import Array, Atom, Concat, IndexExpr, LinalgOp, Read, ScatterAdd, Var, fresh, poly
from dlang.ir.builder import Builder, axis, boolean, f64, i64
from dlang.polynomials import Poly
from tests.codegen.cases.case import I64, Cases, size_and_matrix, size_and_vector

CASES = Cases()


@CASES.add()
def reversed_strided_and_transposed_views(b: Builder) -> list[Atom]:
    n, a = size_and_matrix(b)
    m = poly(n) + 2
    back = b.view(a, [n, m], lambda i, j: [poly(n) - 1 - i, m - 1 - poly(j)])
    turned = b.view(a, [m, n], lambda i, j: [j, i])
    column = b.view(a, [n], lambda i: [i, i64(1)])
    flat = b.reshape(turned, [poly(n) * m])
    doubled = b.map([m, n], lambda i, j: b.mul(b.read(turned, [i, j]), f64(2)))
    return [back, turned, column, flat, doubled, b.reshape(a, [m, n])]


@CASES.add()
def diagonal_and_broadcast_views(b: Builder) -> list[Atom]:
    n, a = size_and_matrix(b)
    diagonal = b.view(a, [n], lambda i: [i, i])
    wide = b.view(diagonal, [3, n], lambda i, j: [j])
    return [diagonal, wide, b.reduce([n], lambda i: b.read(diagonal, [i]))]


@CASES.add()
def every_other_element(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n) * 2,)))
    half = b.view(x, [n], lambda i: [poly(i) * 2])
    return [half, b.map([n], lambda i: b.add(b.read(x, [poly(i) * 2]), b.read(x, [poly(i) * 2 + 1])))]


@CASES.add()
def concatenation(b: Builder) -> list[Atom]:
    n, a = size_and_matrix(b)
    back = b.view(a, [n, poly(n) + 2], lambda i, j: [poly(n) - 1 - i, j])
    return [b.concat(a, back, a)]


@CASES.add(lambda rng, n: [n, rng.standard_normal(n), rng.integers(0, max(n, 1), n)])
def gather(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    t = b.param("t", Array("i64", (poly(n),)))
    return [b.map([n], lambda i: b.mul(b.read(x, [b.read(t, [i])]), f64(2)))]


@CASES.add(lambda rng, n: [n, rng.standard_normal((n, n)).astype("float32"), rng.integers(0, max(n, 1), n)])
def gather_of_rows_f32(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    x = b.param("x", Array("f32", (poly(n), poly(n))))
    t = b.param("t", Array("i64", (poly(n),)))
    return [
        b.map([n, n], lambda i, j: b.read(x, [b.read(t, [i]), j])),
        b.map([n, n], lambda i, j: b.read(x, [j, b.read(t, [i])])),
    ]


@CASES.add(lambda rng, n: [n, rng.standard_normal((n, 3)), rng.integers(0, max(n, 1), n)])
def scatter_add(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n), poly(3))))
    t = b.param("t", Array("i64", (poly(n),)))
    row = fresh("row", I64)
    i, j = axis(n), axis(3, name="j")

    def body(i: Var, j: Var) -> Atom:
        b.emit_as([row], Read(t, (poly(i),)))
        return b.read(x, [i, j])

    return list(b.comp([i, j], body, [ScatterAdd((poly(n), poly(3)), (poly(row), poly(j.var)))]))


@CASES.add(lambda rng, n: [n, rng.standard_normal(n), rng.permutation(n)])
def permutation_by_addition(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    t = b.param("t", Array("i64", (poly(n),)))
    row = fresh("row", I64)

    def body(i: Var) -> Atom:
        b.emit_as([row], Read(t, (poly(i),)))
        return b.read(x, [i])

    return list(b.comp([axis(n)], body, [ScatterAdd((poly(n),), (poly(row),))]))


@CASES.add()
def convolution_adjoint(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    i, p = axis(n), axis(3, name="p")
    out = b.comp(
        [i, p],
        lambda i, p: b.mul(b.read(x, [i]), b.cast("f64", p)),
        [ScatterAdd((poly(n) + 2,), (poly(i.var) + p.var,))],
    )
    return [*out, b.map([n], lambda i: b.reduce([3], lambda p: b.read(out[0], [poly(i) + p])))]


@CASES.add()
def positions_of_a_mask(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    mask = b.map([n], lambda i: b.prim("gt", b.read(x, [i]), f64(0)))
    k, where = b.compact(mask)
    return [k, where, k, b.map([k], lambda i: b.read(x, [b.read(where, [i])]))]


@CASES.add()
def a_growing_state(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    k = fresh("k", I64)
    s = fresh("s", Array("f64", (poly(k),)))

    def body(i: Var, k: Var, s: Var) -> list[Atom]:
        size = fresh("m", I64)
        b.emit_as([size], IndexExpr(poly(k) + 1))
        last = b.reshape(b.full([1], b.read(x, [i])), [1])
        joined = fresh("joined", Array("f64", (poly(k) + 1,)))
        b.emit_as([joined], Concat((s, last)))
        return [size, joined]

    empty = b.view(x, [0], lambda i: [i])
    return list(b.for_(0, n, [i64(0), empty], body, params=[k, s]))


def _products(dtype: str) -> None:
    def build(b: Builder) -> list[Atom]:
        n = b.param("n", I64)
        p, q, r = poly(n), poly(n) + 2, poly(n) + 1
        a, at = (b.param(s, Array(dtype, shape)) for s, shape in (("a", (p, q)), ("at", (q, p))))
        c, ct = (b.param(s, Array(dtype, shape)) for s, shape in (("c", (q, r)), ("ct", (r, q))))
        v = b.param("v", Array(dtype, (q,)))
        big, other = b.param("big", Array(dtype, (p, q, r))), b.param("other", Array(dtype, (p, r, q)))
        out: list[Atom] = []
        for x, left in ((a, (0, 1)), (at, (1, 0))):
            for y, right in ((c, (1, 2)), (ct, (2, 1))):
                out += [b.contract(x, y, left, right, (0, 2)), b.contract(x, y, left, right, (2, 0))]
        out += [
            b.contract(a, v, (0, 1), (1,), (0,)),
            b.contract(v, c, (1,), (1, 2), (2,)),
            b.contract(v, v, (0,), (0,), ()),
        ]
        out += [b.contract(v, v, (0,), (1,), (0, 1)), b.contract(a, a, (0, 1), (0, 1), ())]
        out += [b.contract(big, other, (0, 1, 2), (0, 2, 3), (0, 1, 3)), b.contract(big, c, (0, 1, 2), (1, 2), (0,))]
        turned = b.view(a, [q, p], lambda i, j: [j, i])
        out += [b.contract(turned, c, (1, 0), (1, 2), (0, 2))]
        return [*out, b.contract(big, v, (0, 1, 2), (1,), (0, 2))]

    build.__name__ = f"products_{dtype}"
    CASES.add(sizes=(0, 1, 2, 3, 5, 8, 17, 40))(build)


_products("f64")
_products("f32")
_products("i64")


@CASES.add()
def stable_sorting(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    k = b.map([n], lambda i: b.cast("i64", b.read(x, [i])))
    order = b.library("argsort", x)
    return [order, b.library("argsort", k), b.map([n], lambda i: b.read(x, [b.read(order, [i])]))]


def _matrices(rng: np.random.Generator, n: int) -> list[Any]:
    return [n, rng.normal(size=(n, n)), rng.normal(size=(n, 2))]


@CASES.add(_matrices)
def library_operations_of_several_results(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    a, c = b.param("a", Array("f64", (poly(n), poly(n)))), b.param("c", Array("f64", (poly(n), poly(2))))
    turned = b.view(a, [n, n], lambda i, j: [j, i])
    flags = boolean(True), boolean(False), boolean(False)
    x, info = b.emit(LinalgOp("triangular_solve", (turned, c, *flags)))
    k = b.prim("minimum", n, i64(2))
    q, r = b.emit(LinalgOp("qr", (c, k)))
    packed, order, exchanges, singular = b.emit(LinalgOp("lu", (a,)))
    both = [b.library(name, a, packed, order, c) for name in ("lu_solve", "lu_solve_transposed")]

    def shifted(by: Var) -> Var:
        return b.map([n, n], lambda i, j: b.add(b.read(a, [i, j]), b.cast("f64", by)))

    def determinant(by: Var) -> Var:
        x = shifted(by)
        *factors, _ = b.emit(LinalgOp("lu", (x,)))
        return b.library("lu_det", x, *factors)

    many = b.map([3], determinant)
    factors = [packed, order, exchanges, singular, *both]
    return [x, info, k, r, q, *factors, many, b.reduce([n], lambda i: b.read(x, [i, 1]))]


@CASES.add()
def literals_of_small_fixed_sizes(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    p = b.param("p", Array("f64", (poly(n), poly(3))))
    norm = b.map([n], lambda i: b.reduce([3], lambda k: b.mul(b.read(p, [i, k]), b.read(p, [i, k]))))
    turned = b.map(
        [n, 3], lambda i, k: b.reduce([3], lambda l: b.mul(b.read(p, [i, l]), b.cast("f64", b.size(poly(k) + l))))
    )
    return [norm, turned]


@CASES.add()
def triangular_sizes(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    half = Poly({(n, n): Fraction(1, 2), (n,): Fraction(1, 2)})
    x = b.full([half], f64(2))
    return [x, b.reduce([half], lambda i: b.read(x, [i]))]
