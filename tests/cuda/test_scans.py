"""Running totals of any length: by one block and by several."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.cuda.both import Both

PROGRAM = """
import math { cumprod }
fn sums(x: f64[n]) -> f64[n] = cumsum(x)
fn counts(x: i32[n]) -> i32[n] = cumsum(x)
fn products(x: f32[n]) -> f32[n] = cumprod(x)
fn scaled(x: f64[n]) -> (f64[n], f64) {
  let y = cumsum([2.0 * v for v in x])
  (y, sum(y) / f64(n))
}
fn weighted(x: f64[n]) -> f64 {
  let y = cumsum(x)
  sum(y[i] * f64(i) for i)
}
fn steps(x: f64[n]) -> (f64[n], i64) {
  var (y, k) = (x, 0)
  for i < n { y[i] = f64(k) * x[i]
    k += 2 }
  (y, k)
}
fn gradients(x: f64[n]) -> f64[n] = grad(weighted)(x)
"""
FUNCTIONS = ("sums", "counts", "products", "scaled", "steps", "gradients")


@cache
def program() -> Both:
    return Both(PROGRAM, FUNCTIONS)


@pytest.mark.parametrize("size", [0, 1, 31, 33, 1000, 20_001])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_scan_gives_what_the_interpreter_gives(name: str, size: int) -> None:
    draw = np.random.default_rng(size)
    if name == "scaled" and size == 0:
        size = 2
    x = draw.standard_normal(size)
    args = {"counts": draw.integers(-100, 100, size, np.int32), "products": (1.0 + 0.01 * x).astype(np.float32)}
    program().agree(name, [size], [args.get(name, x)], {"products": 1e-4, "counts": 0}.get(name, 1e-8))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_done_by_kernels(name: str) -> None:
    assert [k.form for k in program().kernels(name)].count("scan") == 2
