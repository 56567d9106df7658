"""Functions on a real GPU, with CuPy's arrays as arguments and results."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import numpy as np
import pytest

import dlang
from tests.backends import has_gpu
from tests.cuda.interfaces import Exported

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_gpu(), reason="there is no GPU with CuPy")]

SOURCE = """
struct Layer<n, m> { w: f32[n, m], b: f32[m] }
fn forward(l: Layer<n, m>, x: f32[k, n]) -> f32[k, m] = [tanh(v) for v in x @ l.w + l.b]
fn loss(w: f64[k], x: f64[n, k], y: f64[n]) -> f64 = mean((x @ w - y) ** 2)
fn rows(x: f64[n, m]) -> f64[n] = [sum(x[i]) for i]
fn chosen(x: f64[n], k: i64[m]) -> f64[m] = [x[k[i]] for i]
fn first(x: f64[n]) -> f64[1] = [x[0]]
fn scaled(x: f64[n], k: f64) -> f64[n] = k * x
"""


@cache
def module() -> ModuleType:
    return dlang.compile(SOURCE, backend="cuda")


def test_arrays_of_cupy_go_in_and_come_out() -> None:
    import cupy

    rng = np.random.default_rng(0)
    w, b, x = (rng.standard_normal(shape, np.float32) for shape in ((5, 3), (3,), (7, 5)))
    for _ in range(5):
        layer = module().Layer(cupy.asarray(w), cupy.asarray(b))
        found = module().forward(layer, cupy.asarray(x))
        assert isinstance(found, cupy.ndarray)
        np.testing.assert_allclose(found.get(), np.tanh(x @ w + b), rtol=1e-5)
    turned = rng.standard_normal((4, 6))
    for given in (cupy.asarray(turned).T, cupy.asarray(turned)[::-1, ::2]):
        np.testing.assert_allclose(module().rows(given).get(), given.get().sum(1), rtol=1e-12)


def test_a_loop_of_steps_on_a_stream_of_its_own() -> None:
    import cupy

    rng = np.random.default_rng(1)
    w, x, y = rng.standard_normal(3), rng.standard_normal((40, 3)), rng.standard_normal(40)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        there = cupy.asarray(w)
        slope = dlang.grad(module().loss).bind(x=cupy.asarray(x), y=cupy.asarray(y))
        for _ in range(20):
            there = there - 0.1 * slope(there)
            w = w - 0.1 * (2 / 40) * x.T @ (x @ w - y)
        stream.synchronize()
        np.testing.assert_allclose(there.get(), w, rtol=1e-10)


def test_numbers_and_arrays_of_the_host_go_with_them() -> None:
    import cupy

    x = cupy.arange(4.0)
    for k in (2.0, np.float64(2.0), cupy.asarray(2.0)):
        np.testing.assert_array_equal(module().scaled(x, k).get(), 2 * np.arange(4.0))
    assert isinstance(module().first(x), cupy.ndarray)
    assert module().loss(np.zeros(2), cupy.ones((3, 2)), np.ones(3)) == 1.0


def test_what_does_not_fit_and_what_fails() -> None:
    import cupy

    with pytest.raises(dlang.DlangError, match=r"expected f64\[n, m\], got f32\[2, 2\] on a GPU"):
        module().rows(cupy.ones((2, 2), np.float32))
    x, wrong = cupy.arange(2.0), cupy.asarray([0, 5])
    for _ in range(4):
        with pytest.raises(dlang.DlangError, match="index 5"):
            module().chosen(x, wrong)
        np.testing.assert_array_equal(module().chosen(x, cupy.asarray([1, 0])).get(), [1.0, 0.0])


def test_arrays_that_only_dlpack_shows() -> None:
    import cupy

    np.testing.assert_array_equal(module().scaled(Exported(cupy.arange(3.0)), 2.0).get(), [0.0, 2.0, 4.0])
