"""A reduction along axes on which nothing depends costs what its value at one point does."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

import dlang
from dlang.ir.anf import Comp
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.optimize.programs import same_in_the_end
from tests.specialize.support import lowered

FORMS = {
    "a sum along an inner axis": "[sum(y for j < m) for y in x]",
    "a sum along two axes of three": "[sum(sin(x[i]) for i < n, j < m, k < m)]",
    "a sum along an axis as long as another says": "[sum(x[i] for i < n, j < i)]",
    "a sum along an axis that may be empty at a point": "[sum(x[i] for i < n, j in i..m)]",
    "a sum of whole numbers": "[f64(sum(i * i for i < n, j < m))]",
    "a product": "[prod(y for j in 0..m) for y in x]",
    "extremes": "[max(x[i] for i < n, j < 3) - min(x[i] for i < n, j < 3) + y for y in x]",
    "truths": "[f64(any(x[i] > 2.0 for i < n, j < m)) + f64(all(x[i] > 2.0 for i < n, j < m))]",
    "a sum of sums": "[sum(sum(sin(y) for j < k) for k < m) for y in x]",
    "sums of rows of one value": "[sum(row) for row in tanh([y for y in x, j < maximum(m, 0)])]",
    "products of rows of one value": "{ let a = tanh([y for y in x, j < maximum(m, 0)]); sum(a @ transpose(a)) + x }",
    "a branch that chooses one of many equal values": """{
  let u = max([f64(m) for a < n, b < n], axis = 1)
  x + sum(if m > 1 { u[i] } else { sin(f64(m)) } for i < n)
}""",
    "rows of one value at each point": "[sum([tanh(x[i]) for j < maximum(m, 0)]) for i < n]",
}


def text(form: str) -> str:
    return f"fn f(x: f64[n], m: i64) = {form}\n"


@pytest.mark.parametrize("m", [-2, 0, 1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_values_are_those_of_all_points(form: str, m: int) -> None:
    x = np.array([1.5, -0.5, 3.0])
    same_in_the_end(text(FORMS[form]), "f", [3, x, m])


@pytest.mark.parametrize("value", [inf, -inf, nan])
def test_a_value_of_any_kind_that_is_summed_never_is_nothing(value: float) -> None:
    assert same_in_the_end(text("sum(y for y in x, j < m)"), "f", [1, np.array([value]), 0]) == 0.0
    np.testing.assert_equal(same_in_the_end(text("sum(y for y in x, j < m)"), "f", [1, np.array([value]), 2]), value)


def test_a_check_runs_where_there_is_a_point() -> None:
    f = dlang.compile("fn f(x: f64[n], at: i64, m: i64) -> f64 = sum(x[at] for j < m)").f
    assert f(np.ones(2), 5, 0) == 0.0 and f(np.ones(2), 1, 4) == 4.0
    with pytest.raises(dlang.DlangError, match="out of range"):
        f(np.ones(2), 5, 1)


@pytest.mark.parametrize(
    "form",
    [
        "a sum along an inner axis", "a sum along two axes of three", "a product", "sums of rows of one value",
        "rows of one value at each point",
    ],
)  # fmt: skip
def test_nothing_is_done_along_the_axis(form: str) -> None:
    made = lowered(text(FORMS[form]), "f")
    body = optimise(made.program, [made.entry.name]).functions[made.entry.name].body
    assert all(len(let.op.axes) == 1 for let in walk(body) if isinstance(let.op, Comp))


@pytest.mark.parametrize("m", [0, 1, 3])
@pytest.mark.parametrize("form", [f for f in FORMS if f not in ("truths", "a sum of whole numbers")])
def test_derivatives_are_those_of_all_points(form: str, m: int) -> None:
    module = dlang.compile(f"{text(FORMS[form])}fn g(x: f64[n], m: i64) -> f64 = sum(sin(f(x, m)))\n")
    x, step = np.array([1.5, -0.5, 3.0]), 1e-6
    slopes = [(module.g(x + d, m) - module.g(x - d, m)) / (2 * step) for d in step * np.eye(3)]
    np.testing.assert_allclose(dlang.grad(module.g)(x, m), slopes, rtol=1e-6, atol=1e-8)
