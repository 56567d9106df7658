"""The emulated device as a driver: its memory is apart from that of the host, and what is asked of it is done at once.

What would be undefined on a device is an error here. What is asked between `begin` and `end` is kept, as CUDA does.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import tempfile
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from dlang.cache.store import digest, user_store
from dlang.codegen.abi import FOREIGN, LARGEST_INDEX, Kernel
from dlang.codegen.cuda.printing import source
from dlang.diagnostics import error
from dlang.host.cuda import address_of
from dlang.host.half import bf16_of_bits
from dlang.host.platform import portable
from dlang.lazy_modules import np, subprocess
from dlang.runtime.devices import DeviceArray, Functions, Graphs, Misbehaviour, Stream, does_not_compile

CAPACITY = 4 << 30
THREADS = 2048
"""The number that a multiprocessor runs at once."""
OUT_OF_MEMORY = 2


@dataclass(eq=False)
class EmulatedDriver:
    """A device of few multiprocessors. Raises `DlangError` where there is no compiler for its kernels.

    order: in which blocks run, and the threads of one between two barriers: 0 from the first, 1 from the last, others
    at random. capacity: its memory in bytes. largest_index: no narrow index may be larger. keeps: results stay on the
    device, as arrays of it; they become arrays of NumPy otherwise. makers: threads that make a graph.
    """

    order: int = 0
    capacity: int = CAPACITY
    multiprocessors: int = 2
    largest_index: int = LARGEST_INDEX
    keeps: bool = False
    name: str | None = field(init=False, default=None)
    makes_graphs: bool = field(init=False, default=True)
    threads: int = field(init=False)
    functions: Functions = field(init=False)
    product: int = field(init=False)
    blas: int = field(init=False)
    library: Any = field(init=False)
    device: int = field(init=False)
    kernels: dict[int, Kernel] = field(init=False, default_factory=dict)
    graphs: Graphs = field(init=False, default_factory=Graphs)
    makers: set[int] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.library = _library()
        self.threads = self.multiprocessors * THREADS
        self.device = self.blas = self.library.dl_device_open(self.capacity)
        weakref.finalize(self, self.library.dl_device_close, self.device)
        names = ("dl_launch", "dl_copy", "dl_fill", "dl_record")
        self.functions = Functions(*[address_of(getattr(self.library, name)) for name in names])
        self.product = address_of(self.library.dl_product)
        self.reorder(self.order)
        self.limit(self.largest_index)

    def reorder(self, order: int) -> None:
        """Sets the order in which threads run."""
        self.order = order
        self.library.dl_device_order(self.device, order)

    def limit(self, largest_index: int) -> None:
        """Sets the largest index that counts as narrow."""
        self.largest_index = largest_index
        self.library.dl_device_index(self.device, largest_index)

    @property
    def stream(self) -> int:
        """The only one."""
        return self.device

    @property
    def current(self) -> Stream:
        """The same."""
        return Stream(self.device)

    def follow(self, first: Stream, later: Stream) -> None:
        """Everything is done in order already."""

    @property
    def used(self) -> int:
        """How many bytes are allocated."""
        return int(self.library.dl_device_used(self.device))

    def load(self, kernels: Sequence[Kernel], wide: bool = False) -> list[int]:
        """Handles of kernels; wide: whether their indices are. Raises Misbehaviour if they do not compile."""
        if not kernels:
            return []
        generated = [kernel for kernel in kernels if kernel.form != FOREIGN]
        library_of_generated: Any = kernel_library(generated, wide) if generated else None
        handles = []
        for kernel in kernels:
            library = foreign_library(kernel) if kernel.form == FOREIGN else library_of_generated
            handles.append(ctypes.addressof(ctypes.c_char.in_dll(library, f"dl_kernel_{kernel.name}")))
        self.kernels.update(zip(handles, kernels, strict=True))
        return handles

    def allocate(self, size: int) -> int:
        """The address of so many bytes that were never written. Raises MemoryError, and Misbehaviour in a graph."""
        address = ctypes.c_uint64()
        status = self.library.dl_device_allocate(self.device, max(size, 1), ctypes.byref(address))
        if status == OUT_OF_MEMORY:
            raise MemoryError
        self._check(status)
        return address.value

    def free(self, address: int) -> None:
        """Gives back what was allocated."""
        self._check(self.library.dl_device_free(self.device, address))

    def upload(self, target: int, source: int, size: int) -> None:
        """Copies from the host."""
        self._check(self.library.dl_device_upload(self.device, target, source, size))

    def download(self, target: int, source: int, size: int, partly: bool = False) -> None:
        """Copies to the host what has been written; partly: and whatever is where nothing has been."""
        self._check(self.library.dl_device_download(self.device, target, source, size, partly))

    def wait(self) -> None:
        """Everything is done already."""
        self._check(self.library.dl_device_wait(self.device))

    def error(self, status: int) -> Exception:
        """Returns the exception for the last error, with the text of the kernel that caused it."""
        message = self.library.dl_device_message(self.device).decode()
        culprit = self.kernels.get(self.library.dl_device_culprit(self.device) or 0)
        text = "" if culprit is None else f"\n{culprit.text}"
        return Misbehaviour(f"{message or 'nothing is known of it'} (status {status}){text}")

    # ---- arrays of Python --------------------------------------------------------------------------------------------
    def given(self, value: Any, dtype: str) -> DeviceArray | None:
        """An array that is on this device already."""
        if not isinstance(value, EmulatedArray) or value.driver is not self or value.dtype != dtype:
            return None
        array = value if value.strides is None else value.copy()
        return DeviceArray(array.address, array)

    def end_loans(self, loans: Sequence[Any]) -> None:
        """Everything is done already."""

    def result(self, address: int, shape: Sequence[int], dtype: str) -> Any:
        """An array with what was allocated, which must all have been written; what NumPy does not have is in f32."""
        array = EmulatedArray(self, address, tuple(shape), dtype)
        copied = array.get()
        return array if self.keeps else copied

    # ---- times -------------------------------------------------------------------------------------------------------
    def marks(self, count: int) -> EmulatedMarks:
        """Returns marks that use the clock of the host."""
        return EmulatedMarks((ctypes.c_int64 * count)())

    # ---- graphs ------------------------------------------------------------------------------------------------------
    @property
    def making(self) -> bool:
        """Tells whether this thread makes a graph."""
        return threading.get_ident() in self.makers

    @property
    def workspace(self) -> int:
        """Products need none."""
        return 0

    def begin(self, workspace: int | None = None) -> None:
        """Begins a graph: what is asked for is recorded."""
        self._check(self.library.dl_device_begin(self.device))
        self.makers.add(threading.get_ident())

    def end(self) -> EmulatedGraph:
        """Ends that. Raises Misbehaviour if something was asked for that can't be kept."""
        graph = ctypes.c_void_p()
        self.makers.discard(threading.get_ident())
        self._check(self.library.dl_device_end(self.device, ctypes.byref(graph)))
        assert graph.value is not None
        return EmulatedGraph(self, graph.value)

    def abandon(self) -> None:
        """Ends that and forgets what was kept."""
        self.makers.discard(threading.get_ident())
        self._check(self.library.dl_device_end(self.device, None))

    def _check(self, status: int) -> None:
        if status:
            raise self.error(status)


@dataclass(eq=False)
class EmulatedMarks:
    """Words, in nanoseconds."""

    words: Any

    @property
    def handles(self) -> range:
        """Their addresses."""
        first = ctypes.addressof(self.words)
        return range(first, first + 8 * len(self.words), 8)

    def elapsed(self, first: int, later: int) -> float:
        """Seconds between two."""
        return float(self.words[later] - self.words[first]) * 1e-9


@dataclass(eq=False)
class EmulatedGraph:
    """Operations, with their parameters as they were. number: its address."""

    driver: EmulatedDriver
    number: int

    def __post_init__(self) -> None:
        weakref.finalize(self, self.driver.library.dl_graph_close, self.number)

    def launch(self) -> None:
        """Does them in order. Raises Misbehaviour."""
        status = self.driver.library.dl_graph_launch(self.driver.device, self.number)
        if status:
            raise self.driver.error(status)


@cache
def _library() -> Any:
    """The functions of all emulated devices."""
    library = driver_library()
    address, size, text = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p
    for name, restype, argtypes in (
        ("dl_device_open", address, [size]),
        ("dl_device_close", None, [address]),
        ("dl_device_order", None, [address, ctypes.c_uint]),
        ("dl_device_index", None, [address, ctypes.c_int64]),
        ("dl_device_message", text, [address]),
        ("dl_device_culprit", address, [address]),
        ("dl_device_used", size, [address]),
        ("dl_device_allocate", ctypes.c_int, [address, size, ctypes.POINTER(size)]),
        ("dl_device_free", ctypes.c_int, [address, size]),
        ("dl_device_upload", ctypes.c_int, [address, size, address, size]),
        ("dl_device_download", ctypes.c_int, [address, address, size, size, ctypes.c_int]),
        ("dl_device_wait", ctypes.c_int, [address]),
        ("dl_device_begin", ctypes.c_int, [address]),
        ("dl_device_end", ctypes.c_int, [address, address]),
        ("dl_graph_launch", ctypes.c_int, [address, address]),
        ("dl_graph_close", None, [address]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = restype, argtypes
    return library


# ---- arrays of Python ------------------------------------------------------------------------------------------------
# Arrays of Python on an emulated device, as CuPy has them on a GPU.

BF16 = "bfloat16"


@dataclass(eq=False)
class EmulatedArray:
    """An array that has memory of a device, or is a part of one. dtype: of NumPy, or `bfloat16`.

    strides: bytes from an element to the next of each axis, None for row-major order. whole: what it is a part of.
    """

    driver: EmulatedDriver
    address: int
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None
    whole: EmulatedArray | None = None

    def __post_init__(self) -> None:
        if self.whole is None:
            weakref.finalize(self, self.driver.free, self.address)

    @staticmethod
    def of(driver: EmulatedDriver, array: Any) -> EmulatedArray:
        """A copy of an array of the host. Raises MemoryError."""
        array = np.asarray(array, order="C")
        address = driver.allocate(array.nbytes)
        driver.upload(address, array.ctypes.data, array.nbytes)
        return EmulatedArray(driver, address, array.shape, array.dtype.name)

    @property
    def nbytes(self) -> int:
        """How many bytes its elements are."""
        return int(prod(self.shape) * np.dtype(memory_dtype(self.dtype)).itemsize)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        typestr = np.dtype(memory_dtype(self.dtype)).str
        data = (self.address, False)
        return {"shape": self.shape, "typestr": typestr, "data": data, "strides": self.strides, "version": 3}

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise TypeError("an array on a device is not converted to one of NumPy: `get` copies it")

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> EmulatedArray:
        """A part of it, by integers and slices, of an array in row-major order."""
        assert self.strides is None
        within: Any = np.empty(self.shape, memory_dtype(self.dtype))
        part = within[key] if isinstance(key, tuple) else within[(key, ...)]
        offset = part.__array_interface__["data"][0] - within.__array_interface__["data"][0]
        strides = None if part.flags.c_contiguous else part.strides
        return EmulatedArray(self.driver, self.address + offset, part.shape, self.dtype, strides, self)

    def copy(self) -> EmulatedArray:
        """A copy, in row-major order."""
        copy = EmulatedArray.of(self.driver, self._bits())
        copy.dtype = self.dtype
        return copy

    def astype(self, dtype: Any) -> EmulatedArray:
        """A copy with numbers of another dtype of NumPy."""
        return EmulatedArray.of(self.driver, self.get().astype(dtype))

    def get(self) -> Any:
        """A copy for the host; what NumPy does not have is in f32. Raises Misbehaviour if not all is written."""
        return bf16_of_bits(self._bits()) if self.dtype == BF16 else self._bits()

    def _bits(self) -> Any:
        """A copy for the host of what lies in memory, in row-major order."""
        if self.strides is None:
            out = np.empty(self.shape, memory_dtype(self.dtype))
            self.driver.download(out.ctypes.data, self.address, out.nbytes)
            return out
        assert self.whole is not None
        whole: Any = self.whole._bits()
        offset = self.address - self.whole.address
        return np.array(np.ndarray(self.shape, whole.dtype, whole, offset, self.strides), order="C")


def memory_dtype(dtype: str) -> str:
    """The dtype of NumPy that lies in memory as another does."""
    return "uint16" if dtype == BF16 else dtype


# ---- kernels ---------------------------------------------------------------------------------------------------------
# Kernels as a library of this processor, made by the C++ compiler of the system. What was made once is kept.

FOLDER = Path(__file__).parent
DRIVER = FOLDER / "driver.cpp"
NO_COMPILER = "E0902"
COMPILERS = ("c++", "g++", "clang++")
# products and sums stay two operations, as in the interpreter; memory is read as other types by what packs words
OPTIONS = (
    "-std=c++17", "-fPIC", "-shared", "-w", "-fno-exceptions", "-ffp-contract=off", "-fno-strict-aliasing",
    f"-I{FOLDER}",
)  # fmt: skip
VARIABLE = "CXX"
"""The environment variable that names the compiler, if it is another one."""


def kernel_library(kernels: Sequence[Kernel], wide: bool = False) -> Any:
    """The kernels as records (`Kernel` in `device.h`), `dl_kernel_` before their names; wide: if their indices are.

    Raises `DlangError` where there is no compiler, and Misbehaviour.
    """
    options = [*(["-DDL_PORTABLE"] if portable() else []), *(["-DDL_WIDE"] if wide else [])]
    return _linked(full_source(kernels), ["-Og", *options])


def driver_library() -> Any:
    """The functions of `driver.cpp`; raises `DlangError` where there is no compiler."""
    return _linked(DRIVER.read_text(encoding="utf-8"), ["-O2"])


def _linked(text: str, more: Sequence[str]) -> Any:
    options = [*OPTIONS, *more]
    headers = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.h"))]
    key = digest(text, *headers, compiler(), platform.machine(), *options)
    code = user_store().get("emulation", key)
    if code is None:
        code = _compiled(text, options)
        user_store().put("emulation", key, code)
    return _loaded(code)


def full_source(kernels: Sequence[Kernel]) -> str:
    """Returns the source to compile: the emulation, the very text of the kernels, and how each is started."""
    starts = "\n".join([f"DL_KERNEL({kernel.name})" for kernel in kernels])
    return f'#include "words.h"\n#line 1 "kernels.cu"\n{source(tuple(kernels))}\n{starts}\n'


def foreign_library(kernel: Kernel) -> Any:
    """The same for a kernel that a program brings along. Raises `DlangError` if its text is wrong."""
    text = f'#include "words.h"\n#line 1 "{kernel.name}.cu"\n{kernel.text}\nDL_KERNEL({kernel.name})\n'
    try:
        return _linked(text, ["-Og"])
    except Misbehaviour as e:
        raise does_not_compile(kernel, str(e)) from None


def compiler() -> str:
    """The C++ compiler of the system; raises `DlangError` if there is none."""
    named = os.environ.get(VARIABLE)
    for name in (named,) if named else COMPILERS:
        path = shutil.which(name)
        if path is not None:
            return path
    help = (f"install one, such as g++ or clang++, or say in ${VARIABLE} which one to use",)
    raise error(NO_COMPILER, "there is no C++ compiler, which the emulation of a GPU needs", None, help=help)


def _compiled(text: str, options: Sequence[str]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="dlang-") as folder:
        library_path = Path(folder) / "kernels.so"
        command = [compiler(), *options, "-x", "c++", "-", "-o", str(library_path)]
        run = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
        if run.returncode:
            raise Misbehaviour(f"the kernels do not compile:\n{run.stderr.decode(errors='replace')}")
        return library_path.read_bytes()


def _loaded(code: bytes) -> Any:
    """A library in memory, of which no file is left."""
    handle, path = tempfile.mkstemp(prefix="dlang-", suffix=".so")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(code)
        return ctypes.CDLL(path)
    finally:
        os.unlink(path)
