"""Programs whose gradients must be right and cheap, as functions of a size to a function and its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dlang.ir.anf import Atom, Axis, Function, Reduce, Var, fresh, poly
from dlang.ir.builder import Builder, axis
from tests.ad.support import F64, I64, const, real, total, whole

Case = tuple[Function, list[int], list[Any]]
CASES: dict[str, Callable[[int], Case]] = {}
rng = np.random.default_rng(7)


def case(f: Callable[[int], Case]) -> Callable[[int], Case]:
    CASES[f.__name__] = f
    return f


def new(*sizes: str) -> tuple[Builder, list[Var]]:
    b = Builder()
    return b, [b.param(s, I64) for s in sizes]


def randoms(*shapes: tuple[int, ...]) -> list[Any]:
    return [rng.normal(size=s) for s in shapes]


@case
def dot(k: int) -> Case:
    b, (n,) = new("n")
    x, y = b.param("x", real(n)), b.param("y", real(n))
    out = total(b, [n], lambda i: b.mul(b.read(x, [i]), b.read(y, [i])))
    return b.function("dot", [out]), [1, 2], [k, *randoms((k,), (k,))]


@case
def matmul(k: int) -> Case:
    b, (n, m, p) = new("n", "m", "p")
    x, y = b.param("x", real(n, m)), b.param("y", real(m, p))
    out = b.map([n, p], lambda i, j: total(b, [m], lambda q: b.mul(b.read(x, [i, q]), b.read(y, [q, j]))))
    return b.function("matmul", [out]), [3, 4], [k, k + 1, k, *randoms((k, k + 1), (k + 1, k))]


@case
def nested_sums(k: int) -> Case:
    b, (n,) = new("n")
    x, y, z = b.param("x", real(n)), b.param("y", real(n, n)), b.param("z", real(n))

    def row(i: Var) -> Atom:
        def term(j: Var) -> Atom:
            return b.mul(b.read(y, [i, j]), total(b, [n], lambda q: b.mul(b.read(z, [q]), b.read(x, [q]))))

        return b.mul(b.prim("sin", b.read(x, [i])), total(b, [n], term))

    return b.function("nested_sums", [total(b, [n], row)]), [1, 2, 3], [k, *randoms((k,), (k, k), (k,))]


@case
def softmax(k: int) -> Case:
    b, (n, m) = new("n", "m")
    x = b.param("x", real(n, m))

    def e(i: Var, j: Var) -> Atom:
        return b.prim("exp", b.read(x, [i, j]))

    out = b.map([n, m], lambda i, j: b.prim("div", e(i, j), total(b, [m], lambda q: e(i, q))))
    return b.function("softmax", [out]), [2], [k, k, *randoms((k, k))]


@case
def softmax_shifted(k: int) -> Case:
    b, (n, m) = new("n", "m")
    x = b.param("x", real(n, m))

    def top(i: Var) -> Atom:
        return total(b, [m], lambda q: b.read(x, [i, q]), monoid="max")

    def e(i: Var, j: Var) -> Atom:
        return b.prim("exp", b.sub(b.read(x, [i, j]), top(i)))

    out = b.map([n, m], lambda i, j: b.prim("div", e(i, j), total(b, [m], lambda q: e(i, q))))
    return b.function("softmax_shifted", [out]), [2], [k, k, *randoms((k, k))]


@case
def layer_norm(k: int) -> Case:
    b, (n, m) = new("n", "m")
    x, g, h = b.param("x", real(n, m)), b.param("g", real(m)), b.param("h", real(m))

    def body(i: Var, j: Var) -> Atom:
        count = b.cast("f64", m)
        mean = b.prim("div", total(b, [m], lambda q: b.read(x, [i, q])), count)

        def square(q: Var) -> Atom:
            d = b.sub(b.read(x, [i, q]), mean)
            return b.mul(d, d)

        variance = b.prim("div", total(b, [m], square), count)
        scaled = b.prim("div", b.sub(b.read(x, [i, j]), mean), b.prim("sqrt", b.add(variance, const(1e-5))))
        return b.add(b.mul(scaled, b.read(g, [j])), b.read(h, [j]))

    return b.function("layer_norm", [b.map([n, m], body)]), [2, 3, 4], [k, k, *randoms((k, k), (k,), (k,))]


@case
def logsumexp(k: int) -> Case:
    b, (n, m) = new("n", "m")
    x = b.param("x", real(n, m))
    out = b.map([n], lambda i: b.prim("log", total(b, [m], lambda q: b.prim("exp", b.read(x, [i, q])))))
    return b.function("logsumexp", [out]), [2], [k, k, *randoms((k, k))]


@case
def conv1d(k: int) -> Case:
    b, (n, m) = new("n", "m")
    x, w = b.param("x", real(poly(n) + poly(m) - 1)), b.param("w", real(m))
    out = b.map([n], lambda i: total(b, [m], lambda p: b.mul(b.read(x, [poly(i) + poly(p)]), b.read(w, [p]))))
    return b.function("conv1d", [out]), [2, 3], [5 * k, 3, *randoms((5 * k + 2,), (3,))]


@case
def conv2d(k: int) -> Case:
    b, (n, m, p, q) = new("n", "m", "p", "q")
    x = b.param("x", real(poly(n) + poly(p) - 1, poly(m) + poly(q) - 1))
    w = b.param("w", real(p, q))
    out = b.map(
        [n, m],
        lambda i, j: total(
            b, [p, q], lambda u, v: b.mul(b.read(x, [poly(i) + poly(u), poly(j) + poly(v)]), b.read(w, [u, v]))
        ),
    )
    return b.function("conv2d", [out]), [4, 5], [k, k, 2, 3, *randoms((k + 1, k + 2), (2, 3))]


@case
def rosenbrock(k: int) -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(poly(n) + 1))

    def body(i: Var) -> Atom:
        xi = b.read(x, [i])
        d, e = b.sub(b.read(x, [poly(i) + 1]), b.mul(xi, xi)), b.sub(const(1.0), xi)
        return b.add(b.mul(const(100.0), b.mul(d, d)), b.mul(e, e))

    return b.function("rosenbrock", [total(b, [n], body)]), [1], [5 * k, *randoms((5 * k + 1,))]


@case
def nbody(k: int) -> Case:
    b, (n,) = new("n")
    p, m = b.param("p", real(n, 3)), b.param("m", real(n))
    i = axis(n)
    j = Axis(fresh("j", I64), (poly(i.var) + 1,), (poly(n),))

    def pair(i: Var, j: Var) -> Atom:
        def square(c: Var) -> Atom:
            d = b.sub(b.read(p, [i, c]), b.read(p, [j, c]))
            return b.mul(d, d)

        r2 = total(b, [3], square)
        return b.prim("div", b.mul(b.read(m, [i]), b.read(m, [j])), b.prim("sqrt", b.add(r2, const(0.1))))

    (out,) = b.comp([i, j], pair, [Reduce((), ())])
    return b.function("nbody", [out]), [1, 2], [k, *randoms((k, 3), (k,))]


@case
def gmm(k: int) -> Case:
    b, (n, d, c) = new("n", "d", "c")
    x, alpha, mu, q = (
        b.param("x", real(n, d)),
        b.param("alpha", real(c)),
        b.param("mu", real(c, d)),
        b.param("q", real(c, d)),
    )

    def inner(i: Var, j: Var) -> Atom:
        def square(e: Var) -> Atom:
            z = b.mul(b.prim("exp", b.read(q, [j, e])), b.sub(b.read(x, [i, e]), b.read(mu, [j, e])))
            return b.mul(z, z)

        logs = b.add(b.read(alpha, [j]), total(b, [d], lambda e: b.read(q, [j, e])))
        return b.sub(logs, b.mul(const(0.5), total(b, [d], square)))

    out = total(b, [n], lambda i: b.prim("log", total(b, [c], lambda j: b.prim("exp", inner(i, j)))))
    args = [2 * k, k, 4, *randoms((2 * k, k), (4,), (4, k)), 0.3 * rng.normal(size=(4, k))]
    return b.function("gmm", [out]), [4, 5, 6], args


@case
def embedding(k: int) -> Case:
    b, (n, m, v) = new("n", "m", "v")
    e, w, t = b.param("e", real(v, m)), b.param("w", real(m, m)), b.param("t", whole(n))

    def body(i: Var, j: Var) -> Atom:
        at = b.read(t, [i])
        return b.prim("tanh", total(b, [m], lambda q: b.mul(b.read(e, [at, q]), b.read(w, [q, j]))))

    args = [2 * k, k, 5, *randoms((5, k), (k, k)), rng.integers(0, 5, 2 * k)]
    return b.function("embedding", [b.map([n, m], body)]), [3, 4], args


@case
def pick_label(k: int) -> Case:
    b, (n, m) = new("n", "m")
    x, t = b.param("x", real(n, m)), b.param("t", whole(n))

    def body(i: Var) -> Atom:
        logs = b.prim("log", total(b, [m], lambda q: b.prim("exp", b.read(x, [i, q]))))
        return b.sub(logs, b.read(x, [i, b.read(t, [i])]))

    args = [2 * k, 5, *randoms((2 * k, 5)), rng.integers(0, 5, 2 * k)]
    return b.function("pick_label", [total(b, [n], body)]), [2], args


@case
def outer_product(k: int) -> Case:
    b, (n, m) = new("n", "m")
    x, y = b.param("x", real(n)), b.param("y", real(m))
    out = b.map([n, m], lambda i, j: b.mul(b.prim("exp", b.read(x, [i])), b.read(y, [j])))
    return b.function("outer_product", [out]), [2, 3], [k, k, *randoms((k,), (k,))]


@case
def reshape_reverse(k: int) -> Case:
    b, (n, m) = new("n", "m")
    size = poly(n) * poly(m)
    x = b.param("x", real(size))

    def body(i: Var, j: Var) -> Atom:
        at = poly(i) * poly(m) + poly(j)
        return b.mul(b.prim("sin", b.read(x, [at])), b.read(x, [size - 1 - at]))

    function = replace(b.function("reshape_reverse", [b.map([n, m], body)]), sizes=frozenset((n, m)))
    return function, [2], [k, k + 1, *randoms((k * (k + 1),))]


@case
def strided_diagonal(k: int) -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(poly(n) * 2, n))
    out = total(b, [n], lambda i: b.mul(b.read(x, [poly(i) * 2, i]), b.read(x, [i, i])))
    return b.function("strided_diagonal", [out]), [1], [k, *randoms((2 * k, k))]


@case
def max_pool(k: int) -> Case:
    b, (n, m) = new("n", "m")
    x = b.param("x", real(n, m))
    out = b.map([n], lambda i: total(b, [m], lambda q: b.prim("sin", b.read(x, [i, q])), monoid="max"))
    return b.function("max_pool", [out]), [2], [k, k, *randoms((k, k))]


@case
def max_pool_2d(k: int) -> Case:
    b, (n, m) = new("n", "m")
    x = b.param("x", real(poly(n) * 2, poly(m) * 2))

    def window(i: Var, j: Var) -> Atom:
        return total(b, [2, 2], lambda p, q: b.read(x, [poly(i) * 2 + poly(p), poly(j) * 2 + poly(q)]), monoid="max")

    return b.function("max_pool_2d", [b.map([n, m], window)]), [2], [k, k, *randoms((2 * k, 2 * k))]


@case
def triangular_invariant(k: int) -> Case:
    b, (n,) = new("n")
    x, y = b.param("x", real(n)), b.param("y", real(n))
    i = axis(n)
    j = axis(i.var, name="j")
    (out,) = b.comp([i, j], lambda i, j: b.mul(b.prim("exp", b.read(x, [j])), b.read(y, [i])), [Reduce((), ())])
    return b.function("triangular_invariant", [out]), [1, 2], [k, *randoms((k,), (k,))]


@case
def mlp(k: int) -> Case:
    """Three layers with a squared error."""
    b, (rows, n) = new("rows", "n")
    h = b.param("x", real(rows, n))
    weights = [(b.param(f"w{q}", real(n, n)), b.param(f"b{q}", real(n))) for q in range(3)]
    target = b.param("target", real(rows, n))
    for w, c in weights:

        def unit(i: Var, j: Var, h: Var = h, w: Var = w, c: Var = c) -> Atom:
            inner = total(b, [n], lambda q: b.mul(b.read(h, [i, q]), b.read(w, [q, j])))
            return b.prim("tanh", b.add(inner, b.read(c, [j])))

        h = b.map([rows, n], unit)

    def square(i: Var, j: Var) -> Atom:
        d = b.sub(b.read(h, [i, j]), b.read(target, [i, j]))
        return b.mul(d, d)

    out = total(b, [rows, n], square)
    args = [2 * k, k, *randoms((2 * k, k), *[(k, k), (k,)] * 3, (2 * k, k))]
    return b.function("mlp", [out]), [3, 4, 5, 6, 7, 8], args


@case
def classifier(k: int) -> Case:
    """One hidden layer, softmax and cross entropy with labels, on a batch."""
    b, (rows, n, m, c) = new("rows", "n", "m", "c")
    x, t = b.param("x", real(rows, n)), b.param("t", whole(rows))
    w1, b1 = b.param("w1", real(n, m)), b.param("b1", real(m))
    w2, b2 = b.param("w2", real(m, c)), b.param("b2", real(c))

    def unit(i: Var, j: Var) -> Atom:
        inner = total(b, [n], lambda q: b.mul(b.read(x, [i, q]), b.read(w1, [q, j])))
        return b.prim("maximum", b.add(inner, b.read(b1, [j])), const(0.0))

    h = b.map([rows, m], unit)
    z = b.map(
        [rows, c],
        lambda i, j: b.add(total(b, [m], lambda q: b.mul(b.read(h, [i, q]), b.read(w2, [q, j]))), b.read(b2, [j])),
    )

    def loss(i: Var) -> Atom:
        top = total(b, [c], lambda j: b.read(z, [i, j]), monoid="max")
        s = total(b, [c], lambda j: b.prim("exp", b.sub(b.read(z, [i, j]), top)))
        return b.sub(b.add(b.prim("log", s), top), b.read(z, [i, b.read(t, [i])]))

    out = b.prim("div", total(b, [rows], loss), b.cast("f64", rows))
    args = [2 * k, k, k, 4, *randoms((2 * k, k)), rng.integers(0, 4, 2 * k), *randoms((k, k), (k,), (k, 4), (4,))]
    return b.function("classifier", [out]), [6, 7, 8, 9], args


__all__ = ["CASES", "F64", "Case"]
