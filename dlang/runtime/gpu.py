"""The GPU that is there, through CuPy and the libraries that CuPy uses, as a driver; imported only where it is needed.

Memory is that of CuPy's pool, work is on its current stream, and arrays of other libraries that are on the device
(DLPack, `__cuda_array_interface__`) are seen there and never copied to the host; their owners may use them anew only
when the work that reads them is done (`Driver.end_loans`). A graph is captured on a stream of its own. Products of f32
have whole operands unless `DLANG_TF32=1` says otherwise, and those of half precision are added up in f32. A kernel that
runs can't be interrupted.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from dlang.cache.store import Store, digest, user_store
from dlang.codegen.abi import FOREIGN, LARGEST_INDEX, Kernel
from dlang.codegen.cuda.printing import device_text, source
from dlang.diagnostics import error
from dlang.host import cuda
from dlang.runtime.devices import PRODUCT, DeviceArray, Functions, Graphs, Misbehaviour, Stream, does_not_compile

OUT_OF_MEMORY, BLAS_ALLOC_FAILED = 2, 3
UNKNOWN = 0  # memory of the host that CUDA copies before it returns; of any other the device reads what it will
TO_DEVICE, TO_HOST = 1, 2
OF_EACH_THREAD = 2
"""The handle of a stream of which every thread has another one."""
# of cuBLAS: sums are kept in the type of their products
WHOLE_SUMS, TENSOR_FLOAT = 16, 3
WORKSPACES = {9: 32 << 20, 10: 32 << 20}
"""Bytes that products of a graph work in, by the major compute capability; others take 4 MiB."""
TF32 = "DLANG_TF32"
"""The environment variable with which products of f32 may round their operands to 10 bits."""


@dataclass(eq=False)
class _Handle:
    """A handle of cuBLAS that one thread has. idle: what threads had that have ended."""

    number: int
    idle: list[int]

    def __del__(self) -> None:
        self.idle.append(self.number)


@dataclass(eq=False)
class _Thread(threading.local):
    """The state of a thread: its handle of cuBLAS and the stream of that, and the stream whose work is kept.

    workspace: the address of the memory that products of a graph work in. mark: this is no other thread's.
    """

    blas: _Handle | None = None
    blas_stream: int | None = None
    kept: Any = None
    workspace: int | None = None
    mark: object = field(default_factory=object)


@dataclass(eq=False)
class CudaDriver:
    """CuPy's current device. Raises `DlangError` where there is none, or no CuPy.

    number: of the device. blocks: what is allocated, by its address. loans: arrays of other libraries that may still be
    read, with the events after which they are not. modules: loaded ones, by the key of their code;
    names: what kernels are called, by their handles. steps: functions with which work is done step by step, if it is.
    process: the one that may use this.
    """

    cupy: Any = field(init=False)
    number: int = field(init=False)
    name: str | None = field(init=False)
    largest_index: int = field(init=False, default=LARGEST_INDEX)
    capability: int = field(init=False)
    context: int = field(init=False)
    multiprocessors: int = field(init=False)
    threads: int = field(init=False)
    makes_graphs: bool = field(init=False)
    capacity: int = field(init=False)
    graphs: Graphs = field(init=False, default_factory=Graphs)
    functions: Functions = field(init=False)
    blocks: dict[int, Any] = field(init=False, default_factory=dict)
    loans: deque[tuple[Any, Any]] = field(init=False, default_factory=deque)
    modules: dict[str, int] = field(init=False, default_factory=dict)
    names: dict[int, str] = field(init=False, default_factory=dict)
    steps: Steps | None = field(init=False, default=None)
    process: int = field(init=False)
    thread: _Thread = field(init=False, default_factory=_Thread)
    idle: list[int] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.cupy = cuda.cupy()
        runtime = self.cupy.cuda.runtime
        self.number, self.process = runtime.getDevice(), os.getpid()
        runtime.free(0)  # makes its context
        self.context = self.cupy.cuda.driver.ctxGetCurrent()
        self.capability = int(self.cupy.cuda.Device(self.number).compute_capability)
        self.multiprocessors, threads = [
            runtime.deviceGetAttribute(attribute, self.number)
            for attribute in (runtime.cudaDevAttrMultiProcessorCount, runtime.cudaDevAttrMaxThreadsPerMultiProcessor)
        ]
        self.threads = self.multiprocessors * threads
        _, self.capacity = runtime.memGetInfo()
        self.name = runtime.getDeviceProperties(self.number)["name"].decode()
        self.steps = Steps(self.names) if wanted() else None
        self.makes_graphs = self.steps is None
        names = ("cuLaunchKernel", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async", "cuEventRecord")
        launch, *others = [cuda.address(cuda.driver(), name) for name in names]
        if self.steps is not None:
            launch = cuda.address_of(self.steps.launch)
        self.functions = Functions(launch, *others)

    # ---- streams -----------------------------------------------------------------------------------------------------
    @property
    def stream(self) -> int:
        """CuPy's current one, or that of a graph under way. Raises `DlangError` if another device is current."""
        self.enter()
        return int(self._stream.ptr)

    @property
    def current(self) -> Stream:
        """The same, with CuPy's object, which keeps it there. Raises `DlangError` if another device is current."""
        self.enter()
        stream = self._stream
        number = int(stream.ptr)
        return Stream(number, self.thread.mark if number == OF_EACH_THREAD else None, stream)

    def follow(self, first: Stream, later: Stream) -> None:
        """Makes a stream follow another by an event; waits for that of another thread, as it looks like this one's."""
        if first == later or os.getpid() != self.process:
            return
        with self.cupy.cuda.Device(self.number):
            if any(stream.thread not in (None, self.thread.mark) for stream in (first, later)):
                self.cupy.cuda.runtime.deviceSynchronize()
                return
            event = self.cupy.cuda.Event(disable_timing=True)
            event.record(first.own)
            later.own.wait_event(event)

    @property
    def _stream(self) -> Any:
        """The stream as CuPy's object."""
        kept = self.thread.kept
        return self.cupy.cuda.get_current_stream(self.number) if kept is None else kept

    def enter(self) -> None:
        """Has the calling thread use the device: functions of the driver do not see to that."""
        if os.getpid() != self.process:
            raise cuda.forked()
        device = self.cupy.cuda.runtime.getDevice()
        if device != self.number:
            message = f"what was compiled for GPU {self.number} is called while GPU {device} is the current one"
            help = (f"call it inside `with cupy.cuda.Device({self.number}):`",)
            raise error(cuda.NO_DEVICE, message, None, help=help)
        if self.cupy.cuda.driver.ctxGetCurrent() != self.context:
            _check(cuda.driver().cuCtxSetCurrent(ctypes.c_void_p(self.context)))

    # ---- products ----------------------------------------------------------------------------------------------------
    @property
    def product(self) -> int:
        """cublasGemmStridedBatchedEx_64. Raises `DlangError` if there is no cuBLAS."""
        if self.steps is not None:
            return cuda.address_of(self.steps.product)
        return cuda.address(cuda.blas().library, "cublasGemmStridedBatchedEx_64")

    @property
    def blas(self) -> int:
        """The handle of this thread, which works on its stream. Raises `DlangError` if there is no cuBLAS."""
        library, thread, stream = cuda.blas(), self.thread, self.stream
        if thread.blas is None:
            self.refuse("cuBLAS is started")
            thread.blas = _Handle(self.idle.pop() if self.idle else _opened(), self.idle)
        handle = _pointer(thread.blas.number)
        if stream != thread.blas_stream:  # which takes the workspace away
            library.call("cublasSetStream_v2", handle, _pointer(stream))
            thread.blas_stream = stream
            if thread.workspace is not None:
                pointer, size = _pointer(thread.workspace), ctypes.c_size_t(self.workspace)
                library.call("cublasSetWorkspace_v2", handle, pointer, size)
        return thread.blas.number

    @property
    def workspace(self) -> int:
        """The size of the workspace that cuBLAS would allocate itself."""
        return WORKSPACES.get(self.capability // 10, 4 << 20)

    # ---- kernels -----------------------------------------------------------------------------------------------------
    def load(self, kernels: Sequence[Kernel], wide: bool = False) -> list[int]:
        """Handles of kernels; wide: whether their indices are. Raises `DlangError` where NVRTC is missing."""
        if not kernels:
            return []
        self.enter()
        driver = self.cupy.cuda.driver
        handles = []
        for kernel, function in zip(kernels, compiled(kernels, self.capability, wide), strict=True):
            code = function.code
            if code.key not in self.modules:
                self.modules[code.key] = driver.moduleLoadData(code.content)
            handles.append(int(driver.moduleGetFunction(self.modules[code.key], function.name)))
            self.names[handles[-1]] = f"the kernel `{kernel.name}`"
        return handles

    # ---- memory ------------------------------------------------------------------------------------------------------
    def allocate(self, size: int) -> int:
        """The address of so many bytes of CuPy's pool. Raises MemoryError."""
        self.refuse("memory is allocated")
        block = self.cupy.cuda.alloc(max(size, 1))
        self.blocks[block.ptr] = block
        return int(block.ptr)

    def free(self, address: int) -> None:
        """Gives it back to the pool, which hands it out again on the same stream."""
        self.refuse("memory is given back")
        del self.blocks[address]

    def upload(self, target: int, source: int, size: int) -> None:
        """Copies from the host. CUDA has read its memory when it returns, unless that is pinned or managed."""
        self.refuse("the host is read")
        runtime, stream = self.cupy.cuda.runtime, self.stream
        runtime.memcpyAsync(target, source, size, TO_DEVICE, stream)
        if runtime.pointerGetAttributes(source).type != UNKNOWN:
            runtime.streamSynchronize(stream)

    def download(self, target: int, source: int, size: int, partly: bool = False) -> None:
        """Copies to the host; partly: that some was never written is nothing to a GPU."""
        self.refuse("the host is written")
        runtime, stream = self.cupy.cuda.runtime, self.stream
        runtime.memcpyAsync(target, source, size, TO_HOST, stream)
        runtime.streamSynchronize(stream)

    def wait(self) -> None:
        """Until the stream has done everything."""
        self.refuse("the host waits")
        self.cupy.cuda.runtime.streamSynchronize(self.stream)

    def error(self, status: int) -> Exception:
        """Returns the exception for a status of CUDA, or of cuBLAS, which numbers them differently."""
        text = cuda.status_text(status)
        if self.thread.blas:
            text += f" (of cuBLAS: {cuda.blas().text(status)})"
        if status == OUT_OF_MEMORY or (status == BLAS_ALLOC_FAILED and self.thread.blas):
            return MemoryError(text)
        if self.steps is None:
            return RuntimeError(f"the GPU fails: {text}; DLANG_CUDA_SYNC=1 in the environment tells in which kernel")
        where = f" in {self.steps.failed}" if self.steps.failed else ""
        return RuntimeError(f"the GPU fails{where}: {text}")

    # ---- arrays of Python --------------------------------------------------------------------------------------------
    def given(self, value: Any, dtype: str) -> DeviceArray | None:
        """An array of CuPy, or what shows itself as one; it may be a copy in order."""
        loan: cuda.Loan | None = None
        if not isinstance(value, self.cupy.ndarray):
            loan = cuda.on_device(self.cupy, value, self._stream)
            if loan is None:
                return None
        array = value if loan is None else loan.array
        wanted = cuda.numpy_dtype(dtype)
        if wanted is None or array.dtype != wanted or array.device.id != self.number:
            return None
        if not array.flags.c_contiguous:
            array = self.cupy.ascontiguousarray(array)
        return DeviceArray(int(array.data.ptr), array, loan)

    def end_loans(self, loans: Sequence[cuda.Loan]) -> None:
        """Streams of other libraries wait; where they are not known, the arrays are kept until the device is done."""
        self._forget_loans()
        if not loans:
            return
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(self._stream)
        for loan in loans:
            if loan.stream is None:
                self.loans.append((event, loan.array))
            elif loan.stream != self._stream:
                loan.stream.wait_event(event)

    def _forget_loans(self) -> None:
        """Drops the loans whose events the device has reached."""
        while self.loans and self.loans[0][0].done:
            try:
                self.loans.popleft()
            except IndexError:  # another thread was quicker
                return

    def result(self, address: int, shape: Sequence[int], dtype: str) -> Any:
        """An array of CuPy with what was allocated."""
        unknown = dtype == cuda.BF16
        array = self.cupy.ndarray(tuple(shape), "uint16" if unknown else dtype, self.blocks.pop(address))
        return cuda.bf16_array(self.cupy, array) if unknown else array

    # ---- times -------------------------------------------------------------------------------------------------------
    def marks(self, count: int) -> CudaMarks:
        """Events."""
        self.enter()
        return CudaMarks(self.cupy.cuda.runtime, [self.cupy.cuda.Event() for _ in range(count)])

    # ---- graphs ------------------------------------------------------------------------------------------------------
    @property
    def making(self) -> bool:
        """Tells whether this thread has work kept."""
        return self.thread.kept is not None

    def begin(self, workspace: int | None = None) -> None:
        """Begins a graph: this thread gets a stream of its own, and all that is asked of it is recorded."""
        self.refuse("another graph is begun")
        self.enter()
        thread = self.thread
        stream = self.cupy.cuda.Stream(non_blocking=True)
        stream.begin_capture(self.cupy.cuda.runtime.streamCaptureModeThreadLocal)
        thread.kept, thread.workspace = stream, workspace
        if workspace is not None:
            _ = self.blas  # on that stream from now on

    def end(self) -> CudaGraph:
        """Gives the work that was kept. Raises MemoryError."""
        stream = self.thread.kept
        self._forget()
        try:
            return CudaGraph(self, stream.end_capture())
        except self.cupy.cuda.runtime.CUDARuntimeError as e:
            if e.status == OUT_OF_MEMORY:
                raise MemoryError(str(e)) from None
            raise

    def abandon(self) -> None:
        """Forgets what was kept, also if something was asked for that can't be."""
        stream = self.thread.kept
        self._forget()
        with suppress(self.cupy.cuda.runtime.CUDARuntimeError):
            stream.end_capture()

    def _forget(self) -> None:
        self.thread.kept = self.thread.workspace = None
        self.thread.blas_stream = None  # another stream may have its address

    def refuse(self, what: str) -> None:
        """CuPy's pool would hand out memory while a graph is made, which would be another's when that is launched."""
        if self.thread.kept is not None:
            raise RuntimeError(f"{what} while a graph is made")


@dataclass(eq=False)
class CudaMarks:
    """Events of CUDA, of CuPy's kind."""

    runtime: Any
    events: list[Any]
    handles: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.handles = [int(event.ptr) for event in self.events]

    def elapsed(self, first: int, later: int) -> float:
        """Seconds between two."""
        return float(self.runtime.eventElapsedTime(self.handles[first], self.handles[later])) * 1e-3


@dataclass(eq=False)
class CudaGraph:
    """The work that a GPU is given at once, kept to be done again."""

    driver: CudaDriver
    graph: Any

    def launch(self) -> None:
        """Launches the graph on the current stream."""
        self.driver.refuse("a graph is launched")
        self.graph.launch(self.driver.current.own)


def _pointer(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)


def _opened() -> int:
    """A new handle of cuBLAS."""
    library, handle = cuda.blas(), ctypes.c_void_p()
    library.call("cublasCreate_v2", ctypes.byref(handle))
    assert handle.value is not None
    mode = TENSOR_FLOAT if os.environ.get(TF32, "0") not in ("", "0") else 0
    library.call("cublasSetMathMode", handle, mode | WHOLE_SUMS)
    return handle.value


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"the GPU fails: {cuda.status_text(status)}")


VARIABLE = "DLANG_CUDA_SYNC"
"""The environment variable that has work done in this way."""

_UNSIGNED, _ADDRESS = ctypes.c_uint, ctypes.c_void_p
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, *[_UNSIGNED] * 7, _ADDRESS, _ADDRESS, _ADDRESS)


def wanted() -> bool:
    """Tells whether the environment asks for it."""
    return os.environ.get(VARIABLE, "0") not in ("", "0")


@dataclass(eq=False)
class Steps:
    """Functions for machine code in the place of CUDA's and cuBLAS's. names: of kernels, by their handles; failed: what
    was under way when the device failed first, "" before."""

    names: Mapping[int, str]
    failed: str = ""
    launch: Any = field(init=False)
    product: Any = field(init=False)

    def __post_init__(self) -> None:
        self.launch = _LAUNCH(self._launch)
        self.product = PRODUCT(self._product)

    def _launch(self, kernel: int, *given: Any) -> int:
        library, (*sizes, shared, stream, parameters, extra) = cuda.driver(), given
        places = [ctypes.c_void_p(place) for place in (stream, parameters, extra)]
        status = library.cuLaunchKernel(ctypes.c_void_p(kernel), *map(_UNSIGNED, (*sizes, shared)), *places)
        return self._ended(status, stream, self.names.get(kernel, "a kernel"))

    def _product(self, handle: int, *given: Any) -> int:
        library, stream = cuda.blas().library, ctypes.c_void_p()
        function = PRODUCT(cuda.address(library, "cublasGemmStridedBatchedEx_64"))
        if status := function(handle, *given):
            return int(status)
        library.cublasGetStream_v2(ctypes.c_void_p(handle), ctypes.byref(stream))
        rows, columns, inner = given[2:5]
        return self._ended(0, stream.value, f"a product of {rows} x {columns} elements, sums of {inner}")

    def _ended(self, status: int, stream: int | None, what: str) -> int:
        """The status of a step when it has been done."""
        status = status or cuda.driver().cuStreamSynchronize(ctypes.c_void_p(stream))
        if status and not self.failed:
            self.failed = what
        return int(status)


# ---- kernels ---------------------------------------------------------------------------------------------------------
# Kernels as machine code of a GPU, made by NVIDIA's compiler. What was made once is kept.
#
# All kernels that are not known yet are compiled together, for the compiler takes as long to start as for a kernel.
# Each is called after its text, so that it is known again in another program, where it has another number. Where all
# are known NVIDIA's compiler is not even loaded: what another version of it has made is as right.

# a product and the sum that it is for become one operation where both stand together, as on the CPU
OPTIONS = ("--std=c++17", "--fmad=true", "--minimal", "--split-compile=0", "--disable-warnings")
WIDE = "-DDL_WIDE"
"""The option with which kernels have wide indices."""


@dataclass(frozen=True, slots=True)
class Code:
    """A module of machine code, or of code for a virtual machine that the driver compiles."""

    key: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel in a module, by its name there."""

    code: Code
    name: str


def compiled(kernels: Sequence[Kernel], capability: int, wide: bool = False) -> list[Function]:
    """Kernels for a GPU of a compute capability, 90 for 9.0; wide: whether their indices are.

    Raises `DlangError` where there is no compiler for it, and Misbehaviour for kernels that are wrong.
    """
    options = (*OPTIONS, WIDE) if wide else OPTIONS
    setting = digest(device_text(), str(capability), *options)
    named = [kernel if kernel.form == FOREIGN else _named(kernel) for kernel in kernels]
    foreign = {kernel: _foreign(kernel, capability, setting, options) for kernel in named if kernel.form == FOREIGN}
    keys = {kernel.name: digest(setting, kernel.text) for kernel in named if kernel.form != FOREIGN}
    store, codes, functions = user_store(), dict[str, Code](), dict[str, Function]()
    for name, key in keys.items():
        if (code := _kept(store, key, codes)) is not None:
            functions[name] = Function(code, name)
    missing = {kernel.name: kernel for kernel in named if kernel.form != FOREIGN and kernel.name not in functions}
    if missing:
        content = _compile(source(tuple(missing.values())), capability, options)
        code = Code(digest(*[keys[name] for name in missing]), content)
        store.put("cubin", code.key, content)
        for name in missing:
            store.put("kernel", keys[name], code.key.encode())
            functions[name] = Function(code, name)
    return [foreign[kernel] if kernel.form == FOREIGN else functions[kernel.name] for kernel in named]


def _foreign(kernel: Kernel, capability: int, setting: str, options: Sequence[str]) -> Function:
    """A kernel that a program brings along, in a module of its own. Raises `DlangError` if its text is wrong."""
    store, key = user_store(), digest(setting, kernel.name, kernel.text)
    content = store.get("cubin", key)
    if content is None:
        try:
            content = _compile(kernel.text, capability, options)
        except Misbehaviour as e:
            raise does_not_compile(kernel, str(e)) from None
        store.put("cubin", key, content)
    return Function(Code(key, content), kernel.name)


def target_of(capability: int, supported: Sequence[int]) -> str:
    """Returns the target for a GPU: its machine code, or code for the closest virtual machine that both know.

    Raises `DlangError` for a GPU that the compiler does not know any more.
    """
    if capability in supported:
        return f"sm_{capability}"
    older = [known for known in supported if known < capability]
    if not older:
        message = (
            f"the GPU has compute capability {_shown(capability)}, and NVRTC compiles for {_shown(min(supported))}"
        )
        raise error(cuda.NO_DEVICE, f"{message} and later", None, help=(cuda.EMULATE,))
    return f"compute_{max(older)}"


def _shown(capability: int) -> str:
    return f"{capability // 10}.{capability % 10}"


def _named(kernel: Kernel) -> Kernel:
    """A kernel with a name that its text has given it."""
    text = kernel.text.replace(kernel.name, "@")
    name = f"dl_{kernel.form}_{digest(text)[:16]}"
    return replace(kernel, name=name, text=text.replace("@", name))


def _kept(store: Store, key: str, codes: dict[str, Code]) -> Code | None:
    """The module that has a kernel."""
    whole = store.get("kernel", key)
    if whole is None:
        return None
    name = whole.decode()
    if name not in codes:
        content = store.get("cubin", name)
        if content is None:
            return None
        codes[name] = Code(name, content)
    return codes[name]


def _compile(text: str, capability: int, options: Sequence[str]) -> bytes:
    nvrtc = cuda.nvrtc()
    target = target_of(capability, nvrtc.getSupportedArchs())
    program = nvrtc.createProgram(text, "kernels.cu", [], [])
    try:
        nvrtc.compileProgram(program, (f"--gpu-architecture={target}", *options))
        content = nvrtc.getCUBIN(program) if target.startswith("sm_") else nvrtc.getPTX(program)
    except nvrtc.NVRTCError:
        log = nvrtc.getProgramLog(program)
        raise Misbehaviour(f"the kernels do not compile:\n{log}\n{text}") from None
    finally:
        nvrtc.destroyProgram(program)
    # CuPy takes the last byte for the end of a text
    return (content.encode() if isinstance(content, str) else bytes(content)) + b"\0"
