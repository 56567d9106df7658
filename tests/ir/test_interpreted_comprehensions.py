"""The interpreter against NumPy: comprehensions and reductions, many points at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dlang.interpret import comprehensions
from dlang.interpret.algebra import Algebra
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Axis, Function, Lit, Program, Reduce, ScatterAdd, Var, fresh, poly
from dlang.ir.builder import Builder, axis, boolean, f64
from dlang.ir.errors import IRError
from dlang.ir.verify import verify
from tests.ir.interpreting import I64, RNG, interpreter, matrix, run, vector
from tests.ir.programs import programs


def product_of_matrices() -> tuple[Builder, Var]:
    b = Builder()
    m, k, n = (b.param(name, I64) for name in "mkn")
    x, y = matrix(b, "x", m, k), matrix(b, "y", k, n)
    i, j, p = axis(m), axis(n, name="j"), axis(k, name="p")
    (z,) = b.comp(
        [i, j, p],
        lambda i, j, p: b.mul(b.read(x, [i, p]), b.read(y, [p, j])),
        [Reduce((poly(m), poly(n)), (poly(i.var), poly(j.var)))],
    )
    return b, z


def test_an_outer_product_is_that_of_numpy() -> None:
    b = Builder()
    m, n = b.param("m", I64), b.param("n", I64)
    x, y = vector(b, "x", m), vector(b, "y", n)
    z = b.map([m, n], lambda i, j: b.mul(b.read(x, [i]), b.read(y, [j])))
    p, q = RNG.normal(size=4), RNG.normal(size=3)
    np.testing.assert_array_equal(run(b, [4, 3, p, q], z)[0], np.outer(p, q))


def test_a_dot_product_takes_two_reads_a_product_and_a_sum_for_each_element() -> None:
    b = Builder()
    n = b.param("n", I64)
    x, y = vector(b, "x", n), vector(b, "y", n)
    it = interpreter(b, b.reduce([n], lambda i: b.mul(b.read(x, [i]), b.read(y, [i]))))
    p, q = RNG.normal(size=10), RNG.normal(size=10)
    assert it.run("f", [10, p, q])[0] == pytest.approx(p @ q, rel=1e-14)
    assert it.operations == 4 * 10
    assert dict(it.counts) == {"Read": 20, "Prim": 10, "Comp": 10}


def test_a_product_of_matrices_takes_four_operations_for_each_term_and_one_for_each_element() -> None:
    b, z = product_of_matrices()
    it = interpreter(b, z)
    p, q = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 5))
    np.testing.assert_allclose(it.run("f", [3, 4, 5, p, q])[0], p @ q, rtol=1e-14)
    assert it.operations == 4 * 3 * 4 * 5 + 3 * 5


def test_a_contract_counts_as_the_loops_that_it_stands_for() -> None:
    b = Builder()
    m, k, n = (b.param(name, I64) for name in "mkn")
    x, y = matrix(b, "x", m, k), matrix(b, "y", n, k)
    it = interpreter(b, b.contract(x, y, [0, 1], [2, 1], [2, 0]))
    p, q = RNG.normal(size=(3, 4)), RNG.normal(size=(5, 4))
    np.testing.assert_allclose(it.run("f", [3, 4, 5, p, q])[0], q @ p.T, rtol=1e-14)
    assert it.operations == 4 * 3 * 4 * 5 + 3 * 5


def test_points_in_several_batches_give_what_one_batch_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    p, q = RNG.normal(size=(9, 4)), RNG.normal(size=(4, 5))
    b, z = product_of_matrices()
    monkeypatch.setattr(Algebra, "most", 23)
    np.testing.assert_allclose(run(b, [9, 4, 5, p, q], z)[0], p @ q, rtol=1e-14, atol=1e-14)
    b = Builder()
    size = b.param("n", I64)
    x = matrix(b, "x", size, size)
    i, j = axis(size), axis(size, name="j")
    sums = b.comp(
        [i, j],
        lambda i, j: [b.read(x, [i, j])] * 3,
        [Reduce((poly(size),), (poly(j.var),), m) for m in ("sum", "max", "argmax")],
    )
    square = RNG.normal(size=(11, 11))
    total, most, where = run(b, [11, square], *sums)
    np.testing.assert_allclose(total, square.sum(0), rtol=1e-13)
    np.testing.assert_array_equal(most, square.max(0))
    np.testing.assert_array_equal(where, square.argmax(0))


def softmax(b: Builder, x: Var, m: Var, n: Var) -> Var:
    """Row by row, with the reductions inside the body of one comprehension."""

    def row(i: Var) -> Any:
        top = b.reduce([n], lambda j: b.read(x, [i, j]), "max")
        e = b.map([n], lambda j: b.prim("exp", b.sub(b.read(x, [i, j]), top)))
        return e, b.reduce([n], lambda j: b.read(e, [j]))

    def element(i: Var, j: Var) -> Var:
        e, total = row(i)
        return b.prim("div", b.read(e, [j]), total)

    return b.map([m, n], element)


def test_softmax_with_nested_comprehensions_is_that_of_numpy() -> None:
    b = Builder()
    m, n = b.param("m", I64), b.param("n", I64)
    x = matrix(b, "x", m, n)
    y = softmax(b, x, m, n)
    p = RNG.normal(size=(5, 7))
    e = np.exp(p - p.max(1, keepdims=True))
    np.testing.assert_allclose(run(b, [5, 7, p], y)[0], e / e.sum(1, keepdims=True), rtol=1e-14)


def test_a_triangle_has_the_points_between_its_bounds() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = matrix(b, "x", n, n)
    i = axis(n)
    j = Axis(fresh("j", I64), (poly(i.var), poly(1)), (poly(n), poly(i.var) + 3))
    out = b.comp(
        [i, j],
        lambda i, j: [b.read(x, [i, j])] * 4,
        [
            Reduce((poly(n),), (poly(i.var),)),
            Reduce((poly(n),), (poly(j.var),)),
            Reduce((poly(n), poly(n)), (poly(i.var), poly(j.var)), "set"),
            Reduce((poly(n),), (poly(i.var),), "max"),
        ],
    )
    p = RNG.normal(size=(8, 8))
    mask = np.array([[max(i, 1) <= j < min(8, i + 3) for j in range(8)] for i in range(8)])
    rows, columns, whole, top = run(b, [8, p], *out)
    np.testing.assert_allclose(rows, np.where(mask, p, 0).sum(1), rtol=1e-13)
    np.testing.assert_allclose(columns, np.where(mask, p, 0).sum(0), rtol=1e-13)
    np.testing.assert_array_equal(whole, np.where(mask, p, 0))
    np.testing.assert_array_equal(top, np.where(mask, p, -np.inf).max(1))


def test_an_array_of_a_size_that_depends_on_the_point_is_one_array_for_each_point() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = vector(b, "x", n)

    def element(i: Var) -> Var:
        prefix = b.map([poly(i) + 1], lambda j: b.mul(b.read(x, [j]), f64(2)))
        back = b.view(prefix, [poly(i) + 1], lambda j: [poly(i) - j])
        return b.reduce([poly(i) + 1], lambda j: b.mul(b.read(back, [j]), b.read(x, [j])))

    p = RNG.normal(size=6)
    expected = [2 * (p[: i + 1][::-1] @ p[: i + 1]) for i in range(6)]
    np.testing.assert_allclose(run(b, [6, p], b.map([n], element))[0], expected, rtol=1e-13)


def test_a_gather_reads_where_an_index_array_says() -> None:
    b = Builder()
    n, k = b.param("n", I64), b.param("k", I64)
    x, idx = vector(b, "x", n), vector(b, "idx", k, "i64")
    y = b.map([k], lambda i: b.read(x, [b.read(idx, [i])]))
    p, t = RNG.normal(size=5), np.array([4, 0, 0, 3])
    np.testing.assert_array_equal(run(b, [5, 4, p, t], y)[0], p[t])


def test_a_read_out_of_range_is_an_internal_error_and_never_wraps() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = vector(b, "x", n)
    y = b.map([n], lambda i: b.read(x, [poly(i) - 1]))
    with pytest.raises(IRError, match="index -1 is out of range"):
        run(b, [3, np.ones(3)], y)


def test_a_scatter_adds_all_values_that_meet() -> None:
    b = Builder()
    n, k = b.param("n", I64), b.param("k", I64)
    x, idx = vector(b, "x", k), vector(b, "idx", k, "i64")
    base = vector(b, "base", n)

    def build(into: Var | None) -> Any:
        i = axis(k)
        holder: list[Var] = []

        def body(v: Var) -> Var:
            holder.append(b.read(idx, [v]))
            return b.read(x, [v])

        return b.comp([i], body, lambda _: [ScatterAdd((poly(n),), (poly(holder[0]),), into)])[0]

    p, at = RNG.normal(size=6), np.array([1, 1, 0, 3, 3, 3])
    expected = np.zeros(4)
    np.add.at(expected, at, p)
    first, second = run(b, [4, 6, p, at, np.full(4, 10.0)], build(None), build(base))
    np.testing.assert_allclose(first, expected, rtol=1e-13)
    np.testing.assert_allclose(second, 10 + expected, rtol=1e-13)


def test_keep_into_adds_to_the_elements_reached_and_keeps_the_others() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = vector(b, "x", n)
    i = axis(n)
    (y,) = b.comp([i], lambda i: b.read(x, [i]), [Reduce((poly(n) * 2,), (poly(i.var) * 2,), "sum", None)])
    j = axis(n, name="j")
    (z,) = b.comp([j], lambda j: f64(1), [Reduce((poly(n) * 2,), (poly(j.var) * 2 + 1,), "sum", y)])
    np.testing.assert_array_equal(run(b, [3, np.array([5.0, 6, 7])], z)[0], [5, 1, 6, 1, 7, 1])


def test_argmax_and_argmin_give_the_first_extremum_and_nan_wins_as_in_numpy() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = matrix(b, "x", n, n)
    i, j = axis(n), axis(n, name="j")
    per_row = [Reduce((poly(n),), (poly(i.var),), m) for m in ("argmax", "argmin")]
    rows = b.comp([i, j], lambda i, j: [b.read(x, [i, j])] * 2, per_row)
    whole = b.reduce([n, n], lambda i, j: b.read(x, [i, j]), "argmax")
    i2 = axis(n)
    j2 = axis(n, name="j", low=i2.var)  # ragged: rank among the points of the row
    ragged = b.comp([i2, j2], lambda i, j: b.read(x, [i, j]), [Reduce((poly(n),), (poly(i2.var),), "argmax")])
    p = np.array([[1.0, 3, 3], [2, 2, 2], [0, np.nan, 9]])
    most, least, all_of_it, late = run(b, [3, p], *rows, whole, *ragged)
    np.testing.assert_array_equal(most, p.argmax(1))
    np.testing.assert_array_equal(least, p.argmin(1))
    assert all_of_it == np.argmax(p)
    np.testing.assert_array_equal(late, [1, 0, 0])


@pytest.mark.parametrize(
    ("monoid", "dtype", "expected"),
    [
        ("sum", "f64", 0.0),
        ("prod", "f64", 1.0),
        ("max", "f64", -np.inf),
        ("min", "f64", np.inf),
        ("max", "i32", -(2**31)),
        ("min", "u8", 255),
        ("any", "bool", False),
        ("all", "bool", True),
        ("argmax", "f64", 0),
    ],
)
def test_a_reduction_of_nothing_is_the_identity(monoid: str, dtype: str, expected: Any) -> None:
    b = Builder()
    n = b.param("n", I64)
    x = vector(b, "x", n, dtype)
    (value,) = run(b, [0, np.zeros(0)], b.reduce([n], lambda i: b.read(x, [i]), monoid))
    assert value == expected


@pytest.mark.parametrize("monoid", ["prod", "min", "any", "all"])
def test_reductions_are_those_of_numpy(monoid: str) -> None:
    b = Builder()
    n = b.param("n", I64)
    x = vector(b, "x", n, "bool" if monoid in ("any", "all") else "f64")
    values = np.array([True, False]) if monoid in ("any", "all") else RNG.normal(size=2)
    (value,) = run(b, [2, values], b.reduce([n], lambda i: b.read(x, [i]), monoid))
    assert value == getattr(np, monoid)(values)


def test_a_comprehension_of_no_points_runs_no_check() -> None:
    b = Builder()
    n = b.param("n", I64)

    def element(i: Var) -> Lit:
        b.check(boolean(False), "E0701", ["never"])
        return f64(1)

    assert run(b, [0], b.map([n], element))[0].shape == (0,)


def at_points(f: Function, points: int) -> Program:
    """A program that calls f(n, x, a) in a comprehension over i, with i added to x, and sums what it gives."""
    b = Builder({"f": f})
    n = b.param("n", I64)
    x, a = vector(b, "x", n), matrix(b, "a", n, n)

    def body(i: Var) -> Any:
        shifted = b.map([n], lambda j: b.add(b.read(x, [j]), b.cast("f64", i)))
        s, v, m = b.call("f", n, shifted, a)
        return s, b.reduce([n], lambda j: b.read(v, [j])), b.reduce([n, n], lambda j, k: b.read(m, [j, k]))

    return Program({"g": b.function("g", b.comp([points], body)), "f": f})


@settings(max_examples=30, deadline=None)
@given(programs(), st.integers(0, 4))
def test_many_points_at_once_give_what_one_at_a_time_gives(program: Program, n: int) -> None:
    together = at_points(program.functions["f"], 3)
    verify(together)
    rng = np.random.default_rng(n)
    x, a = rng.normal(size=n), rng.normal(size=(n, n))
    many, one = Interpreter(together), Interpreter(program)
    scalars, vectors, matrices = many.run("g", [n, x, a])
    for i in range(3):
        s, v, m = one.run("f", [n, x + i, a])
        np.testing.assert_allclose(scalars[i], s, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(vectors[i], v.sum(), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(matrices[i], m.sum(), rtol=1e-10, atol=1e-12)
    around = 3 * (6 * n + 2 * n * n) + 3 * 3  # what the comprehension does itself for its points
    assert many.operations == one.operations + around


@settings(max_examples=30, deadline=None)
@given(programs(), st.integers(1, 4), st.integers(1, 7))
def test_small_batches_give_what_large_ones_give(program: Program, n: int, limit: int) -> None:
    together = at_points(program.functions["f"], 3)
    rng = np.random.default_rng(n)
    args = [n, rng.normal(size=n), rng.normal(size=(n, n))]
    whole, parted = Interpreter(together), Interpreter(together)
    expected = whole.run("g", args)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Algebra, "most", limit)
        patch.setattr(comprehensions, "_POINTS_OF_BLOCKS", limit)
        for value, wanted in zip(parted.run("g", args), expected, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12)
    assert parted.counts == whole.counts


def test_nested_destinations_add_into_arrays_of_their_own_at_every_point() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = vector(b, "x", n)

    def element(i: Var) -> Var:
        j, k = axis(2), axis(n, name="k")
        own = b.map([2], lambda j: b.add(b.cast("f64", j), b.cast("f64", i)))
        (more,) = b.comp([j, k], lambda j, k: b.read(x, [k]), [Reduce((poly(2),), (poly(j.var),), "sum", own)])
        again = axis(n)
        (shared,) = b.comp([again], lambda k: b.read(x, [k]), [Reduce((poly(n),), (poly(again.var),), "sum", x)])
        return b.add(b.read(more, [1]), b.read(shared, [0]))

    p = RNG.normal(size=3)
    expected = p.sum() + 1 + np.arange(3) + 2 * p[0]
    np.testing.assert_allclose(run(b, [3, p], b.map([n], element))[0], expected, rtol=1e-13)


@pytest.mark.parametrize("m", [0, 2])
def test_rows_of_any_length_are_added_up(m: int) -> None:
    b = Builder()
    n, width = b.param("n", I64), b.param("m", I64)
    x = matrix(b, "x", n, width)

    def element(k: Var) -> Any:
        def row(i: Var) -> Var:
            return b.map([width], lambda j: b.read(x, [i, j]))

        (total,) = b.comp([axis(k)], row, [Reduce((poly(width),), (), "sum")])
        return b.reduce([width], lambda j: b.read(total, [j]))

    p = RNG.normal(size=(3, m))
    expected = [p[:k].sum() for k in range(3)]
    np.testing.assert_allclose(run(b, [3, m, p], b.map([n], element))[0], expected, rtol=1e-13)
