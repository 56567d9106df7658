"""Small random programs of the IR, all of whose runs succeed."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st

from dlang.ir.anf import Array, Atom, Axis, Program, Reduce, Scalar, Var, fresh, poly
from dlang.ir.builder import Builder, axis, f64, i64

I64 = Scalar("i64")
_UNARY = ("neg", "tanh", "sin", "abs", "exp")
_BINARY = ("add", "sub", "mul", "maximum")


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program of one function f(n, x: f64[n], a: f64[n, n]) with scalar, vector and matrix results."""
    b = Builder()
    n = b.param("n", I64)
    size = poly(n)
    scalars: list[Atom] = [f64(0.5), f64(-2.0)]
    vectors = [b.param("x", Array("f64", (size,)))]
    matrices = [b.param("a", Array("f64", (size, size)))]

    def pick(xs: list[Any]) -> Any:
        return draw(st.sampled_from(xs))

    def unary(v: Atom) -> Var:
        return b.prim(pick(list(_UNARY)), b.prim("tanh", v))  # of a bounded value, so nothing overflows

    def elementwise(i: Var, v: Var) -> Var:
        return b.prim(pick(list(_BINARY)), unary(b.read(v, [i])), pick(scalars))

    def vector() -> Var:
        v, w, m = pick(vectors), pick(vectors), pick(matrices)
        match draw(st.integers(0, 9)):
            case 0:
                return b.map([n], lambda i: elementwise(i, v))
            case 1:
                return b.map([n], lambda i: b.read(v, [size - 1 - i]))
            case 2:
                return b.view(v, [n], lambda i: [size - 1 - i])
            case 3:
                return b.scan("sum", v)
            case 4:
                i, j = axis(n), axis(n, name="j")
                return b.comp([i, j], lambda i, j: b.read(m, [i, j]), [Reduce((size,), (poly(j.var),), "max")])[0]
            case 5:
                i = axis(n)
                j = Axis(fresh("j", I64), (poly(i.var),), (size,))
                destination = Reduce((size,), (poly(i.var),))
                return b.comp([i, j], lambda i, j: b.mul(b.read(v, [i]), b.read(w, [j])), [destination])[0]
            case 6:
                return b.for_(0, n, [v], lambda i, s: b.update(s, [i], unary(b.read(w, [i]))))[0]
            case 7:
                return b.map([n], lambda i: b.reduce([n], lambda j: b.mul(b.read(m, [i, j]), b.read(v, [j]))))
            case 8:
                return b.map(
                    [n],
                    lambda i: b.if_(
                        b.prim("lt", b.read(v, [i]), pick(scalars)), lambda: unary(b.read(w, [i])), lambda: f64(1)
                    )[0],
                )
            case _:
                return b.reshape(b.reshape(v, [n, 1]), [n])

    def scalar() -> Var:
        v = pick(vectors)
        match draw(st.integers(0, 4)):
            case 0:
                return b.reduce([n], lambda i: b.read(v, [i]))
            case 1:
                return b.cast("f64", b.reduce([n], lambda i: b.read(v, [i]), "argmax"))
            case 2:
                return b.prim(pick(list(_BINARY)), pick(scalars), pick(scalars))
            case 3:
                return b.for_(0, 3, [pick(scalars)], lambda i, s: unary(s))[0]
            case _:
                return b.if_(b.prim("lt", n, i64(3)), lambda: pick(scalars), lambda: unary(pick(scalars)))[0]

    for _ in range(draw(st.integers(1, 6))):
        match draw(st.integers(0, 2)):
            case 0:
                scalars.append(scalar())
            case 1:
                vectors.append(vector())
            case _:
                m = pick(matrices)
                matrices.append(b.map([n, n], lambda i, j, m=m: unary(b.read(m, [j, i]))))
    return Program({"f": b.function("f", [scalars[-1], vectors[-1], matrices[-1]])})
