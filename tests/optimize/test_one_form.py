"""Spellings of one meaning that come to one form: they give the same, and cost alike."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.diagnostics import DlangError
from dlang.ir.anf import Comp, Contract, For, Program
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.fuzz.spellings import different_costs
from tests.optimize.programs import same_in_the_end
from tests.specialize.support import lowered

KERNELS = {
    "distances of pairs": """
fn s0(x: f64[n], y: f64[n]) -> f64 =
  sum(1.0 / sqrt((x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2 + 0.5) for i < n, j < n)
fn s1(x: f64[n], y: f64[n]) -> f64 {
  let d2 = (reshape(x, n, 1) - x) ** 2 + (reshape(y, n, 1) - y) ** 2
  sum(1.0 / sqrt(d2 + 0.5))
}
fn s2(x: f64[n], y: f64[n]) -> f64 {
  var total = 0.0
  for i < n { total += sum(1.0 / sqrt((x - x[i]) ** 2 + (y - y[i]) ** 2 + 0.5)) }
  total
}
""",
    "updates under a condition": """
fn s0(x: f64[n], w: f64[k]) -> f64 = sum(where(w[j] > x[i], w[j] * x[i], 0.0) ** 2 for i, j)
fn s1(x: f64[n], w: f64[k]) -> f64 {
  var a = zeros(n, k)
  for i < n { for j < k { if w[j] > x[i] { a[i, j] += w[j] * x[i] } } }
  sum(a * a)
}
""",
    "elements that change where a condition holds": """
fn s0(x: f64[n], w: f64[n]) -> f64 = sum([if w[i] > 0.0 { (x[i] + w[i]) / (1.0 + x[i] ** 2) } else { x[i] } for i] ** 2)
fn s1(x: f64[n], w: f64[n]) -> f64 {
  var y = x
  for i < n { if w[i] > 0.0 { y[i] = (y[i] + w[i]) / (1.0 + y[i] ** 2) } }
  sum(y ** 2)
}
fn s2(x: f64[n], w: f64[n]) -> f64 {
  var y = x
  for i < n { if w[i] <= 0.0 { continue }; y[i] += w[i]; y[i] /= 1.0 + x[i] ** 2 }
  sum(y ** 2)
}
""",
    "elements, a count and a total under a condition": """
fn s0(x: f64[n], w: f64[n]) -> f64 {
  let y = [if w[i] > 0.0 { sin(x[i]) } else { 2.0 } for i]
  let k = sum(if w[i] > 0.0 { 1 } else { 0 } for i)
  sum(y ** 2) + f64(k) * sum(if w[i] > 0.0 { y[i] } else { -w[i] } for i)
}
fn s1(x: f64[n], w: f64[n]) -> f64 {
  var y = x
  var k = 0
  var total = 0.0
  for i < n {
    if w[i] > 0.0 {
      y[i] = sin(x[i])
      k += 1
      total += y[i]
    } else {
      y[i] = 2.0
      total -= w[i]
    }
  }
  sum(y ** 2) + f64(k) * total
}
""",
    "rows of an index in lists of lists": """
fn s0(x: f64[n], w: f64[k], c: i64[n]) -> f64 = sum((exp(-abs(x[c[i]])) * w[j]) ** 2 for i, j)
fn s1(x: f64[n], w: f64[k], c: i64[n]) -> f64 {
  let a = [[exp(-abs(x[c[i]])) * w[j] for j < k] for i < n]
  var total = 0.0
  for i < n { total += sum(a[i, j] ** 2 for j < k) }
  total
}
""",
    "the least of distances": """
fn s0(x: f64[n, 3], w: f64[k, 3]) -> f64 = sum(min(sum((x[i, q] - w[j, q]) ** 2 for q) for j) for i)
fn s1(x: f64[n, 3], w: f64[k, 3]) -> f64 {
  let d2 = sum(x ** 2, axis = 1, keepdims = true) + sum(w ** 2, axis = 1) - 2.0 * (x @ transpose(w))
  sum(min(d2, axis = 1))
}
""",
    "products of differences": """
fn s0(x: f64[n], m: f64[n, k]) -> f64 {
  let c = [mean(m[i, p] for i) for p]
  sum(mean((m[i, p] - c[p]) * (m[i, q] - c[q]) for i) ** 2 for p, q) + sum(x)
}
fn s1(x: f64[n], m: f64[n, k]) -> f64 {
  let d = m - mean(m, axis = 0)
  sum((transpose(d) @ d / f64(n)) ** 2) + sum(x)
}
""",
    "a choice that is never made": """
fn s0(x: f64[n], w: f64[k]) -> f64 = sum(sin(w[j]) for j) + 0.0 * x[0]
fn s1(x: f64[n], w: f64[k]) -> f64 = sum(where(w[j] > w[j], sum(tanh(x[i] * w[j]) for i), sin(w[j])) for j) + 0.0 * x[0]
""",
}


@pytest.mark.parametrize("name", KERNELS)
def test_spellings_cost_alike(name: str) -> None:
    assert different_costs(KERNELS[name]) is None


@pytest.mark.parametrize("name", KERNELS)
def test_spellings_have_one_gradient_and_the_meaning_that_is_written(name: str) -> None:
    module = dlang.compile(KERNELS[name])
    spellings = [s for s in ("s0", "s1", "s2") if hasattr(module, s)]
    random = np.random.default_rng(0)
    head = KERNELS[name].strip().splitlines()[0]
    for n, k in ((1, 1), (4, 5)):
        sizes = {"n": n, "k": k}
        made = [
            random.integers(0, n, n) if "i64" in p else random.normal(size=[int(sizes.get(s, s)) for s in axes(p)])
            for p in head[head.index("(") + 1 : head.index(") ->")].split("], ")
        ]
        values = [same_in_the_end(KERNELS[name], s, [n, *([k] if "k" in head else []), *made]) for s in spellings]
        np.testing.assert_allclose(values, values[0], rtol=1e-12)
        slopes = [dlang.grad(getattr(module, s), wrt=("x",))(*made)[0] for s in spellings]
        for slope in slopes:
            np.testing.assert_allclose(slope, slopes[0], rtol=1e-9, atol=1e-12)


def axes(parameter: str) -> list[str]:
    """The sizes in the text of a parameter."""
    return parameter[parameter.index("[") + 1 :].rstrip("]").split(", ")


def optimised(text: str, name: str) -> Program:
    made = lowered(text, name)
    return optimise(made.program, [made.entry.name])


def test_a_matrix_that_serves_vectors_in_one_pass_is_not_made() -> None:
    text = """
fn f(x: f64[n], y: f64[n]) -> f64 {
  let m = [sin(x[i] + 2.0 * y[j]) for i, j]
  sum((m @ y) ** 2) + sum((x @ m) ** 2)
}
"""
    ops = [let.op for f in optimised(text, "f").functions.values() for let in walk(f.body)]
    assert not any(isinstance(op, Contract) for op in ops)
    assert all(len(d.shape) < 2 for op in ops if isinstance(op, Comp) for d in op.destinations)


def test_a_matrix_that_serves_one_vector_after_another_is_made_once() -> None:
    text = """
fn f(x: f64[n], y: f64[n]) -> f64[n] {
  let m = [sin(x[i] + 2.0 * y[j]) for i, j]
  m @ tanh(m @ y)
}
"""
    ops = [let.op for f in optimised(text, "f").functions.values() for let in walk(f.body)]
    assert sum(isinstance(op, Comp) and any(len(d.shape) == 2 for d in op.destinations) for op in ops) == 1


def test_a_loop_that_adds_up_what_arrays_of_its_iterations_come_to_is_none() -> None:
    body = optimised(KERNELS["distances of pairs"], "s2").functions
    assert not any(isinstance(let.op, For) for f in body.values() for let in walk(f.body))


@pytest.mark.parametrize("form", ["[x[c[i]] * w[j] for i < n, j < k]", "[[x[c[i]] * w[j] for j < k] for i < n]"])
def test_an_index_is_asked_once_for_each_row_and_not_where_rows_are_empty(form: str) -> None:
    text = f"fn f(x: f64[n], c: i64[n], w: f64[k]) -> f64[n, k] = {form}\n"
    f = dlang.compile(text).f
    x = np.array([1.0, 2.0])
    assert f(x, np.array([0, 9]), np.zeros(0)).shape == (2, 0)
    np.testing.assert_array_equal(f(x, np.array([1, 0]), np.array([1.0, 3.0])), [[2.0, 6.0], [1.0, 3.0]])
    with pytest.raises(DlangError, match="index 9 is out of range for axis 0 of size 2"):
        f(x, np.array([0, 9]), np.ones(3))


def test_a_check_of_a_loop_that_surely_runs_stands_before_it() -> None:
    text = """
fn f(x: f64[n], m: f64[n, k], c: i64[n]) -> f64[n, k] {
  var a = zeros(n, k)
  for l < 9 { for i < n { for j < k { a[i, j] += m[i, j] * x[c[i]] * f64(l) } } }
  a
}
"""
    assert not any(isinstance(let.op, For) for g in optimised(text, "f").functions.values() for let in walk(g.body))
    f = dlang.compile(text).f
    np.testing.assert_allclose(f(np.ones(2), np.ones((2, 1)), np.array([1, 0])), np.full((2, 1), 36.0))
    with pytest.raises(DlangError, match="out of range"):
        f(np.ones(2), np.ones((2, 1)), np.array([1, 2]))
    assert f(np.ones(2), np.ones((2, 0)), np.array([1, 2])).shape == (2, 0)


@pytest.mark.parametrize("name", ["s0", "s1"])
def test_products_of_differences_are_products_of_arrays(name: str) -> None:
    program = optimised(KERNELS["products of differences"], name)
    assert any(isinstance(let.op, Contract) for f in program.functions.values() for let in walk(f.body))
