"""Gradients of programs in the language: compiled and interpreted, against central differences, element by element."""

import numpy as np
import pytest

import dlang

PROGRAMS = {
    "sum of a quotient": "fn f(x: f64[n]) -> f64 = sum(x / (1.0 + x * x))",
    "argument used twice": "fn g(a: f64[n], b: f64[n]) -> f64 = sum(a * b)\nfn f(x: f64[n]) -> f64 = g(x, x)",
    "diamond": "fn f(x: f64[n]) -> f64 { let y = tanh(x); let z = y * y + y; sum(z * y) }",
    "softmax as one comprehension": (
        "fn f(x: f64[n]) -> f64 { let p = [exp(x[i]) / sum(exp(x[j]) for j) for i]; sum(p[i] * f64(i) for i) }"
    ),
    "layer norm": (
        "fn f(x: f64[n]) -> f64 { let m = mean(x); let v = mean((x - m) ** 2); "
        "sum(((x - m) / sqrt(v + 0.1))[i] * f64(i * i) for i) }"
    ),
    "max and min": "fn f(x: f64[n]) -> f64 = max(x * x) + 3.0 * min(x)",
    "prod": "fn f(x: f64[n]) -> f64 = prod(x)",
    "logsumexp": "fn f(x: f64[n]) -> f64 = logsumexp(2.0 * x)",
    "cumulative sum": "fn f(x: f64[n]) -> f64 = sum(cumsum(x) ** 2)",
    "stencil": "fn f(x: f64[n]) -> f64 = sum((x[i + 1] - 2.0 * x[i] + x[i - 1 + 1]) ** 2 for i < n - 1)",
    "convolution": "fn f(x: f64[n]) -> f64 = sum(sum(x[i + p] * x[p] for p < 3) ** 2 for i < n - 2)",
    "slices": "fn f(x: f64[n]) -> f64 = sum(x[1..n] * x[..n - 1]) + sum(x[..n by 2] ** 3)",
    "reverse and concat": "fn f(x: f64[n]) -> f64 = sum(concat(reverse(x), x * x)[i] * f64(i) for i)",
    "gather with repeats": "fn f(x: f64[n]) -> f64 = sum(x[[1, 3, 1, 0]] ** 3)",
    "sort": "fn f(x: f64[n]) -> f64 = sum(sort(x)[i] * f64(i * i) for i)",
    "branch on data": "fn f(x: f64[n]) -> f64 = if sum(x) >= 0.0 { sum(2.0 * x ** 2) } else { sum(x ** 3) }",
    "branch in a comprehension": "fn f(x: f64[n]) -> f64 = sum(if v > 0.2 { v * v } else { sin(v) } for v in x)",
    "where": "fn f(x: f64[n]) -> f64 = sum(where(x > 0.2, x * x, -x))",
    "reduction with a condition": "fn f(x: f64[n]) -> f64 = sum(v ** 3 for v in x if v > 0.2)",
    "filtered": "fn f(x: f64[n]) -> f64 { let y: f64[k] = [v * v for v in x if v > 0.2]; sum(y) * f64(k) }",
    "reshape and transpose": (
        "fn f(x: f64[n]) -> f64 { let m = [[x[i] * x[j] for j] for i]; "
        "let t = transpose(m) @ m; sum(reshape(t, n * n) ** 2) }"
    ),
    "quadratic form": "fn f(x: f64[n]) -> f64 { let h = [[f64(i + j) for j < n] for i < n]; 0.5 * sum(x * (h @ x)) }",
    "on both sides of a product and beside it": (
        "fn f(x: f64[n]) -> f64 { let b = [[sin(x[i] * f64(j + 1)) for j < 3] for i]; "
        "let w = [[x[i] * x[j] for j] for i]; sum((transpose(b) @ w @ b) @ (x @ b)) }"
    ),
    "fold": "fn f(x: f64[n]) -> f64 = fold(|a, v| a * v + sin(v), 1.0, x)",
    "scan": "fn f(x: f64[n]) -> f64 { let (s, ys) = scan(|a, v| (a * v, a + v), 1.0, x); s + sum(ys ** 2) }",
    "loop of updates": "fn f(x: f64[n]) -> f64 { var u = x; for i in 1..n { u[i] += u[i - 1] * x[i] }; sum(u ** 2) }",
    "smoothing": (
        "fn f(x: f64[n]) -> f64 { var u = x; for k < 3 { for i in 1..(n - 1) "
        "{ u[i] = 0.25 * u[i - 1] + 0.5 * u[i] + 0.25 * u[i + 1] } }; sum(u ** 2) }"
    ),
    "overwritten": "fn f(x: f64[n]) -> f64 { var u = x * x; u[0] = x[1]; u[1] = 2.0; sum(u ** 2) }",
    "read as it was before a change": (
        "fn f(x: f64[n]) -> f64 { var u = x; var s = 0.1; for i < n { let old = u; u[i] = u[i] * s + sin(u[i // 2]); "
        "s += old[i // 2] * old[i] + sum(old[j] for j in i..n) }; s + sum(u ** 2) }"
    ),
    "read as it was before a loop": (
        "fn f(x: f64[n]) -> f64 { var u = x; var s = 0.1; for i < n { let old = u; "
        "for j in 0..2 { u[(i + j) % n] *= s + 0.5 }; s += old[(i * i) % n] }; s + sum(u ** 2) }"
    ),
    "overwritten in a branch": (
        "fn f(x: f64[n]) -> f64 { var u = x; for i < n { if x[i] > 0.2 { u[i] = u[i] ** 2 } }; sum(u * x) }"
    ),
    "carried scalars": (
        "fn f(x: f64[n]) -> f64 { var a = 1.0; var b = 0.5; for v in x { (a, b) = (b * v, a + v) }; a * b }"
    ),
    "weights in a loop": (
        "fn f(x: f64[n]) -> f64 { let w = [[x[i] - 0.3 * x[j] for j] for i]; var h = x; "
        "for k < 3 { h = tanh(w @ h) }; sum(h) }"
    ),
    "rows made by a loop": (
        "fn sums(x: f64[n]) -> f64[n] { var out = x; for i in 1..n { out[i] += out[i - 1] }; out }\n"
        "fn f(x: f64[n]) -> f64 { let m = [sums(v * x) for v in x]; sum(m ** 2) }"
    ),
    "struct in the middle": (
        "struct P { a: f64, b: f64[3] }\n"
        "fn f(x: f64[n]) -> f64 { let p = P(a = x[0] * x[1], b = x[..3] as f64[3]); let q = p - 0.5 * p; "
        "q.a * sum(q.b) }"
    ),
    "closures": "fn f(x: f64[n]) -> f64 { let s = x[0]; let g = |v: f64| s * v * v; sum(map(g, x)) + g(2.0) }",
    "gradient inside": "fn f(x: f64[n]) -> f64 = sum(grad(|y: f64[n]| sum(y ** 3 * x))(x))",
    "gradient of each element": "fn f(x: f64[n]) -> f64 = sum(grad(|y: f64| y ** 3 * v)(v) for v in x)",
    "powers": "fn f(x: f64[n]) -> f64 = sum(abs(x) ** 1.5) + sum(x ** 3) + sum((1.5 + x * x) ** x)",
    "functions of analysis": (
        "fn f(x: f64[n]) -> f64 = sum(exp(x) + log(2.0 + x) + sin(x) * cos(x) + atan(x) + sinh(x) - cosh(x)"
        " + expm1(x) * log1p(x * x) + sqrt(x + 3.0) + atan2(x, 1.0 + x * x))"
    ),
    "clip and kinks": "fn f(x: f64[n]) -> f64 = sum(clip(x, -0.5, 0.4) ** 2) + sum(maximum(x, 0.1) * minimum(x, 0.3))",
    "stopped": "fn f(x: f64[n]) -> f64 = sum(x * x) + 0.0 * sum(stop_gradient(x) ** 3)",
}
POINT = np.array([0.31, -0.72, 1.13, 0.54, -0.25])


def differences(f, x, step=1e-6):
    out = np.zeros_like(x)
    for i in range(len(x)):
        e = np.zeros_like(x)
        e[i] = step
        out[i] = (f(x + e) - f(x - e)) / (2 * step)
    return out


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gradient_is_that_of_central_differences(name):
    values, slopes = [], []
    for backend in ("cpu", "interp"):
        module = dlang.compile(PROGRAMS[name], backend=backend)
        value, slope = dlang.value_and_grad(module.f)(POINT)
        values.append(value)
        slopes.append(slope)
        if backend == "cpu":
            expected = differences(module.f, POINT)
            np.testing.assert_allclose(value, module.f(POINT), rtol=1e-12)
    np.testing.assert_allclose(values[0], values[1], rtol=1e-12)
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(slopes[0], expected, rtol=2e-6, atol=2e-8)


SECOND = ["diamond", "softmax as one comprehension", "fold", "smoothing", "loop of updates", "max and min", "powers"]


@pytest.mark.parametrize("name", SECOND)
def test_a_gradient_differentiates_again(name):
    """The gradient of a weighted sum of the gradient is a Hessian-vector product."""
    weights = "[1.0, -2.0, 0.5, 3.0, 1.5]"
    text = f"{PROGRAMS[name]}\nfn h(x: f64[5]) -> f64 = sum(grad(f)(x) * {weights})"
    module = dlang.compile(text)
    np.testing.assert_allclose(dlang.grad(module.h)(POINT), differences(module.h, POINT), rtol=2e-5, atol=2e-6)


DIRECTION = np.array([1.0, -2.0, 0.5, 3.0, 1.5])


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_and_reverse_products_agree_with_the_gradient(name):
    module = dlang.compile(PROGRAMS[name], backend="interp")
    slope = dlang.grad(module.f)(POINT)
    _, change = dlang.jvp(module.f, POINT, DIRECTION)
    _, pull = dlang.vjp(module.f, POINT)
    np.testing.assert_allclose(change, slope @ DIRECTION, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(pull(-2.0), -2.0 * slope, rtol=1e-12)


@pytest.mark.parametrize("name", SECOND)
def test_a_hessian_is_the_derivative_of_the_gradient(name):
    module = dlang.compile(PROGRAMS[name])
    slope = dlang.grad(module.f)
    matrix = dlang.hessian(module.f)(POINT)
    columns = [(slope(POINT + e) - slope(POINT - e)) / 2e-6 for e in 1e-6 * np.eye(5)]
    np.testing.assert_allclose(matrix, columns, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-9, atol=1e-9)
