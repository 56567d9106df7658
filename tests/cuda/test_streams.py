"""Whole functions on the driver of CUDA, with a stand-in for CuPy and for CUDA: which stream the work is on."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.runtime import drivers
from dlang.runtime.cuda import libraries
from dlang.runtime.cuda.driver import CudaDriver
from tests.cuda.fake_cupy import FakeCupy, Stream

SOURCE = """
fn step(w: f64[n], g: f64[n]) -> f64[n] = w - 0.5 * g
fn loss(w: f64[k], x: f64[n, k]) -> f64 = mean(exp(x @ w))
fn first(x: f64[n]) -> f64 = x[0]
"""
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3)
COPY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p)


def array_class(fake: FakeCupy) -> type:
    """As much of CuPy's arrays as is asked of them."""

    class ndarray:  # noqa: N801 (as CuPy calls it)
        def __init__(self, shape: tuple[int, ...], dtype: str, data: Any) -> None:
            self.shape, self.dtype, self.data = shape, np.dtype(dtype), data
            self.device = SimpleNamespace(id=0)
            self.flags = SimpleNamespace(c_contiguous=True)
            self.nbytes = int(np.prod(shape)) * self.dtype.itemsize

        def get(self) -> Any:
            out = np.empty(self.shape, self.dtype)
            fake.device.download(out.ctypes.data, self.data.ptr, out.nbytes)
            return out

    ndarray.__module__, ndarray.__qualname__ = "cupy", "ndarray"
    return ndarray


class WorkingCupy(FakeCupy):
    """Notes the streams of kernels, and runs them."""

    def __init__(self) -> None:
        super().__init__()
        self.ndarray = array_class(self)
        device = self.device

        def launched(*given: Any) -> int:
            self.log.append(("kernel", given[8] or 0))
            return int(LAUNCH(device.functions.launch)(*given[:8], device.stream, *given[9:]))

        def copied(*given: Any) -> int:
            self.log.append(("copy", given[3] or 0))
            return int(COPY(device.functions.copy)(*given[:3], device.stream))

        self.library.cuLaunchKernel = LAUNCH(launched)
        self.library.cuMemcpyDtoDAsync_v2 = COPY(copied)

    def array(self, value: Any) -> Any:
        value = np.asarray(value)
        made = self.ndarray(value.shape, value.dtype, self.alloc(max(value.nbytes, 1)))
        self.device.upload(made.data.ptr, value.ctypes.data, value.nbytes)
        return made


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkingCupy]:
    found = WorkingCupy()
    monkeypatch.setattr(libraries, "cupy", lambda: found)
    monkeypatch.setattr(libraries, "driver", lambda: found.library)
    monkeypatch.setattr(libraries, "blas", lambda: pytest.fail("cuBLAS is loaded"))
    monkeypatch.setattr(CudaDriver, "load", lambda self, kernels, wide=False: found.device.load(kernels, wide))
    drivers._gpu.cache_clear()
    yield found
    drivers._gpu.cache_clear()


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


def test_there_is_one_driver_for_a_gpu(fake: WorkingCupy) -> None:
    assert drivers.driver_of("cuda") is drivers.driver_of("cuda")
    fake.current = 1
    assert drivers.driver_of("cuda") is not drivers._gpu(0)


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
