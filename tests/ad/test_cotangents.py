"""Every rule with every form of cotangent: none at all, of one element, of a few in a loop, and of all elements."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ad.four_ways import four_ways
from tests.sampling import every_combination

X = np.array([0.31, -0.72, 1.13, 0.54, -0.25, 0.9])
W = np.array([0.8, 0.3, -0.5, 1.2, 0.4, -0.9])

# What gives an array f64[k] of x: f64[n] and w: f64[n]; `g` and `t` are what is declared before.
OPERATIONS: dict[str, str] = {
    "a map": "[sin(x[i]) * w[i] for i]",
    "sums along an axis": "[sum(x[i] * w[j] * x[j] for j) for i]",
    "products along an axis": "[prod(x[i] + w[j] for j) for i]",
    "maxima and minima": "[max(x[i] * w[j] for j) + min(x[j] * x[i] for j) for i]",
    "a reduction": "[reduce(|a, b| a + b + a * b, 0.0, v * w) for v in x]",
    "a scan": "scan(|a, v| (tanh(a + v), a * v), x[0], x * w).1",
    "running sums": "cumsum(x * w)",
    "a fold": "[fold(|a, v| sin(a * v), x[i], w) for i]",
    "a loop of updates": "{ var u = x; for i in 1..n { u[i] = u[i - 1] * w[i] }; u }",
    "a loop of scatters": "{ var u = x; for i < n { u[(2 * i) % n] += w[i] * x[i] }; u }",
    "a loop that makes its array anew": "{ var u = x; for _ in 0..3 { u = tanh(u * w) + x }; u }",
    "a while loop": "{ var u = x; var s = 0.1; while s < 1.0 { u = s * u * w; s = 1.8 * s + 0.0 * u[0] }; u }",
    "a loop that stops early": "{ var u = x; for i < n { if u[i] > 1.0 { break }; u[i] = u[i] * w[i] + x[i] }; u }",
    "a gather": "(x * w)[[(3 * i + 1) % n for i < n]]",
    "an update": "{ var u = x * x; u[2] = w[1] * x[0]; u }",
    "an assigned slice": "{ var u = x * x; u[1..3] = w[..2] * x[4..6]; u }",
    "sorting": "sort(x * w)",
    "the order of another array": "(x * w)[argsort(w)]",
    "joining": "concat((x * w)[..2], w[2..] * x[..n - 2])",
    "slices with a step": "concat((x * x)[.. by 2], (x * w)[.. by 2]) as f64[n]",
    "a reshape": "reshape(reshape((x * w) as f64[6], 2, 3) * 2.0, 6) as f64[n]",
    "a transpose": "transpose([[v * u for u in x] for v in w])[1]",
    "a reverse": "reverse(x * w)",
    "a matrix and a vector": "[[x[i] * w[j] for j] for i] @ x",
    "a product of matrices": "([[x[i] * w[j] for j] for i] @ [[x[i] + w[j] for j] for i])[1]",
    "a branch": "if x[0] > 0.0 { x * w } else { w * w }",
    "a branch of which one arm is an argument": "if x[0] < 0.0 { sin(x) } else { x }",
    "a branch at every point": "[if v > 0.4 { v * v } else { sin(v) * w[1] } for v in x]",
    "a choice by a mask": "where(x > 0.4, x * w, w - x)",
    "a match": "match o(x) { None => w, Some(v) => v * x }",
    "a struct on the way": "{ let p = Pair(a = x * w, b = x); let q = p - 0.5 * p; q.a + q.b }",
    "a closure": "{ let s = x[1]; let f = |v: f64[n]| s * v * w; f(f(x)) }",
    "a function that is chosen when it runs": "(if x[0] > 0.0 { |v: f64[n]| v * x } else { |v: f64[n]| v })(w)",
    "a recursion": "deep(3, x, w)",
    "a recursion that ends in itself": "last(3, x, w)",
    "a recursion that changes an element": "filled(0, x, w)",
    "elements that a condition selects": "concat([v * v for v in x if v > 0.4], x) [..6] as f64[n]",
    "a solution of linear equations": "linalg.solve(s(x), w * x)",
    "a Cholesky factor": "linalg.cholesky(s(x))[2]",
    "an inverse": "linalg.inverse(s(x))[1] * w",
    "a QR factor": "(linalg.qr(s(x)).1[1] as f64[n])",
    "eigenvalues": "linalg.eigh(s(x)).0 * w",
    "singular values": "(linalg.svd(s(x)).1 as f64[n])",
    "a gradient": "grad(|v: f64[n]| sum(sin(v) * v * w))(x)",
    "a pull": "vjp(|v: f64[n]| v * v * w, x).1(x)",
    "a tangent": "jvp(|v: f64[n]| v * sin(v), x, w).1",
    "a checkpoint": "checkpoint(|v: f64[n]| tanh(v * w) * v)(x)",
}

HELPERS = {
    "linalg.": "import linalg",
    "Pair(": "struct Pair<n> { a: f64[n], b: f64[n] }",
    "o(x)": "fn o(x: f64[n]) -> Option<f64[n]> = if x[0] > 0.0 { Some(x * x) } else { None }",
    "s(x)": "fn s(x: f64[n]) -> f64[n, n] = [x[i] * x[j] + (if i == j { 2.0 + f64(i) } else { 0.0 }) for i < n, j < n]",
    "deep(": "fn deep(d: i64, x: f64[n], w: f64[n]) -> f64[n] = if d == 0 { x } else { w * deep(d - 1, x * w, w) + x }",
    "last(": "fn last(d: i64, x: f64[n], w: f64[n]) -> f64[n] = if d == 0 { x } else { last(d - 1, sin(x) * w, w) }",
    "filled(": """fn filled(i: i64, x: f64[n], w: f64[n]) -> f64[n] {
  if i == n { return x }
  var u = x
  u[i] = u[i] * w[i]
  filled(i + 1, u, w)
}""",
}

# What looks at the array; in all of them something else depends on x too.
FORMS = {
    "none": "fn f(x: f64[n], w: f64[n]) -> f64 = pair(x, w).1",
    "one element": "fn f(x: f64[n], w: f64[n]) -> f64 = made(x, w)[1] + x[0] * w[1]",
    "some, in a loop": (
        "fn f(x: f64[n], w: f64[n]) -> f64 { let y = made(x, w); var t = x[0]; "
        "for i in [4, 1, 4] { t += y[i] * y[i] * x[i] }; t }"
    ),
    "all": "fn f(x: f64[n], w: f64[n]) -> f64 { let y = made(x, w); sum(sin(y) * w) + y[2] * x[2] }",
}
PAIR = "fn pair(x: f64[n], w: f64[n]) -> (f64[n], f64) { let y = made(x, w); (y, sum(x * x * w) + 0.0 * y[0]) }\n"
ZEROS = (
    "fn f(x: f64[n], w: f64[n]) -> f64 { let g = |x: f64[n], w: f64[n]| (made(x, w), sum(x * x * w)); "
    "let (dx, dw) = vjp(g, x, w).1(([0.0 for i < n], 1.0)); sum(sin(dx)) + sum(sin(dw)) }"
)


def head(operation: str) -> str:
    lines = [text for name, text in HELPERS.items() if name in operation]
    return "\n".join([*lines, f"fn made(x: f64[n], w: f64[n]) -> f64[n] = {operation}\n"])


@pytest.mark.parametrize(("name", "form"), every_combination(OPERATIONS, list(FORMS), quick=1))
def test_an_operation_with_every_form_of_cotangent(name: str, form: str) -> None:
    text = FORMS[form]
    declared = head(OPERATIONS[name]) + (PAIR if "pair" in text else "")
    slopes = four_ways(declared + text, [6, X, W], 1e3, verify=form == "all")
    assert any(np.any(e) for e in slopes)


SOME = [
    "a scan",
    "a loop of updates",
    "a gather",
    "sorting",
    "maxima and minima",
    "a recursion",
    "a match",
    "an inverse",
]


@pytest.mark.parametrize("name", SOME)
def test_the_pull_of_a_zero_is_differentiated_too(name: str) -> None:
    four_ways(head(OPERATIONS[name]) + ZEROS, [6, X, W], 1e3, verify=False)
