"""Sums over powers of one number: which keep the power from term to term, and that their meaning stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlang
from dlang.ir.anf import Prim
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.meaning import meaning
from tests.specialize.support import lowered

PROGRAM = """
fn at_points(c: f64[k], x: f64[n]) -> f64[n] = [sum(c[j] * x[i] ** j for j) for i]

fn inside(c: f64[k], x: f64[n]) -> f64 = sum(sum(c[j] * x[i] ** j for j) ** 2 for i)

fn slope(c: f64[k], x: f64[n]) -> f64[n] = [sum(c[j] * f64(j) * x[i] ** (j - 1) for j in 1..k) for i]

fn two(c: f64[k], x: f64[n]) -> f64[n] = [sum(c[j] * sin(x[i]) ** j * x[i] ** (j + 2) for j) for i]

fn by_loops(c: f64[k], x: f64[n]) -> f64[n] {
  var z = zeros(n)
  for i < n, j < k { z[i] += c[j] * x[i] ** j }
  z
}

fn falling(c: f64[k], x: f64[n]) -> f64[n] = [sum(c[j] * x[i] ** (2 - j) for j) for i]

fn every_second(c: f64[k], x: f64[n]) -> f64[n] = [sum(c[j] * x[i] ** (2 * j) for j) for i]

fn of_many_rows(c: f64[k], x: f64[n]) -> f64[n, k] = [sum(c[m] * c[j] * x[i] ** j for j) for i, m]

fn from_below(c: f64[k], x: f64[n]) -> f64[n] = [sum(c[j] * x[i] ** (j - 1) for j) for i]

fn loss(c: f64[k], x: f64[n]) -> f64 = sum(at_points(c, x) ** 2) + sum(slope(c, x) * two(c, x)) + inside(c, x)
"""
RUNNING = ["at_points", "inside", "slope", "two", "by_loops"]
OTHERS = ["falling", "every_second", "of_many_rows", "from_below"]
COMPILED, INTERPRETED = dlang.compile(PROGRAM), dlang.compile(PROGRAM, backend="interp")


def powers(name: str) -> int:
    """How many powers with an exponent that is not known now are left in a function."""
    found = lowered(PROGRAM, name)
    program = optimise(found.program, [found.entry.name], verify=True)
    lets = [let for f in program.functions.values() for let in walk(f.body)]
    return sum(isinstance(let.op, Prim) and let.op.name == "powi" for let in lets)


def arguments(zero: bool) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(0)
    pairs = [(rng.normal(size=k), rng.normal(size=n)) for n, k in ((0, 0), (1, 0), (0, 3), (3, 1), (1, 4), (17, 12))]
    for _, x in pairs:
        x[2:3] = 0.0 if zero else 0.5
    return pairs


def test_powers_of_what_is_raised_at_a_point_run_from_term_to_term() -> None:
    assert [powers(name) for name in RUNNING[:3]] == [0, 0, 0] and powers("by_loops") == 0


@pytest.mark.parametrize("name", OTHERS)
def test_other_powers_stay(name: str) -> None:
    assert powers(name) > 0


@pytest.mark.parametrize("name", [*RUNNING, *OTHERS])
def test_values_are_those_of_the_powers(name: str) -> None:
    for c, x in arguments(zero=name not in ("falling", "from_below")):
        np.testing.assert_allclose(
            getattr(COMPILED, name)(c, x), meaning(getattr(INTERPRETED, name), c, x), rtol=1e-12, atol=1e-13
        )


def test_numbers_that_are_not_finite() -> None:
    x, c = np.array([np.inf, -np.inf, np.nan, 1e200, -0.0]), np.array([1.0, 2.0, 3.0])
    for name in RUNNING[:3]:
        np.testing.assert_array_equal(getattr(COMPILED, name)(c, x), meaning(getattr(INTERPRETED, name), c, x))


@pytest.mark.parametrize("wrt", ["c", "x"])
def test_gradients(wrt: str) -> None:
    for c, x in arguments(zero=True):
        got, slope = dlang.grad(COMPILED.loss, wrt=wrt)(c, x), dlang.grad(INTERPRETED.loss, wrt=wrt)
        np.testing.assert_allclose(got, meaning(slope, c, x), rtol=1e-10, atol=1e-11)


IN_RANGE_IF_THERE_IS_A_TERM = """
fn sums(p: f64[n], u: f64[l], c: i64) -> f64[n] = [
  { var s = 0.0; for j < i { s += u[c] * p[i] ** j }; s } for i
]

fn added(p: f64[n], y: f64[n, k], c: i64) -> f64[n, k] {
  var z = y
  for i < n { for j < i { z[i, c] += p[i] ** j } }
  z
}

fn of_an_element(p: f64[n], u: f64[l], c: i64) -> f64[n] = [
  { var s = 0.0; for j < i { s += (u[c] * p[i]) ** j }; s } for i
]

fn loss(p: f64[n], u: f64[l], y: f64[n, l], c: i64) -> f64 =
  sum(sums(p, u, c)) + sum(added(p, y, c)) + sum(of_an_element(p, u, c)) + sum(y[i, 0] * p[i] ** j for i, j < i)
"""


@pytest.mark.parametrize(("n", "c"), [(0, 7), (1, 7), (2, 0), (3, 1)])
def test_nothing_is_read_or_changed_where_there_is_no_term(n: int, c: int) -> None:
    """The first power has no term: `u[c]` need not be there if it is the only one."""
    args = np.arange(1.0, n + 1.0), np.ones(2), np.ones((n, 2)), c
    for backend in ("cpu", "interp"):
        loss = dlang.compile(IN_RANGE_IF_THERE_IS_A_TERM, backend=backend).loss
        as_it_is = dlang.compile(IN_RANGE_IF_THERE_IS_A_TERM, backend="interp").loss
        np.testing.assert_allclose(loss(*args), meaning(as_it_is, *args), rtol=1e-12)
        for wrt in "puy":
            slope = meaning(dlang.grad(as_it_is, wrt=wrt), *args)
            np.testing.assert_allclose(dlang.grad(loss, wrt=wrt)(*args), slope, rtol=1e-12)
