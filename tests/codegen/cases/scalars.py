"""Elementwise programs: every primitive, conversions, texts."""

from __future__ import annotations

import numpy as np

from dlang.ir.anf import Array, Atom, Lit, Reduce, Scalar, Var, poly
from dlang.ir.builder import Builder, axis, f64, i64
from tests.codegen.cases.case import I64, Cases, size_and_vector

CASES = Cases()


@CASES.add()
def elementwise(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y = b.param("y", Array("f64", (poly(n),)))
    return [b.map([n], lambda i: b.add(b.mul(b.read(x, [i]), b.read(y, [i])), f64(1.5)))]


@CASES.add()
def broadcast_of_a_row_and_a_column(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y = b.param("y", Array("f64", (poly(n) + 3,)))
    return [b.map([n, poly(n) + 3], lambda i, j: b.sub(b.read(x, [i]), b.read(y, [j])))]


@CASES.add()
def mathematics(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)

    def body(i: Var) -> list[Atom]:
        v = b.read(x, [i])
        names = (
            "exp",
            "tanh",
            "sin",
            "cos",
            "tan",
            "atan",
            "expm1",
            "floor",
            "ceil",
            "round",
            "abs",
            "sign",
            "cosh",
            "neg",
        )
        size = b.prim("abs", v)
        return [*(b.prim(name, v) for name in names), b.prim("log", size), b.prim("sqrt", size)]

    return list(b.comp([n], body))


@CASES.add()
def mathematics_f32(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b, "f32")

    def body(i: Var) -> list[Atom]:
        v = b.read(x, [i])
        return [
            b.prim(name, v) for name in ("exp", "tanh", "sin", "cos", "atan", "floor", "round", "abs", "sign", "neg")
        ]

    return list(b.comp([n], body))


@CASES.add()
def two_argument_mathematics(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y = b.param("y", Array("f64", (poly(n),)))

    def body(i: Var) -> list[Atom]:
        v, w = b.read(x, [i]), b.read(y, [i])
        whole = b.cast("i64", b.mul(w, f64(3)))
        out: list[Atom] = [
            b.prim(name, v, w)
            for name in "maximum minimum mod floordiv atan2 div zero_safe_mul zero_safe_mul_both".split()
        ]
        out += [b.prim("pow", b.prim("abs", v), w), b.prim("powi", v, i64(2)), b.prim("powi", v, i64(5))]
        return [*out, b.prim("powi", v, i64(-3)), b.prim("powi", v, whole), b.prim("pow", v, f64(2.0))]

    return list(b.comp([n], body))


@CASES.add()
def comparisons_and_selections(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y = b.param("y", Array("bool", (poly(n),)))

    def body(i: Var) -> list[Atom]:
        v, m = b.read(x, [i]), b.read(y, [i])
        c = b.prim("lt", v, f64(0))
        out: list[Atom] = [b.prim(name, v, f64(0.25)) for name in ("eq", "ne", "lt", "le", "gt", "ge")]
        out += [b.prim(name, c, m) for name in ("and", "or", "eq", "ne", "bit_xor")]
        return [*out, b.prim("not", m), b.prim("isnan", v), b.prim("isfinite", v), b.select(c, b.prim("neg", v), v)]

    return list(b.comp([n], body))


def _integers(dtype: str) -> None:
    def build(b: Builder) -> list[Atom]:
        n, x = size_and_vector(b, dtype)
        y = b.param("y", Array(dtype, (poly(n),)))

        def body(i: Var) -> list[Atom]:
            v, w = b.read(x, [i]), b.read(y, [i])
            one = Lit(1, dtype)
            divisor = b.select(b.prim("eq", w, Lit(0, dtype)), one, w)
            names = ("add", "sub", "mul", "maximum", "minimum", "bit_and", "bit_or", "bit_xor", "eq", "lt", "ge")
            out: list[Atom] = [b.prim(name, v, w) for name in names]
            out += [b.prim("floordiv", v, divisor), b.prim("mod", v, divisor)]
            out += [b.prim(name, v) for name in ("neg", "abs", "sign", "bit_not")]
            small = b.prim("bit_and", w, Lit(7, dtype))
            out += [b.prim("shift_left", v, small), b.prim("shift_right", v, small), b.prim("pow", v, small)]
            exponent = b.cast("i64", small)
            return [*out, b.prim("powi", v, exponent), b.prim("powi", v, i64(3))]

        return list(b.comp([n], body))

    build.__name__ = f"integers_{dtype}"
    CASES.add()(build)


for _dtype in ("i64", "i32", "i8", "u8", "u32", "u64"):
    _integers(_dtype)


@CASES.add()
def conversions(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y = b.param("y", Array("i32", (poly(n),)))

    def body(i: Var) -> list[Atom]:
        v, w = b.mul(b.read(x, [i]), f64(1e3)), b.read(y, [i])
        dtypes = ("f32", "i64", "i32", "i8", "u8", "u64", "bool")
        out = [b.cast(d, v) for d in dtypes] + [b.cast(d, w) for d in ("f64", "f32", "i64", "i8", "u32", "bool")]
        return [*out, b.cast("f64", b.prim("lt", v, f64(0)))]

    return list(b.comp([n], body))


@CASES.add(
    lambda rng, n: [n, np.array([np.nan, np.inf, -np.inf, 1e300, -0.0, 3.9, -3.9, 2.0**63])[: max(n, 1)][:n]],
    sizes=(0, 1, 8),
)
def conversions_saturate(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    return list(b.comp([n], lambda i: [b.cast(d, b.read(x, [i])) for d in ("i64", "i32", "u8", "u64", "i8")]))


@CASES.add()
def indices_as_values(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    i = axis(n)
    j = axis(n, name="j")
    both = Reduce((poly(n), poly(n)), (poly(i.var), poly(j.var)), "set")
    return list(b.comp([i, j], lambda i, j: [b.size(poly(i) * n + poly(j) * 2 + 1), b.cast("f64", j)], [both, both]))


@CASES.add(lambda rng, n: [n, 0.1, np.float32(0.25), True, "text"])
def scalars_and_texts(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    x, y = b.param("x", Scalar("f64")), b.param("y", Scalar("f32"))
    c, s = b.param("c", Scalar("bool")), b.param("s", Scalar("str"))
    ints = b.map([3], lambda i: b.size(poly(i) * n))
    whole = b.format(
        ["x = ", ".3f", ", y = ", "", ", n = ", "", ", c = ", "", ", s = ", "", ", a = ", "", ""], x, y, n, c, s, ints
    )
    same = b.prim("eq", s, Lit("text", "str"))
    return [whole, same, b.select(c, s, whole), y, c, b.stop(x), b.prim("not", c)]
