"""Branches in one path: both arms run, and only what the condition chooses is read, stored and checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlang

PROGRAM = """
fn scattered(x: f64[n], at: i64[n], m: size) -> f64[m] {
  var q = zeros(m)
  for i < n { if x[i] > 0.5 { q[at[i]] += x[i] } }
  q
}

fn either(x: f64[n], at: i64[n], m: size) -> (f64[m], i64[m]) {
  var q = zeros(m)
  var c = full(0, m)
  for i < n {
    if x[i] > 0.5 { q[at[i]] = x[i] } else if x[i] > 0.25 { c[at[i]] += 1 } else { c[0] -= 1 }
  }
  (q, c)
}

fn gathered(x: f64[n], at: i64[n], m: size) -> f64[n] {
  var s = 0.0
  var y = zeros(n)
  for i < n {
    s = 0.5 * s + (if x[i] > 0.5 { x[at[i]] } else { 0.1 })
    y[i] = s
  }
  y
}

fn narrow(x: f64[n], at: i64[n], m: size) -> (f32[m], i8[m], bool[m]) {
  var a = full(f32(0.0), m)
  var b = full(i8(0), m)
  var c = full(false, m)
  for i < n {
    if x[i] > 0.5 {
      a[at[i]] = f32(x[i]) - a[at[i]]
      b[at[i]] += 3
      c[at[i]] = not c[at[i]]
    }
  }
  (a, b, c)
}

fn numbers(x: f64[n], at: i64[n], m: size) -> f64[n] {
  var (s, best, y) = (0.0, -1.0, x)
  for i < n {
    s = (if x[i] > 0.5 { 0.5 * s + x[i] } else { s - 0.25 })
    if s < 0.0 { s = 0.0 }
    if s > best { best = s }
    y[i] = s + best
  }
  y
}

fn loss(x: f64[n], at: i64[n], m: size) -> f64 {
  var q = zeros(m)
  for i < n { if x[i] > 0.5 { q[at[i]] = x[i] * x[i] } else { q[0] = 0.5 * q[0] + x[i] } }
  sum(q ** 2)
}
"""
COMPILED, MEANING = dlang.compile(PROGRAM), dlang.compile(PROGRAM, backend="interp")


def arrays(f: Any, *args: Any) -> list[Any]:
    value = f(*args)
    return list(value) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("name", ["scattered", "either", "gathered", "narrow", "numbers"])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 50])
def test_an_arm_that_is_not_chosen_touches_nothing(name: str, n: int) -> None:
    rng = np.random.default_rng(n)
    f = getattr(COMPILED, name)
    assert "predicated" in f.ir("loops")
    for m in (1, 3, max(n, 1)):
        x = rng.uniform(size=n)
        within = min(m, n) if name == "gathered" else m
        at = np.where(x > 0.25 if name == "either" else x > 0.5, rng.integers(0, max(within, 1), n), 2**62)
        for got, wanted in zip(arrays(f, x, at, m), arrays(getattr(MEANING, name), x, at, m), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-15)


def test_a_check_of_the_chosen_arm_fails_as_ever() -> None:
    messages = []
    for program in (COMPILED, MEANING):
        with pytest.raises(dlang.DlangError, match="index 9 is out of range for axis 0 of size 3") as failure:
            program.scattered(np.array([0.9, 0.1, 0.8]), np.array([0, 7, 9]), 3)
        messages.append(str(failure.value))
    assert messages[0] == messages[1]


def test_gradients_of_branches_in_one_path() -> None:
    x, at = np.random.default_rng(3).uniform(size=40), np.random.default_rng(4).integers(0, 6, 40)
    g = dlang.grad(COMPILED.loss)
    assert "predicated" in g.ir("loops")
    np.testing.assert_allclose(g(x, at, 6), dlang.grad(MEANING.loss)(x, at, 6), rtol=1e-14)


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(
            "for i in 1..n { if q[i - 1] > q[i] { (q[i], q[i - 1]) = (q[i - 1], q[i]) } }", id="what it stores"
        ),
        pytest.param("for i < n { if i < 3 { q[i] += x[i] } }", id="the counter"),
        pytest.param(
            "for i < n { var (a, b) = (0, n); while b - a > 1 {\n"
            "let h = (a + b) // 2; if x[h] > 0.5 { b = h } else { a = h } }\n"
            "q[i] += q[maximum(i - 1, 0)] + f64(a) }",
            id="where the last branch says",
        ),
        pytest.param("for i < n { if c { q[i] += x[0] * q[n - 1 - i] } }", id="what is around the loop"),
        pytest.param(
            "for i < n { if x[i] > 0.5 { q[i] = atan(exp(sin(x[i])) ** x[0]) + q[n - 1 - i] } }", id="much work"
        ),
        pytest.param("for i < n { if x[i] > 0.5 { q[i] = q[n - 1 - i] + f64(100 // k[i]) } }", id="division"),
    ],
)
def test_a_branch_has_a_jump_where_that_is_better_or_has_to_be(loop: str) -> None:
    text = f"fn f(x: f64[n], k: i64[n], c: bool) -> f64[n] {{\n  var q = x\n  {loop}\n  q\n}}"
    assert "predicated" not in dlang.compile(text).f.ir("loops")
