"""The driver of CUDA. What needs a GPU is marked so; what needs none runs on a small stand-in for CuPy."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.codegen.kernel import Kernel
from dlang.diagnostics import DlangError
from dlang.runtime.cuda import arrays, compiler, libraries
from dlang.runtime.cuda.driver import CudaDriver
from dlang.runtime.device_ceilings import device_ceilings
from dlang.runtime.devices import Misbehaviour
from dlang.runtime.recorder import Recording
from tests.backends import has_gpu
from tests.cuda import calls
from tests.cuda.fake_cupy import CUDARuntimeError, FakeCupy

HEAD = 'extern "C" __global__ void NAME(dl_run *run, i64 site, i64 trips, DL_GLOBAL(f64) x, DL_GLOBAL(f64) y)'
BODY = " { for (i64 t = dl_first(); t < trips; t += dl_stride()) y[t] = 2.0 * x[t]; }\n"


def kernel(name: str, body: str = BODY) -> Kernel:
    return Kernel(name, "map", HEAD.replace("NAME", name) + body)


gpu = [pytest.mark.gpu, pytest.mark.skipif(not has_gpu(), reason="there is no GPU with CuPy")]


def gpu_test(test: Any) -> Any:
    for mark in gpu:
        test = mark(test)
    return test


# ---- what is missing -------------------------------------------------------------------------------------------------
@pytest.fixture
def fresh() -> Iterator[None]:
    """The libraries are looked for anew, here and afterwards."""
    found = (libraries.cupy, libraries.nvrtc, libraries.driver, libraries.blas)
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
    for found, what in ((libraries.nvrtc, "NVRTC"), (libraries.blas, "cuBLAS")):
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


# ---- compiling -------------------------------------------------------------------------------------------------------
def test_a_gpu_is_compiled_for_as_closely_as_the_compiler_knows_it() -> None:
    supported = (75, 80, 90, 100)
    assert compiler.target_of(90, supported) == "sm_90"
    assert compiler.target_of(89, supported) == "compute_80"
    assert compiler.target_of(130, supported) == "compute_100"
    with pytest.raises(DlangError, match=r"capability 7\.0, and NVRTC compiles for 7\.5 and later"):
        compiler.target_of(70, supported)


class FakeCompiler:
    """Makes code that names the kernels of a text."""

    NVRTCError = KeyError

    def __init__(self) -> None:
        self.texts: list[str] = []

    def getSupportedArchs(self) -> tuple[int, ...]:
        return (80, 90)

    def createProgram(self, text: str, name: str, headers: list[str], names: list[str]) -> str:
        self.texts.append(text)
        return text

    def compileProgram(self, program: str, options: list[str]) -> None:
        if "nonsense" in program:
            raise KeyError

    def getCUBIN(self, program: str) -> bytes:
        return b"cubin " + str(len(self.texts)).encode()

    def getPTX(self, program: str) -> str:
        return "ptx"

    def getProgramLog(self, program: str) -> str:
        return "what the compiler says"

    def destroyProgram(self, program: str) -> None:
        pass


@pytest.fixture
def fake_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCompiler:
    found = FakeCompiler()
    monkeypatch.setattr(libraries, "nvrtc", lambda: found)
    monkeypatch.setenv("DLANG_CACHE", str(tmp_path))
    return found


THRICE = BODY.replace("2.0", "3.0")


def test_only_kernels_that_are_not_known_are_compiled(fake_compiler: FakeCompiler) -> None:
    one, other = kernel("dl_map_0"), kernel("dl_map_1", THRICE)
    first = compiler.compiled([one, other], 90)
    assert len(fake_compiler.texts) == 1 and first[0].code == first[1].code
    assert first[0].code.content == b"cubin 1\0"
    # under another number, and with another kernel around
    again = compiler.compiled([kernel("dl_map_0", THRICE), kernel("dl_map_1", " {}\n"), kernel("dl_map_2")], 90)
    assert [f.name for f in (again[0], again[2])] == [f.name for f in (first[1], first[0])]
    assert again[0].code == again[2].code == first[0].code
    assert again[1].code.content == b"cubin 2\0"
    assert again[1].name in fake_compiler.texts[1] and again[0].name not in fake_compiler.texts[1]
    assert "dl_map_1" not in fake_compiler.texts[1]


def test_kernels_of_one_text_are_compiled_once(fake_compiler: FakeCompiler) -> None:
    one, other = compiler.compiled([kernel("dl_map_0"), kernel("dl_map_1")], 90)
    assert one == other and fake_compiler.texts[0].count(f"{one.name}(") == 1


def test_other_gpus_have_code_of_their_own(fake_compiler: FakeCompiler) -> None:
    compiler.compiled([kernel("k")], 90)
    compiler.compiled([kernel("k")], 80)
    assert compiler.compiled([kernel("k")], 86)[0].code.content == b"ptx\0"
    assert len(fake_compiler.texts) == 3


def test_the_compiler_is_not_loaded_for_kernels_that_are_known(
    fake_compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = compiler.compiled([kernel("k")], 90)
    monkeypatch.setattr(libraries, "nvrtc", lambda: pytest.fail("it is loaded"))
    assert compiler.compiled([kernel("k")], 90) == made


def test_code_that_is_gone_is_made_again(fake_compiler: FakeCompiler, tmp_path: Path) -> None:
    compiler.compiled([kernel("k")], 90)
    for file in tmp_path.glob("cubin-*"):
        file.unlink()
    compiler.compiled([kernel("k")], 90)
    compiler.compiled([kernel("k")], 90)
    assert len(fake_compiler.texts) == 2


def test_a_kernel_that_does_not_compile_is_a_mistake_of_this_compiler(fake_compiler: FakeCompiler) -> None:
    with pytest.raises(Misbehaviour, match=r"(?s)what the compiler says.*nonsense"):
        compiler.compiled([kernel("k", " { nonsense }\n")], 90)


def test_nvidias_compiler_makes_code_for_a_gpu_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("cupy_backends.cuda.libs.nvrtc", reason="CuPy is not installed")
    monkeypatch.setenv("DLANG_CACHE", str(tmp_path))
    found = compiler.compiled([kernel("dl_map_0"), kernel("dl_map_1", THRICE)], 90)
    content = found[0].code.content
    assert content.startswith(b"\x7fELF") and all(f.name.encode() in content for f in found)
    assert compiler.compiled([kernel("dl_map_5", THRICE)], 90)[0].code.content == content
    with pytest.raises(Misbehaviour, match="nonsense"):
        compiler.compiled([kernel("k", " { nonsense }\n")], 90)


# ---- the driver on a stand-in ----------------------------------------------------------------------------------------
@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    found = FakeCupy()
    monkeypatch.setattr(libraries, "cupy", lambda: found)
    monkeypatch.setattr(libraries, "driver", lambda: found.library)
    monkeypatch.setattr(libraries, "blas", lambda: libraries.Blas(found.blas))
    return found


def test_memory_is_that_of_the_pool_until_it_is_given_back(fake: FakeCupy) -> None:
    driver = CudaDriver()
    assert driver.multiprocessors == 132 and driver.stream == 0
    before = fake.device.used
    there = calls.uploaded(driver, np.arange(4.0))
    np.testing.assert_array_equal(calls.downloaded(driver, there, [4]), np.arange(4.0))
    assert fake.log == [("alloc", 32), ("wait", 0)]
    assert fake.device.used == before + 32
    driver.free(there)
    assert fake.device.used == before
    driver.allocate(0)
    assert fake.log[-1] == ("alloc", 1)


def test_pinned_memory_has_been_read_when_an_upload_returns(fake: FakeCupy) -> None:
    driver = CudaDriver()
    fake.pinned = True
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
        driver.begin()
        assert driver.stream == 7000
        _ = driver.blas
        wanted = [("alloc", 32 << 20), ("capture", 7000), ("stream", 7000)]
        assert fake.log[:3] == wanted and fake.log[3][::2] == ("workspace", 32 << 20) and len(fake.log) == 4
        graph = driver.end()
        assert driver.stream == 0
        graph.launch()
        _ = driver.blas
        assert fake.log[4:] == [("end", 7000), ("launch", 0), ("stream", 0)]
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
    assert str(driver.error(700)) == "the GPU fails: ERROR_700: ERROR_700"


# ---- with a GPU ------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def driver() -> CudaDriver:
    return CudaDriver()


@pytest.fixture(scope="module")
def handles(driver: CudaDriver) -> list[int]:
    return driver.load([kernel("dl_map_0")])


@gpu_test
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


@gpu_test
def test_a_kernel_runs_on_the_gpu(driver: CudaDriver, handles: list[int]) -> None:
    x = np.arange(100000.0)
    there, out = calls.uploaded(driver, x), driver.allocate(x.nbytes)
    calls.launch(driver, handles[0], 100, 256, 0, 0, len(x), there, out)
    np.testing.assert_array_equal(calls.downloaded(driver, out, [len(x)]), 2.0 * x)


@gpu_test
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


@gpu_test
def test_a_product_without_inner_elements_is_zero(driver: CudaDriver) -> None:
    a, out = calls.uploaded(driver, np.full(4, np.nan)), calls.uploaded(driver, np.full(4, np.nan))
    matrices = [(a, "float64", 2, 4), (a, "float64", 1, 4), (out, "float64", 2, 4)]
    calls.product(driver, (False, False), (2, 2, 0), matrices)
    np.testing.assert_array_equal(calls.downloaded(driver, out, [4]), np.zeros(4))
    calls.product(driver, (False, False), (0, 2, 2), [(a, "float64", 1, 4), (a, "float64", 2, 4), matrices[2]])


@gpu_test
def test_a_graph_does_all_of_it_again(driver: CudaDriver, handles: list[int]) -> None:
    import cupy

    x, y = calls.uploaded(driver, np.arange(4.0)), calls.uploaded(driver, np.zeros(4))
    z = driver.allocate(32)
    matrices = [(address, "float64", 2, 4) for address in (x, y, z)]
    calls.product(driver, (False, True), (2, 2, 2), matrices)
    driver.begin()
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


@gpu_test
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


@gpu_test
def test_a_gpu_has_ceilings(driver: CudaDriver) -> None:
    found = device_ceilings(driver)
    assert found is not None and found.name == driver.name and 1e10 < found.bytes < 2e13
    assert set(found.products) == {"f64", "f32", "f16"} and all(1e11 < s < 1e16 for s in found.products.values())


@gpu_test
def test_a_profile_has_times_of_the_gpu() -> None:
    module = dlang.compile("fn f(x: f64[n]) -> f64[n] = x / sum(x)", backend="cuda")
    found = module.f.profile(np.ones(1 << 22))
    loops = [row for row in found.rows if row.nest.kind == "loop"]
    assert len(loops) == 2 and all(row.device and 0 < row.seconds < found.seconds for row in loops)
    assert "of the device" in found.table() and {e.device for e in found.events} == {True, False}


@gpu_test
def test_memory_is_used_again(driver: CudaDriver) -> None:
    first = driver.allocate(1 << 20)
    driver.free(first)
    assert driver.allocate(1 << 20) == first
    driver.free(first)
    with pytest.raises(MemoryError):
        driver.allocate(1 << 50)


@gpu_test
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


class Shown:
    """An array that only the interface of CUDA shows."""

    def __init__(self, array: Any, stream: int | None) -> None:
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "version": 3, "stream": stream}


class Exported:
    """An array that only DLPack shows."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@gpu_test
def test_arrays_of_the_gpu_are_taken_where_they_are(driver: CudaDriver) -> None:
    import cupy

    x = cupy.arange(12.0).reshape(3, 4)
    other = cupy.cuda.Stream(non_blocking=True)
    for value in (x, Exported(x), Shown(x, None), Shown(x, 1), Shown(x, other.ptr)):
        found = driver.given(value, "float64")
        assert found is not None and found[0] == x.data.ptr and found[1].shape == (3, 4)
        assert driver.given(value, "float32") is None
    turned = driver.given(x.T, "float64")
    assert turned is not None and turned[0] != x.data.ptr
    np.testing.assert_array_equal(turned[1].get(), x.get().T)
    for value in (np.ones(3), [1.0], 2.0, None):
        assert driver.given(value, "float64") is None


@gpu_test
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
    calls.copy(driver, out, found[0] + 8 * ((1 << 24) - 1), 8)
    assert calls.downloaded(driver, out, [1])[0] == pytest.approx(4.0)


@gpu_test
def test_bf16_comes_back_as_numbers(driver: CudaDriver) -> None:
    bits = np.array([0x3F80, 0xC000, 0x7F80], np.uint16)
    found = driver.result(calls.uploaded(driver, bits), [3], arrays.BF16)
    np.testing.assert_array_equal(found.astype(np.float32).get(), np.float32([1.0, -2.0, np.inf]))
