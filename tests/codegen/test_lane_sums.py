"""Sums that all lanes add to: in one place for each lane where a loop inside adds, and at once where none does."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.runtime.threads import default_pool
from tests.meaning import meaning

RNG = np.random.default_rng(5)
# name: the value of a point, of which gradients in c are sums over all points
POINTS = {
    "an element in each iteration": "{ var y = x[i]; for j < k { y = y * c[j] + 0.5 }; y }",
    "elements in reverse": "{ var y = 1.0; for j < k { y = y * x[i] + c[k - 1 - j] }; y }",
    "one element in all iterations": "{ var y = x[i]; for j < k { y = sin(y * c[0]) + c[k - 1] }; y }",
    "two elements in each iteration": "{ var y = x[i]; for j in 1..k { y = y * c[j] - c[j - 1] * y * y }; y }",
    "an element that differs": "{ var y = x[i]; for j < k { y = y * c[(i + j) % k] + c[j] }; y }",
    "lanes in an arm": "{ var y = x[i]; for j < k { if y > 0.3 { y = y * c[j] } else { y = y + 0.2 } }; y }",
}


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("n", [1, 3, 8, 15, 16, 17, 100, 4099])
@pytest.mark.parametrize("name", POINTS)
def test_sums_over_the_points(name: str, n: int, dtype: str) -> None:
    text = f"fn f(c: {dtype}[k], x: {dtype}[n]) -> {dtype} = mean({POINTS[name]} for i < n)\n"
    text += f"fn main(c: {dtype}[k], x: {dtype}[n]) -> ({dtype}[k], {dtype}[n]) = grad(f, wrt = (c, x))(c, x)\n"
    if dtype == "f32":
        text = text.replace("0.5", "f32(0.5)").replace("0.3", "f32(0.3)").replace("0.2", "f32(0.2)")
        text = text.replace("var y = 1.0", "var y = f32(1.0)")
    at = np.float64 if dtype == "f64" else np.float32
    args = [RNG.uniform(0.2, 0.9, 5).astype(at), RNG.uniform(-0.9, 0.9, n).astype(at)]
    wanted = meaning(dlang.compile(text, backend="interp").main, *args)
    for found, expected in zip(dlang.compile(text).main(*args), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10 if dtype == "f64" else 2e-4, atol=1e-12)


def test_the_bits_are_those_of_one_thread() -> None:
    text = "fn f(c: f64[k], x: f64[n]) -> f64 = mean({ var y = 1.0; for j < k { y = y * v + c[j] }; y } for v in x)\n"
    main = dlang.compile(text + "fn main(c: f64[k], x: f64[n]) -> f64[k] = grad(f)(c, x)\n").main
    c, x = RNG.uniform(0.2, 0.9, 40), RNG.uniform(-0.9, 0.9, 200_000)
    before = default_pool().threads
    try:
        dlang.set_threads(1)
        alone = main(c, x)
        for threads in (2, 3):
            dlang.set_threads(threads)
            np.testing.assert_array_equal(main(c, x), alone)
    finally:
        dlang.set_threads(before)
