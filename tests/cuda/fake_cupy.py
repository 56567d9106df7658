"""As much of CuPy as the driver uses, and of CUDA's C functions, on the emulated device; `log` tells what was asked."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

from dlang.runtime.emulation.driver import EmulatedDriver


class CUDARuntimeError(RuntimeError):
    status = 1


class Stream:
    def __init__(self, fake: FakeCupy, ptr: int) -> None:
        self.fake, self.ptr, self.mode = fake, ptr, None

    def wait_event(self, event: _Event) -> None:
        self.fake.log.append(("after", self.ptr, event.stream))

    def begin_capture(self, mode: int) -> None:
        self.mode = mode
        self.fake.log.append(("capture", self.ptr))
        self.fake.device.begin()

    def end_capture(self) -> Any:
        self.fake.log.append(("end", self.ptr))
        if self.fake.spoiled:
            self.fake.device.abandon()
            raise CUDARuntimeError
        graph = self.fake.device.end()

        def launch(stream: Stream) -> None:
            self.fake.log.append(("launch", stream.ptr))
            graph.launch()

        return SimpleNamespace(launch=launch)


class _Streams:
    """The class of streams, as what is asked of it: streams that it makes, and those of other libraries."""

    def __init__(self, fake: FakeCupy) -> None:
        self.fake = fake

    def __call__(self, non_blocking: bool) -> Stream:
        assert non_blocking
        return self.fake.stream_class(self.fake, self.fake.private)  # all of them at one address

    def from_external(self, other: Any) -> Stream:
        version, handle = other.__cuda_stream__()
        assert version == 0
        return self.fake.stream_class(self.fake, handle)


class FakeCupy:
    """One GPU of compute capability 9.0; current: the number of the current one. spoiled: graphs can't be made."""

    stream_class: type[Stream] = Stream

    def __init__(self) -> None:
        self.device = EmulatedDriver()
        self.log: list[Any] = []
        self.current = 0
        self.context = 0  # of the calling thread
        self.kind = 0  # of memory of the host: 0 is what CUDA does not know
        self.spoiled = False
        self.broken = 0  # what CUDA says when work has been done
        self.streams = [self.stream_class(self, 0)]
        self.private = 7000
        runtime = SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError, cudaDevAttrMultiProcessorCount=16, streamCaptureModeThreadLocal=1,
            cudaDevAttrMaxThreadsPerMultiProcessor=39,
            getDevice=lambda: self.current, getDeviceCount=lambda: 1, free=self.make_context,
            deviceGetAttribute=lambda attribute, number: {16: 132, 39: 1536}[attribute], memcpyAsync=self.memcpy,
            streamSynchronize=lambda stream: self.log.append(("wait", stream)),
            getDeviceProperties=lambda number: {"name": b"a GPU"},
            memGetInfo=lambda: (self.device.capacity, self.device.capacity), deviceSynchronize=self.synchronize,
            pointerGetAttributes=lambda address: SimpleNamespace(type=self.kind),
            eventElapsedTime=lambda first, later: (_noted(later) - _noted(first)) / 1000,
        )  # fmt: skip
        driver = SimpleNamespace(ctxGetCurrent=lambda: self.context)
        self.cuda = SimpleNamespace(
            runtime=runtime, driver=driver, alloc=self.alloc, Stream=_Streams(self),
            Device=lambda number: _Device(self, number),
            get_current_stream=lambda number=-1: self.streams[-1], Event=lambda **options: _Event(self),
        )  # fmt: skip
        self.library = SimpleNamespace(
            cuCtxSetCurrent=self.set_context,
            cuStreamSynchronize=self.done,
            cuGetErrorName=_text,
            cuGetErrorString=_text,
        )
        for name, ours in (
            ("cuLaunchKernel", "dl_launch"), ("cuMemcpyDtoDAsync_v2", "dl_copy"), ("cuMemsetD8Async", "dl_fill"),
            ("cuEventRecord", "dl_record"),
        ):  # fmt: skip
            setattr(self.library, name, getattr(self.device.library, ours))
        self.noted = 0
        self.library.cuEventRecord = _RECORD(self.record)
        self.blas = SimpleNamespace(
            cublasCreate_v2=self.create, cublasSetMathMode=self.logged("mode"),
            cublasSetStream_v2=self.logged("stream"), cublasSetWorkspace_v2=self.logged("workspace"),
            cublasGemmStridedBatchedEx_64=self.device.library.dl_product, cublasGetStatusName=_name,
        )  # fmt: skip

    def make_context(self, address: int) -> None:
        self.context = 99

    def done(self, stream: Any) -> int:
        self.log.append(("done", stream.value or 0))
        return self.broken

    def set_context(self, context: Any) -> int:
        self.context = context.value
        self.log.append(("context", context.value))
        return 0

    def record(self, event: int, stream: int | None) -> int:
        """Of two events the later one is a microsecond after the first."""
        self.log.append(("record", stream or 0))
        self.noted += 1
        ctypes.c_int64.from_address(event).value = self.noted
        return 0

    def alloc(self, size: int) -> Any:
        address = self.device.allocate(size)
        self.log.append(("alloc", size))
        return _Block(self.device, address)

    def recorded(self, event: _Event, stream: Stream) -> None:
        assert self.current == 0, "the event is another GPU's"
        event.stream = stream.ptr

    def is_done(self, event: _Event) -> bool:
        return True

    def synchronize(self) -> None:
        self.log.append(("wait", None))

    def memcpy(self, target: int, source: int, size: int, kind: int, stream: int) -> None:
        assert stream == self.streams[-1].ptr
        (self.device.upload if kind == 1 else self.device.download)(target, source, size)

    def create(self, handle: Any) -> int:
        self.log.append("create")
        handle._obj.value = 5000 + self.log.count("create")
        return 0

    def logged(self, name: str) -> Any:
        def call(handle: Any, *args: Any) -> int:
            self.log.append((name, *[getattr(a, "value", a) or 0 for a in args]))
            return 0

        return call


_RECORD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Device:
    """The current one, where it is entered."""

    compute_capability = "90"

    def __init__(self, fake: FakeCupy, number: int) -> None:
        self.fake, self.number = fake, number

    def __enter__(self) -> None:
        self.before, self.fake.current = self.fake.current, self.number

    def __exit__(self, *error: object) -> None:
        self.fake.current = self.before


class _Event:
    def __init__(self, fake: FakeCupy) -> None:
        self.fake, self.stream = fake, -1
        self.word = ctypes.c_int64(-1)
        self.ptr = ctypes.addressof(self.word)

    @property
    def done(self) -> bool:
        return self.fake.is_done(self)

    def record(self, stream: Stream) -> None:
        self.fake.recorded(self, stream)


def _noted(event: int) -> int:
    found = ctypes.c_int64.from_address(event).value
    assert found >= 0, "the device has not come to it"
    return found


class _Block:
    def __init__(self, device: EmulatedDriver, ptr: int) -> None:
        self.device, self.ptr = device, ptr

    def __del__(self) -> None:
        self.device.free(self.ptr)


def _name(status: int) -> bytes:
    return f"BLAS_{status}".encode()


def _text(status: int, text: Any) -> int:
    text._obj.value = f"ERROR_{status}".encode()
    return 0
