"""Derivatives of the logarithm of a sum of exponentials: the maximum that keeps them small has no part in them."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.ir.anf import Comp, Reduce
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.ad.four_ways import four_ways
from tests.specialize.support import lowered

TEXT = """
fn f(x: f64[n]) -> f64 = logsumexp(x)
fn rows(m: f64[n, k]) -> f64[n] = logsumexp(m, axis = 1)
fn slope(x: f64[n]) -> f64[n] = grad(f)(x)
fn curvature(x: f64[n]) -> f64[n, n] = hessian(f)(x)
fn along(x: f64[n]) -> f64 = jvp(f, x, [1.0 for i < n]).1
fn of_rows(m: f64[n, k]) -> f64[n, k] = grad(|m: f64[n, k]| sum(rows(m) ** 2))(m)
"""
POINTS = {
    "ordinary": np.array([0.3, -1.2, 0.9, 0.0]),
    "a tie": np.array([1.0, 1.0, -2.0]),
    "far apart": np.array([700.0, -700.0, 699.0]),
    "one that adds nothing": np.array([0.5, -np.inf, 0.25]),
    "one number": np.array([3.0]),
}


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("x", POINTS.values(), ids=POINTS.keys())
def test_first_and_second_derivatives(x: np.ndarray) -> None:
    module, p = dlang.compile(TEXT), softmax(x)
    np.testing.assert_allclose(module.slope(x), p, rtol=1e-14)
    np.testing.assert_allclose(module.curvature(x), np.diag(p) - np.outer(p, p), rtol=1e-12, atol=1e-15)
    assert np.isclose(module.along(x), 1.0, rtol=1e-14)


@pytest.mark.parametrize("name", ["slope", "of_rows"])
def test_no_position_of_a_maximum_is_looked_for(name: str) -> None:
    made = lowered(TEXT, name)
    program = optimise(made.program, [made.entry.name], verify=True)
    comps = [let.op for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, Comp)]
    kinds = {d.monoid for op in comps for d in op.destinations if isinstance(d, Reduce)}
    assert "max" in kinds and "argmax" not in kinds


def test_derivatives_of_rows() -> None:
    text = "fn f(m: f64[n, k]) -> f64 = sum(logsumexp(m, axis = 1) ** 2) + sum(logsumexp(m, axis = 0) * 0.5)"
    four_ways(text, [3, 4, np.random.default_rng(0).normal(size=(3, 4))])
