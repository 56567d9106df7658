"""Whole functions on the driver of CUDA, with a stand-in for CuPy and for CUDA: which stream the work is on."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import dlang
from dlang.host import cuda
from dlang.runtime import devices
from tests.cuda.fake_cupy import Stream
from tests.cuda.working_cupy import WorkingCupy

SOURCE = """
fn step(w: f64[n], g: f64[n]) -> f64[n] = w - 0.5 * g
fn loss(w: f64[k], x: f64[n, k]) -> f64 = mean(exp(x @ w))
fn first(x: f64[n]) -> f64 = x[0]
"""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkingCupy]:
    found = WorkingCupy()
    found.install(monkeypatch)
    monkeypatch.setattr(cuda, "blas", lambda: pytest.fail("cuBLAS is loaded"))
    devices._gpu.cache_clear()
    yield found
    devices._gpu.cache_clear()


@pytest.fixture
def m(fake: WorkingCupy) -> ModuleType:
    return dlang.compile(SOURCE, backend="cuda")


def test_work_is_on_the_current_stream_of_cupy(fake: WorkingCupy, m: ModuleType) -> None:
    w, g = fake.array([1.0, 2.0, 3.0]), fake.array([2.0, 2.0, 2.0])
    kept = []
    for stream in (0, 300, 300, 400, 400, 0):
        fake.streams.append(Stream(fake, stream))
        fake.log.clear()
        kept.append(m.step(w, g))
        np.testing.assert_array_equal(kept[-1].get(), [0.0, 1.0, 2.0])
        assert isinstance(kept[-1], fake.ndarray)
        assert {where for what, where in fake.log if what in ("kernel", "copy", "wait")} == {stream}


def test_graphs_are_launched_on_the_current_stream(fake: WorkingCupy, m: ModuleType) -> None:
    w, x = fake.array([1.0, 2.0]), fake.array(np.zeros((4, 2)))
    for _ in range(3):
        assert m.first(w) == 1.0
    loss = dlang.compile("fn f(x: f64[n]) -> f64 = sum(x * x)", backend="cuda").f
    for stream in (0, 0, 300, 0):
        fake.streams.append(Stream(fake, stream))
        fake.log.clear()
        assert loss(w) == 5.0
    assert ("launch", 0) in fake.log and ("kernel", 0) not in fake.log
    assert x.get().shape == (4, 2)


def test_work_is_done_step_by_step_where_that_is_asked_for(fake: WorkingCupy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel and each product is waited for, none is kept in a graph, and what fails has its name."""
    monkeypatch.setenv("DLANG_CUDA_SYNC", "1")
    monkeypatch.setattr(cuda, "blas", lambda: cuda.Blas(fake.blas))
    module = dlang.compile(SOURCE + "fn squared(x: f64[n, n]) -> f64[n, n] = x @ x", backend="cuda")
    w, x = fake.array([1.0, 2.0, 4.0]), np.arange(9.0).reshape(3, 3)
    fake.streams.append(Stream(fake, 300))
    for _ in range(4):
        fake.log.clear()
        np.testing.assert_array_equal(module.step(w, w).get(), [0.5, 1.0, 2.0])
        asked = [entry for entry in fake.log if entry[0] in ("kernel", "done", "launch")]
        assert asked == [("kernel", 300), ("done", 300)]
    np.testing.assert_array_equal(module.squared(fake.array(x)).get(), x @ x)
    fake.broken = 700
    with pytest.raises(RuntimeError, match=r"the GPU fails in the kernel `dl_map_0`: ERROR_700"):
        module.step(w, w)
    devices._gpu.cache_clear()
    module = dlang.compile("fn squared(x: f64[n, n]) -> f64[n, n] = x @ x", backend="cuda")
    with pytest.raises(RuntimeError, match=r"the GPU fails in a product of 3 x 3 elements, sums of 3: ERROR_700"):
        module.squared(fake.array(x))


def test_there_is_one_driver_for_a_gpu(fake: WorkingCupy) -> None:
    assert devices.driver_of("cuda") is devices.driver_of("cuda")
    fake.current = 1
    assert devices.driver_of("cuda") is not devices._gpu(0)


def test_another_gpu_than_at_compilation_is_an_error(fake: WorkingCupy, m: ModuleType) -> None:
    w, g = fake.array([1.0]), fake.array([2.0])
    m.step(w, g)
    fake.current = 1
    with pytest.raises(dlang.DlangError, match=r"E0904.*compiled for GPU 0 is called while GPU 1 is the current one"):
        m.step(w, g)
    fake.current = 0
    g.device = SimpleNamespace(id=1)
    with pytest.raises(dlang.DlangError, match=r"E0904.*the array of `g` is on a GPU, where this one"):
        m.step(w, g)
