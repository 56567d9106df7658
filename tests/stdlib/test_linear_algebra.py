"""The module `linalg` from Python, with both back ends, against NumPy; and how it refuses."""

import numpy as np
import pytest

import dlang

TEXT = """
import linalg
fn l(a: f64[n, n]) -> f64[n, n] = linalg.cholesky(a)
fn x(a: f64[n, n], b: f64[n]) -> f64[n] = linalg.solve(a, b)
fn determinant(a: f64[n, n]) -> f64 = linalg.det(a)
fn logarithm(a: f64[n, n]) -> (f64, f64) = linalg.slogdet(a)
fn inverted(a: f64[n, n]) -> f64[n, n] = linalg.inverse(a)
fn power(a: f64[n, n], k: i64) -> f64[n, n] = linalg.matrix_power(a, k)
fn values(a: f64[n, n]) -> f64[n] = linalg.eigh(a).0
fn singular(a: f64[m, n]) -> f64[?] = linalg.svd(a).1
fn pseudo(a: f64[m, n]) -> f64[n, m] = linalg.pinv(a)
fn least(a: f64[m, n], b: f64[m, k]) -> f64[n, k] = linalg.lstsq(a, b)
fn rank(a: f64[m, n]) -> i64 = linalg.matrix_rank(a)
fn product(a: f64[m, n], b: f64[p, q]) -> f64[m * p, n * q] = linalg.kron(a, b)
fn norms(a: f64[m, n]) -> (f64, f64, f64, f64) =
  (linalg.norm(a), linalg.norm_1(a), linalg.norm_2(a), linalg.norm_inf(a))
fn exponential(a: f64[n, n]) -> f64[n, n] = linalg.expm(a)
fn narrow(a: f32[n, n], b: f32[n]) -> (f32[n, n], f32[n], f32) =
  (linalg.cholesky(a), linalg.solve(a, b), linalg.det(a))
fn inner(a: f64[n, n]) -> f64 = sum(linalg.cholesky(a))
fn many(a: f64[k, n, n]) -> f64[k] = [inner(m) for m in a]
fn triangle(a: f64[n, n], b: f64[n]) -> f64[n] = linalg.triangular_solve(a, b)
"""


@pytest.fixture(scope="module", params=["interp", "cpu"])
def m(request):
    return dlang.compile(TEXT, backend=request.param)


def random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 17])
def test_square_matrices_are_those_of_numpy(m, n):
    a, b = random(n, n) + 2 * np.eye(n), random(n)
    positive = a @ a.T + np.eye(n)
    near = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(m.l(positive), np.linalg.cholesky(positive), **near)
    np.testing.assert_allclose(m.x(a, b), np.linalg.solve(a, b), **near)
    np.testing.assert_allclose(m.determinant(a), np.linalg.det(a), **near)
    np.testing.assert_allclose(m.logarithm(a), np.linalg.slogdet(a), **near)
    np.testing.assert_allclose(m.inverted(a), np.linalg.inv(a), **near)
    np.testing.assert_allclose(m.power(positive, 5), np.linalg.matrix_power(positive, 5), rtol=1e-9)
    np.testing.assert_allclose(m.power(a, -3), np.linalg.matrix_power(a, -3), **near)
    np.testing.assert_allclose(m.values(positive), np.linalg.eigvalsh(positive), **near)
    w, v = np.linalg.eigh(a + a.T)
    np.testing.assert_allclose(m.exponential(a + a.T), (v * np.exp(w)) @ v.T, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("rows", "columns"), [(0, 0), (0, 3), (3, 0), (1, 1), (5, 3), (3, 5), (20, 8)])
def test_matrices_of_any_shape_are_those_of_numpy(m, rows, columns):
    a, b = random(rows, columns), random(rows, 2, seed=1)
    np.testing.assert_allclose(m.singular(a), np.linalg.svd(a, compute_uv=False), rtol=1e-12)
    np.testing.assert_allclose(m.pseudo(a), np.linalg.pinv(a), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(m.least(a, b), np.linalg.lstsq(a, b)[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(m.product(a, b), np.kron(a, b), rtol=1e-12)
    assert m.rank(a) == min(rows, columns)
    if a.size:
        expected = [np.linalg.norm(a, order) for order in ("fro", 1, 2, np.inf)]
        np.testing.assert_allclose(m.norms(a), expected, rtol=1e-12)
    else:
        assert m.norms(a) == (0.0, 0.0, 0.0, 0.0)


def test_rank_is_that_of_numpy_where_rounding_hides_it(m):
    low = random(12, 3) @ random(3, 9)
    assert m.rank(low) == np.linalg.matrix_rank(low) == 3
    np.testing.assert_allclose(m.pseudo(low), np.linalg.pinv(low, rcond=None), rtol=1e-8, atol=1e-10)


def test_single_precision_stays_single(m):
    a = (random(6, 6) @ random(6, 6).T + 8 * np.eye(6)).astype(np.float32)
    a = (a + a.T) / 2
    b = random(6).astype(np.float32)
    factor, x, d = m.narrow(a, b)
    assert factor.dtype == x.dtype == np.float32
    np.testing.assert_allclose(factor, np.linalg.cholesky(a), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(d, np.linalg.det(a), rtol=1e-4)


def test_both_back_ends_call_the_same_routines():
    first, second = (dlang.compile(TEXT, backend=b) for b in ("interp", "cpu"))
    a = random(30, 30)
    np.testing.assert_array_equal(first.singular(a), second.singular(a))
    np.testing.assert_array_equal(first.values(a), second.values(a))


def test_what_does_not_exist_ends_the_run_with_the_values(m):
    with pytest.raises(dlang.DlangError) as stopped:
        m.l(np.diag([1.0, 2.0, -1.0, 3.0]))
    assert "E0831" in str(stopped.value) and "minor of order 3 is not positive" in str(stopped.value)
    with pytest.raises(dlang.DlangError) as stopped:
        m.inverted(np.ones((2, 2)))
    assert "E0832" in str(stopped.value) and "pivot 2 of 2" in str(stopped.value)
    with pytest.raises(dlang.DlangError) as stopped:
        m.triangle(np.diag([1.0, 0.0]), np.ones(2))
    assert "E0832" in str(stopped.value) and "index 1" in str(stopped.value)
    for f in (m.values, m.singular, m.pseudo):
        with pytest.raises(dlang.DlangError) as stopped:
            f(np.array([[1.0, np.nan], [0.0, 1.0]]))
        assert "E0833" in str(stopped.value)


def test_the_first_of_many_matrices_that_fails_is_reported(m):
    stack = np.stack([np.eye(2), np.diag([1.0, -1.0]), np.diag([-1.0, 1.0])])
    with pytest.raises(dlang.DlangError) as stopped:
        m.many(stack)
    assert "minor of order 2" in str(stopped.value)
    np.testing.assert_allclose(m.many(np.stack([np.eye(2), 4 * np.eye(2)])), [2.0, 4.0])


def test_nan_goes_through_a_solution(m):
    a = np.eye(3)
    a[1, 1] = np.nan
    assert np.isnan(m.x(a, np.ones(3))[1])
    assert np.isnan(m.exponential(a)).any()
