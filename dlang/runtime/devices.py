"""The interface of a host program to a device: C functions to call, and memory that it is handed.

There are two drivers: that of CUDA, and an emulation of it on the processor that is there. Both have the same C
functions, so the same machine code runs with either.
"""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

from dlang.diagnostics import DlangError, error
from dlang.lazy_modules import lazy_module

if TYPE_CHECKING:
    from dlang.codegen.abi import Kernel
    from dlang.host import cuda
    from dlang.runtime import gpu
    from dlang.runtime.emulation.driver import EmulatedDriver
else:
    gpu = lazy_module("dlang.runtime.gpu")
    cuda = lazy_module("dlang.host.cuda")


_INT, _LONG, _ADDRESS = ctypes.c_int, ctypes.c_int64, ctypes.c_uint64
_MATRIX = (_ADDRESS, _INT, _LONG, ctypes.c_longlong)
PRODUCT = ctypes.CFUNCTYPE(
    _INT, _ADDRESS, _INT, _INT, _LONG, _LONG, _LONG, ctypes.c_void_p, *_MATRIX, *_MATRIX, ctypes.c_void_p, *_MATRIX,
    _LONG, _INT, _INT,
)  # fmt: skip
"""The type of cublasGemmStridedBatchedEx_64."""


@dataclass(frozen=True, slots=True)
class Functions:
    """Addresses of C functions of CUDA's driver, which give 0 if all is well, by what they do.

    launch: cuLaunchKernel. copy: cuMemcpyDtoDAsync_v2. fill: cuMemsetD8Async. record: cuEventRecord.
    """

    launch: int
    copy: int
    fill: int
    record: int


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of a device, which is there as long as this is. number: its handle; thread: whose stream it is, where
    the same handle means another one in each thread; own: the object that keeps it there."""

    number: int
    thread: object = None
    own: Any = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """An array that is on the device already. array: one of the driver, which keeps it there. loan: what the driver is
    told when all that reads the array has been asked for, if it is another library's."""

    address: int
    array: Any
    loan: Any = None


class Misbehaviour(Exception):
    """A kernel that is wrong, or that a compiler of the device does not take: a mistake of this compiler."""


def does_not_compile(kernel: Kernel, log: str) -> DlangError:
    """The error for a kernel that a program brings along."""
    first = next((line for line in log.splitlines() if "error" in line), log.strip())
    help = f'it is CUDA C, written `extern "C" __global__ void {kernel.name}(…)`'
    return error("E0604", f"the kernel `{kernel.name}` does not compile: {first.strip()}", kernel.span, help=(help,))


class Graph(Protocol):
    """The work that a run has asked of the device, recorded to be launched again at once."""

    def launch(self) -> None:
        """Has the device do it all, on the stream of the driver."""


class Marks(Protocol):
    """Places in what the stream is asked for: the device notes when it comes to one."""

    @property
    def handles(self) -> Sequence[int]:
        """For `record`."""

    def elapsed(self, first: int, later: int) -> float:
        """Seconds between two, by their numbers, that the device has come to."""


class Driver(Protocol):
    """A device. Addresses are those of its own memory, which the host can't read.

    name: of its kind; None for an emulation, whose times say nothing of another one. multiprocessors: how many it has.
    threads: how many it runs at once. largest_index: that narrow indices of kernels can be. capacity: bytes of its
    memory. graphs: those of all programs; makes_graphs: whether there are to be any.
    """

    name: str | None
    multiprocessors: int
    threads: int
    makes_graphs: bool
    capacity: int
    graphs: Graphs
    largest_index: int
    functions: Functions

    @property
    def stream(self) -> int:
        """The stream that is to be used now, by this thread; what is asked of it is done in order."""

    @property
    def current(self) -> Stream:
        """The same stream, to be told from others and to be waited for."""

    def follow(self, first: Stream, later: Stream) -> None:
        """Lets the work that `later` gets from now on begin after all that `first` has got.

        The host does not wait, unless one of them is another thread's own. Any device may be the current one.
        """

    @property
    def product(self) -> int:
        """The address of cublasGemmStridedBatchedEx_64, whose scalars are in the memory of the host.

        cuBLAS takes long to load: for programs that have products only.
        """

    @property
    def blas(self) -> int:
        """The handle for products on that stream, which is to be asked for whenever the stream is.

        Before a graph is begun that has products, it has to have been asked for in the same thread.
        """

    def load(self, kernels: Sequence[Kernel], wide: bool = False) -> Sequence[int]:
        """Handles of kernels, for `launch`; raises `DlangError` where there is nothing to compile them with.

        wide: whether their indices are.
        """

    def allocate(self, size: int) -> int:
        """The address of so many bytes, at least one, with undefined contents. Raises MemoryError."""

    def free(self, address: int) -> None:
        """Gives back what was allocated; what the stream has still to do with it is done before it is used anew."""

    def upload(self, target: int, source: int, size: int) -> None:
        """Copies from the host, whose memory may change as soon as this returns."""

    def download(self, target: int, source: int, size: int, partly: bool = False) -> None:
        """Copies to the host, when all that the stream was asked for before is done.

        partly: some of it may never have been written.
        """

    def wait(self) -> None:
        """Until all that the stream was asked for is done."""

    def error(self, status: int) -> Exception:
        """Returns the exception for a status other than 0 of a C function of the driver."""

    # ---- arrays of Python --------------------------------------------------------------------------------------------
    def given(self, value: Any, dtype: str) -> DeviceArray | None:
        """An array that is on the device already; None for what lies elsewhere or has elements of another dtype.

        What is not in row-major order is copied. The host waits for no stream. dtype: of NumPy, or `bfloat16`.
        """

    def end_loans(self, loans: Sequence[Any]) -> None:
        """All that reads arrays of other libraries has been asked for: these may use the memory anew after that."""

    def result(self, address: int, shape: Sequence[int], dtype: str) -> Any:
        """An array of Python from what was allocated, which is its own from now on; dtype: of NumPy, or `bfloat16`."""

    # ---- times -------------------------------------------------------------------------------------------------------
    def marks(self, count: int) -> Marks:
        """So many marks, for what is not kept as a graph."""

    # ---- graphs ------------------------------------------------------------------------------------------------------
    @property
    def making(self) -> bool:
        """Tells whether this thread makes a graph, so that it can neither allocate nor free."""

    @property
    def workspace(self) -> int:
        """The number of bytes that the products of a graph work in; 0 if they need none."""

    def begin(self, workspace: int | None = None) -> None:
        """Begins a graph: what the stream is asked for is recorded instead of done; nothing may wait for it.

        workspace: the address of the memory for products, if there are any.
        """

    def end(self) -> Graph:
        """Ends that; what was kept. Raises MemoryError."""

    def abandon(self) -> None:
        """Ends that and forgets what was kept."""


# ---- memory that outlives a run --------------------------------------------------------------------------------------
# Memory of a device that outlives a run, and which stream may use it.
#
# Two things outlive a run: a *state*, where kernels note what has failed and reductions keep partial results, and a
# *graph*, with its state and the memory that it works in. Each is a `Holding`, or two. A device does the work of one
# stream in order, and that of two streams in any order, so that one rule keeps runs apart:
#
# A holding is used by one run at a time, and belongs to the stream of the last one. A run on another stream has its own
# wait for all that the last one has been asked for. Before memory is given back, the stream that it was allocated on,
# which is the one that gets it anew, waits in the same way.
#
# `use` and `give_back` see to that, and holdings are handed on by nothing else. The host never waits for it.
#
# Graphs of all programs of a device share a part of its memory, and give way where that is short.

KEPT = 64
"""The number of runs of a program that are kept as graphs."""
SHARE = 4
"""Graphs hold a part of the memory of the device: this is how many such parts it has."""


@dataclass(eq=False, slots=True)
class Holding:
    """Blocks of a device that runs use one after another. home: the stream that they were allocated on; stream: that of
    the last use; bytes: how large they are."""

    blocks: tuple[int, ...]
    bytes: int
    home: Stream
    stream: Stream


def use(driver: Driver, holding: Holding) -> None:
    """Lets the current stream use it from now on."""
    now = driver.current
    if holding.stream != now:
        driver.follow(holding.stream, now)
        holding.stream = now


def give_back(driver: Driver, holding: Holding) -> None:
    """Frees its blocks; if this thread makes a graph, as soon as it may."""
    driver.graphs.waste.append(holding)
    if not driver.making:
        _clear(driver)


def _clear(driver: Driver) -> None:
    waste = driver.graphs.waste
    while waste:
        try:
            holding = waste.pop()
        except IndexError:  # another thread was quicker
            return
        driver.follow(holding.stream, holding.home)
        for block in holding.blocks:
            driver.free(block)


def held(driver: Driver, sizes: Sequence[int]) -> Holding:
    """A holding of the current stream with blocks of these sizes. Raises MemoryError."""
    blocks: list[int] = []
    try:
        for size in sizes:
            blocks.append(allocate(driver, size))
    except BaseException:
        for block in blocks:
            driver.free(block)
        raise
    now = driver.current
    return Holding(tuple(blocks), sum(sizes), now, now)


def allocate(driver: Driver, size: int) -> int:
    """A block of the device; graphs give way to it. Raises MemoryError."""
    if driver.graphs.waste and not driver.making:
        _clear(driver)
    while True:
        try:
            return driver.allocate(size)
        except MemoryError:
            if size > driver.capacity or not _drop_oldest(driver):
                raise


# ---- graphs ----------------------------------------------------------------------------------------------------------
@dataclass(eq=False, slots=True)
class Repeat:
    """A run that can be repeated. raw: the words that it gave; state: what has failed in it; memory: what it works in.

    shelf: the graphs of its program, among which it is known by its key. used: when it was used last; busy: it is now.
    """

    graph: Graph
    raw: list[int]
    state: Holding
    memory: Holding
    shelf: dict[Hashable, Repeat]
    key: Hashable
    used: int = 0
    busy: bool = True

    @property
    def bytes(self) -> int:
        """The bytes that it holds."""
        return self.state.bytes + self.memory.bytes


@dataclass(eq=False, slots=True)
class Graphs:
    """The graphs of all programs of a device. now: how many repeatable runs there were, which dates the use of a graph.
    waste: holdings that are to be given back. lock: who holds it may look for graphs and change them."""

    repeats: list[Repeat] = field(default_factory=list)
    now: int = 0
    waste: list[Holding] = field(default_factory=list)
    lock: RLock = field(default_factory=RLock)

    def take(self, shelf: Mapping[Hashable, Repeat], key: Hashable) -> Repeat | None:
        """The graph of a run, which nobody else uses or drops until it is `busy` no longer."""
        with self.lock:
            self.now += 1
            repeat = shelf.get(key)
            if repeat is None or repeat.busy:
                return None
            repeat.used, repeat.busy = self.now, True
            return repeat

    def keep(self, repeat: Repeat) -> None:
        """Adds it to the known ones, as used at this moment."""
        with self.lock:
            repeat.used = self.now
            repeat.shelf[repeat.key] = repeat
            self.repeats.append(repeat)

    def forget(self, repeat: Repeat) -> None:
        """Removes it from the known ones."""
        with self.lock:
            if repeat.shelf.get(repeat.key) is repeat:
                del repeat.shelf[repeat.key]
            if repeat in self.repeats:
                self.repeats.remove(repeat)

    def oldest(self, among: Sequence[Repeat], before: int) -> Repeat | None:
        """The one that has not been used for longest, if that was before a moment."""
        idle = [repeat for repeat in among if not repeat.busy and repeat.used < before]
        return min(idle, key=lambda repeat: repeat.used, default=None)


def can_keep(driver: Driver, shelf: Mapping[Hashable, Repeat], size: int, since: int) -> bool:
    """Tells whether there is a place for another graph of a program, with so many bytes, of a run done at a moment.

    It takes the place of those that have not been used since then: were it of others, graphs that take turns would
    drop one another for ever.
    """
    graphs, limit = driver.graphs, driver.capacity // SHARE
    if size > limit:
        return False
    with graphs.lock:
        while len(shelf) >= KEPT:
            if not _dropped(driver, graphs.oldest(list(shelf.values()), since)):
                return False
        while sum([repeat.bytes for repeat in graphs.repeats]) + size > limit:
            if not _dropped(driver, graphs.oldest(graphs.repeats, since)):
                return False
    return True


def drop(driver: Driver, repeat: Repeat) -> None:
    """Gives back what a graph holds."""
    driver.graphs.forget(repeat)
    give_back(driver, repeat.state)
    give_back(driver, repeat.memory)


def _dropped(driver: Driver, repeat: Repeat | None) -> bool:
    if repeat is not None:
        drop(driver, repeat)
    return repeat is not None


def _drop_oldest(driver: Driver) -> bool:
    """Tells whether there was a graph to be dropped."""
    graphs = driver.graphs
    with graphs.lock:
        return _dropped(driver, graphs.oldest(graphs.repeats, graphs.now + 1))


DEVICES = frozenset(("cuda", "cuda-emulated"))
"""The back ends that have loops run on a device."""


def driver_of(backend: str) -> Driver | None:
    """The device that a back end uses now, which on CUDA is CuPy's current one; None for one that uses none.

    Raises `DlangError` where there is no device, or what it needs is not installed.
    """
    match backend:
        case "cuda":
            return _gpu(cuda.cupy().cuda.runtime.getDevice())
        case "cuda-emulated":
            return _emulation()
        case _:
            return None


@cache
def _gpu(number: int) -> gpu.CudaDriver:
    """The driver of CuPy's current device, which has that number."""
    return gpu.CudaDriver()


@cache
def _emulation() -> EmulatedDriver:
    from dlang.runtime.emulation.driver import EmulatedDriver

    return EmulatedDriver()
