"""Scalar functions at infinities, NaN, both zeros and ends of domains: the interpreter and native code agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlang
from dlang.ops.dtypes import rounded

BINARY = {"+": "x + y", "-": "x - y", "*": "x * y", "/": "x / y", "**": "x ** y", "//": "x // y", "%": "x % y"}
BINARY |= {name: f"{name}(x, y)" for name in ("maximum", "minimum", "atan2")}
UNARY = "abs sign exp expm1 log log1p sqrt sin cos tan asin acos atan sinh cosh tanh erf erfc floor ceil round".split()
VALUES = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, np.inf, -np.inf, np.nan]


def _text(dtype: str) -> str:
    parts = [f"[{e} for x in xs, y in xs]" for e in BINARY.values()]
    ones = [f"[{name}(x) for x in xs]" for name in UNARY]
    return "\n".join(
        [
            "import math { erfc }",
            *(f"fn two_{k}(xs: {dtype}[n]) -> {dtype}[n, n] = {p}" for k, p in enumerate(parts)),
            *(f"fn one_{name}(xs: {dtype}[n]) -> {dtype}[n] = {p}" for name, p in zip(UNARY, ones, strict=True)),
        ]
    )


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_special_values_agree(dtype: str) -> None:
    xs = np.array(VALUES, {"f64": np.float64, "f32": np.float32}[dtype])
    modules = [dlang.compile(_text(dtype), backend=b) for b in ("cpu", "interp")]

    def agree(name: str, what: str) -> None:
        native, meant = (np.asarray(getattr(m, name)(xs)) for m in modules)
        np.testing.assert_allclose(native, meant, rtol=1e-6 if dtype == "f32" else 1e-14, atol=1e-15, err_msg=what)
        zeros = (meant == 0) & (native == 0)
        assert np.array_equal(np.signbit(native)[zeros], np.signbit(meant)[zeros]), what

    for k, name in enumerate(BINARY):
        agree(f"two_{k}", name)
    for name in UNARY:
        agree(f"one_{name}", name)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_rounding_keeps_the_sign_of_zero(dtype: str) -> None:
    for value in (-0.0, 0.0, -1e-60, 1e-60):
        found: Any = rounded(value, dtype)
        assert np.copysign(1.0, found) == np.copysign(1.0, value) and abs(found) <= 1e-60


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_a_negative_zero_keeps_its_sign_at_every_border(backend: str) -> None:
    text = "\n".join(
        f'fn s_{t}(x: {t}) -> str = "{{x}}"\nfn l_{t}() -> str = "{{-0.0{t}}}"' for t in ("f64", "f32", "f16", "bf16")
    )
    m = dlang.compile(text, backend=backend)
    for t in ("f64", "f32", "f16", "bf16"):
        assert [getattr(m, f"s_{t}")(-0.0) for _ in range(2)] + [getattr(m, f"l_{t}")()] == ["-0.0"] * 3


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_the_logarithm_of_a_sum_of_nothing_is_that_of_zero(backend: str) -> None:
    assert dlang.compile("fn f(x: f64[n]) -> f64 = logsumexp(x)", backend=backend).f(np.zeros(0)) == -np.inf


def test_a_format_asks_for_no_more_than_fits() -> None:
    for spec in ("999999999999.999999999f", ".999999f", ">100001"):
        with pytest.raises(dlang.DlangError, match="E0318"):
            dlang.compile(f'fn f(x: f64) -> str = "{{x:{spec}}}"')
