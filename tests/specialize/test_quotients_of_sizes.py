"""A quotient of sizes is one number wherever it is written: in a type, in a bound or as a value."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.diagnostics import DlangError

TILED = [
    "fn f(x: f64[n], k: size) -> f64[n // k, k] = reshape(x[..(n // k) * k], n // k, k)",
    "fn f(x: f64[n], k: size) -> f64[?, k] = reshape(x[..n // k * k], n // k, k)",
    "fn f(x: f64[n], k: size) -> f64[?, ?] { let h = n // k; reshape(x[..h * k], h, k) }",
    "fn f(x: f64[n], k: size) -> f64[n // k, k] { let h = n // k; reshape(x[..h * k], n // k, k) }",
]
SIZES = [(0, 1), (1, 1), (1, 2), (3, 4), (4, 4), (5, 4), (9, 2)]


@pytest.mark.parametrize("backend", ["interp", "cpu"])
@pytest.mark.parametrize("text", TILED)
def test_a_quotient_of_sizes_is_the_same_number_everywhere(monkeypatch, text, backend):
    monkeypatch.setenv("DLANG_VERIFY", "1")
    m = dlang.compile(text, backend=backend)
    for n, k in SIZES:
        x = np.arange(float(n))
        assert np.array_equal(m.f(x, k), x[: n // k * k].reshape(n // k, k))
    with pytest.raises(DlangError, match="E0803"):
        m.f(np.arange(4.0), 0)


def test_derivatives_know_a_quotient_of_sizes(monkeypatch):
    monkeypatch.setenv("DLANG_VERIFY", "1")
    m = dlang.compile(TILED[0] + "\nfn g(x: f64[n], k: size) -> f64 = sum(f(x, k) ** 3)")
    for n, k in SIZES:
        x = np.linspace(-1.0, 2.0, n)
        expected = np.where(np.arange(n) < n // k * k, 3 * x**2, 0.0)
        assert dlang.grad(m.g, "x")(x, k) == pytest.approx(expected)


@pytest.mark.parametrize("backend", ["interp", "cpu"])
def test_an_exact_quotient_of_sizes_is_no_number_where_the_divisor_is_0(backend):
    m = dlang.compile(
        "fn f(n: size, k: size) -> i64 = (n * k) // k\nfn g(n: i64, k: i64) -> i64 = n // k", backend=backend
    )
    assert m.f(3, 2) == 3
    with pytest.raises(DlangError, match="E0803"):
        m.f(3, 0)
    assert [m.g(7, k) for k in (-2, 2)] == [-4, 3]
