"""Programs with loops and updates in them whose gradients must be right."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlang.ir.anf import Var, poly
from tests.ad.case import Case, Cases, new, randoms
from tests.ad.support import F64, const, real, total, whole

CASES = Cases()


@CASES.add
def power_loop() -> Case:
    b, (n,) = new("n")
    x = b.param("x", F64)
    (r,) = b.for_(0, n, [const(1.0)], lambda i, p: b.mul(p, x))
    return b.function("power", [r]), [1], [5, 1.3]


@CASES.add
def inplace() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def body(i: Var, u: Var) -> Any:
        v = b.read(u, [i])
        return b.update(u, [i], b.mul(v, v))

    (r,) = b.for_(0, n, [x], body)
    return b.function("inplace", [r]), [1], [5, np.arange(1.0, 6)]


@CASES.add
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


@CASES.add
def wavefront() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def body(i: Var, u: Var) -> Any:
        v = b.read(u, [i])
        return b.update(u, [poly(i) + 1], b.mul(v, v))

    (r,) = b.for_(0, poly(n) - 1, [x], body)
    return b.function("wavefront", [r]), [1], [5, np.array([1.0, 3, 4, 5, 6])]


@CASES.add
def keep_last() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def body(i: Var, u: Var) -> Any:
        v = b.read(x, [i])
        return b.mul(v, v)

    (r,) = b.for_(0, n, [const(0.0)], body)
    return b.function("keep_last", [r]), [1], [3, np.array([11.0, 5, 13])]


@CASES.add
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


@CASES.add
def comp_loop() -> Case:  # newton per element
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def at(i: Var) -> Any:
        a = b.read(x, [i])
        (r,) = b.for_(0, 6, [const(1.0)], lambda k, v: b.mul(const(0.5), b.add(v, b.prim("div", a, v))))
        return r

    return b.function("cl", [b.map([n], at)]), [1], [5, np.abs(randoms(5)) + 0.5]


@CASES.add
def comp_loop_reads() -> Case:  # loop over array in body
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def at(i: Var) -> Any:
        (r,) = b.for_(0, i, [const(1.0)], lambda k, v: b.mul(v, b.read(x, [k])))
        return r

    return b.function("clr", [b.map([n], at)]), [1], [5, np.abs(randoms(5)) + 0.5]


@CASES.add
def while_newton() -> Case:
    b, _ = new()
    a = b.param("a", F64)

    def cond(x: Var) -> Any:
        return b.prim("gt", b.prim("abs", b.sub(b.mul(x, x), a)), b.mul(const(1e-14), a))

    (r,) = b.while_([a], cond, lambda x: b.mul(const(0.5), b.add(x, b.prim("div", a, x))))
    return b.function("wn", [r]), [0], [4.0]


@CASES.add
def early() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def body(i: Var, s: Var) -> Any:
        s2 = b.add(s, b.mul(b.read(x, [i]), b.read(x, [i])))
        return [b.prim("lt", s2, const(10.0)), s2]

    (r,) = b.for_(0, n, [const(0.0)], body, early=True)
    return b.function("early", [r]), [1], [6, np.arange(1.0, 7)]


@CASES.add
def stencil_in_loop() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    w = b.param("w", real(3))

    def body(i: Var, u: Var) -> Any:
        s = total(b, [3], lambda p: b.mul(b.read(u, [poly(i) + poly(p)]), b.read(w, [p])))
        return b.update(u, [poly(i) + 1], b.prim("tanh", s))

    (r,) = b.for_(0, poly(n) - 2, [x], body)
    return b.function("stl", [r]), [1, 2], [6, randoms(6), np.array([0.3, 0.5, -0.2])]


@CASES.add
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


@CASES.add
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


@CASES.add
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


@CASES.add
def swapped() -> Case:
    b, (n,) = new("n")
    x = b.param("x", F64)
    y = b.param("y", F64)
    r = b.for_(0, n, [x, y], lambda i, u, v: [b.mul(v, u), u])
    return b.function("sw", [b.add(r[0], r[1])]), [1, 2], [5, 1.1, 1.2]


@CASES.add
def matrix_power_loop() -> Case:
    b, (n, k) = new("n", "k")
    x = b.param("x", real(n, n))

    def body(i: Var, p: Var) -> Any:
        return total(b, [n, n, n], lambda i, j, q: b.mul(b.read(p, [i, q]), b.read(x, [q, j])), 2)

    (r,) = b.for_(0, k, [x], body)
    return b.function("mpl", [r]), [2], [3, 3, randoms(3, 3)]
