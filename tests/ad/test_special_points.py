"""Derivatives at zero, at infinity and at whole parameters: the limit, or the convention, in every mode.

Each function is differentiated once and twice, in reverse, forward, and in one on the other.
"""

from __future__ import annotations

from functools import cache
from math import cos, inf, log, pi, sin, sqrt
from typing import Any

import numpy as np
import pytest

import dlang

EULER = 0.5772156649015329  # -digamma(1)
FIRST = {"reverse": "grad(f)(x)", "forward": "jvp(f, x, 1.0).1"}
SECOND = {
    "reverse on reverse": "grad(|u: T| grad(f)(u))(x)",
    "forward on reverse": "jvp(|u: T| grad(f)(u), x, 1.0).1",
    "reverse on forward": "grad(|u: T| jvp(f, u, 1.0).1)(x)",
    "forward on forward": "jvp(|u: T| jvp(f, u, 1.0).1, x, 1.0).1",
}
POINTS: list[tuple[str, float, float, float | None]] = [
    ("tanh(x)", inf, 0.0, 0.0),
    ("tanh(x)", -inf, 0.0, 0.0),
    ("atan(x)", inf, 0.0, None),
    ("erf(x)", -inf, 0.0, None),
    ("exp(-x)", inf, 0.0, 0.0),
    ("expm1(x)", -inf, 0.0, 0.0),
    ("log1p(x)", inf, 0.0, 0.0),
    ("sqrt(x)", inf, 0.0, 0.0),
    ("sqrt(x)", 0.0, inf, -inf),
    ("1.0 / x", inf, 0.0, 0.0),
    ("x ** (-2)", inf, 0.0, 0.0),
    ("x ** (-2)", 0.0, -inf, inf),
    ("x ** (-2)", -0.0, inf, inf),
    ("x ** (-3)", inf, 0.0, 0.0),
    ("x ** 1.5", 0.0, 0.0, inf),
    ("digamma(x)", inf, 0.0, 0.0),
    ("digamma(x)", 0.0, inf, -inf),
    ("maximum(x, 0.0)", 0.0, 1.0, 0.0),  # of two that are equal the first has the slope
    ("abs(x)", 0.0, 0.0, 0.0),  # a convention
    ("math.sinc(x)", 0.0, 0.0, -pi * pi / 3),
    ("math.sinc(x)", 0.1, (cos(0.1 * pi) - sin(0.1 * pi) / (0.1 * pi)) / 0.1, None),  # by the series
    ("math.erfinv(x)", 0.0, sqrt(pi) / 2, 0.0),
    ("math.cbrt(x)", 0.0, inf, -inf),
    ("math.cbrt(x)", inf, 0.0, 0.0),
    ("math.cbrt(x)", -inf, 0.0, 0.0),
    ("math.fmod(x, 2.0)", 0.0, 1.0, 0.0),
    ("math.fmod(x, 2.0)", -0.0, 1.0, 0.0),
    ("math.hypot(x, 1.0)", inf, 1.0, 0.0),
    ("math.hypot(x, 1.0)", -inf, -1.0, 0.0),
    ("math.xlogy(x, 2.0)", 0.0, log(2.0), 0.0),
    ("math.xlogy(x, 0.0)", 0.0, 0.0, 0.0),
    ("nn.sigmoid(x)", inf, 0.0, 0.0),
    ("nn.softplus(x)", inf, 1.0, 0.0),
    ("nn.softplus(x)", -inf, 0.0, 0.0),
    ("nn.softmax([x, 0.0])[0]", -inf, 0.0, 0.0),
    ("stats.normal_cdf(x)", inf, 0.0, 0.0),
    ("stats.normal_cdf(x)", -inf, 0.0, 0.0),
    ("stats.gamma_log_density(2.0, x)", 1.0, log(2.0) + EULER, -pi * pi / 6),
    ("stats.beta_log_density(0.5, x, 1.0)", 1.0, 1.0 - log(2.0), -1.0),
    ("stats.beta_log_density(0.5, 1.0, x)", 1.0, 1.0 - log(2.0), -1.0),
    ("stats.gamma_cdf(2.0, x)", 1.0, -0.2208254262118595, None),
    ("stats.gamma_cdf(12.0, x)", 10.0, -0.09717797203717965, None),
    ("stats.beta_cdf(0.5, x, 1.0)", 1.0, -0.5 * log(2.0), None),
    ("stats.beta_cdf(0.25, 1.0, x)", 2.0, -(0.75**2) * log(0.75), None),
]
"""A function of x, a point, and what the first and the second derivative are there; None if that is not asked."""

OF_F32 = [case for case in POINTS if not case[0].startswith(("stats.", "math.erfinv"))]


@cache
def slopes(function: str, dtype: str, twice: bool) -> Any:
    """The derivatives of a function as functions of a module, in the order of their modes."""
    head = f"import math\nimport nn\nimport stats\nfn f(x: T) -> T = {function}\n"
    modes = (SECOND if twice else FIRST).values()
    text = head + "".join(f"fn mode{k}(x: T) -> T = {mode}\n" for k, mode in enumerate(modes))
    return dlang.compile(text.replace("T", dtype))


@pytest.mark.parametrize(("function", "x", "first", "second"), POINTS)
def test_every_mode_has_the_same_derivative(function: str, x: float, first: float, second: float | None) -> None:
    compare(function, "f64", x, first, second)


@pytest.mark.parametrize(("function", "x", "first", "second"), OF_F32)
def test_every_mode_has_the_same_derivative_in_f32(function: str, x: float, first: float, second: float | None) -> None:
    compare(function, "f32", x, first, second)


def compare(function: str, dtype: str, x: float, first: float, second: float | None) -> None:
    near = {"rtol": 1e-10, "atol": 1e-12} if dtype == "f64" else {"rtol": 1e-4, "atol": 1e-5}
    for expected, modes in ((first, FIRST), (second, SECOND)):
        if expected is not None:
            made = slopes(function, dtype, modes is SECOND)
            for k, mode in enumerate(modes):
                np.testing.assert_allclose(getattr(made, f"mode{k}")(x), expected, **near, err_msg=mode)
