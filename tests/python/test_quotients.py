"""Parameters whose sizes are quotients that are rounded down: the caller's sizes, compared inside."""

from __future__ import annotations

import numpy as np
import pytest

import dlang

TEXT = """
struct Halved<n> { a: f64[n], b: f64[n // 2] }
fn weighed(x: f64[n], y: f64[n // 2]) -> f64 = sum(x[..n // 2] * y)
fn third(x: f64[n], y: f64[n // 2], z: f64[(n // 2) // 3 + 1]) -> f64 = sum(x) + sum(y) * sum(z)
fn of_struct(h: Halved<n>) -> f64 = sum(h.a[..n // 2] * h.b)
fn inside(x: f64[n]) -> f64 = weighed(x, [x[i] for i < n // 2])
fn again(x: f64[n], y: f64[n // 2], k: i64) -> f64 = if k == 0 { weighed(x, y) } else { again(x, 2.0 * y, k - 1) }
fn recursive(x: f64[n]) -> f64 = again(x, [x[i] for i < n // 2], 3)
fn every_other(x: f64[n]) -> f64[n // 2] = [x[2 * i] ** 3 for i < n // 2]
"""
X = np.arange(5.0)


@pytest.fixture(scope="module", params=["interp", "cpu"])
def m(request):
    return dlang.compile(TEXT, request.param)


def test_calls_from_python_and_inside(m):
    for n in (5, 7, 4):
        x, y = np.arange(float(n)), np.ones(n // 2)
        assert m.weighed(x, y) == sum(range(n // 2)) == m.of_struct(m.Halved(x, y))
        assert m.third(x, y, np.ones(n // 2 // 3 + 1)) == sum(range(n)) + n // 2 * (n // 2 // 3 + 1)
    assert m.inside(X) == 1.0 and m.recursive(X) == 8.0


def test_derivatives_of_them(m):
    assert dlang.grad(m.weighed, wrt="y")(X, np.ones(2)).tolist() == [0.0, 1.0]
    assert dlang.grad(m.of_struct)(m.Halved(X, np.ones(2))).b.tolist() == [0.0, 1.0]
    assert dlang.grad(m.recursive)(X).tolist() == [0.0, 16.0, 0.0, 0.0, 0.0]
    value, pull = dlang.vjp(m.every_other, X)
    assert value.tolist() == [0.0, 8.0] and pull(np.ones(2)).tolist() == [0.0, 0.0, 12.0, 0.0, 0.0]


def test_bound_arguments_say_them_too(m):
    assert m.weighed.bind(X)(np.ones(2)) == m.weighed.bind(y=np.ones(2))(X) == 1.0


def test_another_size_is_refused(m):
    for _ in range(3):
        with pytest.raises(dlang.DlangError, match=r"`y`: expected f64\[n // 2\], n = 5 from `x`, got f64\[3\]"):
            m.weighed(X, np.ones(3))
        assert m.weighed(X, np.ones(2)) == 1.0
