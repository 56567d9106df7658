"""Products of matrices whose inner size is 0."""

from __future__ import annotations

import numpy as np

import dlang


def test_a_product_over_nothing_is_zero() -> None:
    m = dlang.compile("fn f(a: f64[n, k], b: f64[k, m]) -> f64[n, m] = a @ b", backend="cuda-emulated")
    assert np.array_equal(m.f(np.ones((3, 0)), np.ones((0, 2))), np.zeros((3, 2)))
