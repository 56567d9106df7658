"""Derivatives of loops of a million iterations and of recursions a hundred thousand calls deep, in both modes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import dlang

TEXT = """
fn product(x: f64, n: i64) -> f64 {
  var acc = 1.0
  for _ in 0..n { acc = acc * x }
  acc
}
fn counted(x: f64, n: i64) -> f64 {
  var (y, k) = (x, 0)
  while k < n {
    y = 0.5 * y + sin(x)
    k += 1
  }
  y
}
fn spread(x: f64[m], n: i64) -> f64 {
  var u = x
  for i < n { u[(7 * i) % m] = 0.5 * u[(3 * i) % m] + 0.25 * u[i % m] }
  sum(u)
}
fn average(x: f64, n: i64) -> f64 = if n == 0 { x } else { 0.5 * average(x, n - 1) + 0.5 * x }
fn sines(x: f64, n: i64) -> f64 = if n == 0 { x } else { sin(sines(x, n - 1)) }
fn sines_in_a_loop(x: f64, n: i64) -> f64 {
  var y = x
  for _ in 0..n { y = sin(y) }
  y
}
fn last(x: f64, n: i64) -> f64 = if n == 0 { x } else { last(sin(x), n - 1) }
fn list(n: i64, x: f64) -> List<f64> = if n == 0 { Nil } else { Cons(x * f64(n), list(n - 1, x)) }
fn total(l: List<f64>) -> f64 = match l { Nil => 0.0, Cons(v, rest) => v + total(rest) }
fn listed(x: f64, n: i64) -> f64 = total(list(n, x * x))
"""
ITERATIONS, CALLS = 1_000_000, 100_000
A_SECOND = 5.0  # seconds; the machine may be busy


@pytest.fixture(scope="module")
def m() -> dlang.Module:
    return dlang.compile(TEXT)


@contextmanager
def soon() -> Iterator[None]:
    start = time.process_time()
    yield
    assert time.process_time() - start < A_SECOND


def both_modes(m: dlang.Module, name: str, n: int) -> tuple[float, float]:
    f = getattr(m, name)
    dlang.grad(f)(0.5, 1), dlang.jvp(f, (0.5, 1), (1.0, 0))  # compiled before the clock starts
    with soon():
        slope = dlang.grad(f)(1.0, n)
    with soon():
        _, along = dlang.jvp(f, (1.0, n), (1.0, 0))
    assert along == pytest.approx(slope, rel=1e-9)
    return slope, along


CLOSED: dict[str, tuple[int, Callable[[int], float]]] = {
    "product": (ITERATIONS, lambda n: n),
    "counted": (ITERATIONS, lambda n: 2.0 * float(np.cos(1.0))),
    "average": (CALLS, lambda n: 1.0),
    "listed": (CALLS, lambda n: 2.0 * n * (n + 1) / 2),
}


@pytest.mark.parametrize("name", CLOSED)
def test_the_slope_is_that_of_the_formula(m: dlang.Module, name: str) -> None:
    n, slope = CLOSED[name]
    assert both_modes(m, name, n)[0] == pytest.approx(slope(n), rel=1e-9)


def test_a_recursion_has_the_slope_of_its_loop(m: dlang.Module) -> None:
    slopes = [both_modes(m, name, CALLS)[0] for name in ("sines", "last", "sines_in_a_loop")]
    assert slopes[0] == pytest.approx(slopes[2], rel=1e-9) and slopes[1] == pytest.approx(slopes[2], rel=1e-9)


def test_a_million_updates_in_place(m: dlang.Module) -> None:
    x, direction = np.linspace(-1.0, 1.0, 50), np.cos(np.arange(50.0))
    dlang.grad(m.spread)(x, 1)
    with soon():
        slope = dlang.grad(m.spread)(x, ITERATIONS)
    _, along = dlang.jvp(m.spread, (x, ITERATIONS), (direction, 0))
    assert along == pytest.approx(float(slope @ direction), rel=1e-9, abs=1e-12)
