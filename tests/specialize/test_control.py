"""Leaving loops and functions early, from any depth; and derivatives of functions that do."""

import numpy as np
import pytest

import dlang
from tests.specialize.support import lowered

LOOPS = """
fn first(x: f64[n], bound: f64) -> i64 {
  for i < n { if x[i] > bound { return i } }
  -1
}
fn pairs(m: f64[n, k], wanted: f64) -> (i64, i64) {
  var found = (-1, -1)
  for i < n, j < k {
    if m[i, j] == wanted { found = (i, j); break }
  }
  found
}
fn odd_sum(n: i64) -> i64 {
  var total = 0
  var i = 0
  while true {
    i += 1
    if i > n { break }
    if i % 2 == 0 { continue }
    total += i
  }
  total
}
fn nested(m: f64[n, k]) -> f64 {
  var total = 0.0
  for i < n {
    for j < k {
      if m[i, j] < 0.0 { break }
      if m[i, j] > 100.0 { return -1.0 }
      total += m[i, j]
    }
  }
  total
}
fn sign(x: f64) -> i64 {
  if x > 0.0 { return 1 }
  if x < 0.0 { return -1 }
  0
}
fn chosen(x: f64) -> f64 {
  let y = if x > 10.0 { return 99.0 } else { 2.0 * x }
  y + 1.0
}
fn growing(x: f64[n]) -> f64[?] {
  if n == 0 { return zeros(1) }
  concat(x, x)
}
"""


def run(name, *args):
    made = lowered(LOOPS, name)
    plain = made.run(*args)
    optimised = made.run(*args, optimised=True)
    for a, b in zip(plain, optimised, strict=True):
        np.testing.assert_array_equal(a, b)
    return plain


def test_return_leaves_a_loop_with_a_value():
    x = np.array([1.0, 5.0, 9.0])
    assert run("first", 3, x, 4.0) == [1]
    assert run("first", 3, x, 40.0) == [-1]


def test_break_leaves_all_binders_of_a_loop():
    m = np.arange(6.0).reshape(2, 3)
    assert run("pairs", 2, 3, m, 1.0) == [0, 1]
    assert run("pairs", 2, 3, np.ones((2, 3)), 1.0) == [0, 0]
    assert run("pairs", 2, 3, m, 7.0) == [-1, -1]


def test_continue_ends_a_iteration_only():
    assert run("odd_sum", 10) == [25]


def test_break_leaves_the_inner_loop_and_return_the_function():
    m = np.array([[1.0, -1.0, 5.0], [2.0, 3.0, 4.0]])
    assert run("nested", 2, 3, m) == [10.0]
    m[1, 1] = 200.0
    assert run("nested", 2, 3, m) == [-1.0]


@pytest.mark.parametrize(("x", "expected"), [(2.0, 1), (-2.0, -1), (0.0, 0)])
def test_return_from_a_branch(x, expected):
    assert run("sign", x) == [expected]


def test_return_from_the_middle_of_a_let():
    assert run("chosen", 1.0) == [3.0]
    assert run("chosen", 11.0) == [99.0]


def test_returned_sizes_may_differ():
    assert run("growing", 2, np.array([1.0, 2.0]))[0].tolist() == [1.0, 2.0, 1.0, 2.0]
    assert run("growing", 0, np.zeros(0))[0].tolist() == [0.0]


DIFFERENTIABLE = {
    "break": "fn f(x: f64[n]) -> f64 { var s = 1.0; for v in x { if v < -1.0 { break }; s *= v + 2.0 }; s }",
    "continue": "fn f(x: f64[n]) -> f64 { var s = 1.0; for v in x { if v < 0.0 { continue }; s += s * v }; s }",
    "return": "fn f(x: f64[n]) -> f64 { var s = 1.0; for v in x { s *= v + 2.0; if s > 5.0 { return s * s } }; s }",
    "while": "fn f(x: f64[n]) -> f64 { var s = x[0]; while s < 20.0 { s = s * (2.0 + x[1] * x[1]) + x[2] }; s }",
    "newton": "fn f(x: f64[n]) -> f64 { var r = 1.0; while abs(r * r - x[2]) > 1e-13 { r = 0.5 * (r + x[2] / r) }; r }",
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_functions_that_leave_early_have_right_gradients(name):
    x, step = np.array([0.31, -0.72, 1.13, 0.54, -1.25, 0.7]), 1e-6
    for backend in ("cpu", "interp"):
        f = dlang.compile(DIFFERENTIABLE[name], backend=backend).f
        expected = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(6)]
        np.testing.assert_allclose(dlang.grad(f)(x), expected, rtol=1e-6, atol=1e-7)
