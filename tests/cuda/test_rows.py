"""Rows of any length: a warp or a block keeps them in registers, or they are too long for that."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.cuda.both import Both

PROGRAM = """
import nn { softmax }
fn softmaxes(x: f32[n, m]) -> f32[n, m] = [softmax(x[i]) for i]
fn norms(x: f32[n, m], g: f32[m]) -> f32[n, m] {
  [{ let mu = sum(x[i]) / f32(m)
     let v = sum((x[i, j] - mu) ** 2 for j) / f32(m)
     let r = 1.0 / sqrt(v + 1e-5)
     [(x[i, j] - mu) * r * g[j] for j] } for i]
}
fn softmax_vjps(x: f32[n, m]) -> f32[n, m] = grad(|y: f32[n, m]| sum(softmaxes(y)[i, j] * x[i, j] for i, j))(x)
fn norm_vjps(x: f32[n, m], g: f32[m]) -> (f32[n, m], f32[m]) =
  grad(|y: f32[n, m], g: f32[m]| sum(norms(y, g)[i, j] * x[i, j] for i, j), wrt = (y, g))(x, g)
fn places(x: f32[n, m]) -> (i64[n], f32[n]) = ([argmax(x[i]) for i], [min(x[i]) for i])
fn halves(x: f16[n, m]) -> f16[n, m] = [{ let s = max(x[i]) - min(x[i])
  [x[i, j] * s for j] } for i]
fn doubles(x: f64[n, m]) -> f64[n, m] = [{ let s = sum(x[i])
  [x[i, j] - s * x[i, m - 1 - j] for j] } for i]
fn means(x: f64[n, m]) -> f64[n] = [sum(x[i]) / f64(m) for i]
fn products(x: f32[n, m], y: f32[n, m]) -> f32[n] = [sum(x[i, j] * y[i, j] for j) for i]
"""
SHARED = ("means", "products", "places")
FUNCTIONS = ("softmaxes", "norms", "softmax_vjps", "norm_vjps", "places", "halves", "doubles")
SHAPES = ((0, 5), (1, 1), (3, 31), (70, 32), (2, 33), (5, 255), (3, 257), (2, 1000), (2, 2050), (1, 5001))


@cache
def program() -> Both:
    return Both(PROGRAM, (*FUNCTIONS, *SHARED[:2]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_of_any_length_give_what_the_interpreter_gives(name: str, shape: tuple[int, int]) -> None:
    n, m = shape
    draw = np.random.default_rng(n + m)
    dtype = {"halves": np.float16, "doubles": np.float64}.get(name, np.float32)
    x = draw.standard_normal(shape).astype(dtype)
    args = [x, draw.standard_normal(m).astype(np.float32)] if name.startswith("norm") else [x]
    tolerance = {"halves": 2e-3, "doubles": 1e-11}.get(name, 2e-5 * m**0.5)
    program().agree(name, shape, args, tolerance, fixed=name != "norm_vjps")  # whose sums over rows are atomic


@pytest.mark.parametrize("shape", [(0, 9), (1, 16384), (2, 40_001), (3, 100)])
@pytest.mark.parametrize("name", SHARED)
def test_several_blocks_may_share_a_long_row(name: str, shape: tuple[int, int]) -> None:
    draw = np.random.default_rng(sum(shape))
    x = draw.standard_normal(shape).astype(np.float64 if name == "means" else np.float32)
    program().agree(name, shape, [x, 2 * x] if name == "products" else [x], {"means": 1e-12}.get(name, 1e-2))
    assert any("turn * dl_quotient(iterations" in k.text for k in program().kernels(name) if k.form == "rows")


def test_a_row_of_a_softmax_is_read_once_and_written_once_if_it_is_kept() -> None:
    (kernel,) = [k for k in program().kernels("softmaxes") if k.form == "rows"]
    lines = [line.strip() for line in kernel.text.splitlines()]
    loads = [line for line in lines if "dl_load" in line]
    stores = [line for line in lines if "dl_store" in line]
    assert sum("!kept" not in line for line in loads) == 1 and len(loads) == 3
    assert sum("!kept" not in line for line in stores) == 1 and len(stores) == 2
    assert "dl_meet" not in kernel.text


def test_threads_meet_where_they_look_at_what_others_have_stored() -> None:
    (kernel,) = [k for k in program().kernels("softmax_vjps") if k.form == "rows"]
    assert kernel.text.count("dl_meet") == 1
