"""Programs whose derivatives other systems got wrong: compiled reverse and forward mode, the reference, differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ad.four_ways import four_ways

X = np.array([0.31, -0.72, 1.13, 0.54, -0.25])
M = np.array([[0.4, -0.3, 0.8], [1.2, 0.5, -0.6], [0.1, 0.9, -1.1]])
S = M @ M.T + 2 * np.eye(3)

# name: the text of `f`, and arguments after the sizes. A size is given as an integer first, in the order of the text.
CASES: dict[str, tuple[str, list[Any]]] = {
    "a map with a free array, of which one element is used": (
        "fn f(x: f64[n], w: f64[n]) -> f64 { let y = [sum(w) * v + w[0] for v in x]; y[2] }",
        [5, X, X + 1.0],
    ),
    "both results of a branch are one array, which is changed after": (
        (
            "fn f(x: f64[n], c: f64) -> f64 { var u = if c > 0.0 { x } else { x }; var v = u; u[0] = 3.0 * v[1]; "
            "v[1] = u[0] * u[0]; sum(u * v) }"
        ),
        [5, X, 1.0],
    ),
    "an unrolled scatter with repeated indices": (
        (
            "fn f(x: f64[n]) -> f64 { var h = [0.0, 0.0, 0.0]; h[0] += x[0] * x[1]; h[0] += x[2]; h[1] += h[0] * x[3]; "
            "h[0] += h[1]; sum(h * h) }"
        ),
        [5, X],
    ),
    "a product in place of a sum": ("fn f(x: f64[n]) -> f64 = prod(sin(x)) * sum(x)", [5, X]),
    "iterations that depend on data": (
        (
            "fn f(x: f64[n]) -> f64 { var s = 0.0; for v in x { var y = v; while abs(y) < 2.0 { y = 1.5 * y + 0.1 * v }"
            "; s += y * y }; s }"
        ),
        [5, X],
    ),
    "a diamond through a product and a sine": (
        "fn f(x: f64[n]) -> f64 { let v = x[0] * x[1]; let a = sin(v); let b = v + a; a * b * v }",
        [5, X],
    ),
    "reverse in forward in reverse": (
        "fn f(x: f64, y: f64) -> f64 = grad(|a: f64| jvp(|b: f64| grad(|c: f64| sin(a * b * c) * x)(a), y, x).1)(x)",
        [0.7, 0.4],
    ),
    "a value that the backward pass needs is overwritten": (
        (
            "fn f(x: f64[n]) -> f64 { var u = x * x; let y = u[0] * u[1] * x[2]; u[0] = y * y; "
            "let z = sin(u[0]) * u[1]; u[1] = z * u[0]; u[0] = u[1] * z; sum(u * x) + y * z }"
        ),
        [5, X],
    ),
    "a value that the backward pass needs is overwritten in a branch": (
        (
            "fn f(x: f64[n]) -> f64 { var u = x; var s = 0.0; for i < n { s += u[i] ** 3; "
            "if u[i] > 0.0 { u[i] = s * u[i] } else { u[0] = u[i] * u[i] } }; s + sum(u * x) }"
        ),
        [5, X],
    ),
    "overwriting in a map": (
        "fn f(x: f64[n]) -> f64 = sum([{ var u = x; u[i] = u[i] * u[0]; u[0] = u[i] * 2.0; sum(u * u) } for i < n])",
        [5, X],
    ),
    "overwriting in nested loops": (
        (
            "fn f(m: f64[n, n]) -> f64 { var a = m; for k < n { for i < n { for j < n { "
            "a[i, j] = a[i, j] + 0.1 * a[i, k] * a[k, j] } } }; sum(a * m) }"
        ),
        [3, M],
    ),
    "an update in a helper": (
        (
            "fn put(u: f64[n], i: i64, v: f64) -> f64[n] { var w = u; w[i] = v * w[i]; w }\n"
            "fn f(x: f64[n]) -> f64 { var u = x; for i < n { u = put(u, i, u[0] + x[i]) }; sum(u * u) }"
        ),
        [5, X],
    ),
    "a cast to f16 inside": ("fn f(x: f64) -> f64 = f64(f32(x) * f32(x)) * x", [1.25]),
    "nested sums": (
        "fn f(x: f64[n], w: f64[n]) -> f64 = sum(exp(w[i] * sum(x[j] * tanh(w[i] + x[j]) for j)) for i)",
        [5, X, 0.3 * X + 0.2],
    ),
    "a mixture of Gaussians": (
        (
            "fn f(x: f64[n, d], m: f64[k, d], a: f64[k]) -> f64 = "
            "sum(logsumexp([a[c] - 0.5 * sum((x[i, t] - m[c, t]) ** 2 for t) for c]) for i)"
        ),
        [3, 3, 2, M, M[:2] + 0.3, np.array([0.1, -0.4])],
    ),
    "a convolution of an expensive function": (
        "fn f(x: f64[n], w: f64[3]) -> f64 = sum(sum(exp(sin(x[i + p])) * w[p] for p < 3) ** 2 for i < n - 2)",
        [5, X, X[:3]],
    ),
    "a stencil in two dimensions": (
        (
            "fn f(m: f64[n, k]) -> f64 = sum((4.0 * m[i + 1, j + 1] - m[i, j + 1] - m[i + 2, j + 1] - m[i + 1, j] "
            "- m[i + 1, j + 2]) ** 3 for i < n - 2, j < k - 2)"
        ),
        [3, 3, M],
    ),
    "neighbours beyond the ends of two axes": (
        (
            "fn f(m: f64[n, k]) -> f64 = sum((m[clip(i - 1, 0, n - 1), (j + 1) % k] * m[i, clip(j + 2, 0, k - 1)] "
            "- m[(i + n - 1) % n, j]) ** 2 * exp(m[minimum(i + 1, n - 1), j]) for i < n, j < k)"
        ),
        [4, 3, np.concatenate([M, 0.3 - M[:1]])],
    ),
    "weights of a recurrent network": (
        "fn f(w: f64[n, n], x: f64[t, n]) -> f64 { var h = x[0]; for i < t { h = tanh(w @ h + x[i]) }; sum(h * h) }",
        [3, 3, M, M + 0.1],
    ),
    "a wavefront": (
        (
            "fn f(x: f64[n, n]) -> f64 { var t = x; for i in 1..n { for j in 1..n { "
            "t[i, j] = x[i, j] + minimum(t[i - 1, j], minimum(t[i, j - 1], t[i - 1, j - 1])) * t[i - 1, j] } }; "
            "t[n - 1, n - 1] }"
        ),
        [3, M],
    ),
    "one argument twice": (
        (
            "fn g(a: f64[n], b: f64[n]) -> f64 { var u = a; for i < n { u[i] *= b[n - 1 - i] }; sum(u * b) }\n"
            "fn f(x: f64[n]) -> f64 = g(x, x)"
        ),
        [5, X],
    ),
    "a scan of products of matrices": (
        (
            "fn f(x: f64[n, d, d], e: f64[d, d]) -> f64 { var (p, s) = (e, 0.0); for i < n { p = p @ x[i]; "
            "s += sum(p * p) }; s }"
        ),
        [2, 3, np.stack([M, 0.5 * M + 0.1]), np.eye(3)],
    ),
    "a reduction with an operator of its own": (
        "fn f(x: f64[n]) -> f64 = reduce(|a, b| a + b + a * b, 0.0, x)",
        [5, X],
    ),
    "linear algebra": (
        (
            "import linalg\nfn f(a: f64[n, n], b: f64[n]) -> f64 { let s = a @ transpose(a) + "
            "[[if i == j { 2.0 } else { 0.0 } for j < n] for i < n]; "
            "sum(linalg.solve(s, b) ** 2) + linalg.det(s) + sum(linalg.cholesky(s) * a) + sum(linalg.inverse(s) * a) }"
        ),
        [3, M, X[:3]],
    ),
    "factorisations": (
        (
            "import linalg\nfn f(a: f64[n, n], w: f64[n, n]) -> f64 { let (q, r) = linalg.qr(a); "
            "let (l, v) = linalg.eigh(0.5 * (a + transpose(a))); let (u, s, t) = linalg.svd(a); "
            "sum((q as f64[n, n]) * w) + sum((r as f64[n, n]) * w) + sum(sin(l)) + sum((v * v) * w) + sum(s ** 3) "
            "+ sum(((u as f64[n, n]) @ (t as f64[n, n])) * w) }"
        ),
        [3, M, S],
    ),
    "Griewank's lighthouse": (
        "fn f(n: f64, g: f64, w: f64, t: f64) -> f64 { let d = tan(w * t); let a = n * d / (g - d); a + g * a }",
        [2.0, 1.5, 0.4, 2.1],
    ),
    "a recursive tree, and a function that is chosen when it runs": (
        (
            "enum Tree { Leaf(f64), Node(Tree, f64, Tree) }\n"
            "fn build(d: i64, x: f64) -> Tree = if d == 0 { Leaf(x * x) } else { "
            "Node(build(d - 1, sin(x)), x, build(d - 1, 0.5 * x)) }\n"
            "fn walk(t: Tree, g: f64 -> f64) -> f64 = match t { Leaf(x) => g(x), "
            "Node(l, x, r) => walk(l, |v| g(v) * x) + walk(r, if x > 0.3 { |v| g(v) } else { |v| v * x }) }\n"
            "fn f(x: f64) -> f64 = walk(build(4, x), |v| v * v + x)"
        ),
        [0.9],
    ),
    "an array that grows in a loop": (
        "fn f(x: f64[n]) -> f64 { var a: f64[?] = x; for v in x { a = concat(a, [v * sum(a)]) }; sum(sin(a)) }",
        [5, X],
    ),
    "an array that loses elements until one is left": (
        (
            "fn f(x: f64[n]) -> f64 { var a: f64[?] = x; var t = 0.0; while len(a) > 1 { let least = min(a); "
            "a = [v * (1.0 + least) for v in a if v > least]; t += sum(a) ** 2 }; t }"
        ),
        [5, X],
    ),
    "an array that is halved in every iteration": (
        (
            "fn f(x: f64[n]) -> f64 { var a: f64[?] = concat(x, sin(x)); while len(a) > 1 { let h = len(a) // 2; "
            "a = [a[2 * i] * a[2 * i + 1] + a[i] for i < h] }; a[0] }"
        ),
        [5, X],
    ),
    "an array of another size in a nested loop": (
        (
            "fn f(x: f64[n]) -> f64 { var t = 0.0; for k < n { var a: f64[?] = [x[k]]; for i < k { "
            "a = concat(a, a * x[i]) }; t += prod(1.0 + a) }; t }"
        ),
        [5, 0.4 * X],
    ),
    "functions of analysis": (
        (
            "import math\nfn f(x: f64) -> f64 = lgamma(x) * digamma(x) + erf(x) + asin(x / 3.0) + acos(x / 4.0) "
            "+ tan(x) + atan2(x, 2.0) + x % 0.7 + x ** x"
        ),
        [1.3],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_four_ways_to_differentiate_agree(name: str) -> None:
    text, args = CASES[name]
    assert any(np.any(e) for e in four_ways(text, args, 30.0 if "f32" not in text else 1e4))
