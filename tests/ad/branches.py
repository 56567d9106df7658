"""Programs with branches whose gradients must be right."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlang.ir.anf import Lit, Reduce, Scalar, Var, poly
from dlang.ir.builder import axis
from tests.ad.case import Case, Cases, new, randoms
from tests.ad.support import F64, const, real, total, whole

CASES = Cases()


@CASES.add
def overwrite_branch() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    c = b.param("c", Scalar("bool"))
    (r,) = b.if_(c, lambda: b.update(x, [0], const(0.0)), lambda: x)
    s = b.map([n], lambda i: b.mul(b.read(r, [i]), b.read(r, [i])))
    return b.function("ob", [s]), [1], [3, np.array([1.0, 2, 3]), True]


@CASES.add
def branch_scalar() -> Case:
    b, _ = new()
    x = b.param("x", F64)
    y = b.param("y", F64)
    (r,) = b.if_(
        b.prim("lt", x, const(0.0)), lambda: b.mul(y, b.prim("sin", x)), lambda: b.add(b.prim("exp", b.mul(y, y)), x)
    )
    return b.function("bs", [r]), [0, 1], [-0.4, 0.7]


@CASES.add
def branch_scalar2() -> Case:
    f, w, _a = branch_scalar()
    return f, w, [0.3, 0.7]


@CASES.add
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


@CASES.add
def loop_in_branch() -> Case:
    b, (n,) = new("n")
    x = b.param("x", F64)
    (r,) = b.if_(
        b.prim("gt", x, const(0.0)), lambda: b.for_(0, n, [x], lambda i, v: b.prim("sin", v)), lambda: b.mul(x, x)
    )
    return b.function("lib", [r]), [1], [4, 0.8]


@CASES.add
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


@CASES.add
def branch_array_sizes() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    c = b.param("c", F64)

    def th() -> Any:
        y = b.map([n], lambda i: b.prim("exp", b.mul(c, b.read(x, [i]))))
        return total(b, [n], lambda i: b.mul(b.read(y, [i]), b.read(y, [i])))

    (r,) = b.if_(b.prim("gt", c, const(0.0)), th, lambda: b.mul(c, b.read(x, [0])))
    return b.function("bas", [r]), [1, 2], [5, randoms(5), 0.3]


@CASES.add
def where_gather() -> Case:
    b, (n,) = new("n")
    x = b.param("x", real(n))
    k = b.param("k", whole(n))

    def at(i: Var) -> Any:
        j = b.read(k, [i])
        (r,) = b.if_(b.prim("ge", j, Lit(0, "i64")), lambda: b.prim("exp", b.read(x, [j])), lambda: const(0.0))
        return r

    return b.function("wg", [b.map([n], at)]), [1], [4, randoms(4), np.array([2, -1, 2, 0])]


@CASES.add
def sums_in_branches() -> Case:
    """Σ_i<j Σ_l sin(x[i, l] x[j, l]): the arm of a branch at a point sums over an axis of its own."""
    b, (n, k) = new("n", "k")
    x = b.param("x", real(n, k))

    def at(i: Var, j: Var) -> Any:
        def apart() -> Any:
            return total(b, [k], lambda m: b.prim("sin", b.mul(b.read(x, [i, m]), b.read(x, [j, m]))))

        return b.if_(b.prim("lt", i, j), apart, lambda: const(0.0))[0]

    return b.function("sb", [total(b, [n, n], at)]), [2], [3, 2, randoms(3, 2)]


@CASES.add
def maxima_in_branches() -> Case:
    """The same with a maximum, added to reads of the same array that are not in the branch."""
    b, (n, k) = new("n", "k")
    x = b.param("x", real(n, k))

    def at(i: Var) -> Any:
        def largest() -> Any:
            (m,) = b.comp([axis(k)], lambda m: b.mul(b.read(x, [i, m]), b.read(x, [0, m])), [Reduce((), (), "max")])
            return m

        chosen = b.if_(b.prim("gt", i, Lit(0, "i64")), largest, lambda: const(2.0))[0]
        return b.mul(chosen, b.read(x, [i, 0]))

    return b.function("mb", [total(b, [n], at)]), [2], [4, 3, randoms(4, 3)]


@CASES.add
def maxima_from_a_point_on() -> Case:
    """Σ_j max_k>=j x[k] x[0] for odd j: where the maximum is, only the arm knows."""
    b, (n,) = new("n")
    x = b.param("x", real(n))

    def at(j: Var) -> Any:
        def largest() -> Any:
            k = axis(n, low=j)
            (m,) = b.comp([k], lambda k: b.mul(b.read(x, [k]), b.read(x, [0])), [Reduce((), (), "max")])
            return m

        odd = b.prim("eq", b.prim("mod", j, Lit(2, "i64")), Lit(1, "i64"))
        return b.if_(odd, largest, lambda: b.read(x, [j]))[0]

    return b.function("mp", [total(b, [n], at)]), [1], [5, randoms(5)]
