"""Derivatives through functions of whose calls they would make too many copies: these stay calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlang.ad.inlining import functions_that_stay
from dlang.ops import figures
from tests.ad.four_ways import four_ways
from tests.specialize.support import lowered

SCALARS = "fn g(x: f64) -> f64 = if x > 0.5 { sin(x) * x } else { exp(x) + x }\n"
ARRAYS = "fn h(x: f64[n]) -> f64[n] = [sin(v) * x[0] for v in x] * sum(x)\n"
LOOPS = "fn l(x: f64[n], y: f64) -> f64 {\n  var s = y\n  for v in x { s = sin(s) * v + s }\n  s\n}\n"
PAIRS = "struct P<n> { a: f64, b: f64[n] }\nfn p(s: P<n>) -> P<n> = P(a = s.a * sum(s.b), b = sin(s.b) * s.a)\n"
PLACES = "fn r(x: f64[n], nodiff k: f64) -> f64 = sum(x * x) * k\n"
INTO = "fn w(x: f64[n], y: f64) -> f64[n] {\n  var z = x\n  for i in 1..n { z[i] = z[i - 1] * y + z[i] }\n  z\n}\n"
NUMBERS = "fn q(a: f64, b: f64, c: f64) -> f64 = if a > b { sin(a) * b + c } else { exp(b) * c - a * a }\n"
VARIANTS = """
enum E { A(f64), B(f64, f64), C(f64[2]), D }
fn e(v: E) -> f64 = match v { A(y) => sin(y), B(y, z) => y * z, C(w) => w[0] * exp(w[1]), D => 0.5 }
"""


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize(
    "text",
    [
        SCALARS + "fn f(x: f64[n]) -> f64 = sum(g(v) * g(v * 0.7) for v in x)",
        SCALARS + "fn f(x: f64[n]) -> f64 {\n  var s = x[0]\n  for v in x { s = g(s) * g(v) + 0.1 }\n  s\n}",
        SCALARS + "fn m(x: f64) -> f64 = g(g(x)) * g(x)\nfn f(x: f64[n]) -> f64 = m(x[0]) + m(m(sum(x)) * 0.1)",
        ARRAYS + "fn f(x: f64[n]) -> f64 = sum(h(h(x)) * h(x))",
        ARRAYS + "fn f(x: f64[n]) -> f64 = if x[0] > 0.0 { sum(h(x)) } else { h(h(x))[0] }",
        LOOPS + "fn f(x: f64[n]) -> f64 = l(x, l(x, x[0])) * 0.5",
        LOOPS + "fn f(x: f64[n]) -> f64 = sum([l(x, v) * l(x * v, 0.3) for v in x])",
        PAIRS + "fn f(x: f64[n]) -> f64 { let s = p(p(P(a = x[0], b = x))); s.a + sum(s.b) + p(s).a }",
        PLACES + "fn f(x: f64[n]) -> f64 = r(x, 2.0) * r(sin(x), 0.5)",
        NUMBERS
        + "fn f(x: f64[n]) -> f64 = q(x[0], 0.1, 2.0) * q(0.2, sum(x), 2.0) + q(0.3, 0.4, x[0]) * q(x[0], x[0], 1.0)",
        VARIANTS
        + "fn f(x: f64[n]) -> f64 = sum(e(if v > 0.3 { A(v) } else { B(v, x[0]) }) * e(C([v, 0.1])) for v in x)",
        VARIANTS
        + "fn f(x: f64[n]) -> f64 = e(if x[0] < 0.5 { B(0.3, x[0]) } else { D }) * e(C(x[[0, 0]])) * e(A(x[0]))",
        INTO + "fn f(x: f64[n]) -> f64 = sum(w(w(x, 0.5), x[0])) * sum(w(x, 0.1))",
        SCALARS + "fn f(x: f64[n]) -> f64 = sum(grad(|y| g(y) * g(y * y))(v) for v in x)",
        SCALARS + LOOPS + "fn f(x: f64[n]) -> f64 = vjp(|y: f64| l(x, y) * g(l(x, g(y))), x[0]).1(0.5)",
    ],
)
def test_calls_that_stay_have_the_derivatives_of_their_bodies(text: str, n: int, monkeypatch: Any) -> None:
    args = [n, 0.23 + 0.31 * np.arange(n)]
    inlined = four_ways(text, args)
    for figure in ("COPIED", "INLINED", "INLINED_ARRAYS"):
        monkeypatch.setattr(figures, figure, 0)
    for e, found in zip(inlined, four_ways(text, args), strict=True):
        np.testing.assert_allclose(found, e, rtol=1e-9, atol=1e-12)


def test_what_derivatives_call_once_is_inlined_whatever_it_is(monkeypatch: Any) -> None:
    monkeypatch.setattr(figures, "COPIED", 0)
    text = SCALARS + ARRAYS + "fn f(x: f64[n]) -> f64 = grad(|y| g(y) * g(y))(x[0])\nfn k(x: f64[n]) -> f64[n] = h(x)"
    made = lowered(text).program
    assert {name.split(".")[0] for name in functions_that_stay(made)} == {"g"}
