"""The driver of CUDA, on a small stand-in for CuPy, and what it says of what is missing."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from dlang.diagnostics import DlangError
from dlang.host import cuda
from dlang.runtime import devices
from dlang.runtime.device_runs import Recording
from dlang.runtime.devices import Holding, Stream, allocate, give_back, held
from dlang.runtime.gpu import CudaDriver
from tests.cuda import calls
from tests.cuda.fake_cupy import CUDARuntimeError, FakeCupy


# ---- what is missing -------------------------------------------------------------------------------------------------
@pytest.fixture
def fresh() -> Iterator[None]:
    """The libraries are looked for anew, here and afterwards."""
    found = (cuda.loaded_cupy, cuda.nvrtc, cuda.driver, cuda.blas)
    for function in found:
        function.cache_clear()
    yield
    for function in found:
        if hasattr(function, "cache_clear"):
            function.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_without_cupy_one_is_told_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DlangError) as e:
        CudaDriver()
    diagnostic = e.value.diagnostics[0]
    assert diagnostic.code == "E0903"
    assert diagnostic.message.startswith("the back end `cuda` needs CuPy, which can't be loaded: ")
    assert diagnostic.help == ("install it with `pip install 'dlang[cuda]'`",)


@pytest.mark.usefixtures("fresh")
def test_without_a_compiler_or_cublas_one_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs", None)
    for found, what in ((cuda.nvrtc, "NVRTC"), (cuda.blas, "cuBLAS")):
        with pytest.raises(DlangError, match=f"(?s)E0903.*{what}") as e:
            found()
        assert e.value.diagnostics[0].code == "E0903"


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("fails", [False, True])
def test_without_a_gpu_one_is_told_what_cuda_says(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    def count() -> int:
        if fails:
            raise CUDARuntimeError("cudaErrorInsufficientDriver: too old")
        return 0

    runtime = SimpleNamespace(getDeviceCount=count, CUDARuntimeError=CUDARuntimeError)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    with pytest.raises(DlangError) as e:
        CudaDriver()
    diagnostic = e.value.diagnostics[0]
    why = "cudaErrorInsufficientDriver: too old" if fails else "there is none"
    assert (diagnostic.code, diagnostic.message) == ("E0904", f"there is no GPU that can be used: {why}")
    assert "`cuda-emulated`" in diagnostic.help[0]


# ---- the driver on a stand-in ----------------------------------------------------------------------------------------
@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    found = FakeCupy()
    monkeypatch.setattr(cuda, "cupy", lambda: found)
    monkeypatch.setattr(cuda, "driver", lambda: found.library)
    monkeypatch.setattr(cuda, "blas", lambda: cuda.Blas(found.blas))
    return found


def test_memory_is_that_of_the_pool_until_it_is_given_back(fake: FakeCupy) -> None:
    driver = CudaDriver()
    assert driver.multiprocessors == 132 and driver.threads == 132 * 1536 and driver.stream == 0
    before = fake.device.used
    there = calls.uploaded(driver, np.arange(4.0))
    np.testing.assert_array_equal(calls.downloaded(driver, there, [4]), np.arange(4.0))
    assert fake.log == [("alloc", 32), ("wait", 0)]
    assert fake.device.used == before + 32
    driver.free(there)
    assert fake.device.used == before
    driver.allocate(0)
    assert fake.log[-1] == ("alloc", 1)


@pytest.mark.parametrize("kind", [1, 3])
def test_pinned_and_managed_memory_has_been_read_when_an_upload_returns(fake: FakeCupy, kind: int) -> None:
    driver = CudaDriver()
    fake.kind = kind
    calls.uploaded(driver, np.arange(4.0))
    assert fake.log[-1] == ("wait", 0)


def test_each_thread_works_in_the_context_of_the_device(fake: FakeCupy) -> None:
    driver = CudaDriver()
    fake.context = 0
    assert driver.stream == 0 and fake.log == [("context", 99)]
    fake.current = 1
    with pytest.raises(DlangError, match="compiled for GPU 0 is called while GPU 1 is the current one"):
        _ = driver.stream


def test_products_follow_the_stream(fake: FakeCupy) -> None:
    driver = CudaDriver()
    assert driver.blas == driver.blas == 5001
    assert fake.log == ["create", ("mode", 16), ("stream", 0)]
    fake.streams.append(type(fake.streams[0])(fake, 300))
    assert driver.blas == 5001 and driver.stream == 300
    assert fake.log[3:] == [("stream", 300)]


def test_products_may_be_less_exact_where_that_is_asked_for(fake: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLANG_TF32", "1")
    assert CudaDriver().blas and fake.log[1] == ("mode", 19)


def test_each_thread_has_its_own_handle_which_another_takes_over(fake: FakeCupy) -> None:
    driver = CudaDriver()
    found = []

    def work() -> None:
        found.append(driver.blas)

    assert driver.blas == 5001
    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [5002, 5002]
    assert fake.log.count("create") == 2 and fake.log.count(("stream", 0)) == 3


def test_a_graph_is_made_on_a_stream_of_its_own(fake: FakeCupy) -> None:
    driver = CudaDriver()
    _ = driver.blas
    for _ in range(2):
        fake.log.clear()
        assert driver.workspace == 32 << 20
        driver.begin(4096)
        assert driver.stream == 7000
        _ = driver.blas
        assert fake.log == [("capture", 7000), ("stream", 7000), ("workspace", 4096, 32 << 20)]
        graph = driver.end()
        assert driver.stream == 0
        graph.launch()
        _ = driver.blas
        assert fake.log[3:] == [("end", 7000), ("launch", 0), ("stream", 0)]
    del graph


def test_a_graph_without_products_needs_no_memory(fake: FakeCupy) -> None:
    driver = CudaDriver()
    driver.begin()
    driver.end().launch()
    assert fake.log == [("capture", 7000), ("end", 7000), ("launch", 0)]


def test_nothing_waits_while_a_graph_is_made(fake: FakeCupy) -> None:
    driver = CudaDriver()
    there, here = driver.allocate(8), ctypes.c_double(0.0)
    driver.begin()
    graph = driver.end()
    driver.begin()
    for forbidden in (
        lambda: driver.allocate(8),
        lambda: driver.free(there),
        lambda: driver.upload(there, ctypes.addressof(here), 8),
        lambda: driver.download(ctypes.addressof(here), there, 8),
        lambda: driver.blas,
        driver.wait,
        driver.begin,
        graph.launch,
    ):
        with pytest.raises(RuntimeError, match="while a graph is made"):
            forbidden()
    fake.spoiled = True
    driver.abandon()
    driver.free(there)
    driver.begin()
    with pytest.raises(CUDARuntimeError):
        driver.end()
    assert driver.stream == 0


def test_what_a_program_held_goes_back_when_the_graph_under_way_is_made(fake: FakeCupy) -> None:
    driver = CudaDriver()
    before = fake.device.used
    holding = held(driver, [100, 200])
    driver.begin()
    give_back(driver, holding)  # a program dies just then
    assert fake.device.used == before + 300 and driver.graphs.waste == [holding]
    driver.end()
    there = allocate(driver, 8)
    assert fake.device.used == before + 8 and not driver.graphs.waste
    driver.free(there)


def test_marks_are_events_on_the_current_stream(fake: FakeCupy) -> None:
    driver = CudaDriver()
    assert driver.name == "a GPU"
    recording = Recording(outside=3)
    recorder = recording.recorder(driver)
    assert fake.log == [("record", 0), ("wait", 0)]
    there = driver.allocate(8)
    fake.streams.append(type(fake.streams[0])(fake, 300))
    fake.log.clear()
    word = ctypes.c_int64(7)
    with recorder.copying(8):
        driver.upload(there, ctypes.addressof(word), 8)
    assert fake.log == [("record", 300), ("record", 300)]
    recorder.end()
    driver.free(there)
    assert fake.log[-1] == ("wait", 300)
    assert recording.seconds == {3: pytest.approx(1e-6)} and recording.bytes[3] == 8
    ((nest, begin, end),) = recording.events
    assert (nest, begin, end) == (3, pytest.approx(recorder.base + 1e-6), pytest.approx(recorder.base + 2e-6))


def test_a_failure_has_the_name_that_cuda_gives_it(fake: FakeCupy) -> None:
    driver = CudaDriver()
    assert isinstance(driver.error(2), MemoryError)
    assert str(driver.error(700)).startswith("the GPU fails: ERROR_700: ERROR_700; DLANG_CUDA_SYNC=1 ")


# ---- another process -------------------------------------------------------------------------------------------------
def test_a_forked_process_is_told_that_it_can_not_use_the_gpu(fake: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = CudaDriver()
    there, here = driver.allocate(8), driver.current
    holding = Holding((there,), 8, here, Stream(300, None, fake.streams[0]))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for call in (lambda: driver.stream, lambda: driver.current, lambda: driver.load([]) or driver.marks(1)):
        with pytest.raises(DlangError, match=r"E0904.*forked") as e:
            call()
        assert "spawn" in e.value.diagnostics[0].help[0]
    fake.log.clear()
    give_back(driver, holding)  # when a program dies: CUDA is not asked
    assert fake.log == []


@pytest.mark.usefixtures("fresh")
def test_a_forked_process_does_not_ask_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=CUDARuntimeError)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    assert cuda.cupy() is sys.modules["cupy"]
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(DlangError, match=r"E0904.*forked"):
        devices.driver_of("cuda")
