"""The driver of CUDA on a GPU."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

import dlang
from dlang.host import cuda
from dlang.runtime.gpu import CudaDriver
from dlang.runtime.profile import device_ceilings
from tests.backends import has_gpu
from tests.cuda import calls
from tests.cuda.doubling import kernel
from tests.cuda.interfaces import Exported, Shown

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_gpu(), reason="there is no GPU with CuPy")]


@pytest.fixture(scope="module")
def driver() -> CudaDriver:
    return CudaDriver()


@pytest.fixture(scope="module")
def handles(driver: CudaDriver) -> list[int]:
    return driver.load([kernel("dl_map_0")])


def test_what_is_copied_to_the_gpu_comes_back(driver: CudaDriver) -> None:
    x = np.random.default_rng(0).standard_normal(1000)
    there, other = calls.uploaded(driver, x), driver.allocate(8000)
    calls.copy(driver, other, there, 8000)
    calls.fill(driver, other + 80, 0, 8)
    wanted = x.copy()
    wanted[10] = 0.0
    np.testing.assert_array_equal(calls.downloaded(driver, other, [1000]), wanted)
    result = driver.result(other, [40, 25], "float64")
    np.testing.assert_array_equal(result.get(), wanted.reshape(40, 25))
    driver.free(there)


def test_a_kernel_runs_on_the_gpu(driver: CudaDriver, handles: list[int]) -> None:
    x = np.arange(100000.0)
    there, out = calls.uploaded(driver, x), driver.allocate(x.nbytes)
    calls.launch(driver, handles[0], 100, 256, 0, 0, len(x), there, out)
    np.testing.assert_array_equal(calls.downloaded(driver, out, [len(x)]), 2.0 * x)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_a_product_is_that_of_numpy(driver: CudaDriver, dtype: str) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((3, 70, 50)).astype(dtype), rng.standard_normal((3, 50, 40)).astype(dtype)
    out = driver.allocate(3 * 70 * 40 * a.itemsize)
    # row by row the product of the transposed ones, in the other order
    matrices = [
        (calls.uploaded(driver, b), dtype, 40, 2000),
        (calls.uploaded(driver, a), dtype, 50, 3500),
        (out, dtype, 40, 2800),
    ]
    calls.product(driver, (False, False), (40, 70, 50), matrices, batch=3)
    found = driver.result(out, [3, 70, 40], dtype).get()
    wanted = a.astype("float64") @ b.astype("float64")
    tolerance = {"float64": 1e-12, "float32": 1e-4, "float16": 2e-2}[dtype]  # those of f32 are no TF32
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_a_product_without_inner_elements_is_zero(driver: CudaDriver) -> None:
    a, out = calls.uploaded(driver, np.full(4, np.nan)), calls.uploaded(driver, np.full(4, np.nan))
    matrices = [(a, "float64", 2, 4), (a, "float64", 1, 4), (out, "float64", 2, 4)]
    calls.product(driver, (False, False), (2, 2, 0), matrices)
    np.testing.assert_array_equal(calls.downloaded(driver, out, [4]), np.zeros(4))
    calls.product(driver, (False, False), (0, 2, 2), [(a, "float64", 1, 4), (a, "float64", 2, 4), matrices[2]])


def test_a_graph_does_all_of_it_again(driver: CudaDriver, handles: list[int]) -> None:
    import cupy

    x, y = calls.uploaded(driver, np.arange(4.0)), calls.uploaded(driver, np.zeros(4))
    z = driver.allocate(32)
    matrices = [(address, "float64", 2, 4) for address in (x, y, z)]
    calls.product(driver, (False, True), (2, 2, 2), matrices)
    driver.begin(driver.allocate(driver.workspace))
    calls.launch(driver, handles[0], 1, 32, 0, 0, 4, x, y)
    calls.copy(driver, x, y, 32)
    calls.product(driver, (False, True), (2, 2, 2), matrices)
    graph = driver.end()
    for k, stream in ((2.0, cupy.cuda.Stream.null), (4.0, cupy.cuda.Stream(non_blocking=True))):
        with stream:
            graph.launch()
            wanted = np.arange(4.0) * k
            np.testing.assert_array_equal(calls.downloaded(driver, x, [4]), wanted)
            matrix = wanted.reshape(2, 2).T
            np.testing.assert_array_equal(calls.downloaded(driver, z, [2, 2]).T, matrix @ matrix.T)
            driver.wait()
    driver.begin()
    calls.launch(driver, handles[0], 1, 32, 0, 0, 4, x, y)
    driver.abandon()
    np.testing.assert_array_equal(calls.downloaded(driver, y, [4]), np.arange(4.0) * 4.0)


def test_marks_say_how_long_the_gpu_takes(driver: CudaDriver, handles: list[int]) -> None:
    x = driver.allocate(1 << 28)
    calls.fill(driver, x, 0, 1 << 28)
    marks = driver.marks(3)
    record = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64)(driver.functions.record)
    for mark, count in zip(marks.handles, (0, 1 << 10, 1 << 25), strict=True):
        calls.launch(driver, handles[0], 1000, 256, 0, 0, count, x, x)
        assert record(mark, driver.stream) == 0
    driver.wait()
    short, long = marks.elapsed(0, 1), marks.elapsed(1, 2)
    assert 0 < short < long < 1 and 2 * (1 << 28) / long < 2e13
    driver.free(x)


def test_a_gpu_has_ceilings(driver: CudaDriver) -> None:
    found = device_ceilings(driver)
    assert found is not None and found.name == driver.name and 1e10 < found.bytes < 2e13
    assert set(found.products) == {"f64", "f32", "f16"} and all(1e11 < s < 1e16 for s in found.products.values())


def test_a_profile_has_times_of_the_gpu() -> None:
    module = dlang.compile("fn f(x: f64[n]) -> f64[n] = x / sum(x)", backend="cuda")
    found = module.f.profile(np.ones(1 << 22))
    loops = [row for row in found.rows if row.nest.kind == "loop"]
    assert len(loops) == 2 and all(row.device and 0 < row.seconds < found.seconds for row in loops)
    assert "of the device" in found.table() and {e.device for e in found.events} == {True, False}


def test_memory_is_used_again(driver: CudaDriver) -> None:
    first = driver.allocate(1 << 20)
    driver.free(first)
    assert driver.allocate(1 << 20) == first
    driver.free(first)
    with pytest.raises(MemoryError):
        driver.allocate(1 << 50)


def test_launches_are_on_the_current_stream_in_any_thread(driver: CudaDriver, handles: list[int]) -> None:
    import cupy

    found = []

    def work() -> None:
        with cupy.cuda.Stream(non_blocking=True) as stream:
            assert driver.stream == stream.ptr
            x, y = calls.uploaded(driver, np.ones(5)), driver.allocate(40)
            calls.launch(driver, handles[0], 1, 32, 0, 0, 5, x, y)
            found.append(driver.result(y, [5], "float64").get())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(found, np.full((4, 5), 2.0))


def test_arrays_of_the_gpu_are_taken_where_they_are(driver: CudaDriver) -> None:
    import cupy

    x = cupy.arange(12.0).reshape(3, 4)
    other = cupy.cuda.Stream(non_blocking=True)
    for value in (x, Exported(x), Shown(x, None), Shown(x, 1), Shown(x, other.ptr)):
        found = driver.given(value, "float64")
        assert found is not None and found.address == x.data.ptr and found.array.shape == (3, 4)
        assert driver.given(value, "float32") is None
    turned = driver.given(x.T, "float64")
    assert turned is not None and turned.address != x.data.ptr
    np.testing.assert_array_equal(turned.array.get(), x.get().T)
    for value in (np.ones(3), [1.0], 2.0, None):
        assert driver.given(value, "float64") is None


def test_an_array_is_read_after_what_another_stream_does_with_it(driver: CudaDriver) -> None:
    import cupy

    other = cupy.cuda.Stream(non_blocking=True)
    with other:
        x = cupy.ones(1 << 24)
        for _ in range(50):
            x = cupy.sqrt(x * 4.0)
    found = driver.given(Shown(x, other.ptr), "float64")
    assert found is not None
    out = driver.allocate(8)
    calls.copy(driver, out, found.address + 8 * ((1 << 24) - 1), 8)
    assert calls.downloaded(driver, out, [1])[0] == pytest.approx(4.0)


def test_bf16_comes_back_as_numbers(driver: CudaDriver) -> None:
    bits = np.array([0x3F80, 0xC000, 0x7F80], np.uint16)
    found = driver.result(calls.uploaded(driver, bits), [3], cuda.BF16)
    np.testing.assert_array_equal(found.astype(np.float32).get(), np.float32([1.0, -2.0, np.inf]))
