"""det is a polynomial: its derivatives of any order are right at matrices of any rank, by exact minors."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import dlang

MODULE = """
import linalg { det }

fn f(a: f64[n, n]) -> f64 = det(a)
fn hessians(a: f64[n, n], u: f64[n, n]) -> (f64[n, n], f64[n, n], f64[n, n], f64[n, n]) = (
  grad(|a: f64[n, n]| sum(grad(f)(a) * u))(a), jvp(grad(f), a, u).1,
  grad(|a: f64[n, n]| jvp(f, a, u).1)(a), jacobian(|t: f64| jvp(|a: f64[n, n]| grad(f)(a), a + t * u, u).0)(0.0)
)
fn along(a: f64[n, n], u: f64[n, n], v: f64[n, n]) -> f64 = jvp(|a: f64[n, n]| jvp(f, a, u).1, a, v).1
fn thirds(a: f64[n, n], u: f64[n, n], v: f64[n, n]) -> (f64[n, n], f64[n, n]) = (
  grad(|a: f64[n, n]| sum(jvp(grad(f), a, u).1 * v))(a), jvp(|a: f64[n, n]| jvp(grad(f), a, u).1, a, v).1
)
fn fourth(a: f64[n, n], u: f64[n, n], v: f64[n, n], w: f64[n, n]) -> f64[n, n] =
  jvp(|a: f64[n, n]| thirds(a, u, v).0, a, w).1
"""

rng = np.random.default_rng(3)


def of_rank(n: int, rank: int, noise: float = 0.0) -> np.ndarray:
    """Integers unless there is noise, so that the rank is exact."""
    left, right = rng.integers(-3, 4, (n, rank)).astype(float), rng.integers(-3, 4, (rank, n)).astype(float)
    return left @ right + noise * rng.normal(size=(n, n))


MATRICES = {
    "zero": np.zeros((3, 3)),
    "nilpotent": np.eye(4, k=1),
    "equal singular values": np.diag([2.0, 2.0, 0.0, 0.0]),
    "of rank n - 1": of_rank(4, 3),
    "of rank n - 2": of_rank(4, 2),
    "of rank 1": of_rank(4, 1),
    "regular": rng.normal(size=(4, 4)),
    "nearly singular": of_rank(4, 3, 1e-9),
    "of rank n - 2 but for rounding": of_rank(4, 2, 1e-15),
    "of one element": np.array([[0.0]]),
}


def exact(a: np.ndarray, order: int) -> np.ndarray:
    """All derivatives of an order: the determinants with as many rows replaced by those of the unit matrix."""
    n = len(a)
    given = [[Fraction(x) for x in row] for row in a.tolist()]
    out = np.zeros((n, n) * order)
    for at in product(range(n), repeat=2 * order):
        rows, columns = at[::2], at[1::2]
        if len(set(rows)) == len(set(columns)) == order:
            unit = {r: [Fraction(int(j == c)) for j in range(n)] for r, c in zip(rows, columns, strict=True)}
            out[at] = determinant([unit.get(i, row) for i, row in enumerate(given)])
    return out


def determinant(a: list[list[Fraction]]) -> Fraction:
    if not a:
        return Fraction(1)
    minors = [(k, x, determinant([row[:k] + row[k + 1 :] for row in a[1:]])) for k, x in enumerate(a[0]) if x]
    return sum(((-1) ** k * x * minor for k, x, minor in minors), Fraction(0))


@pytest.fixture(scope="module")
def m():
    return dlang.compile(MODULE, backend="interp")


@pytest.fixture(scope="module")
def hessian():
    return dlang.hessian(dlang.compile(MODULE).f)


@pytest.mark.parametrize("name", MATRICES)
def test_derivatives_of_a_determinant_are_those_of_the_polynomial(m, hessian, name):
    a = MATRICES[name]
    u, v, w = np.random.default_rng(1).normal(size=(3, *a.shape))
    near = {"rtol": 1e-11, "atol": 1e-11}
    second, third = (np.einsum("ijkl,kl->ij", exact(a, 2), u), np.einsum("ijklpq,kl,pq->ij", exact(a, 3), u, v))
    np.testing.assert_allclose(dlang.grad(m.f)(a), exact(a, 1), **near)
    np.testing.assert_allclose(hessian(a), exact(a, 2), **near)
    for found in m.hessians(a, u):
        np.testing.assert_allclose(found, second, **near)
    np.testing.assert_allclose(m.along(a, u, v), np.sum(second * v), **near)
    for found in m.thirds(a, u, v):
        np.testing.assert_allclose(found, third, **near)
    if len(a) < 4:
        np.testing.assert_allclose(m.fourth(a, u, v, w), 0 * a, **near)


@pytest.mark.parametrize("name", ["of rank 1", "regular"])
def test_the_fourth_derivative_is_that_of_the_polynomial(m, name):
    u, v, w = np.random.default_rng(1).normal(size=(3, 4, 4))
    found = m.fourth(MATRICES[name], u, v, w)
    expected = np.einsum("abcdefgh,cd,ef,gh->ab", exact(MATRICES[name], 4), u, v, w)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("least", [1e-3, 1e-5, 1e-7, 1e-9, 1e-12])
def test_derivatives_near_singular_matrices_keep_half_of_the_digits(m, least):
    left, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    right, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    a = left * [2.0, 1.0, 0.5, least] @ right
    u, v = rng.normal(size=(2, 4, 4))
    second, third = (np.einsum("ijkl,kl->ij", exact(a, 2), u), np.einsum("ijklpq,kl,pq->ij", exact(a, 3), u, v))
    for found in m.hessians(a, u):
        np.testing.assert_allclose(found, second, rtol=0, atol=1e-7 * np.abs(second).max())
    for found in m.thirds(a, u, v):
        np.testing.assert_allclose(found, third, rtol=0, atol=1e-7 * np.abs(third).max())
