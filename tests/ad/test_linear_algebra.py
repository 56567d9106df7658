"""Gradients through linear algebra: compiled and interpreted, against central differences, element by element."""

from functools import cache
from itertools import product

import numpy as np
import pytest

import dlang

HEAD = """
import linalg
import linalg { cholesky, det, eigh, inverse, lstsq, qr, slogdet, solve, svd, triangular_solve }
fn weigh(x: f64[m, k]) -> f64 = sum(x[i, j] * sin(1.0 + f64(i) + 2.0 * f64(j)) for i, j)
fn weighed(x: f64[m]) -> f64 = sum(x[i] * cos(0.5 + f64(i)) for i)
"""
SQUARE = {
    "cholesky": "fn f(a: f64[n, n]) -> f64 = weigh(cholesky(a @ transpose(a) + linalg.identity(n)))",
    "cholesky of the symmetric part": "fn f(a: f64[n, n]) -> f64 = weigh(cholesky(0.1 * a + linalg.identity(n)))",
    "solution, in the matrix": "fn f(a: f64[n, n]) -> f64 = weighed(solve(a, [f64(i) - 1.0 for i < n]))",
    "solution, in both": "fn f(a: f64[n, n]) -> f64 = weigh(solve(a, a * a))",
    "inverse": "fn f(a: f64[n, n]) -> f64 = weigh(inverse(a))",
    "determinant": "fn f(a: f64[n, n]) -> f64 = det(a)",
    "logarithm of the determinant": "fn f(a: f64[n, n]) -> f64 = linalg.logdet(a)",
    "lu": "fn f(a: f64[n, n]) -> f64 { let (_, l, u) = linalg.lu(a); weigh(l) + weigh(u ** 2) }",
    "lower triangle": "fn f(a: f64[n, n]) -> f64 = weigh(triangular_solve(a, a + 1.0))",
    "upper triangle": "fn f(a: f64[n, n]) -> f64 = weigh(triangular_solve(a, a, lower = false))",
    "transposed lower triangle": "fn f(a: f64[n, n]) -> f64 = weigh(triangular_solve(a, a, transposed = true))",
    "transposed upper triangle with ones": (
        "fn f(a: f64[n, n]) -> f64 = weigh(triangular_solve(a, a, lower = false, transposed = true, unit = true))"
    ),
    "eigenvalues": "fn f(a: f64[n, n]) -> f64 = weighed(eigh(a).0)",
    "eigenvectors": "fn f(a: f64[n, n]) -> f64 { let (w, v) = eigh(a); weigh(v ** 2) + weighed(w ** 2) }",
    "exponential": "fn f(a: f64[n, n]) -> f64 = weigh(linalg.expm(a))",
    "power": "fn f(a: f64[n, n]) -> f64 = weigh(linalg.matrix_power(a, 3)) + weigh(linalg.matrix_power(a, -2))",
    "in a comprehension": (
        "fn f(a: f64[n, n]) -> f64 = sum([weighed(solve(a + linalg.identity(n) * v, a[0])) for v in a[1]])"
    ),
    "in a loop": "fn f(a: f64[n, n]) -> f64 { var x = a[0]; for i < n { x = solve(a, x + a[i]) }; weighed(x) }",
}
ANY = {
    "qr": "fn f(a: f64[m, n]) -> f64 { let (q, r) = qr(a); weigh(q) + weigh(r) }",
    "q alone": "fn f(a: f64[m, n]) -> f64 = weigh(qr(a).0)",
    "r alone": "fn f(a: f64[m, n]) -> f64 = weigh(qr(a).1)",
    "singular values": "fn f(a: f64[m, n]) -> f64 = weighed(svd(a).1)",
    "singular vectors": (
        "fn f(a: f64[m, n]) -> f64 { let (u, s, vt) = svd(a); weigh(u * s) + weigh(vt ** 2) + weigh(u ** 2) }"
    ),
    "left singular vectors alone": "fn f(a: f64[m, n]) -> f64 = weigh(svd(a).0 ** 2)",
    "pseudo-inverse": "fn f(a: f64[m, n]) -> f64 = weigh(linalg.pinv(a))",
    "least squares": "fn f(a: f64[m, n]) -> f64 = weighed(lstsq(a, [f64(i) for i < m]))",
    "norms": "fn f(a: f64[m, n]) -> f64 = linalg.norm(a) + linalg.norm_1(a) + linalg.norm_2(a) + linalg.norm_inf(a)",
}
SIZES = {"square": (3, 3), "tall": (4, 2), "wide": (2, 4)}
MATRIX = np.array([[1.9, -0.4, 0.3, 0.8], [0.7, 1.2, -0.6, 0.2], [0.1, 0.9, 1.5, -0.5], [-0.3, 0.4, 0.6, 1.1]])
CASES = [(name, "square") for name in SQUARE] + [(name, shape) for name in ANY for shape in SIZES]


def differences(f, x, step=1e-5):
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[i] = step
        out[i] = (8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * step)
    return out


compiled = cache(dlang.compile)


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_the_gradient_is_that_of_central_differences(name, shape):
    text = HEAD + (SQUARE | ANY)[name]
    rows, columns = SIZES[shape]
    point = MATRIX[:rows, :columns]
    slopes = []
    for backend in ("cpu", "interp"):
        module = compiled(text, backend)
        value, slope = dlang.value_and_grad(module.f)(point)
        slopes.append(slope)
        if backend == "cpu":
            expected = differences(module.f, point)
            np.testing.assert_allclose(value, module.f(point), rtol=1e-12)
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(slopes[0], expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *(
            (name, "square")
            for name in ("cholesky", "determinant", "solution, in both", "lu", "eigenvectors", "lower triangle")
        ),
        *((name, shape) for name in ("qr", "singular vectors") for shape in SIZES),
    ],
)
def test_a_gradient_differentiates_again(name, shape):
    """The gradient of a weighted sum of the gradient is a Hessian-vector product."""
    rows, columns = SIZES[shape]
    text = HEAD + (SQUARE | ANY)[name] + f"\nfn h(x: f64[{rows}, {columns}]) -> f64 = weigh(grad(f)(x))\n"
    module = dlang.compile(text)
    point = MATRIX[:rows, :columns]
    np.testing.assert_allclose(dlang.grad(module.h)(point), differences(module.h, point), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("second", ["jvp(grad(f), a, c).1", "grad(|a: f64[n, n]| sum(grad(f)(a) * c))(a)"])
def test_a_factor_has_derivatives_of_third_order(second):
    text = (
        HEAD
        + f"""
fn f(a: f64[n, n]) -> f64 = weigh(sin(cholesky(0.1 * a + linalg.identity(n))))
fn h(a: f64[n, n], c: f64[n, n]) -> f64 = weigh({second})
fn slope(a: f64[n, n], c: f64[n, n]) -> f64[n, n] = grad(|a: f64[n, n]| h(a, c))(a)
fn tangent(a: f64[n, n], c: f64[n, n]) -> f64 = jvp(|a: f64[n, n]| h(a, c), a, c).1
"""
    )
    module = dlang.compile(text, "interp")
    point, c = MATRIX[:3, :3], np.cos(MATRIX[:3, :3])
    third = differences(lambda x: module.h(x, c), point, 1e-3)
    np.testing.assert_allclose(module.slope(point, c), third, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(module.tangent(point, c), np.sum(third * c), rtol=1e-8, atol=1e-9)


def test_which_triangle_is_solved_with_may_be_known_only_when_the_program_runs():
    text = (
        HEAD
        + """
fn f(a: f64[n, n], lower: bool, transposed: bool, unit: bool) -> f64 =
  weigh(triangular_solve(a, sin(a), lower = lower, transposed = transposed, unit = unit))
fn tangent(a: f64[n, n], c: f64[n, n], lower: bool, transposed: bool, unit: bool) -> f64 =
  jvp(|a: f64[n, n]| f(a, lower, transposed, unit), a, c).1
"""
    )
    module = dlang.compile(text)
    point = MATRIX[:3, :3]
    for flags in product((False, True), repeat=3):
        slope = differences(lambda x, flags=flags: module.f(x, *flags), point)
        np.testing.assert_allclose(dlang.grad(module.f, wrt="a")(point, *flags), slope, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(module.tangent(point, point, *flags), np.sum(slope * point), rtol=1e-8)


def test_the_gradient_of_the_logarithm_of_the_determinant_is_the_inverse_transposed():
    module = dlang.compile(HEAD + SQUARE["logarithm of the determinant"])
    a = np.random.default_rng(3).normal(size=(40, 40))
    np.testing.assert_allclose(dlang.grad(module.f)(a), np.linalg.inv(a).T, rtol=1e-8, atol=1e-10)


def test_single_precision_is_differentiated_in_single_precision():
    module = dlang.compile("import linalg { solve }\nfn f(a: f32[n, n], b: f32[n]) -> f32 = sum(solve(a, b) ** 2)")
    a, b = MATRIX[:3, :3].astype(np.float32), np.ones(3, np.float32)
    slope = dlang.grad(module.f)(a, b)
    assert slope.dtype == np.float32
    x = np.linalg.solve(a, b)
    np.testing.assert_allclose(slope, -np.outer(np.linalg.solve(a.T, 2 * x), x), rtol=1e-4)
