"""Programs with loops, branches and updates whose gradients must be right, as a function and its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlang.ir.anf import Add, Atom, Function, Keep, Lit, Scalar, Var, poly
from dlang.ir.builder import Builder, axis
from tests.ad.support import F64, I64, const, real, total, whole

Case = tuple[Function, list[int], list[Any]]
CASES: dict[str, Callable[[], Case]] = {}


def case(f: Callable[[], Case]) -> Callable[[], Case]:
    CASES[f.__name__] = f
    return f


def new(*sizes: str) -> tuple[Builder, list[Var]]:
    b = Builder()
    return b, [b.param(s, I64) for s in sizes]


def randoms(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape)


@case
def power_loop() -> Case:
    b, (n,) = new("n")
    x = b.param("x", F64)
    (r,) = b.for_(0, n, [const(1.0)], lambda i, p: b.mul(p, x))
    return b.function("power", [r]), [1], [5, 1.3]


@case
def inplace() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def body(i: Var, u: Var) -> Any:
        v = b.read(u, [i])
        return b.update(u, [i], b.mul(v, v))

    (r,) = b.for_(0, n, [x], body)
    return b.function("inplace", [r]), [1], [5, np.arange(1.0, 6)]


@case
def smooth() -> Case:
    b, (n, s) = new("n", "steps")
    x = b.param("x", real(n))

    def outer(k: Var, u: Var) -> Any:
        def inner(i: Var, v: Var) -> Any:
            q = poly(i)
            a = b.mul(const(0.25), b.read(v, [q - 1]))
            c = b.mul(const(0.5), b.read(v, [q]))
            d = b.mul(const(0.25), b.read(v, [q + 1]))
            return b.update(v, [i], b.add(b.add(a, c), d))

        return b.for_(1, poly(n) - 1, [u], inner)

    (r,) = b.for_(0, s, [x], outer)
    out = total(b, [n], lambda i: b.mul(b.read(r, [i]), b.read(r, [i])))
    return b.function("smooth", [out]), [2], [5, 3, np.array([0.0, 1, 0, 2, 1])]


@case
def wavefront() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def body(i: Var, u: Var) -> Any:
        v = b.read(u, [i])
        return b.update(u, [poly(i) + 1], b.mul(v, v))

    (r,) = b.for_(0, poly(n) - 1, [x], body)
    return b.function("wavefront", [r]), [1], [5, np.array([1.0, 3, 4, 5, 6])]


@case
def keep_last() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def body(i: Var, u: Var) -> Any:
        v = b.read(x, [i])
        return b.mul(v, v)

    (r,) = b.for_(0, n, [const(0.0)], body)
    return b.function("keep_last", [r]), [1], [3, np.array([11.0, 5, 13])]


@case
def overwrite_branch() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    c = b.param("c", Scalar("bool"))
    (r,) = b.if_(c, lambda: b.update(x, [0], const(0.0)), lambda: x)
    s = b.map([n], lambda i: b.mul(b.read(r, [i]), b.read(r, [i])))
    return b.function("ob", [s]), [1], [3, np.array([1.0, 2, 3]), True]


@case
def rnn() -> Case:
    b, (steps, n, m) = new("t", "n", "m")
    w = b.param("w", real(n, n))
    u = b.param("u", real(n, m))
    x = b.param("x", real(steps, m))
    h0 = b.param("h", real(n))

    def step(k: Var, h: Var) -> Any:
        return b.map(
            [n],
            lambda i: b.prim(
                "tanh",
                b.add(
                    total(b, [n], lambda j: b.mul(b.read(w, [i, j]), b.read(h, [j]))),
                    total(b, [m], lambda j: b.mul(b.read(u, [i, j]), b.read(x, [k, j]))),
                ),
            ),
        )

    (r,) = b.for_(0, steps, [h0], step)
    return (
        b.function("rnn", [r]),
        [3, 4, 5, 6],
        [4, 3, 2, *[np.random.default_rng(0).normal(size=s) for s in ((3, 3), (3, 2), (4, 2), (3,))]],
    )


@case
def branch_scalar() -> Case:
    b, _ = new()
    x = b.param("x", F64)
    y = b.param("y", F64)
    (r,) = b.if_(
        b.prim("lt", x, const(0.0)), lambda: b.mul(y, b.prim("sin", x)), lambda: b.add(b.prim("exp", b.mul(y, y)), x)
    )
    return b.function("bs", [r]), [0, 1], [-0.4, 0.7]


@case
def branch_scalar2() -> Case:
    f, w, _a = branch_scalar()
    return f, w, [0.3, 0.7]


@case
def comp_branch() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def at(i: Var) -> Any:
        (r,) = b.if_(
            b.prim("gt", i, Lit(0, "i64")),
            lambda: b.mul(b.read(x, [poly(i) - 1]), b.read(x, [i])),
            lambda: b.prim("exp", b.read(x, [i])),
        )
        return r

    return b.function("cb", [b.map([n], at)]), [1], [5, randoms(5)]


@case
def comp_loop() -> Case:  # newton per element
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def at(i: Var) -> Any:
        a = b.read(x, [i])
        (r,) = b.for_(0, 6, [const(1.0)], lambda k, v: b.mul(const(0.5), b.add(v, b.prim("div", a, v))))
        return r

    return b.function("cl", [b.map([n], at)]), [1], [5, np.abs(randoms(5)) + 0.5]


@case
def comp_loop_reads() -> Case:  # loop over array in body
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def at(i: Var) -> Any:
        (r,) = b.for_(0, i, [const(1.0)], lambda k, v: b.mul(v, b.read(x, [k])))
        return r

    return b.function("clr", [b.map([n], at)]), [1], [5, np.abs(randoms(5)) + 0.5]


@case
def while_newton() -> Case:
    b, _ = new()
    a = b.param("a", F64)

    def cond(x: Var) -> Any:
        return b.prim("gt", b.prim("abs", b.sub(b.mul(x, x), a)), b.mul(const(1e-14), a))

    (r,) = b.while_([a], cond, lambda x: b.mul(const(0.5), b.add(x, b.prim("div", a, x))))
    return b.function("wn", [r]), [0], [4.0]


@case
def prod_zero() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    return (
        b.function("pz", [total(b, [n], lambda i: b.read(x, [i]), monoid="prod")]),
        [1],
        [4, np.array([2.0, 0, 3, 4])],
    )


@case
def prod_rows() -> Case:
    b, (n, m) = new("n", "m")
    x = b.param("x", real(n, m))
    return (
        b.function("pr", [total(b, [n, m], lambda i, j: b.read(x, [i, j]), 1, monoid="prod")]),
        [2],
        [2, 3, np.array([[2.0, 0, 3], [4, 5, 6]])],
    )


@case
def cumsum() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    return (
        b.function("cs", [b.scan("sum", b.map([n], lambda i: b.prim("sin", b.read(x, [i]))))]),
        [1],
        [4, np.array([2.0, 0, 3, 4])],
    )


@case
def cumprod() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    y = b.scan("prod", x)
    return (
        b.function("cp", [total(b, [n], lambda i: b.mul(b.read(y, [i]), b.read(x, [i])))]),
        [1],
        [6, np.arange(1.0, 7)],
    )


@case
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


@case
def max2d() -> Case:
    b, (n, m) = new("n", "m")
    x = b.param("x", real(n, m))
    return (
        b.function("max2d", [total(b, [n, m], lambda i, j: b.prim("sin", b.read(x, [i, j])), monoid="max")]),
        [2],
        [3, 4, randoms(3, 4)],
    )


@case
def early() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def body(i: Var, s: Var) -> Any:
        s2 = b.add(s, b.mul(b.read(x, [i]), b.read(x, [i])))
        return [b.prim("lt", s2, const(10.0)), s2]

    (r,) = b.for_(0, n, [const(0.0)], body, early=True)
    return b.function("early", [r]), [1], [6, np.arange(1.0, 7)]


@case
def stencil_in_loop() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    w = b.param("w", real(3))

    def body(i: Var, u: Var) -> Any:
        s = total(b, [3], lambda p: b.mul(b.read(u, [poly(i) + poly(p)]), b.read(w, [p])))
        return b.update(u, [poly(i) + 1], b.prim("tanh", s))

    (r,) = b.for_(0, poly(n) - 2, [x], body)
    return b.function("stl", [r]), [1, 2], [6, randoms(6), np.array([0.3, 0.5, -0.2])]


@case
def while_in_for() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def body(i: Var, s: Var) -> Any:
        a = b.read(x, [i])
        (r,) = b.while_(
            [a],
            lambda v: b.prim("gt", b.prim("abs", b.sub(b.mul(v, v), a)), const(1e-12)),
            lambda v: b.mul(const(0.5), b.add(v, b.prim("div", a, v))),
        )
        return b.add(s, b.mul(r, s))

    (r,) = b.for_(0, n, [const(1.0)], body)
    return b.function("wif", [r]), [1], [4, np.array([1.5, 4.0, 9.0, 2.0])]


@case
def while_in_comp() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def at(i: Var) -> Any:
        a = b.read(x, [i])
        (r,) = b.while_(
            [a],
            lambda v: b.prim("gt", b.prim("abs", b.sub(b.mul(v, v), a)), const(1e-12)),
            lambda v: b.mul(const(0.5), b.add(v, b.prim("div", a, v))),
        )
        return r

    return b.function("wic", [b.map([n], at)]), [1], [4, np.array([1.5, 4.0, 9.0, 2.0])]


@case
def ragged_arrays() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    k = b.param("k", whole(n))

    def body(i: Var, s: Var) -> Any:
        m = b.read(k, [i])
        y = b.map([m], lambda j: b.mul(b.read(x, [j]), s))
        z = b.map([m], lambda j: b.prim("exp", b.read(y, [j])))
        return b.prim("sin", total(b, [m], lambda j: b.mul(b.read(z, [j]), b.read(y, [j]))))

    (r,) = b.for_(0, n, [const(1.0)], body)
    return b.function("ra", [r]), [1], [4, np.array([0.5, 0.4, 0.9, 0.2]), np.array([2, 0, 4, 1])]


@case
def loop_in_branch() -> Case:
    b, (n,) = new("n")
    x = b.param("x", F64)
    (r,) = b.if_(
        b.prim("gt", x, const(0.0)), lambda: b.for_(0, n, [x], lambda i, v: b.prim("sin", v)), lambda: b.mul(x, x)
    )
    return b.function("lib", [r]), [1], [4, 0.8]


@case
def branch_in_loop() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def body(i: Var, s: Var, u: Var) -> Any:
        v = b.read(u, [i])
        return b.if_(
            b.prim("gt", v, const(0.0)),
            lambda: [b.add(s, b.mul(v, s)), b.update(u, [i], b.mul(v, s))],
            lambda: [b.prim("sin", s), u],
        )

    s, u = b.for_(0, n, [const(1.0), x], body)
    return b.function("bil", [b.map([n], lambda i: b.mul(s, b.read(u, [i])))]), [1], [5, randoms(5)]


@case
def branch_array_sizes() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    c = b.param("c", F64)

    def th() -> Any:
        y = b.map([n], lambda i: b.prim("exp", b.mul(c, b.read(x, [i]))))
        return total(b, [n], lambda i: b.mul(b.read(y, [i]), b.read(y, [i])))

    (r,) = b.if_(b.prim("gt", c, const(0.0)), th, lambda: b.mul(c, b.read(x, [0])))
    return b.function("bas", [r]), [1, 2], [5, randoms(5), 0.3]


@case
def swapped() -> Case:
    b, (n,) = new("n")
    x = b.param("x", F64)
    y = b.param("y", F64)
    r = b.for_(0, n, [x, y], lambda i, u, v: [b.mul(v, u), u])
    return b.function("sw", [b.add(r[0], r[1])]), [1, 2], [5, 1.1, 1.2]


@case
def filter_sum() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    m = b.map([n], lambda i: b.prim("gt", b.read(x, [i]), const(0.0)))
    k, p = b.compact(m)
    y = b.map([k], lambda i: b.prim("exp", b.read(x, [b.read(p, [i])])))
    return b.function("fs", [total(b, [k], lambda i: b.mul(b.read(y, [i]), b.read(y, [i])))]), [1], [6, randoms(6)]


@case
def sort_sum() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    p = b.library("argsort", x)
    return (
        b.function("ss", [b.map([n], lambda i: b.mul(b.cast("f64", i), b.prim("sin", b.read(x, [b.read(p, [i])]))))]),
        [1],
        [6, randoms(6)],
    )


@case
def scalar_and_array() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    s = b.param("s", F64)
    return (
        b.function("sa", [b.map([n], lambda i: b.prim("sin", b.mul(s, b.read(x, [i]))))]),
        [1, 2],
        [6, randoms(6), 0.7],
    )


@case
def reads_plain() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    return b.function("rp", [b.mul(b.read(x, [0]), b.mul(b.read(x, [1]), b.read(x, [0])))]), [1], [6, randoms(6)]


@case
def matrix_power_loop() -> Case:
    b, (n, k) = new("n", "k")
    x = b.param("x", real(n, n))

    def body(i: Var, p: Var) -> Any:
        return total(b, [n, n, n], lambda i, j, q: b.mul(b.read(p, [i, q]), b.read(x, [q, j])), 2)

    (r,) = b.for_(0, k, [x], body)
    return b.function("mpl", [r]), [2], [3, 3, randoms(3, 3)]


@case
def where_gather() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    k = b.param("k", whole(n))

    def at(i: Var) -> Any:
        j = b.read(k, [i])
        (r,) = b.if_(b.prim("ge", j, Lit(0, "i64")), lambda: b.prim("exp", b.read(x, [j])), lambda: const(0.0))
        return r

    return b.function("wg", [b.map([n], at)]), [1], [4, randoms(4), np.array([2, -1, 2, 0])]


@case
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


@case
def local_arrays() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def at(i: Var) -> Any:
        y = b.map([3], lambda j: b.prim("exp", b.mul(b.read(x, [i]), b.cast("f64", j))))
        return b.mul(b.read(y, [0]), b.add(b.read(y, [1]), b.read(y, [2])))

    return b.function("la", [b.map([n], at)]), [1], [4, randoms(4)]


@case
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


@case
def no_use() -> Case:
    b, (n,) = new("n")
    b.param("x", real(n))
    y = b.param("y", F64)
    return b.function("nu", [y]), [1, 2], [4, randoms(4), 1.0]


@case
def update_views() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    y = b.param("y", real(3))
    i = axis(3)
    (u,) = b.comp(
        [i], lambda i: b.mul(b.read(y, [i]), b.read(x, [i])), [Keep((poly(n),), (poly(i.var) + 1,), "set", x)]
    )
    return (
        b.function("uv", [b.map([n], lambda i: b.mul(b.read(u, [i]), b.read(u, [i])))]),
        [1, 2],
        [5, randoms(5), np.array([0.3, 0.4, 0.5])],
    )


@case
def scatter() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    k = b.param("k", whole(n))
    target: list[Var] = []

    def body(i: Var) -> Atom:
        target.append(b.read(k, [i]))
        return b.prim("sin", b.read(x, [i]))

    (u,) = b.comp([axis(n)], body, lambda i: [Add((poly(n),), (poly(target[0]),))])
    out = b.map([n], lambda i: b.mul(b.read(u, [i]), b.read(u, [i])))
    return b.function("scatter", [out]), [1], [5, randoms(5), np.array([0, 0, 3, 2, 3])]


@case
def sums_in_branches() -> Case:
    """Σ_i<j Σ_l sin(x[i, l] x[j, l]): the arm of a branch at a point sums over an axis of its own."""
    b, (n, k) = new("n", "k")
    x = b.param("x", real(n, k))

    def at(i: Var, j: Var) -> Any:
        def apart() -> Any:
            return total(b, [k], lambda m: b.prim("sin", b.mul(b.read(x, [i, m]), b.read(x, [j, m]))))

        return b.if_(b.prim("lt", i, j), apart, lambda: const(0.0))[0]

    return b.function("sb", [total(b, [n, n], at)]), [2], [3, 2, randoms(3, 2)]


@case
def maxima_in_branches() -> Case:
    """The same with a maximum, added to reads of the same array that are not in the branch."""
    b, (n, k) = new("n", "k")
    x = b.param("x", real(n, k))

    def at(i: Var) -> Any:
        def largest() -> Any:
            (m,) = b.comp([axis(k)], lambda m: b.mul(b.read(x, [i, m]), b.read(x, [0, m])), [Keep((), (), "max")])
            return m

        chosen = b.if_(b.prim("gt", i, Lit(0, "i64")), largest, lambda: const(2.0))[0]
        return b.mul(chosen, b.read(x, [i, 0]))

    return b.function("mb", [total(b, [n], at)]), [2], [4, 3, randoms(4, 3)]


@case
def maxima_from_a_point_on() -> Case:
    """Σ_j max_k>=j x[k] x[0] for odd j: where the maximum is, only the arm knows."""
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def at(j: Var) -> Any:
        def largest() -> Any:
            k = axis(n, low=j)
            (m,) = b.comp([k], lambda k: b.mul(b.read(x, [k]), b.read(x, [0])), [Keep((), (), "max")])
            return m

        odd = b.prim("eq", b.prim("mod", j, Lit(2, "i64")), Lit(1, "i64"))
        return b.if_(odd, largest, lambda: b.read(x, [j]))[0]

    return b.function("mp", [total(b, [n], at)]), [1], [5, randoms(5)]


@case
def maximum_of_ragged_sums() -> Case:
    """max_i Σ_j>=i exp x[j] by way of an array whose size is that of the row."""
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def at(i: Var) -> Atom:
        terms = b.map([poly(n) - poly(i)], lambda j: b.prim("exp", b.read(x, [poly(i) + poly(j)])))
        return total(b, [poly(n) - poly(i)], lambda j: b.read(terms, [j]))

    (m,) = b.comp([axis(n)], at, [Keep((), (), "max")])
    return b.function("ms", [m]), [1], [5, randoms(5)]
