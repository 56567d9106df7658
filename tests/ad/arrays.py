"""Programs of whole arrays whose gradients must be right: scans, views, scatters, arrays of a point."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlang.ir.anf import Atom, Lit, Reduce, ScatterAdd, Var, poly
from dlang.ir.builder import axis
from tests.ad.case import Case, Cases, new, randoms
from tests.ad.support import F64, const, real, total, whole

CASES = Cases()


@CASES.add
def prod_zero() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    return (
        b.function("pz", [total(b, [n], lambda i: b.read(x, [i]), monoid="prod")]),
        [1],
        [4, np.array([2.0, 0, 3, 4])],
    )


@CASES.add
def prod_rows() -> Case:
    b, (n, m) = new("n", "m")
    x = b.param("x", real(n, m))
    return (
        b.function("pr", [total(b, [n, m], lambda i, j: b.read(x, [i, j]), 1, monoid="prod")]),
        [2],
        [2, 3, np.array([[2.0, 0, 3], [4, 5, 6]])],
    )


@CASES.add
def cumsum() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    return (
        b.function("cs", [b.scan("sum", b.map([n], lambda i: b.prim("sin", b.read(x, [i]))))]),
        [1],
        [4, np.array([2.0, 0, 3, 4])],
    )


@CASES.add
def cumprod() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    y = b.scan("prod", x)
    return (
        b.function("cp", [total(b, [n], lambda i: b.mul(b.read(y, [i]), b.read(x, [i])))]),
        [1],
        [6, np.arange(1.0, 7)],
    )


@CASES.add
def concat_views() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    y = b.param("y", real(n))
    z = b.concat(x, b.view(y, [n], lambda i: [poly(n) - 1 - poly(i)]), x)
    z = b.reshape(z, [3, n])
    z = b.view(z, [n, 3], lambda i, j: [j, i])
    return (
        b.function("cv", [b.map([n, 3], lambda i, j: b.prim("sin", b.read(z, [i, j])))]),
        [1, 2],
        [3, np.array([1.0, 2, 3]), np.array([0.3, 0.4, 0.5])],
    )


@CASES.add
def max2d() -> Case:
    b, (n, m) = new("n", "m")
    x = b.param("x", real(n, m))
    return (
        b.function("max2d", [total(b, [n, m], lambda i, j: b.prim("sin", b.read(x, [i, j])), monoid="max")]),
        [2],
        [3, 4, randoms(3, 4)],
    )


@CASES.add
def filter_sum() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    m = b.map([n], lambda i: b.prim("gt", b.read(x, [i]), const(0.0)))
    k, p = b.compact(m)
    y = b.map([k], lambda i: b.prim("exp", b.read(x, [b.read(p, [i])])))
    return b.function("fs", [total(b, [k], lambda i: b.mul(b.read(y, [i]), b.read(y, [i])))]), [1], [6, randoms(6)]


@CASES.add
def sort_sum() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    p = b.library("argsort", x)
    return (
        b.function("ss", [b.map([n], lambda i: b.mul(b.cast("f64", i), b.prim("sin", b.read(x, [b.read(p, [i])]))))]),
        [1],
        [6, randoms(6)],
    )


@CASES.add
def scalar_and_array() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    s = b.param("s", F64)
    return (
        b.function("sa", [b.map([n], lambda i: b.prim("sin", b.mul(s, b.read(x, [i]))))]),
        [1, 2],
        [6, randoms(6), 0.7],
    )


@CASES.add
def reads_plain() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    return b.function("rp", [b.mul(b.read(x, [0]), b.mul(b.read(x, [1]), b.read(x, [0])))]), [1], [6, randoms(6)]


@CASES.add
def checks_in_comp() -> Case:
    b, (n, m) = new("n", "m")
    e = b.param("e", real(n, m))
    w = b.param("w", real(m))
    k = b.param("k", whole(n))

    def at(i: Var, q: Var) -> Any:
        j = b.read(k, [i])
        ok = b.prim("and", b.prim("ge", j, Lit(0, "i64")), b.prim("lt", j, n))
        (j,) = b.check(ok, "E0800", ["out of range"], [], [j])
        return b.prim(
            "tanh", total(b, [m], lambda q2: b.mul(b.read(e, [j, q2]), b.mul(b.read(w, [q2]), b.read(w, [q]))))
        )

    return (
        b.function("cic", [b.map([n, m], at)]),
        [2, 3],
        [4, 3, randoms(4, 3), np.random.default_rng(1).normal(size=3), np.array([2, 1, 2, 0])],
    )


@CASES.add
def local_arrays() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def at(i: Var) -> Any:
        y = b.map([3], lambda j: b.prim("exp", b.mul(b.read(x, [i]), b.cast("f64", j))))
        return b.mul(b.read(y, [0]), b.add(b.read(y, [1]), b.read(y, [2])))

    return b.function("la", [b.map([n], at)]), [1], [4, randoms(4)]


@CASES.add
def local_array_loop() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def at(i: Var) -> Any:
        y = b.map([3], lambda j: b.prim("exp", b.mul(b.read(x, [i]), b.cast("f64", j))))
        (z,) = b.for_(
            0, 2, [y], lambda k, u: b.update(u, [poly(k) + 1], b.mul(b.read(u, [k]), b.read(u, [poly(k) + 1])))
        )
        return b.mul(b.read(z, [0]), b.add(b.read(z, [1]), b.read(z, [2])))

    return b.function("lal", [b.map([n], at)]), [1], [4, randoms(4)]


@CASES.add
def no_use() -> Case:
    b, (n,) = new("n")
    b.param("x", real(n))
    y = b.param("y", F64)
    return b.function("nu", [y]), [1, 2], [4, randoms(4), 1.0]


@CASES.add
def update_views() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    y = b.param("y", real(3))
    i = axis(3)
    (u,) = b.comp(
        [i], lambda i: b.mul(b.read(y, [i]), b.read(x, [i])), [Reduce((poly(n),), (poly(i.var) + 1,), "set", x)]
    )
    return (
        b.function("uv", [b.map([n], lambda i: b.mul(b.read(u, [i]), b.read(u, [i])))]),
        [1, 2],
        [5, randoms(5), np.array([0.3, 0.4, 0.5])],
    )


@CASES.add
def scatter() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    k = b.param("k", whole(n))
    target: list[Var] = []

    def body(i: Var) -> Atom:
        target.append(b.read(k, [i]))
        return b.prim("sin", b.read(x, [i]))

    (u,) = b.comp([axis(n)], body, lambda i: [ScatterAdd((poly(n),), (poly(target[0]),))])
    out = b.map([n], lambda i: b.mul(b.read(u, [i]), b.read(u, [i])))
    return b.function("scatter", [out]), [1], [5, randoms(5), np.array([0, 0, 3, 2, 3])]


@CASES.add
def maximum_of_ragged_sums() -> Case:
    """max_i Σ_j>=i exp x[j] by way of an array whose size is that of the row."""
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def at(i: Var) -> Atom:
        terms = b.map([poly(n) - poly(i)], lambda j: b.prim("exp", b.read(x, [poly(i) + poly(j)])))
        return total(b, [poly(n) - poly(i)], lambda j: b.read(terms, [j]))

    (m,) = b.comp([axis(n)], at, [Reduce((), (), "max")])
    return b.function("ms", [m]), [1], [5, randoms(5)]
