"""The two halves of a derivative as functions of their own: a size that the program computes is saved once."""

from __future__ import annotations

import numpy as np
import pytest

import dlang

STEP = 1e-6


@pytest.mark.parametrize(
    ("shape", "value"), [((1, 1), "sum(q ** 3)"), ((3, 2), "sum(sin(r))"), ((4, 4), "sum(q) * sum(r ** 2)")]
)
def test_the_backward_half_has_one_size_of_a_factorisation(monkeypatch, shape, value):
    monkeypatch.setenv("DLANG_VERIFY", "1")
    m = dlang.compile(f"import linalg\nfn f(a: f64[m, n]) -> f64 {{ let (q, r) = linalg.qr(a); {value} }}")
    slope = dlang.grad(m.f)
    a, t = np.random.default_rng(0).normal(size=(2, *shape)) + np.eye(*shape)
    y, pull = dlang.vjp(slope, a)
    assert y == pytest.approx(slope(a))
    differences = (slope(a + STEP * t) - slope(a - STEP * t)) / (2 * STEP)
    assert pull(t) == pytest.approx(differences, rel=1e-4, abs=1e-5)  # a Hessian is symmetric
    assert dlang.jvp(slope, a, t)[1] == pytest.approx(pull(t), rel=1e-8, abs=1e-9)
