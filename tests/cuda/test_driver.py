"""The emulated device has memory of its own, products as cuBLAS has them, and graphs as CUDA has them."""

from __future__ import annotations

import ctypes
import gc
import itertools
import subprocess
import sys
import weakref
from functools import cache
from typing import Any

import numpy as np
import pytest

from dlang.codegen.abi import Kernel
from dlang.runtime.devices import DeviceArray, Misbehaviour
from dlang.runtime.emulation.driver import EmulatedArray, EmulatedDriver
from tests.cuda import calls

TWICE = """extern "C" __global__ void twice(dl_run *run, i64 site, i64 iterations, DL_GLOBAL(f64) x, DL_GLOBAL(f64) y) {
  for (i64 t = dl_first(); t < iterations; t += dl_stride()) y[t] = 2.0 * x[t];
}
"""
NARROW = """extern "C" __global__ void narrow(dl_run *run, bool flag, f32 scale, u8 byte, i64 last, DL_GLOBAL(f32) y) {
  if (dl_first() == 0) y[0] = flag ? scale * (f32)byte + (f32)last : -1.0f;
}
"""
PLACES = """extern "C" __global__ void places(dl_run *run, DL_GLOBAL(i64) y) {
  const i64 block = blockIdx.x + gridDim.x * (blockIdx.y + (i64)gridDim.y * blockIdx.z);
  const i64 thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  y[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}
"""
KERNELS = [Kernel("twice", "map", TWICE), Kernel("narrow", "map", NARROW), Kernel("places", "map", PLACES)]


@cache
def device() -> tuple[EmulatedDriver, list[int]]:
    driver = EmulatedDriver()
    return driver, driver.load(KERNELS)


def twice(x: int, y: int, count: int) -> None:
    driver, handles = device()
    calls.launch(driver, handles[0], 2, 32, 0, 0, count, x, y)


# ---- memory ----------------------------------------------------------------------------------------------------------
def test_what_is_copied_to_the_device_comes_back() -> None:
    driver, _ = device()
    x = np.random.default_rng(0).standard_normal(100)
    there = calls.uploaded(driver, x)
    x_before = x.copy()
    x[:] = 0.0
    other = driver.allocate(800)
    calls.copy(driver, other, there, 800)
    np.testing.assert_array_equal(calls.downloaded(driver, other, [100]), x_before)
    calls.fill(driver, other + 80, 0xFF, 8)
    found = driver.result(other, [4, 25], "float64")
    assert found.shape == (4, 25) and np.isnan(found[0, 10]) and np.isnan(found).sum() == 1
    with pytest.raises(Misbehaviour, match="not memory of the device"):
        calls.downloaded(driver, other, [1])


def test_the_host_can_not_read_memory_of_the_device() -> None:
    text = (
        "import ctypes; from dlang.runtime.emulation.driver import EmulatedDriver; driver = EmulatedDriver()\n"
        "address = driver.allocate(8); print('before', flush=True); ctypes.c_int64.from_address(address).value"
    )
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert run.stdout == "before\n" and run.returncode < 0


def test_a_kernel_sees_memory_of_the_device_alone() -> None:
    driver, _ = device()
    here, there = np.ones(4), calls.uploaded(driver, np.ones(4))
    twice(there, there, 4)
    with pytest.raises(Misbehaviour, match=r"(?s)not memory of the device.*void twice"):
        twice(here.ctypes.data, there, 4)
    driver.free(there)
    with pytest.raises(Misbehaviour, match="freed or never was allocated"):
        twice(there, there, 4)


def test_arrays_that_are_side_by_side_stay_apart() -> None:
    driver, _ = device()
    arrays = [calls.uploaded(driver, np.zeros(1)) for _ in range(50)]
    for array in arrays:
        with pytest.raises(Misbehaviour, match="element 1 of an array of 1"):
            twice(array, array, 2)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_it_is_known_of_each_byte_whether_it_was_written(size: int) -> None:
    driver, _ = device()
    there = driver.allocate(16)
    calls.fill(driver, there + 8, 1, size)
    other = driver.allocate(16)
    calls.copy(driver, other, there, 16)
    room = (ctypes.c_char * 16)()
    driver.download(ctypes.addressof(room), other + 8, size)
    for start, count in ((8, size + 1), (7, 2)):
        if start + count <= 16:
            with pytest.raises(Misbehaviour, match="never written"):
                driver.download(ctypes.addressof(room), other + start, count)


def test_a_result_that_was_not_all_written_is_reported() -> None:
    driver, _ = device()
    x, y, z = calls.uploaded(driver, np.ones(8)), driver.allocate(64), driver.allocate(64)
    twice(x, y, 7)
    with pytest.raises(Misbehaviour, match="never written"):
        driver.result(y, [8], "float64")
    twice(x, z, 7)
    np.testing.assert_array_equal(driver.result(z, [7], "float64"), np.full(7, 2.0))


def test_arrays_can_stay_on_the_device() -> None:
    driver = EmulatedDriver(keeps=True)
    x = np.arange(6.0).reshape(2, 3)
    there = EmulatedArray.of(driver, x)
    assert driver.given(there, "float64") == DeviceArray(there.address, there)
    for value, dtype in ((there, "float32"), (x, "float64"), (EmulatedArray.of(EmulatedDriver(), x), "float64")):
        assert driver.given(value, dtype) is None
    with pytest.raises(TypeError):
        np.asarray(there)
    found = driver.result(calls.uploaded(driver, x), (3, 2), "float64")
    np.testing.assert_array_equal(found.get(), x.reshape(3, 2))
    assert found.nbytes == 48 and found.__cuda_array_interface__["data"] == (found.address, False)
    half = driver.result(calls.uploaded(driver, np.uint16([0x3F80, 0xC000])), (2,), "bfloat16")
    assert half.get().tolist() == [1.0, -2.0]
    del there, found, half, value
    gc.collect()
    assert driver.used == 0


def test_memory_ends() -> None:
    driver = EmulatedDriver(capacity=1000)
    first = driver.allocate(600)
    with pytest.raises(MemoryError):
        driver.allocate(600)
    driver.free(first)
    driver.free(driver.allocate(1000))
    assert driver.used == 0
    with pytest.raises(MemoryError):
        driver.allocate(2**62)


def test_each_address_is_given_back_once() -> None:
    driver, _ = device()
    address = driver.allocate(8)
    driver.free(address)
    for wrong in (address, 0, 8):
        with pytest.raises(Misbehaviour, match="was not allocated"):
            driver.free(wrong)


def test_an_array_is_copied_neither_onto_itself_nor_beyond_its_end() -> None:
    driver, _ = device()
    there = calls.uploaded(driver, np.ones(4))
    for call in (
        lambda: calls.copy(driver, there + 8, there, 16),
        lambda: calls.copy(driver, there, driver.allocate(64), 40),
        lambda: calls.fill(driver, there, 0, 33),
        lambda: calls.fill(driver, 8, 0, 1),
    ):
        with pytest.raises(Misbehaviour):
            call()
    calls.copy(driver, there, there + 16, 16)


def test_devices_have_memory_of_their_own() -> None:
    one, other = EmulatedDriver(), EmulatedDriver()
    address = calls.uploaded(one, np.ones(1))
    with pytest.raises(Misbehaviour):
        calls.downloaded(other, address, [1])


# ---- launches --------------------------------------------------------------------------------------------------------
def test_parameters_are_as_wide_as_their_types() -> None:
    driver, handles = device()
    y = driver.allocate(4)
    scale = ctypes.c_int64(-1)
    ctypes.c_float.from_buffer(scale).value = 1.5
    calls.launch(driver, handles[1], 1, 32, 0, -255, scale.value, -254, 2**40, y)
    assert calls.downloaded(driver, y, [1], "float32")[0] == np.float32(1.5 * 2 + 2**40)


@pytest.mark.parametrize("order", range(3))
def test_blocks_and_threads_have_three_axes(order: int) -> None:
    driver, handles = device()
    y = driver.allocate(8 * 24 * 96)
    words = (ctypes.c_int64 * 2)(0, y)
    given = (ctypes.c_void_p * 2)(ctypes.addressof(words), ctypes.addressof(words) + 8)
    driver.reorder(order)
    call = calls.LAUNCH(driver.functions.launch)
    try:
        assert call(handles[2], 2, 3, 4, 8, 4, 3, 0, driver.stream, ctypes.addressof(given), None) == 0
    finally:
        driver.reorder(0)
    found = calls.downloaded(driver, y, [24, 96], "int64")
    np.testing.assert_array_equal(found, np.arange(24)[:, None] * 1000 + np.arange(96))


def test_a_launch_that_no_device_would_take_is_refused() -> None:
    driver, handles = device()
    x = calls.uploaded(driver, np.ones(1))
    for grid, block in ((0, 32), (1, 0), (1, 48), (1, 2048)):
        with pytest.raises(Misbehaviour):
            calls.launch(driver, handles[0], grid, block, 0, 0, 1, x, x)
    call = calls.LAUNCH(driver.functions.launch)
    assert call(handles[0], 1, 1, 1, 32, 1, 1, 0, ctypes.addressof(ctypes.create_string_buffer(64)), None, None) == 400
    assert call(x & ~(1 << 55), 1, 1, 1, 32, 1, 1, 0, driver.stream, None, None) == 400
    assert call(handles[0], 1, 1, 1, 32, 1, 1, 64, driver.stream, None, None) == 1


def test_no_kernels_need_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, _ = device()
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert driver.load([]) == []


# ---- products --------------------------------------------------------------------------------------------------------
def columns(driver: EmulatedDriver, x: Any, room: int, gap: int) -> tuple[int, str, int, int]:
    """Matrices (number, row, column) on the device, column by column, with room between columns and matrices."""
    number, rows, across = x.shape
    lead, stride = max(rows, 1) + room, (max(rows, 1) + room) * across + gap
    there = np.full(max(number * stride, 1), 77, x.dtype)
    for k in range(number):
        block = there[k * stride : k * stride + lead * across].reshape(across, lead)
        block[:, :rows] = x[k].T
    return calls.uploaded(driver, there), x.dtype.name, lead, stride


def multiplied(
    a: Any, b: Any, c: Any, transposed: tuple[bool, bool], alpha: float, beta: float, room: int, gap: int = 0
) -> Any:
    """The result, where c was, after a look at whether anything else was changed."""
    driver, _ = device()
    given = [columns(driver, x, room, gap) for x in (a, b, c)]
    inner = a.shape[1] if transposed[0] else a.shape[2]
    calls.product(driver, transposed, (c.shape[1], c.shape[2], inner), given, alpha, beta, len(c))
    address, dtype, lead, stride = given[2]
    flat = calls.downloaded(driver, address, [max(len(c) * stride, 1)], dtype)
    found = np.empty_like(c)
    for k in range(len(c)):
        block = flat[k * stride : k * stride + lead * c.shape[2]].reshape(c.shape[2], lead)
        found[k] = block[:, : c.shape[1]].T
        assert (block[:, c.shape[1] :] == 77).all()
    for address, *_ in given:
        driver.free(address)
    return found


@pytest.mark.parametrize("transposed", [*itertools.product((False, True), repeat=2)])
@pytest.mark.parametrize(("dtype", "room", "beta"), [("float64", 0, 0.0), ("float64", 3, 2.0), ("float32", 1, -1.0)])
def test_a_product_is_as_that_of_blas(transposed: tuple[bool, bool], dtype: str, room: int, beta: float) -> None:
    rng = np.random.default_rng(3)
    a, b, c = [rng.standard_normal((2, *shape)).astype(dtype) for shape in ((5, 7), (7, 4), (5, 4))]
    given = [x.transpose(0, 2, 1) if turned else x for x, turned in zip((a, b), transposed)]
    found = multiplied(*given, c, transposed, 1.5, beta, room, gap=5)
    np.testing.assert_allclose(found, 1.5 * a @ b + beta * c, rtol=1e-12 if dtype == "float64" else 1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_added_up_in_single_precision(dtype: str) -> None:
    half = np.dtype(pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype)
    rng = np.random.default_rng(4)
    a, b, c = [rng.standard_normal((1, *shape)).astype(half) for shape in ((6, 300), (300, 3), (6, 3))]

    def stored(x: Any) -> Any:
        return x.view(np.uint16) if dtype == "bfloat16" else x

    wanted = a.astype(np.float32) @ b.astype(np.float32) + c.astype(np.float32)
    found = multiplied(stored(a), stored(b), stored(c), (False, False), 1.0, 1.0, 0)
    near = np.abs(found.view(np.uint16).astype(int) - wanted.astype(half).view(np.uint16).astype(int))
    assert near.max() <= 1 and (near == 0).mean() > 0.8
    found = multiplied(stored(a), stored(b), np.zeros((1, 6, 3), np.float32), (False, False), 1.0, 0.0, 0)
    np.testing.assert_allclose(found, wanted - c.astype(np.float32), rtol=1e-4, atol=1e-4)


def test_halves_are_rounded_to_the_nearest_even() -> None:
    exact = np.float32([0.0, 65504, 65519.99, 65520, 1e9, -np.inf, np.nan, 2**-24, 2**-25, 1.1 * 2**-25, 6e-6])
    rng = np.random.default_rng(5)
    many = (rng.standard_normal(500) * 10.0 ** rng.integers(-9, 6, 500)).astype(np.float32)
    ties = (1 + (np.arange(64) * 2 + 1) * 2.0**-11).astype(np.float32)
    values = np.concatenate([exact, many, ties])
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for half in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
        stored = np.uint16 if half != np.float16 else np.float16
        for value in values:  # as the scalar by which one is multiplied, so that it is rounded once
            one = np.ones((1, 1, 1), half).view(stored)
            found = multiplied(one, one, np.zeros((1, 1, 1), stored), (False, False), float(value), 0.0, 0)
            with np.errstate(over="ignore"):
                wanted = value.astype(half)
            if np.isnan(wanted):
                assert np.isnan(found.view(half).item())
            else:
                assert found.view(np.uint16).item() == wanted.view(np.uint16).item(), value


def test_what_a_product_need_not_read_is_not_read() -> None:
    driver, _ = device()
    a, b = calls.uploaded(driver, np.ones(4)), calls.uploaded(driver, np.ones(4))
    fresh, c = driver.allocate(32), driver.allocate(32)
    plain = (False, False)

    def matrices(*addresses: int) -> list[tuple[int, str, int, int]]:
        return [(address, "float64", 2, 4) for address in addresses]

    calls.product(driver, plain, (2, 2, 2), matrices(a, b, c))
    np.testing.assert_array_equal(calls.downloaded(driver, c, [4]), np.full(4, 2.0))
    for given, beta in ((matrices(a, fresh, c), 0.0), (matrices(a, b, fresh), 1.0)):
        calls.product(driver, plain, (2, 2, 2), given, beta=beta)  # as in a run that a kernel has refused
        with pytest.raises(Misbehaviour, match="never written"):
            calls.downloaded(driver, c if not beta else fresh, [4])
    calls.product(driver, plain, (2, 2, 2), matrices(a, b, c))
    calls.product(driver, plain, (2, 2, 2), matrices(fresh, fresh, c), alpha=0.0, beta=3.0)
    np.testing.assert_array_equal(calls.downloaded(driver, c, [4]), np.full(4, 6.0))
    calls.product(driver, plain, (2, 2, 0), matrices(fresh, fresh, c))
    np.testing.assert_array_equal(calls.downloaded(driver, c, [4]), np.zeros(4))
    for sizes, batch in (((0, 2, 2), 1), ((2, 0, 2), 1), ((2, 2, 2), 0)):
        calls.product(driver, plain, sizes, matrices(8, 8, 8), batch=batch)


def test_a_product_that_cublas_would_not_take_is_refused() -> None:
    driver, _ = device()
    a = calls.uploaded(driver, np.ones(16))
    c = calls.uploaded(driver, np.ones(16))
    plain = (False, False)
    whole, small = (a, "float64", 4, 16), (a, "float64", 3, 16)
    out = (c, "float64", 4, 16)
    for sizes, matrices, message in (
        ((4, 4, 4), (small, whole, out), "status 7"),
        ((4, 4, 4), (whole, small, out), "status 7"),
        ((4, 4, 4), (whole, whole, (c, "float64", 3, 16)), "status 7"),
        ((4, -1, 4), (whole, whole, out), "status 7"),
        ((4, 4, 4), (whole, (a, "float32", 4, 16), out), "status 15"),
        ((4, 4, 4), (whole, whole, (c, "float32", 4, 16)), "status 15"),
        ((4, 4, 4), (whole, whole, whole), "where the result is"),
        ((4, 4, 5), (whole, (a, "float64", 5, 16), out), "not in memory|out of the bounds"),
        ((4, 5, 4), (whole, (c, "float64", 4, 16), out), "not in memory|out of the bounds"),
    ):
        with pytest.raises(Misbehaviour, match=message):
            calls.product(driver, plain, sizes, matrices)
    half = calls.uploaded(driver, np.ones(16, np.float16))
    with pytest.raises(Misbehaviour, match="status 15"):
        calls.product(driver, plain, (4, 4, 4), ((half, "float16", 4, 16), (half, "uint16", 4, 16), out))


# ---- graphs ----------------------------------------------------------------------------------------------------------
def test_what_a_graph_keeps_is_done_again_at_each_launch() -> None:
    driver, _ = device()
    x, y, z = calls.uploaded(driver, np.arange(4.0)), calls.uploaded(driver, np.zeros(4)), driver.allocate(32)
    driver.begin()
    twice(x, y, 4)
    calls.copy(driver, x, y, 32)
    calls.fill(driver, z, 0, 32)
    matrices = [(address, "float64", 2, 4) for address in (x, y, z)]
    calls.product(driver, (False, True), (2, 2, 2), matrices, alpha=0.5, beta=1.0)
    graph = driver.end()
    np.testing.assert_array_equal(calls.downloaded(driver, x, [4]), np.arange(4.0))
    for k in (2.0, 4.0):
        graph.launch()
        wanted = np.arange(4.0) * k
        np.testing.assert_array_equal(calls.downloaded(driver, x, [4]), wanted)
        matrix = wanted.reshape(2, 2).T
        np.testing.assert_array_equal(calls.downloaded(driver, z, [2, 2]).T, 0.5 * matrix @ matrix.T)


def test_nothing_waits_while_a_graph_is_made() -> None:
    driver, _ = device()
    x = calls.uploaded(driver, np.ones(1))
    room = np.ones(1)
    for forbidden in (
        lambda: driver.allocate(8),
        lambda: driver.free(x),
        lambda: driver.upload(x, room.ctypes.data, 8),
        lambda: driver.download(room.ctypes.data, x, 8),
        driver.wait,
        driver.begin,
    ):
        driver.begin()
        twice(x, x, 1)
        with pytest.raises(Misbehaviour, match="while a graph is made"):
            forbidden()
        with pytest.raises(Misbehaviour):
            driver.end()
        driver.begin()
        twice(x, x, 1)
        driver.abandon()
    assert calls.downloaded(driver, x, [1])[0] == 1.0
    with pytest.raises(Misbehaviour, match="not begun"):
        driver.end()


def test_a_graph_that_has_become_wrong_says_so_when_it_is_launched() -> None:
    driver, _ = device()
    x = calls.uploaded(driver, np.ones(1))
    driver.begin()
    twice(x, x, 1)
    graph = driver.end()
    graph.launch()
    driver.free(x)
    with pytest.raises(Misbehaviour, match="freed"):
        graph.launch()


def test_a_device_that_nobody_has_is_gone() -> None:
    driver = EmulatedDriver()
    calls.uploaded(driver, np.ones(4))
    driver.begin()
    graph = driver.end()
    gone = weakref.ref(driver)
    del driver
    gc.collect()
    assert gone() is not None
    del graph
    gc.collect()
    assert gone() is None
