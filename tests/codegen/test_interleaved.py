"""Accesses a few elements apart from lane to lane: whole vectors and shuffles, and nothing beyond the array."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.codegen.llvm.modules import emit
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.ir.anf import Program
from dlang.pipeline import optimise
from tests.codegen.guarded import guarded
from tests.specialize.support import lowered

PAIRS = """
fn value<a: Float>(r: a[n, 3]) -> a = sum(
  1.0 / sqrt((r[i, 0] - r[j, 0]) ** 2 + (r[i, 1] - r[j, 1]) ** 2 + (r[i, 2] - r[j, 2]) ** 2 + 0.01) for i, j
)

fn f(r: f64[n, 3]) -> (f64, f64[n, 3]) = value_and_grad(value)(r)
"""
STRIDES = tuple(range(2, 10))
LENGTHS = (*range(36), 63, 64, 65, 131)


@cache
def optimised(text: str) -> tuple[Program, str]:
    found = lowered(text)
    return optimise(found.program, [found.entry.name]), found.entry.name


def llvm(text: str, bits: int = 512) -> str:
    program, name = optimised(text)
    return emit(schedule(program, Lanes(bits)), [name]).llvm


def calls(text: str, what: str) -> int:
    return len(re.findall(rf"call [^@]*@llvm\.masked\.{what}\.", text))


def test_a_vector_of_bodies_is_three_loads_and_shuffles_that_serve_two_rows() -> None:
    text = llvm(PAIRS)
    assert calls(text, "gather") == calls(text, "scatter") == 0
    bodies = re.findall(r"^vector\d+:\n((?:(?!^\w+:).*\n)*)", text, re.M)
    patterns = (r"= load <8 x double>", r"= shufflevector <8 x double>", r"@dl_rsqrt")
    counts = [tuple(len(re.findall(p, body)) for p in patterns) for body in bodies if "@dl_rsqrt" in body]
    assert counts == [(3, 6, 2), (3, 6, 1)]


def test_three_columns_that_are_written_are_three_stores() -> None:
    text = llvm("fn f(x: f64[n], y: f64[n]) -> f64[n, 3] = [[exp(x[i]), x[i] + y[i], x[i] - y[i]] for i]")
    assert calls(text, "scatter") == 0
    assert len(re.findall(r"store <8 x double>", text)) == 3


def test_few_elements_far_apart_are_gathered() -> None:
    text = llvm("fn f(x: f64[n, 8]) -> f64[n] = [exp(x[i, 0]) for i]")
    assert calls(text, "gather") > 0


def columns(stride: int) -> str:
    last = stride - 1
    written = ", ".join(f"x[i, {k}] - {k + 1}.0 * x[i, {last - k}]" for k in range(stride))
    return f"""
fn ends<a: Float>(x: a[n, {stride}]) -> a[n] = [x[i, 0] - 2.0 * x[i, {last}] for i]
fn heavy<a: Float>(x: a[n, {stride}]) -> a[n] = [sin(x[i, {last}]) + cos(x[i, 0]) * exp(x[i, {last // 2}]) for i]
fn all<a: Float>(x: a[n, {stride}]) -> a[n, {stride}] = [[{written}] for i]
fn two<a: Float>(x: a[n, {stride}]) -> a[n, {stride}] {{
  var y = x
  for i < n {{ y[i, 0] += 1.0 }}
  let g = grad(|x| sum(x[i, {last}] * x[i, 0] for i))(x)
  [y[i, j] + g[i, j] for i, j]
}}
fn halves<a: Float>(x: a[m]) -> a = sum(x[{stride} * i] for i < (m + {stride} - 1) // {stride})
fn sum_of<a: Float>(x: a[n, {stride}]) -> a = sum(x[i, 0] * x[i, {last}] for i)
"""


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("stride", STRIDES)
def test_columns_have_the_same_elements_at_every_length(stride: int, dtype: Any) -> None:
    m = dlang.compile(columns(stride))
    rng = np.random.default_rng(stride)
    near = 1e-14 if dtype == np.float64 else 1e-6
    for n in LENGTHS:
        x = rng.normal(size=(n, stride)).astype(dtype)
        first, last = x[:, 0], x[:, -1]
        factors = np.arange(1, stride + 1, dtype=dtype)
        np.testing.assert_allclose(m.ends(x), first - 2 * last, rtol=near, atol=near)
        heavy = np.sin(last) + np.cos(first) * np.exp(x[:, (stride - 1) // 2])
        np.testing.assert_allclose(m.heavy(x), heavy, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=near)
        np.testing.assert_allclose(m.all(x), x - factors * x[:, ::-1], rtol=near, atol=8 * near)
        both = x.copy()
        both[:, 0] += 1 + last
        both[:, -1] += first
        np.testing.assert_allclose(m.two(x), both, rtol=near, atol=near)
        np.testing.assert_allclose(m.sum_of(x), np.sum(first * last), rtol=1e-4, atol=100 * near)


def look_behind_walls() -> None:
    """Reads and writes columns of arrays that end, or begin, where memory does."""
    for stride in (2, 3, 7):
        m = dlang.compile(columns(stride))
        for dtype in (np.float64, np.float32):
            for n in (1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 40):
                for at_end in (False, True):
                    x = guarded((n, stride), dtype, at_end)
                    x[:] = np.arange(n * stride).reshape(n, stride)
                    assert np.array_equal(m.ends(x), x[:, 0] - 2 * x[:, -1])
                    assert m.all(x).shape == x.shape and m.heavy(x).shape == (n,)
                    assert m.sum_of(x) == np.sum(x[:, 0] * x[:, -1])
                    short = guarded(((n - 1) * stride + 1,), dtype, at_end)
                    short[:] = np.arange(len(short))
                    assert m.halves(short) == np.sum(short[::stride])


@pytest.mark.skipif(sys.platform != "linux", reason="pages are protected as Linux does it")
def test_nothing_outside_of_an_array_is_touched() -> None:
    code = "from tests.codegen.test_interleaved import look_behind_walls; look_behind_walls()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
