"""Programs that reduce: monoids, ragged bounds, destinations that are held."""

from __future__ import annotations

import numpy as np

from dlang.ir.anf import Array, Atom, Axis, Reduce, Var, fresh, poly
from dlang.ir.builder import Builder, axis, f64
from tests.codegen.cases.case import I64, Cases, size_and_matrix, size_and_vector

CASES = Cases()


def _monoids(dtype: str, names: tuple[str, ...]) -> None:
    def build(b: Builder) -> list[Atom]:
        n, a = size_and_matrix(b, dtype)
        m = poly(n) + 2
        i, j = axis(n), axis(m, name="j")
        out: list[Atom] = []
        for monoid in names:
            out.append(b.comp([axis(n), axis(m)], lambda i, j: b.read(a, [i, j]), [Reduce((), (), monoid)])[0])
            i, j = axis(n), axis(m, name="j")
            row, column = Reduce((poly(n),), (poly(i.var),), monoid), Reduce((m,), (poly(j.var),), monoid)
            out += b.comp([i, j], lambda i, j: b.read(a, [i, j]), [row])
            if not monoid.startswith("arg"):
                i2, j2 = axis(n), axis(m, name="j")
                column = Reduce((m,), (poly(j2.var),), monoid)
                out += b.comp([i2, j2], lambda i, j: b.read(a, [i, j]), [column])
                i3, j3 = axis(n), axis(m, name="j")
                row, column = Reduce((poly(n),), (poly(i3.var),), monoid), Reduce((m,), (poly(j3.var),), monoid)
                out += b.comp([i3, j3], lambda i, j: [b.read(a, [i, j])] * 2, [row, column])
        return out

    build.__name__ = f"monoids_{dtype}"
    CASES.add()(build)


_monoids("f64", ("sum", "prod", "max", "min", "argmax", "argmin"))
_monoids("f32", ("sum", "max", "argmin"))
_monoids("i64", ("sum", "prod", "max", "min", "argmax"))
_monoids("i32", ("sum", "max", "min"))
_monoids("u8", ("sum", "prod", "max", "min", "argmin"))
_monoids("bool", ("any", "all"))


@CASES.add()
def argument_of_the_maximum_of_columns(b: Builder) -> list[Atom]:
    n, a = size_and_matrix(b)
    m = poly(n) + 2
    i, j = axis(n), axis(m, name="j")
    return list(b.comp([i, j], lambda i, j: b.read(a, [i, j]), [Reduce((m,), (poly(j.var),), "argmax")]))


@CASES.add(lambda rng, n: [n, np.array([1.0, 3.0, 3.0, np.nan, 5.0, np.nan, 9.0, 9.0, 1.0])[:n]], sizes=(1, 3, 4, 9))
def ties_and_nan(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    return [b.reduce([n], lambda i: b.read(x, [i]), m) for m in ("max", "min", "argmax", "argmin", "sum")]


@CASES.add()
def dot_product(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    y = b.param("y", Array("f64", (poly(n),)))
    return [b.reduce([n], lambda i: b.mul(b.read(x, [i]), b.read(y, [i])))]


@CASES.add()
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


@CASES.add()
def ragged_bounds(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    i = axis(n)
    j = Axis(fresh("j", I64), (poly(i.var),), (poly(n),))
    k = axis(n)
    band = Axis(fresh("l", I64), (poly(0), poly(k.var) - 1), (poly(n), poly(k.var) + 2))
    suffix = b.comp([i, j], lambda i, j: b.mul(b.read(x, [i]), b.read(x, [j])), [Reduce((poly(n),), (poly(i.var),))])
    banded = b.comp(
        [k, band],
        lambda k, l: [b.read(x, [l])] * 2,
        [
            Reduce((poly(n), poly(n)), (poly(k.var), poly(band.var)), "set"),
            Reduce((poly(n),), (poly(band.var),), "max"),
        ],
    )
    return [*suffix, *banded]


@CASES.add()
def partial_coverage(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    i = axis(n)
    wide = Reduce((poly(n) * 2 + 1,), (poly(i.var) * 2 + 1,), "max")
    j = axis(n)
    back = Reduce((poly(n),), (poly(n) - 1 - j.var,), "set")
    return [*b.comp([i], lambda i: b.read(x, [i]), [wide]), *b.comp([j], lambda j: b.read(x, [j]), [back])]


@CASES.add()
def reduction_into_an_array(b: Builder) -> list[Atom]:
    n, a = size_and_matrix(b)
    m = poly(n) + 2
    base = b.map([m], lambda j: b.cast("f64", j))
    i, j = axis(n), axis(m, name="j")
    out = b.comp([i, j], lambda i, j: b.read(a, [i, j]), [Reduce((m,), (poly(j.var),), "sum", base)])
    start = b.map([n, m], lambda i, j: f64(1.0))
    k, l = axis(n), axis(m, name="l")
    keep = Reduce((poly(n), m), (poly(k.var), poly(l.var)), "sum", start)
    return [*out, *b.comp([k, l], lambda k, l: b.read(a, [k, l]), [keep])]


@CASES.add()
def into_an_array_that_is_still_held(b: Builder) -> list[Atom]:
    n, x = size_and_vector(b)
    base = b.map([n], lambda j: b.cast("f64", j))
    i = axis(n)
    out = b.comp([i], lambda i: b.read(x, [i]), [Reduce((poly(n),), (poly(i.var),), "sum", base)])
    return [*out, base, b.copy(x)]
