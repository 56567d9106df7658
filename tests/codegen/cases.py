"""Programs for a back end, each one function `f`, with what to call it with for a size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dlang.diagnostics import Source, Span
from dlang.ir.anf import (
    Add,
    Array,
    Atom,
    Axis,
    Concat,
    Function,
    Keep,
    Library,
    Lit,
    Program,
    Read,
    Scalar,
    SizeOf,
    Var,
    fresh,
    poly,
)
from dlang.ir.builder import Builder, axis, f64, i64
from dlang.polynomials import Poly

I64 = Scalar("i64")
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 17, 40)
SOURCE = Source("case.dl", "first line\nsecond line\n")
NUMPY = {
    "f64": "float64", "f32": "float32", "bool": "bool",
    "i64": "int64", "i32": "int32", "i8": "int8", "u64": "uint64", "u32": "uint32", "u8": "uint8",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    name: str
    program: Program
    arguments: Callable[[np.random.Generator, int], list[Any]]
    sizes: tuple[int, ...] = SIZES


CASES: list[Case] = []
Arguments = Callable[[np.random.Generator, int], list[Any]]


def sample(rng: np.random.Generator, dtype: str, *shape: int) -> Any:
    """An array without structure."""
    match dtype:
        case "f64" | "f32":
            return rng.standard_normal(shape).astype(NUMPY[dtype])
        case "bool":
            return rng.random(shape) < 0.5
        case _:
            low = 0 if dtype[0] == "u" else -50
            return rng.integers(low, 50, shape).astype(NUMPY[dtype])


def case(
    arguments: Arguments | None = None,
    sizes: tuple[int, ...] = SIZES,
    functions: Callable[[], dict[str, Function]] | None = None,
) -> Callable[[Callable[[Builder], list[Atom]]], None]:
    """Adds a program: the decorated function builds it."""

    def add(build: Callable[[Builder], list[Atom]]) -> None:
        others = functions() if functions else {}
        b = Builder(others, Span(SOURCE, 11, 17))
        results = build(b)
        program = Program({**others, "f": b.function("f", results)})
        CASES.append(Case(build.__name__, program, arguments or (lambda rng, n: standard(rng, n, program)), sizes))

    return add


def standard(rng: np.random.Generator, n: int, program: Program) -> list[Any]:
    """n for every i64 parameter, arrays of the sizes that follow."""
    out: list[Any] = []
    env: dict[Var, int] = {}
    for p in program.functions["f"].params:
        match p.type:
            case Array(dtype, shape):
                out.append(sample(rng, dtype, *(s.evaluate(env.__getitem__) for s in shape)))
            case Scalar("i64"):
                env[p] = n
                out.append(n)
            case Scalar(dtype):
                out.append(sample(rng, dtype)[()])
    return out


def size_and_vector(b: Builder, dtype: str = "f64", name: str = "x") -> tuple[Var, Var]:
    n = b.param("n", I64)
    return n, b.param(name, Array(dtype, (poly(n),)))


def size_and_matrix(b: Builder, dtype: str = "f64") -> tuple[Var, Var]:
    n = b.param("n", I64)
    return n, b.param("a", Array(dtype, (poly(n), poly(n) + 2)))


# ---- elementwise -----------------------------------------------------------------------------------------------------
@case()
def elementwise(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y = b.param("y", Array("f64", (poly(n),)))
    return [b.map([n], lambda i: b.add(b.mul(b.read(x, [i]), b.read(y, [i])), f64(1.5)))]


@case()
def broadcast_of_a_row_and_a_column(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y = b.param("y", Array("f64", (poly(n) + 3,)))
    return [b.map([n, poly(n) + 3], lambda i, j: b.sub(b.read(x, [i]), b.read(y, [j])))]


@case()
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


@case()
def mathematics_f32(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b, "f32")

    def body(i: Var) -> list[Atom]:
        v = b.read(x, [i])
        return [
            b.prim(name, v) for name in ("exp", "tanh", "sin", "cos", "atan", "floor", "round", "abs", "sign", "neg")
        ]

    return list(b.comp([n], body))


@case()
def two_argument_mathematics(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y = b.param("y", Array("f64", (poly(n),)))

    def body(i: Var) -> list[Atom]:
        v, w = b.read(x, [i]), b.read(y, [i])
        whole = b.cast("i64", b.mul(w, f64(3)))
        out: list[Atom] = [
            b.prim(name, v, w) for name in ("maximum", "minimum", "mod", "floordiv", "atan2", "div", "guard")
        ]
        out += [b.prim("pow", b.prim("abs", v), w), b.prim("powi", v, i64(2)), b.prim("powi", v, i64(5))]
        return [*out, b.prim("powi", v, i64(-3)), b.prim("powi", v, whole), b.prim("pow", v, f64(2.0))]

    return list(b.comp([n], body))


@case()
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
    case()(build)


for _dtype in ("i64", "i32", "i8", "u8", "u32", "u64"):
    _integers(_dtype)


@case()
def conversions(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y = b.param("y", Array("i32", (poly(n),)))

    def body(i: Var) -> list[Atom]:
        v, w = b.mul(b.read(x, [i]), f64(1e3)), b.read(y, [i])
        dtypes = ("f32", "i64", "i32", "i8", "u8", "u64", "bool")
        out = [b.cast(d, v) for d in dtypes] + [b.cast(d, w) for d in ("f64", "f32", "i64", "i8", "u32", "bool")]
        return [*out, b.cast("f64", b.prim("lt", v, f64(0)))]

    return list(b.comp([n], body))


@case(
    lambda rng, n: [n, np.array([np.nan, np.inf, -np.inf, 1e300, -0.0, 3.9, -3.9, 2.0**63])[: max(n, 1)][:n]],
    sizes=(0, 1, 8),
)
def conversions_saturate(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    return list(b.comp([n], lambda i: [b.cast(d, b.read(x, [i])) for d in ("i64", "i32", "u8", "u64", "i8")]))


@case()
def indices_as_values(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    i = axis(n)
    j = axis(n, name="j")
    both = Keep((poly(n), poly(n)), (poly(i.var), poly(j.var)), "set")
    return list(b.comp([i, j], lambda i, j: [b.size(poly(i) * n + poly(j) * 2 + 1), b.cast("f64", j)], [both, both]))


# ---- views -----------------------------------------------------------------------------------------------------------
@case()
def reversed_strided_and_transposed_views(b: Builder) -> list[Atom]:
    n, a = size_and_matrix(b)
    m = poly(n) + 2
    back = b.view(a, [n, m], lambda i, j: [poly(n) - 1 - i, m - 1 - poly(j)])
    turned = b.view(a, [m, n], lambda i, j: [j, i])
    column = b.view(a, [n], lambda i: [i, i64(1)])
    flat = b.reshape(turned, [poly(n) * m])
    doubled = b.map([m, n], lambda i, j: b.mul(b.read(turned, [i, j]), f64(2)))
    return [back, turned, column, flat, doubled, b.reshape(a, [m, n])]


@case()
def diagonal_and_broadcast_views(b: Builder) -> list[Atom]:
    n, a = size_and_matrix(b)
    diagonal = b.view(a, [n], lambda i: [i, i])
    wide = b.view(diagonal, [3, n], lambda i, j: [j])
    return [diagonal, wide, b.reduce([n], lambda i: b.read(diagonal, [i]))]


@case()
def every_other_element(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n) * 2,)))
    half = b.view(x, [n], lambda i: [poly(i) * 2])
    return [half, b.map([n], lambda i: b.add(b.read(x, [poly(i) * 2]), b.read(x, [poly(i) * 2 + 1])))]


@case()
def concatenation(b: Builder) -> list[Atom]:
    n, a = size_and_matrix(b)
    back = b.view(a, [n, poly(n) + 2], lambda i, j: [poly(n) - 1 - i, j])
    return [b.concat(a, back, a)]


# ---- reductions ------------------------------------------------------------------------------------------------------
def _monoids(dtype: str, names: tuple[str, ...]) -> None:
    def build(b: Builder) -> list[Atom]:
        n, a = size_and_matrix(b, dtype)
        m = poly(n) + 2
        i, j = axis(n), axis(m, name="j")
        out: list[Atom] = []
        for monoid in names:
            out.append(b.comp([axis(n), axis(m)], lambda i, j: b.read(a, [i, j]), [Keep((), (), monoid)])[0])
            i, j = axis(n), axis(m, name="j")
            row, column = Keep((poly(n),), (poly(i.var),), monoid), Keep((m,), (poly(j.var),), monoid)
            out += b.comp([i, j], lambda i, j: b.read(a, [i, j]), [row])
            if not monoid.startswith("arg"):
                i2, j2 = axis(n), axis(m, name="j")
                column = Keep((m,), (poly(j2.var),), monoid)
                out += b.comp([i2, j2], lambda i, j: b.read(a, [i, j]), [column])
                i3, j3 = axis(n), axis(m, name="j")
                row, column = Keep((poly(n),), (poly(i3.var),), monoid), Keep((m,), (poly(j3.var),), monoid)
                out += b.comp([i3, j3], lambda i, j: [b.read(a, [i, j])] * 2, [row, column])
        return out

    build.__name__ = f"monoids_{dtype}"
    case()(build)


_monoids("f64", ("sum", "prod", "max", "min", "argmax", "argmin"))
_monoids("f32", ("sum", "max", "argmin"))
_monoids("i64", ("sum", "prod", "max", "min", "argmax"))
_monoids("i32", ("sum", "max", "min"))
_monoids("u8", ("sum", "prod", "max", "min", "argmin"))
_monoids("bool", ("any", "all"))


@case()
def argument_of_the_maximum_of_columns(b: Builder) -> list[Atom]:
    n, a = size_and_matrix(b)
    m = poly(n) + 2
    i, j = axis(n), axis(m, name="j")
    return list(b.comp([i, j], lambda i, j: b.read(a, [i, j]), [Keep((m,), (poly(j.var),), "argmax")]))


@case(lambda rng, n: [n, np.array([1.0, 3.0, 3.0, np.nan, 5.0, np.nan, 9.0, 9.0, 1.0])[:n]], sizes=(1, 3, 4, 9))
def ties_and_nan(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    return [b.reduce([n], lambda i: b.read(x, [i]), m) for m in ("max", "min", "argmax", "argmin", "sum")]


@case()
def dot_product(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y = b.param("y", Array("f64", (poly(n),)))
    return [b.reduce([n], lambda i: b.mul(b.read(x, [i]), b.read(y, [i])))]


@case()
def reductions_inside_bodies(b: Builder) -> list[Atom]:
    n, a = size_and_matrix(b)
    m = poly(n) + 2

    def softmax(i: Var, j: Var) -> Atom:
        top = b.reduce([m], lambda k: b.read(a, [i, k]), "max")
        total = b.reduce([m], lambda k: b.prim("exp", b.sub(b.read(a, [i, k]), top)))
        return b.prim("div", b.prim("exp", b.sub(b.read(a, [i, j]), top)), total)

    rows = b.map([n], lambda i: b.reduce([m], lambda k: b.read(a, [i, k])))
    columns = b.map([m], lambda j: b.reduce([n], lambda k: b.read(a, [k, j])))
    return [b.map([n, m], softmax), rows, columns]


@case()
def ragged_bounds(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    i = axis(n)
    j = Axis(fresh("j", I64), (poly(i.var),), (poly(n),))
    k = axis(n)
    band = Axis(fresh("l", I64), (poly(0), poly(k.var) - 1), (poly(n), poly(k.var) + 2))
    suffix = b.comp([i, j], lambda i, j: b.mul(b.read(x, [i]), b.read(x, [j])), [Keep((poly(n),), (poly(i.var),))])
    banded = b.comp(
        [k, band],
        lambda k, l: [b.read(x, [l])] * 2,
        [Keep((poly(n), poly(n)), (poly(k.var), poly(band.var)), "set"), Keep((poly(n),), (poly(band.var),), "max")],
    )
    return [*suffix, *banded]


@case()
def partial_coverage(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    i = axis(n)
    wide = Keep((poly(n) * 2 + 1,), (poly(i.var) * 2 + 1,), "max")
    j = axis(n)
    back = Keep((poly(n),), (poly(n) - 1 - j.var,), "set")
    return [*b.comp([i], lambda i: b.read(x, [i]), [wide]), *b.comp([j], lambda j: b.read(x, [j]), [back])]


@case()
def reduction_into_an_array(b: Builder) -> list[Atom]:
    n, a = size_and_matrix(b)
    m = poly(n) + 2
    base = b.map([m], lambda j: b.cast("f64", j))
    i, j = axis(n), axis(m, name="j")
    out = b.comp([i, j], lambda i, j: b.read(a, [i, j]), [Keep((m,), (poly(j.var),), "sum", base)])
    start = b.map([n, m], lambda i, j: f64(1.0))
    k, l = axis(n), axis(m, name="l")
    keep = Keep((poly(n), m), (poly(k.var), poly(l.var)), "sum", start)
    return [*out, *b.comp([k, l], lambda k, l: b.read(a, [k, l]), [keep])]


@case()
def into_an_array_that_is_still_held(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    base = b.map([n], lambda j: b.cast("f64", j))
    i = axis(n)
    out = b.comp([i], lambda i: b.read(x, [i]), [Keep((poly(n),), (poly(i.var),), "sum", base)])
    return [*out, base, b.copy(x)]


# ---- gather and scatter ----------------------------------------------------------------------------------------------
@case(lambda rng, n: [n, rng.standard_normal(n), rng.integers(0, max(n, 1), n)])
def gather(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    t = b.param("t", Array("i64", (poly(n),)))
    return [b.map([n], lambda i: b.mul(b.read(x, [b.read(t, [i])]), f64(2)))]


@case(lambda rng, n: [n, rng.standard_normal((n, n)).astype("float32"), rng.integers(0, max(n, 1), n)])
def gather_of_rows_f32(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    x = b.param("x", Array("f32", (poly(n), poly(n))))
    t = b.param("t", Array("i64", (poly(n),)))
    return [
        b.map([n, n], lambda i, j: b.read(x, [b.read(t, [i]), j])),
        b.map([n, n], lambda i, j: b.read(x, [j, b.read(t, [i])])),
    ]


@case(lambda rng, n: [n, rng.standard_normal((n, 3)), rng.integers(0, max(n, 1), n)])
def scatter_add(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n), poly(3))))
    t = b.param("t", Array("i64", (poly(n),)))
    row = fresh("row", I64)
    i, j = axis(n), axis(3, name="j")

    def body(i: Var, j: Var) -> Atom:
        b.emit_as([row], Read(t, (poly(i),)))
        return b.read(x, [i, j])

    return list(b.comp([i, j], body, [Add((poly(n), poly(3)), (poly(row), poly(j.var)))]))


@case(lambda rng, n: [n, rng.standard_normal(n), rng.permutation(n)])
def permutation_by_keep(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    t = b.param("t", Array("i64", (poly(n),)))
    row = fresh("row", I64)

    def body(i: Var) -> Atom:
        b.emit_as([row], Read(t, (poly(i),)))
        return b.read(x, [i])

    return list(b.comp([axis(n)], body, [Keep((poly(n),), (poly(row),), "set")]))


@case()
def convolution_adjoint(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    i, p = axis(n), axis(3, name="p")
    out = b.comp(
        [i, p], lambda i, p: b.mul(b.read(x, [i]), b.cast("f64", p)), [Add((poly(n) + 2,), (poly(i.var) + p.var,))]
    )
    return [*out, b.map([n], lambda i: b.reduce([3], lambda p: b.read(out[0], [poly(i) + p])))]


# ---- loops and branches ----------------------------------------------------------------------------------------------
@case()
def updates_in_a_loop(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    zero = b.full([n], f64(0))

    def body(i: Var, s: Var) -> Atom:
        before = b.if_(b.prim("gt", i, i64(0)), lambda: b.read(s, [poly(i) - 1]), lambda: f64(1))[0]
        return b.update(s, [i], b.add(b.mul(before, f64(0.5)), b.read(x, [i])))

    return list(b.for_(0, n, [zero], body))


@case()
def updates_of_a_parameter(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    out = b.for_(0, n, [b.copy(x)], lambda i, s: b.update(s, [poly(n) - 1 - i], b.read(x, [i])))
    return [*out, b.reduce([n], lambda i: b.read(x, [i]))]


@case()
def updates_without_a_copy_before(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    return list(b.for_(0, n, [x], lambda i, s: b.update(s, [poly(n) - 1 - i], b.read(x, [i]))))


@case()
def state_replaced_whole(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)

    def body(i: Var, s: Var, total: Var) -> list[Atom]:
        new = b.map([n], lambda j: b.add(b.read(s, [poly(n) - 1 - j]), b.read(x, [j])))
        return [new, b.add(total, b.reduce([n], lambda j: b.read(new, [j])))]

    return list(b.for_(0, 5, [x, f64(0)], body))


@case()
def states_swapped(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y = b.map([n], lambda i: b.cast("f64", i))
    return list(b.for_(0, 3, [x, y], lambda i, s, t: [t, s]))


@case()
def nested_loops(b: Builder) -> list[Atom]:
    n, a = size_and_matrix(b)
    m = poly(n) + 2
    start = b.full([n, m], f64(0))

    def outer(i: Var, s: Var) -> Atom:
        return b.for_(
            0, m, [s], lambda j, t: b.update(t, [i, j], b.mul(b.read(a, [i, j]), b.cast("f64", b.size(poly(i) + j))))
        )[0]

    return list(b.for_(0, n, [start], outer))


@case()
def conditional_updates(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y = b.full([n], f64(-1))

    def body(i: Var, s: Var) -> Atom:
        v = b.read(x, [i])
        return b.if_(b.prim("gt", v, f64(0)), lambda: b.update(s, [i], v), lambda: s)[0]

    return list(b.for_(0, n, [y], body))


@case()
def early_exit(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)

    def body(i: Var, total: Var, seen: Var) -> list[Atom]:
        new = b.add(total, b.read(x, [i]))
        return [b.prim("lt", new, f64(1.5)), new, b.update(seen, [i], new)]

    return list(b.for_(0, n, [f64(0), b.full([n], f64(0))], body, early=True))


@case(sizes=(0, 1, 5, 27))
def collatz(b: Builder) -> list[Atom]:
    n = b.param("n", I64)

    def body(x: Var, steps: Var) -> list[Atom]:
        even = b.prim("eq", b.prim("mod", x, i64(2)), i64(0))
        half = b.prim("floordiv", x, i64(2))
        return [b.select(even, half, b.add(b.mul(x, i64(3)), i64(1))), b.add(steps, i64(1))]

    return list(b.while_([n, i64(0)], lambda x, s: b.prim("gt", x, i64(1)), body))


@case()
def while_with_arrays(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)

    def body(k: Var, s: Var, t: Var) -> list[Atom]:
        new = b.map([n], lambda i: b.mul(b.read(s, [i]), f64(0.5)))
        go = b.prim("lt", k, i64(6))
        changed = b.for_(0, n, [t], lambda i, t: b.update(t, [i], b.add(b.read(t, [i]), f64(1))))[0]
        return [go, b.add(k, i64(1)), new, changed]

    return list(b.while_([i64(0), x, b.full([n], f64(0))], lambda k, s, t: b.prim("lt", k, i64(9)), body, early=True))


@case()
def branches_that_make_arrays(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    c = b.prim("gt", n, i64(4))
    doubled = b.if_(c, lambda: b.map([n], lambda i: b.mul(b.read(x, [i]), f64(2))), lambda: x)[0]
    nested = b.if_(c, lambda: b.if_(b.prim("gt", n, i64(8)), lambda: x, lambda: doubled)[0], lambda: doubled)[0]
    return [doubled, nested]


@case()
def loops_inside_a_comprehension(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)

    def body(i: Var) -> Atom:
        private = b.full([4], b.read(x, [i]))
        last = b.for_(1, 4, [private], lambda k, s: b.update(s, [k], b.mul(b.read(s, [poly(k) - 1]), f64(0.5))))[0]
        steps = b.for_(0, i, [f64(1)], lambda k, v: b.add(b.mul(v, f64(0.5)), f64(1)))[0]
        return b.add(b.read(last, [3]), steps)

    return [b.map([n], body)]


@case()
def scans(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    k = b.map([n], lambda i: b.size(poly(i) + 1))
    return [b.scan("sum", x), b.scan("prod", x), b.scan("sum", k)]


# ---- dependent sizes -------------------------------------------------------------------------------------------------
@case()
def positions_of_a_mask(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    mask = b.map([n], lambda i: b.prim("gt", b.read(x, [i]), f64(0)))
    k, where = b.compact(mask)
    return [k, where, k, b.map([k], lambda i: b.read(x, [b.read(where, [i])]))]


@case()
def a_growing_state(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    k = fresh("k", I64)
    s = fresh("s", Array("f64", (poly(k),)))

    def body(i: Var, k: Var, s: Var) -> list[Atom]:
        size = fresh("m", I64)
        b.emit_as([size], SizeOf(poly(k) + 1))
        last = b.reshape(b.full([1], b.read(x, [i])), [1])
        joined = fresh("joined", Array("f64", (poly(k) + 1,)))
        b.emit_as([joined], Concat((s, last)))
        return [size, joined]

    empty = b.view(x, [0], lambda i: [i])
    return list(b.for_(0, n, [i64(0), empty], body, params=[k, s]))


# ---- calls -----------------------------------------------------------------------------------------------------------
def _helpers() -> dict[str, Function]:
    b = Builder()
    n, x = size_and_vector(b)
    scale = b.param("scale", Scalar("f64"))
    y = b.map([n], lambda i: b.mul(b.read(x, [i]), scale))
    scaled = b.function("scaled", [y, b.reduce([n], lambda i: b.read(y, [i]))])
    b = Builder()
    n, x = size_and_vector(b)
    mask = b.map([n], lambda i: b.prim("gt", b.read(x, [i]), f64(0)))
    k, where = b.compact(mask)
    kept = b.function("kept", [k, b.map([k], lambda i: b.read(x, [b.read(where, [i])]))])
    return {"scaled": scaled, "kept": kept}


@case(functions=_helpers)
def calls(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y, total = b.call("scaled", n, x, f64(3))
    back = b.view(y, [n], lambda i: [poly(n) - 1 - i])
    z, again = b.call("scaled", n, back, total)
    k, positive = b.call("kept", n, z)
    w, _ = b.call("scaled", k, positive, f64(2))
    return [y, total, z, again, k, w]


@case(functions=_helpers)
def calls_in_a_comprehension(b: Builder) -> list[Atom]:
    n, a = size_and_matrix(b)
    m = poly(n) + 2

    def body(i: Var) -> Atom:
        row = b.view(a, [m], lambda j: [i, j])
        return b.call("scaled", b.size(m), row, b.cast("f64", i))[1]

    return [b.map([n], body)]


def _fibonacci() -> dict[str, Function]:
    n = fresh("n", I64)
    r = fresh("r", I64)
    header = Function("fib", (n,), (r,), None)  # type: ignore[arg-type]
    b = Builder({"fib": header})
    b.params.append(n)
    small = b.prim("lt", n, i64(2))
    value = b.if_(
        small,
        lambda: n,
        lambda: b.add(b.call("fib", b.sub(n, i64(1)))[0], b.call("fib", b.sub(n, i64(2)))[0]),
    )[0]
    return {"fib": b.function("fib", [value])}


@case(functions=_fibonacci, sizes=(0, 1, 2, 15))
def recursion(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    return [b.call("fib", n)[0], b.map([3], lambda i: b.call("fib", i)[0])]


# ---- products --------------------------------------------------------------------------------------------------------
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
    case(sizes=(0, 1, 2, 3, 5, 8, 17, 40))(build)


_products("f64")
_products("f32")
_products("i64")


# ---- the rest --------------------------------------------------------------------------------------------------------
@case()
def stable_sorting(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    k = b.map([n], lambda i: b.cast("i64", b.read(x, [i])))
    order = b.library("argsort", x)
    return [order, b.library("argsort", k), b.map([n], lambda i: b.read(x, [b.read(order, [i])]))]


def _matrices(rng: np.random.Generator, n: int) -> list[Any]:
    return [n, rng.normal(size=(n, n)), rng.normal(size=(n, 2))]


@case(_matrices)
def library_operations_of_several_results(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    a, c = b.param("a", Array("f64", (poly(n), poly(n)))), b.param("c", Array("f64", (poly(n), poly(2))))
    turned = b.view(a, [n, n], lambda i, j: [j, i])
    x, info = b.emit(Library("solve", (turned, c)))
    k = b.prim("minimum", n, i64(2))
    q, r = b.emit(Library("qr", (c, k)))
    packed, order, singular = b.emit(Library("lu", (a,)))

    def shifted(by: Var) -> Var:
        return b.map([n, n], lambda i, j: b.add(b.read(a, [i, j]), b.cast("f64", by)))

    many = b.map([3], lambda k: b.library("det", shifted(k)))
    return [x, info, k, r, q, packed, order, singular, many, b.reduce([n], lambda i: b.read(x, [i, 1]))]


@case(lambda rng, n: [n, 0.1, np.float32(0.25), True, "text"])
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


@case()
def literals_of_small_fixed_sizes(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    p = b.param("p", Array("f64", (poly(n), poly(3))))
    norm = b.map([n], lambda i: b.reduce([3], lambda k: b.mul(b.read(p, [i, k]), b.read(p, [i, k]))))
    turned = b.map(
        [n, 3], lambda i, k: b.reduce([3], lambda l: b.mul(b.read(p, [i, l]), b.cast("f64", b.size(poly(k) + l))))
    )
    return [norm, turned]


@case()
def triangular_sizes(b: Builder) -> list[Atom]:
    n = b.param("n", I64)
    half = Poly({(n, n): Fraction(1, 2), (n,): Fraction(1, 2)})
    x = b.full([half], f64(2))
    return [x, b.reduce([half], lambda i: b.read(x, [i]))]
