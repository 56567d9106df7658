"""Products of matrices are found in loops and under conditions, and loops that change a row in several steps are taken
apart: however a program is written, with the meaning that it has."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.ir.anf import Block, Comp, Contract, For, If, Program
from dlang.ir.traverse import op_blocks
from dlang.pipeline import optimise
from tests.meaning import meaning
from tests.specialize.support import lowered

PRODUCTS = """
fn layer(v: f64[c], w: f64[c, h]) -> f64[h] = tanh(v @ w)

fn network_of_each(x: f64[n, c], w: f64[c, h], u: f64[h, m]) -> f64 {
  var total = 0.0
  for i < n { total += sum(maximum(layer(x[i], w), 0.1) @ u) ** 2 }
  total
}

fn every_element(x: f64[n, c], w: f64[c, h], u: f64[h, m]) -> f64 {
  var total = 0.0
  for v in x {
    var hidden = zeros(h)
    for p < c, q < h { hidden[q] += v[p] * w[p, q] }
    var y = full(0.5, m)
    for q < h {
      if hidden[q] > 0.0 {
        for r < m { y[r] += hidden[q] * u[q, r] }
      }
    }
    for r < m { total += y[r] * y[r] }
  }
  total
}

fn moments(x: f64[n, c], w: f64[c, h], u: f64[h, m]) -> f64 {
  let centre = [sum(x[i, a] for i) for a]
  var total = 0.0
  for a < c {
    for b < c {
      var s = 0.0
      for i < n { s += (x[i, a] - centre[a]) * (x[i, b] - centre[b]) }
      total += s * s
    }
  }
  total + u[0, 0] + w[0, 0]
}

fn rows_in_steps(x: f64[n, c], w: f64[c, h], u: f64[h, m]) -> f64 {
  var z = zeros(n, h)
  for i < n {
    z[i] = full(0.5, h)
    for p < c { z[i] += x[i, p] * w[p] }
    z[i] = z[i] * z[i]
  }
  sum(z @ u)
}

fn where_masked(x: f64[n, c], w: f64[c, h], u: f64[h, m]) -> f64 =
  sum([sum(where(x[i, p] > 0.0, x[i, p] * w[p, q], 0.0) for p) for i < n, q < h] ** 2) + u[0, 0]

fn if_masked(x: f64[n, c], w: f64[c, h], u: f64[h, m]) -> f64 =
  sum([sum(if p <= i { x[i, p] * w[p, q] } else { 0.0 } for p) for i < n, q < h] ** 2) + u[0, 0]

fn filtered(x: f64[n, c], w: f64[c, h], u: f64[h, m]) -> f64 =
  sum([sum(x[i, p] * w[p, q] for p if p != i) for i < n, q < h] ** 2) + u[0, 0]
"""
NAMES = [
    "network_of_each", "every_element", "moments", "rows_in_steps", "where_masked", "if_masked", "filtered",
]  # fmt: skip
OTHERS = """
fn rows_of_a_vector(x: f64[n], y: f64[k]) -> f64 {
  var total = 0.0
  for i < n {
    let row = [exp(-x[i] * y[j]) for j < k]
    total += max(row) * sum(row * y)
  }
  total
}

fn on_the_row_before(x: f64[n], y: f64[k]) -> f64 {
  var z = zeros(n, k)
  for i < n {
    z[i] = [x[i] * y[j] for j < k]
    if i > 0 { z[i] += z[i - 1] }
  }
  sum(z)
}

fn what_another_row_is(x: f64[n], y: f64[k]) -> f64 {
  var z = ones(n + 1, k)
  for i < n {
    z[i] = [x[i] * y[j] for j < k]
    z[i + 1] = [z[i + 1, j] + y[j] for j < k]
  }
  sum(z)
}
"""
LABELS = """
fn by_mask(x: f64[n, d], label: i64[n], k: size) -> f64[k, d] =
  [sum(where(label[i] == g, x[i, j], 0.0) for i) for g < k, j < d]

fn by_filter(x: f64[n, d], label: i64[n], k: size) -> f64[k, d] =
  [sum(x[i, j] for i if label[i] == g) for g < k, j < d]

fn by_branch(x: f64[n, d], label: i64[n], k: size) -> f64[k, d] =
  [sum(if label[i] == g { x[i, j] ** 2 } else { 0.0 } for i) for g < k, j < d]

fn slope_by_mask(x: f64[n, d], label: i64[n]) -> f64[n, d] = grad(|y: f64[n, d]| sum(by_mask(y, label, 9) ** 3))(x)

fn slope_by_branch(x: f64[n, d], label: i64[n]) -> f64[n, d] = grad(|y: f64[n, d]| sum(by_branch(y, label, 9) ** 3))(x)
"""
COMPILED = {text: dlang.compile(text) for text in (PRODUCTS, OTHERS, LABELS)}
INTERPRETED = {text: dlang.compile(text, backend="interp") for text in (PRODUCTS, OTHERS, LABELS)}


@cache
def optimised(text: str, name: str) -> Program:
    found = lowered(text, name)
    return optimise(found.program, [found.entry.name], verify=True)


def counted(block: Block, kind: type) -> int:
    """How many operations of a kind there are, but for what hardly ever runs; of comprehensions those of three axes."""
    total = 0
    for let in block.lets:
        total += isinstance(let.op, kind) and (not isinstance(let.op, Comp) or len(let.op.axes) > 2)
        blocks = op_blocks(let.op)
        if isinstance(let.op, If) and let.op.cold:
            blocks = blocks[1:]
        total += sum(counted(inner, kind) for inner in blocks)
    return total


def number(text: str, name: str, kind: type) -> int:
    return sum(counted(f.body, kind) for f in optimised(text, name).functions.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_product_of_matrices_is_found(name: str) -> None:
    assert number(PRODUCTS, name, Contract) > 0
    assert number(PRODUCTS, name, Comp) == 0 and number(PRODUCTS, name, For) == 0


def arguments(seed: int, *sizes: int) -> list[Any]:
    n, c, h, m = sizes
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in ((n, c), (c, h), (h, m))]


@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_are_those_of_the_program_as_written(name: str) -> None:
    for seed, sizes in enumerate([(5, 4, 3, 2), (1, 1, 1, 1), (9, 17, 12, 5), (3, 40, 33, 1)]):
        args = arguments(seed, *sizes)
        f, g = getattr(COMPILED[PRODUCTS], name), getattr(INTERPRETED[PRODUCTS], name)
        np.testing.assert_allclose(f(*args), meaning(g, *args), rtol=1e-11)
        for wrt in "xw":
            got, slope = (dlang.grad(h, wrt=wrt) for h in (f, g))
            np.testing.assert_allclose(got(*args), meaning(slope, *args), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["where_masked", "if_masked", "filtered"])
@pytest.mark.parametrize("number", [np.inf, np.nan, 0.0, -0.0])
def test_a_mask_hides_what_is_no_number_and_nothing_else(name: str, number: float) -> None:
    for k, (i, p) in enumerate([(0, 0), (2, 1), (1, 2), (4, 3)]):
        x, w, u = arguments(k, 5, 4, 3, 2)
        x[i, p], w[p, 1] = number, np.inf
        f, g = getattr(COMPILED[PRODUCTS], name), getattr(INTERPRETED[PRODUCTS], name)
        np.testing.assert_allclose(f(x, w, u), meaning(g, x, w, u), rtol=1e-12)


@pytest.mark.parametrize("name", ["rows_of_a_vector", "on_the_row_before", "what_another_row_is"])
def test_other_loops_make_no_product(name: str) -> None:
    """The rows of the first are made at its points, one by one; the others read what an iteration changed."""
    assert (number(OTHERS, name, For) > 0) == (name != "rows_of_a_vector") and number(OTHERS, name, Contract) == 0
    rng = np.random.default_rng(0)
    for n in (0, 1, 6):
        args = rng.normal(size=n), rng.normal(size=4)
        f, g = getattr(COMPILED[OTHERS], name), getattr(INTERPRETED[OTHERS], name)
        np.testing.assert_allclose(f(*args), meaning(g, *args), rtol=1e-12)


@pytest.mark.parametrize("name", ["by_mask", "by_filter", "by_branch", "slope_by_mask", "slope_by_branch"])
def test_a_mask_that_leaves_one_point_of_an_axis_makes_no_product(name: str) -> None:
    assert number(LABELS, name, Contract) == 0 and number(LABELS, name, Comp) == 0
    rng = np.random.default_rng(0)
    for n in (0, 1, 20):
        args = rng.normal(size=(n, 3)), rng.integers(-1, 10, n), *([7] if name.startswith("by") else [])
        f, g = getattr(COMPILED[LABELS], name), getattr(INTERPRETED[LABELS], name)
        np.testing.assert_allclose(f(*args), meaning(g, *args), rtol=1e-12)
