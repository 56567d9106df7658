"""Derivatives of recursive functions, to third order, against central differences of one order less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ad.recursive import check

POWER = "fn power(x: f64, n: i64) -> f64 = if n == 0 { 1.0 } else { x * power(x, n - 1) }\n"
VALUES = np.array([0.7, 1.3, -0.4, 2.1, 0.9])

CASES: dict[str, tuple[str, list[Any], list[int]]] = {
    "power": (
        POWER
        + """
fn f(x: f64) -> f64 = power(x, 5)
""",
        [1.3],
        [0],
    ),
    "power of a run-time exponent": (
        POWER
        + """
fn f(x: f64, n: i64) -> f64 = power(sin(x), n)
""",
        [0.4, 6],
        [0],
    ),
    "two calls in a branch": (
        """
fn tree(x: f64, n: i64) -> f64 = if n == 0 { sin(x) } else { tree(x * 0.9, n - 1) * tree(x + 0.1, n - 1) }
fn f(x: f64) -> f64 = tree(x, 3)
""",
        [0.8],
        [0],
    ),
    "mutual recursion": (
        """
fn even(x: f64, n: i64) -> f64 = if n == 0 { x } else { sin(odd(x, n - 1)) }
fn odd(x: f64, n: i64) -> f64 = if n == 0 { 1.0 } else { x * even(x, n - 1) }
fn f(x: f64) -> f64 = even(x, 5) + odd(x, 4)
""",
        [0.8],
        [0],
    ),
    "the elements of an array": (
        """
fn go(x: f64[n], i: i64) -> f64 = if i == n { 1.0 } else { sin(x[i]) * go(x, i + 1) + x[i] }
fn f(x: f64[n]) -> f64 = go(x, 0)
""",
        [5, VALUES],
        [1],
    ),
    "halves of an array": (
        """
fn go(x: f64[n]) -> f64 {
  if n == 0 { 1.0 } else if n == 1 { sin(x[0]) } else {
    let h = n // 2
    go(x[0 .. h]) * go(x[h .. n])
  }
}
fn f(x: f64[n]) -> f64 = go(x)
""",
        [5, VALUES],
        [1],
    ),
    "an array that is returned": (
        """
fn go(x: f64[n], k: i64) -> f64[n] = if k == 0 { x } else { [sin(e) * e for e in go(0.9 * x, k - 1)] }
fn f(x: f64[n]) -> f64 = sum(go(x, 3))
""",
        [5, VALUES],
        [1],
    ),
    "ackermann's recursion": (
        """
fn go(x: f64, m: i64, n: i64) -> f64 = if m == 0 { x + f64(n) } else if n == 0 { sin(go(x, m - 1, 1)) }
  else { x * go(go(x, m, n - 1) * 0.1, m - 1, n - 1) }
fn f(x: f64) -> f64 = go(x, 2, 2)
""",
        [0.7],
        [0],
    ),
    "a recursion in a loop": (
        POWER
        + """
fn f(x: f64) -> f64 {
  var s = x
  for i in 0..4 { s = sin(s) + power(s, i) }
  s
}
""",
        [0.7],
        [0],
    ),
    "a recursion in a while loop": (
        POWER
        + """
fn f(x: f64) -> f64 {
  var s = x
  while s < 9.0 { s = s + power(s, 2) }
  s
}
""",
        [0.7],
        [0],
    ),
    "a recursion in a comprehension": (
        POWER
        + """
fn f(x: f64[n], w: f64) -> f64 = sum(power(x[i] * w, i) for i < n)
""",
        [5, VALUES, 0.8],
        [1, 2],
    ),
    "a loop in a recursion": (
        """
fn go(x: f64[n], k: i64) -> f64 {
  var s = 0.0
  for i in 0..n { s = s * x[i] + sin(x[i]) }
  if k == 0 { s } else { s * go(0.5 * x, k - 1) }
}
fn f(x: f64[n]) -> f64 = go(x, 3)
""",
        [5, VALUES],
        [1],
    ),
    "a recursion in a recursion": (
        POWER
        + """
fn go(x: f64, n: i64) -> f64 = if n == 0 { x } else { power(go(x, n - 1), 2) * x }
fn f(x: f64) -> f64 = go(x, 3)
""",
        [0.9],
        [0],
    ),
    "continuations": (
        """
fn go(x: f64, n: i64, k: f64 -> f64) -> f64 = if n == 0 { k(x) } else { go(x, n - 1, |r| k(sin(r) * x)) }
fn f(x: f64) -> f64 = go(x, 4, |r| r * x)
""",
        [0.9],
        [0],
    ),
    "a stream": (
        """
enum Stream { Cell(f64, () -> Stream) }
fn powers(x: f64, y: f64) -> Stream = Cell(y, || powers(x, x * y))
fn take(s: Stream, n: i64) -> f64 = match s {
  Cell(x, rest) => if n == 0 { 0.0 } else { sin(x) + take(rest(), n - 1) }
}
fn f(x: f64) -> f64 = take(powers(x, 1.0), 4)
""",
        [0.9],
        [0],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_a_recursion_are_those_of_central_differences(name: str) -> None:
    check(*CASES[name], order=3)
