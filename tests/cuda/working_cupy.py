"""A stand-in for CuPy that runs kernels, and notes on which stream each block of memory is used.

Memory is handed out as CuPy's pool does it: what is given back goes to the stream that it was allocated on, which gets
it again at once, whatever other streams still do with it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dlang.codegen.abi import Kernel
from dlang.host import cuda
from dlang.runtime import gpu
from tests.cuda import calls
from tests.cuda.fake_cupy import FakeCupy, Stream
from tests.cuda.ordering import Ordering

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


class _Parameters(ctypes.Structure):
    """The beginning of `Kernel` in `device.h`."""

    _fields_ = [
        ("mark", ctypes.c_uint64), ("name", ctypes.c_char_p), ("count", ctypes.c_uint64),
        ("sizes", ctypes.POINTER(ctypes.c_uint)),
    ]  # fmt: skip


class WorkingStream(Stream):
    """Notes what is asked of it, in a graph that it makes or with the device."""

    fake: WorkingCupy

    def begin_capture(self, mode: int) -> None:
        super().begin_capture(mode)
        self.fake.kept[self.ptr] = set()

    def end_capture(self) -> Any:
        used = self.fake.kept.pop(self.ptr)
        graph = super().end_capture()

        def launch(stream: Stream) -> None:
            self.fake.ordering.asked(stream.ptr, "a graph", used)
            graph.launch(stream)

        return SimpleNamespace(launch=launch)

    def wait_event(self, event: Any) -> None:
        super().wait_event(event)
        self.fake.ordering.after(self.ptr, event.clock)

    def record(self) -> Any:
        event = self.fake.cuda.Event()
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkingStream) and self.ptr == other.ptr

    __hash__ = None  # type: ignore[assignment]

    def __enter__(self) -> None:
        self.fake.streams.append(self)

    def __exit__(self, *error: object) -> None:
        self.fake.streams.pop()


class WorkingCupy(FakeCupy):
    """Runs kernels and products. kept: the blocks that graphs under way use; free: blocks, by stream and size.

    finished: streams that have done everything, where the host asks whether they have come to an event.
    """

    stream_class = WorkingStream

    def __init__(self) -> None:
        super().__init__()
        self.ordering = Ordering()
        self.kept: dict[int, set[int]] = {}
        self.free: dict[tuple[int, int], list[int]] = {}
        self.blocks: dict[int, int] = {}
        self.blas_stream = 0
        self.finished: set[int] = set()
        self.ndarray = array_class(self)
        self.library.cuLaunchKernel = calls.LAUNCH(self.launched)
        self.library.cuMemcpyDtoDAsync_v2 = COPY(self.copied)
        self.blas.cublasGemmStridedBatchedEx_64 = calls.PRODUCT(self.multiplied)
        self.blas.cublasSetStream_v2 = self.set_stream
        self.blas.cublasGetStream_v2 = self.get_stream
        self.blas.cublasSetWorkspace_v2 = lambda handle, address, size: self.note("a workspace", [address.value])
        self.cuda.runtime.streamSynchronize = self.waited
        self.cuda.driver.moduleLoadData = lambda content: int.from_bytes(content, "little")
        self.cuda.driver.moduleGetFunction = lambda module, name: module

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """CuPy, CUDA's driver, NVRTC and cuBLAS are this from now on; drivers that are known are to be forgotten."""
        monkeypatch.setattr(cuda, "cupy", lambda: self)
        monkeypatch.setattr(cuda, "driver", lambda: self.library)
        monkeypatch.setattr(cuda, "blas", lambda: cuda.Blas(self.blas))
        monkeypatch.setattr(gpu, "compiled", self.compiled)

    def compiled(self, kernels: Sequence[Kernel], capability: int, wide: bool = False) -> list[gpu.Function]:
        """Kernels for the emulated device: what is their code is where they are."""
        found = []
        for kernel, handle in zip(kernels, self.device.load(kernels, wide), strict=True):
            code = gpu.Code(f"{handle}", handle.to_bytes(8, "little"))
            found.append(gpu.Function(code, kernel.name))
        return found

    # ---- what is asked of the device ---------------------------------------------------------------------------------
    def asked(self, stream: int, what: str, addresses: list[int]) -> None:
        found = {block for address in addresses if (block := self.block(address)) is not None}
        if stream in self.kept:
            self.kept[stream] |= found
        else:
            self.ordering.asked(stream, what, found)

    def block(self, address: int) -> int | None:
        """The block that an address is in."""
        return next((first for first, size in self.blocks.items() if first <= address < first + size), None)

    def launched(self, kernel: int, *given: Any) -> int:
        stream = given[7] or 0
        known = _Parameters.from_address(kernel)
        places = (ctypes.c_void_p * known.count).from_address(given[8])
        words = [ctypes.c_uint64.from_address(places[k]).value for k in range(known.count) if known.sizes[k] == 8]
        self.asked(stream, "a kernel", words)
        self.log.append(("kernel", stream))
        device = self.device
        return int(calls.LAUNCH(device.functions.launch)(kernel, *given[:7], device.stream, *given[8:]))

    def copied(self, target: int, source: int, size: int, stream: int | None) -> int:
        self.asked(stream or 0, "a copy", [target, source])
        self.log.append(("copy", stream or 0))
        return int(COPY(self.device.functions.copy)(target, source, size, self.device.stream))

    def multiplied(self, handle: int, *given: Any) -> int:
        self.note("a product", [given[k] for k in (6, 10, 15)])
        return int(calls.PRODUCT(self.device.product)(self.device.blas, *given))

    def note(self, what: str, addresses: list[int]) -> int:
        self.asked(self.blas_stream, what, addresses)
        return 0

    def set_stream(self, handle: Any, stream: Any) -> int:
        self.blas_stream = stream.value or 0
        return 0

    def get_stream(self, handle: Any, stream: Any) -> int:
        stream._obj.value = self.blas_stream
        return 0

    def memcpy(self, target: int, source: int, size: int, kind: int, stream: int) -> None:
        self.asked(stream, "a copy", [target, source])
        super().memcpy(target, source, size, kind, stream)

    def waited(self, stream: int) -> None:
        self.log.append(("wait", stream))
        self.ordering.waited(stream)

    def synchronize(self) -> None:
        super().synchronize()
        self.ordering.waited_for_all()

    def recorded(self, event: Any, stream: Stream) -> None:
        super().recorded(event, stream)
        event.clock = self.ordering.recorded(stream.ptr)

    def is_done(self, event: Any) -> bool:
        if event.stream in self.finished:
            self.ordering.told(event.clock)
        return event.stream in self.finished

    # ---- arrays of other libraries -----------------------------------------------------------------------------------
    def asarray(self, shown: Any) -> Any:
        interface = shown.__cuda_array_interface__
        return self.view(interface["shape"], interface["typestr"], interface["data"][0], shown)

    def from_dlpack(self, exported: Any) -> Any:
        value = exported.__dlpack__()
        self.streams[-1].wait_event(value.stream.record())
        return self.view(value.shape, value.dtype, value.address, value)

    def view(self, shape: tuple[int, ...], dtype: Any, address: int, owner: Any) -> Any:
        return self.ndarray(shape, dtype, SimpleNamespace(ptr=address, owner=owner))

    # ---- memory ------------------------------------------------------------------------------------------------------
    def alloc(self, size: int) -> Any:
        waiting = self.free.get((self.streams[-1].ptr, size))
        if waiting:
            return _Pooled(self, waiting.pop(), size, self.streams[-1].ptr)
        address = self.device.allocate(size)
        self.blocks[address] = size
        return _Pooled(self, address, size, self.streams[-1].ptr)

    def array(self, value: Any) -> Any:
        """An array that nothing writes to from now on."""
        value = np.asarray(value)
        made = self.ndarray(value.shape, value.dtype, self.alloc(max(value.nbytes, 1)))
        self.device.upload(made.data.ptr, value.ctypes.data, value.nbytes)
        self.ordering.shared.add(made.data.ptr)
        return made


class _Pooled:
    """A block, which goes back to the stream that it was allocated on."""

    def __init__(self, fake: WorkingCupy, ptr: int, size: int, stream: int) -> None:
        self.fake, self.ptr, self.size, self.stream = fake, ptr, size, stream

    def __del__(self) -> None:
        self.fake.ordering.shared.discard(self.ptr)
        self.fake.free.setdefault((self.stream, self.size), []).append(self.ptr)
