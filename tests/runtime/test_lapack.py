"""The operations of LAPACK on matrices of any size, whatever is in them."""

import numpy as np
import pytest

from dlang.host import lapack
from dlang.host.lapack import perform

DTYPES = (np.float64, np.float32)
SIZES = (0, 1, 2, 5, 40)
SHAPES = [(m, n) for m in (0, 1, 3, 20) for n in (0, 1, 3, 20)]


def matrix(m, n, dtype, seed=0):
    return np.random.default_rng([seed, m, n]).normal(size=(m, n)).astype(dtype)


def near(a, b, dtype, scale=1.0):
    np.testing.assert_allclose(a, b, rtol=0, atol=scale * 300 * np.finfo(dtype).eps)
    assert a.dtype == dtype and a.flags.c_contiguous


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_square_matrices_are_factored_and_solved(n, dtype):
    a = (matrix(n, n, dtype) + 3 * np.sqrt(n) * np.eye(n)).astype(dtype) / 4
    before = a.copy()
    b = matrix(n, 3, dtype, 1)
    packed, order, exchanges, info = perform("lu", [a])
    lower = np.tril(packed, -1) + np.eye(n, dtype=dtype)
    near(lower @ np.triu(packed), a[order], dtype, 10)
    assert info == 0 and sorted(order) == list(range(n)) and order.dtype == np.int64
    (d,) = perform("lu_det", [a, packed, order, exchanges])
    np.testing.assert_allclose(d, np.linalg.det(a), rtol=300 * np.finfo(dtype).eps)
    assert d.dtype == dtype
    (logarithm,) = perform("lu_logdet", [a, packed, order])
    np.testing.assert_allclose(logarithm, np.linalg.slogdet(a)[1], rtol=300 * np.finfo(dtype).eps, atol=1e-5)
    assert logarithm.dtype == dtype
    (x,) = perform("lu_solve", [a, packed, order, b])
    near(a @ x, b, dtype, 10)
    (x,) = perform("lu_solve_transposed", [a, packed, order, b])
    near(a.T @ x, b, dtype, 10)
    (x,) = perform("lu_inverse", [a, packed, order])
    near(a @ x, np.eye(n, dtype=dtype), dtype, 10)
    positive = a @ a.T
    factor, info = perform("cholesky", [positive])
    near(factor @ factor.T, positive, dtype, 100)
    assert info == 0 and not np.triu(factor, 1).any()
    w, v, info = perform("eigh", [a])
    symmetric = np.tril(a) + np.tril(a, -1).T
    near(symmetric @ v, v * w, dtype, 10)
    near(v.T @ v, np.eye(n, dtype=dtype), dtype)
    assert (np.diff(w) >= 0).all() and info == 0
    np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("flags", [(x, y, z) for x in (True, False) for y in (True, False) for z in (True, False)])
def test_triangles_are_solved_without_looking_at_the_other_one(n, dtype, flags):
    lower, transposed, unit = flags
    a = matrix(n, n, dtype) / max(n, 1) + 2 * np.eye(n, dtype=dtype)
    triangle = np.tril(a) if lower else np.triu(a)
    if unit:
        np.fill_diagonal(triangle, 1)
    other = np.triu(np.full((n, n), np.nan, dtype), 1)
    dirty = np.where(np.isnan(other if lower else other.T), np.nan, a)
    b = matrix(n, 4, dtype, 1)
    x, info = perform("triangular_solve", [dirty, b, *flags])
    near((triangle.T if transposed else triangle) @ x, b, dtype)
    assert info == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_matrices_of_any_shape_have_orthogonal_factors(m, n, dtype):
    a, k = matrix(m, n, dtype), min(m, n)
    q, r = perform("qr", [a, k])
    near(q @ r, a, dtype)
    near(q.T @ q, np.eye(k, dtype=dtype), dtype)
    assert not np.tril(r, -1).any()
    u, s, vt, info = perform("svd", [a, k])
    near((u * s) @ vt, a, dtype)
    near(u.T @ u, np.eye(k, dtype=dtype), dtype)
    near(vt @ vt.T, np.eye(k, dtype=dtype), dtype)
    assert info == 0 and (np.diff(s) <= 0).all() and (s >= 0).all()


def test_what_is_wrong_is_said_by_info():
    a = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
    assert perform("cholesky", [a])[-1] == 2
    assert perform("triangular_solve", [np.diag([1.0, 0.0, 0.0]), a, True, False, False])[-1] == 2
    assert perform("triangular_solve", [np.diag([1.0, 0.0]), np.empty((2, 0)), True, False, False])[-1] == 2
    packed, order, exchanges, info = perform("lu", [a])
    assert info == 2
    np.testing.assert_allclose((np.tril(packed, -1) + np.eye(3)) @ np.triu(packed), a[order])
    for name in ("lu_solve", "lu_solve_transposed"):
        assert np.isnan(perform(name, [a, packed, order, a])[0]).all()
    assert np.isnan(perform("lu_inverse", [a, packed, order])[0]).all()
    assert perform("lu_det", [a, packed, order, exchanges])[0] == 0.0
    assert perform("lu_logdet", [a, packed, order])[0] == -np.inf


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_what_is_not_finite_neither_hangs_nor_crashes(n, bad):
    a = matrix(n, n, np.float64)
    a[n // 2, n // 3] = bad
    assert perform("eigh", [a])[-1] == perform("svd", [a, n])[-1] == lapack.NOT_FINITE
    perform("qr", [a, n])
    perform("triangular_solve", [a, a, True, False, False])
    packed, order, *_ = perform("lu", [a])
    assert sorted(order) == list(range(n))
    assert not np.isfinite(perform("lu_solve", [a, packed, order, a])[0]).all()
    spoiled = a @ a.T
    assert perform("cholesky", [spoiled])[-1] > 0 or np.isinf(bad)
