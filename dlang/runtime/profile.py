"""The measurements of a program that measures itself: its nests, what they took, moved and computed; and what this
machine, and a device, can do at most in a second: bytes copied, and operations.
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from dlang.cache.store import digest, user_store
from dlang.codegen.abi import PROFILE, entry_symbol
from dlang.codegen.llvm.profiling import BYTES, CALLS, EVENT, EVENTS, OPERATIONS, ROW, TICKS, words
from dlang.codegen.loops import Nest
from dlang.diagnostics import DlangError, Span
from dlang.lazy_modules import lazy_module, np
from dlang.ops.dtypes import DTYPES, FLOATS, TRUNCATED
from dlang.runtime.devices import PRODUCT, Driver
from dlang.runtime.memory import Usage, memory_use
from dlang.runtime.threads import default_pool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dlang.codegen.llvm import jit, objects
    from dlang.runtime.devices import Driver
    from dlang.runtime.engine import CompiledProgram
else:
    jit = lazy_module("dlang.codegen.llvm.jit")
    objects = lazy_module("dlang.codegen.llvm.objects")


COPY_BYTES = 128 << 20  # of a copy, on all threads together: more than caches hold
STEPS = 2_000_000  # of a loop of multiplications with additions
INDEPENDENT = 12  # of these at once: as many as hide how long one takes
REPEATS = 5
TIMES = 3
KIND, VERSION = "ceilings", "1"


@dataclass(frozen=True, slots=True)
class Ceilings:
    """For so many threads: bytes per second that a copy reads and writes; operations per second of f64 and of f32.

    times: how often that has been measured, the best of which this is.
    """

    threads: int
    bytes: float
    f64: float
    f32: float
    times: int = 1

    def operations(self, dtype: str) -> float:
        return self.f64 if dtype == "f64" else self.f32


def measured_ceilings(threads: int) -> Ceilings:
    """Returns this processor's ceilings; measures for a second the first few times, as others may disturb it."""
    from dlang.codegen.llvm.objects import processor

    store, key = user_store(), digest(VERSION, processor(), str(threads))
    known = _as(Ceilings, store.get(KIND, key)) or Ceilings(threads, 0.0, 0.0, 0.0, 0)
    if known.times >= TIMES:
        return known
    ceilings = Ceilings(
        threads,
        max(known.bytes, _copying(threads)),
        max(known.f64, _computing("f64", threads)),
        max(known.f32, _computing("f32", threads)),
        known.times + 1,
    )
    store.put(KIND, key, json.dumps(asdict(ceilings)).encode())
    return ceilings


T = TypeVar("T", "Ceilings", "DeviceCeilings")


def _as(kind: type[T], kept: bytes | None) -> T | None:
    try:
        return None if kept is None else kind(**json.loads(kept))
    except (ValueError, TypeError):
        return None


def _copying(threads: int) -> float:
    share = COPY_BYTES // threads // 8
    arrays = [(np.ones(share), np.ones(share)) for _ in range(threads)]
    return 2 * 8 * share * threads / _at_once([partial(np.copyto, a, b) for a, b in arrays])


def _computing(dtype: str, threads: int) -> float:
    from dlang.codegen.llvm.objects import vector_bits

    lanes = vector_bits() // (64 if dtype == "f64" else 32)
    loaded, run = _kernel(dtype, lanes)
    seconds = _at_once([lambda: run(None, None) for _ in range(threads)])
    del loaded
    return 2 * INDEPENDENT * lanes * STEPS * threads / seconds


def _kernel(dtype: str, lanes: int) -> tuple[Any, Callable[[Any, Any], int]]:
    """A loop of multiplications with additions on registers alone, and what keeps it in memory."""
    scalar, suffix = ("double", "f64") if dtype == "f64" else ("float", "f32")
    type, fma = f"<{lanes} x {scalar}>", f"llvm.fma.v{lanes}{suffix}"
    names = range(INDEPENDENT)
    phis = [f"  %a{k} = phi {type} [ splat ({scalar} {k}.0), %entry ], [ %b{k}, %head ]" for k in names]
    factor, term = (f"{type} splat ({scalar} {x})" for x in ("5.000000e-01", "1.000000e+00"))
    steps = [f"  %b{k} = call {type} @{fma}({type} %a{k}, {factor}, {term})" for k in names]
    sums = [f"  %s{k + 1} = fadd {type} %s{k}, %b{k + 1}" for k in range(1, INDEPENDENT - 1)]
    last = f"%s{INDEPENDENT - 1}"
    text = "\n".join([
        f"declare {type} @{fma}({type}, {type}, {type})",
        f"define i32 @{entry_symbol('peak')}(ptr %a, ptr %b) nounwind {{",
        "entry:", f"  %room = alloca {type}, align 64", "  br label %head",
        "head:", "  %i = phi i64 [ 0, %entry ], [ %j, %head ]", *phis, *steps,
        "  %j = add i64 %i, 1", f"  %more = icmp ult i64 %j, {STEPS}", "  br i1 %more, label %head, label %done",
        "done:", f"  %s1 = fadd {type} %b0, %b1", *sums, f"  store volatile {type} {last}, ptr %room, align 64",
        "  ret i32 0", "}", "",
    ])  # fmt: skip
    loaded = jit.load(objects.compile_object(text), ["peak"])
    return loaded, ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(loaded.entries["peak"])


def _at_once(tasks: list[Callable[[], Any]]) -> float:
    """Seconds that tasks take on a thread each, the least of some times."""
    best = float("inf")
    for _ in range(REPEATS):
        barrier = Barrier(len(tasks) + 1)

        def work(task: Callable[[], Any], barrier: Barrier = barrier) -> None:
            barrier.wait()
            task()

        threads = [Thread(target=work, args=(task,)) for task in tasks]
        for thread in threads:
            thread.start()
        barrier.wait()
        begin = time.perf_counter()
        for thread in threads:
            thread.join()
        best = min(best, time.perf_counter() - begin)
    return best


# ---- a device --------------------------------------------------------------------------------------------------------
# Measures once what a device can do at most: bytes copied in its memory and operations of products in a second.
#
# It is measured by marks around what the stream is asked for, and kept for devices of that name.

DEVICE_BYTES = 256 << 20  # of an array that is copied: more than caches hold
SIDE = 4096  # of the matrices of a product
DEVICE_REPEATS = 8
DEVICE_KIND, DEVICE_VERSION = "deviceceilings", "1"
PLAIN, USUAL = 0, -1
MEASURED = tuple(name for name in FLOATS if name not in TRUNCATED)
"""The dtypes of the factors; products are of the dtype in which they are computed."""

_INT, _ADDRESS = ctypes.c_int, ctypes.c_uint64
_COPY = ctypes.CFUNCTYPE(_INT, _ADDRESS, _ADDRESS, ctypes.c_size_t, _ADDRESS)
_FILL = ctypes.CFUNCTYPE(_INT, _ADDRESS, ctypes.c_ubyte, ctypes.c_size_t, _ADDRESS)
_RECORD = ctypes.CFUNCTYPE(_INT, _ADDRESS, _ADDRESS)


@dataclass(frozen=True, slots=True)
class DeviceCeilings:
    """The limits of a kind of device: bytes per second that a copy moves; operations per second of products, by dtype.

    Without cuBLAS there are no products to measure.
    """

    name: str
    bytes: float
    products: Mapping[str, float] = field(default_factory=dict)

    def operations(self, dtype: str) -> float | None:
        """Returns the operations per second for a dtype; None if that is not known."""
        alike = [name for name in MEASURED if DTYPES[name].width == DTYPES[dtype].width]
        return self.products.get(alike[0] if dtype in TRUNCATED else dtype)


def device_ceilings(driver: Driver, bytes: int = DEVICE_BYTES, side: int = SIDE) -> DeviceCeilings | None:
    """Returns the measured ceilings of devices of this name; None for an emulation.

    bytes, side: of what is copied, and of the matrices that are multiplied. Raises MemoryError if there is no room.
    """
    if driver.name is None:
        return None
    store, key = user_store(), digest(DEVICE_VERSION, driver.name, str(bytes), str(side))
    known = _as(DeviceCeilings, store.get(DEVICE_KIND, key))
    if known is None:
        known = DeviceCeilings(driver.name, _copying_on_device(driver, bytes), _multiplying(driver, side))
        store.put(DEVICE_KIND, key, json.dumps(asdict(known)).encode())
    return known


def _copying_on_device(driver: Driver, size: int) -> float:
    copy, fill = _COPY(driver.functions.copy), _FILL(driver.functions.fill)
    with _memory(driver, [size, size]) as (target, source):
        _check(driver, fill(source, 1, size, driver.stream))
        return 2 * size / _seconds(driver, lambda: copy(target, source, size, driver.stream))


def _multiplying(driver: Driver, side: int) -> dict[str, float]:
    try:
        product, handle = PRODUCT(driver.product), driver.blas
    except DlangError:
        return {}
    return {dtype: 2 * side**3 / _of_product(driver, product, handle, side, dtype) for dtype in MEASURED}


def _of_product(driver: Driver, product: Callable[..., int], handle: int, side: int, dtype: str) -> float:
    record = DTYPES[dtype]
    total = DTYPES[record.register]
    assert record.cublas is not None and total.cublas is not None
    (factor, computed), (result, _) = record.cublas, total.cublas
    numbers = np.random.default_rng(0).standard_normal((side, side)).astype(record.numpy)
    one, zero = (ctypes.c_double(x) if total.width == 8 else ctypes.c_float(x) for x in (1.0, 0.0))
    sizes = [numbers.nbytes, numbers.nbytes, side * side * total.width]
    with _memory(driver, sizes) as (a, b, c):
        for address in (a, b):
            driver.upload(address, numbers.ctypes.data, numbers.nbytes)
        operands = [(address, type, side, side * side) for address, type in ((a, factor), (b, factor), (c, result))]
        return _seconds(
            driver,
            lambda: product(
                handle, PLAIN, PLAIN, side, side, side, ctypes.addressof(one), *operands[0], *operands[1],
                ctypes.addressof(zero), *operands[2], 1, computed, USUAL,
            ),
        )  # fmt: skip


@contextmanager
def _memory(driver: Driver, sizes: Sequence[int]) -> Iterator[list[int]]:
    """Memory of the device for a while."""
    blocks: list[int] = []
    try:
        for size in sizes:
            blocks.append(driver.allocate(size))
        yield blocks
    finally:
        for block in blocks:
            driver.free(block)


def _seconds(driver: Driver, ask: Callable[[], int]) -> float:
    """How long the device takes for what it is asked, the least of some times."""
    marks, record = driver.marks(DEVICE_REPEATS + 1), _RECORD(driver.functions.record)
    _check(driver, ask())  # what comes first may take longer
    _check(driver, record(marks.handles[0], driver.stream))
    for k in range(DEVICE_REPEATS):
        _check(driver, ask())
        _check(driver, record(marks.handles[k + 1], driver.stream))
    driver.wait()
    return min([marks.elapsed(k, k + 1) for k in range(DEVICE_REPEATS)])


def _check(driver: Driver, status: int) -> None:
    if status:
        raise driver.error(status)


LONG_ENOUGH = 0.02  # seconds by which the processor's clock is compared with the system's
IN_CACHES = 1.05  # of the speed of a copy through memory
WIDTH = 60  # characters of a line of source that are shown
COPIED = ("transfer", "numbers", "counts")  # kinds of nests of which a ceiling of the device says nothing
EMULATED = "the device is emulated: its times are those of this processor, and say nothing of a GPU's"


@dataclass(frozen=True, slots=True)
class Row:
    """The totals of a nest over all of its calls; operations are None where some of its work is not the compiler's own.

    device: whether it is the device that took so long, by its own clock.
    """

    nest: Nest
    calls: int
    seconds: float
    bytes: int
    operations: int | None
    device: bool = False

    @property
    def place(self) -> str:
        return where(self.nest.span)


@dataclass(frozen=True, slots=True)
class Event:
    """A call of a nest, in seconds since the profile began; by the host, or what the device did for it."""

    nest: Nest
    begin: float
    end: float
    device: bool = False


@dataclass(slots=True)
class Profile:
    """The measurements of a run, the nest that took most first.

    seconds: from beginning to end, what is around compiled code included; threads: how many there were for large loops;
    lost: how many calls of nests are in `rows` and not in `events`, of which there is room for the first 65,536.
    driver: of the device that was used; asking: how long the host asked it for work and waited for it, in seconds.
    """

    rows: tuple[Row, ...] = ()
    events: tuple[Event, ...] = ()
    seconds: float = 0.0
    threads: int = 1
    lost: int = 0
    memory: Usage = field(default_factory=Usage)
    result: Any = None
    driver: Driver | None = None
    asking: float = 0.0

    def table(
        self, ceilings: Ceilings | None = None, least: float = 0.001, device: DeviceCeilings | None = None
    ) -> str:
        """A line for each nest that ran and took at least this share of the time.

        ceilings: what the machine can do, device: what the device can; measured if not given.
        """
        if ceilings is None:
            ceilings = measured_ceilings(self.threads)
        out = [] if self.driver is None else self._of_device(device, least)
        rows = [row for row in self.rows if not row.device]
        total = sum([row.seconds for row in rows]) + self.asking
        out += _lines(rows, total, least, "of the machine", ceilings)
        if self.driver is not None:
            out.append(f"{_time(self.asking)} for asking the device, and waiting for it")
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        out.append(f"{_time(total)} in compiled code of {_time(self.seconds)}, {threads}; memory: {self.memory}")
        out.append(
            f"the machine: copies {ceilings.bytes / 1e9:.3g} GB/s, computes {ceilings.f64 / 1e9:.3g} GFLOP/s in f64, "
            f"{ceilings.f32 / 1e9:.3g} in f32"
        )
        return "\n".join(out)

    def _of_device(self, ceilings: DeviceCeilings | None, least: float) -> list[str]:
        """Lists the lines that say what the device did, and what it can do at most."""
        assert self.driver is not None
        rows = [row for row in self.rows if row.device]
        total = sum([row.seconds for row in rows])
        if self.driver.name is None:
            return [EMULATED, *_lines(rows, total, least, "of the device", None), f"{_time(total)} on the device", ""]
        if ceilings is None:
            with suppress(MemoryError):
                ceilings = device_ceilings(self.driver)
        out = [*_lines(rows, total, least, "of the device", ceilings), f"{_time(total)} on the device"]
        if ceilings is None:
            return [*out, f"the device: {self.driver.name}, which has no room to measure what it can do", ""]
        speeds = [f"{speed / 1e9:.4g} GFLOP/s in {dtype}" for dtype, speed in ceilings.products.items()]
        products = f", multiplies {', '.join(speeds)}" if speeds else ""
        return [*out, f"the device: {ceilings.name}, copies {ceilings.bytes / 1e9:.4g} GB/s{products}", ""]

    def trace(self) -> dict[str, Any]:
        """The calls of nests in the format of Chrome's tracer, which Perfetto reads: to be written as JSON.

        What a device did is on a track of its own.
        """
        process = os.getpid()
        there = {row.nest for row in self.rows if row.device}
        events: list[dict[str, Any]] = []
        if self.driver is not None:
            names = "the host", self.driver.name or "the emulated device"
            events += [
                {"name": "thread_name", "ph": "M", "pid": process, "tid": k + 1, "args": {"name": name}}
                for k, name in enumerate(names)
            ]
        for e in self.events:
            asks = "asks for " if e.nest in there and not e.device else ""
            events.append({
                "name": f"{asks}{_named(e.nest)}, {where(e.nest.span)}", "cat": e.nest.kind, "ph": "X",
                "pid": process, "tid": 1 + e.device, "ts": e.begin * 1e6, "dur": (e.end - e.begin) * 1e6,
                "args": {"source": _source(e.nest.span)},
            })  # fmt: skip
        return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"lost": self.lost}}


@contextmanager
def recorded(programs: Callable[[], Sequence[CompiledProgram]]) -> Iterator[Profile]:
    """Measures what programs made for it do in the block, those loaded there too; then the profile is complete."""
    profile = Profile()
    for program in programs():
        array = _words(program)
        ctypes.memset(array, 0, ctypes.sizeof(array))
        if program.device is not None and program.device.recording is not None:
            program.device.recording.clear()
    clock = _clock()
    begin, first = time.perf_counter(), clock()
    with memory_use() as profile.memory:
        try:
            yield profile
        finally:
            end = time.perf_counter()
            while time.perf_counter() - begin < LONG_ENOUGH:
                pass
            rate = (clock() - first) / (time.perf_counter() - begin)
            profile.seconds = end - begin
            profile.threads = default_pool().threads
            for program in programs():
                _read(profile, program, first, rate, begin)
            profile.rows = tuple(sorted(profile.rows, key=lambda row: -row.seconds))
            profile.events = tuple(sorted(profile.events, key=lambda e: (e.begin, -e.end)))


def _words(program: CompiledProgram) -> Any:
    return (ctypes.c_int64 * words(len(program.nests))).from_address(program.loaded[-1].data[PROFILE])


def _clock() -> Callable[[], int]:
    read: Callable[[], int] = ctypes.CFUNCTYPE(ctypes.c_int64)(jit.support_address("dl_ticks"))
    return read


def _read(profile: Profile, program: CompiledProgram, first: int, rate: float, start: float) -> None:
    """Adds what a program has counted, and what its device has. start: of the profile, on the host's clock.

    What the host took for a nest of the device is not a row of its own: it asked for it, or waited.
    """
    nests, array = program.nests, _words(program)
    recording = None if program.device is None else program.device.recording
    rows = list(profile.rows)
    for k, nest in enumerate(nests):
        row = array[k * ROW : (k + 1) * ROW]
        calls, seconds, bytes = row[CALLS], row[TICKS] / rate, row[BYTES]
        there = recording is not None and (k in recording.seconds or nest.kind in COPIED)
        if there:
            assert recording is not None
            profile.asking += seconds
            calls = calls or recording.calls[k]
            seconds, bytes = recording.seconds.get(k, 0.0), bytes + recording.bytes[k]
        if calls:
            rows.append(Row(nest, calls, seconds, bytes, row[OPERATIONS] if nest.countable else None, there))
    profile.rows = tuple(rows)
    at = len(nests) * ROW
    count = min(array[at], EVENTS)
    profile.lost += array[at] - count
    events = list(profile.events)
    for k in range(count):
        number, begin, end = array[at + 1 + k * EVENT : at + 1 + (k + 1) * EVENT]
        events.append(Event(nests[number], (begin - first) / rate, (end - first) / rate))
    if recording is not None and program.device is not None:
        profile.driver = program.device.driver
        profile.lost += recording.lost
        events += [Event(nests[k], begin - start, end - start, True) for k, begin, end in recording.events]
    profile.events = tuple(events)


# ---- text ------------------------------------------------------------------------------------------------------------
def _lines(
    rows: Sequence[Row], total: float, least: float, share: str, ceilings: Ceilings | DeviceCeilings | None
) -> list[str]:
    """A head, and a line for each row that took at least this share of the time."""
    head = ("time", "share", "calls", "GB/s", "GFLOP/s", share, "nest")
    shown = [row for row in rows if row.seconds >= least * total]
    lines = [head, *(_line(row, total, ceilings) for row in shown)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(head) - 1)]
    out = []
    for line in lines:
        cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=False)]
        out.append("  ".join([*cells, line[-1]]))
    if len(shown) < len(rows):
        others = sum(row.seconds for row in rows[len(shown) :])
        out.append(f"{_time(others)} in {len(rows) - len(shown)} more")
    return out


def _line(row: Row, total: float, ceilings: Ceilings | DeviceCeilings | None) -> tuple[str, ...]:
    share = f"{100 * row.seconds / total:.1f} %" if total else ""
    source = _source(row.nest.span)
    where_ = _named(row.nest) + (f", {row.place}" if row.nest.span else "") + (f"  {source}" if source else "")
    if row.nest.kernels:
        where_ = f"{', '.join(row.nest.kernels)}: {where_}"
    bytes = row.bytes / row.seconds if row.seconds else 0.0
    operations = (row.operations or 0) / row.seconds if row.seconds else 0.0
    return (
        _time(row.seconds), share, str(row.calls), f"{bytes / 1e9:.2f}" if row.bytes else "–",
        f"{operations / 1e9:.2f}" if row.operations else "–", _limit(row, bytes, operations, ceilings), where_,
    )  # fmt: skip


def _limit(row: Row, bytes: float, operations: float, ceilings: Ceilings | DeviceCeilings | None) -> str:
    """How near a nest comes to what the machine can do, by what it is nearer to; memory is none where caches serve."""
    if ceilings is None or row.nest.kind in COPIED:
        return "–"
    most = ceilings.operations(row.nest.dtype)
    memory, arithmetic = bytes / ceilings.bytes, operations / most if most else 0.0
    if not memory and not arithmetic:
        return "–"
    if arithmetic < memory <= IN_CACHES:
        return f"{100 * memory:.0f} % memory"
    return f"{100 * arithmetic:.0f} % arithmetic" if arithmetic else "in caches"


def _named(nest: Nest) -> str:
    match nest.kind:
        case "function":
            return f"the rest of `{nest.label}`"
        case "transfer" if nest.span is None:
            return "arguments and results"
        case "counts":
            return f"what this profile counts in `{nest.label}`"
        case kind:
            return f"{kind} in `{nest.label}`"


def where(span: Span | None) -> str:
    """The place of a span, and of the call in another file by which it was reached."""
    if span is None:
        return "nowhere"
    line, column = span.source.position(span.start)
    place = f"{os.path.basename(span.source.path)}:{line}:{column}"
    outer = span
    while outer.source.path == span.source.path:
        if outer.via is None or outer.via.span is None:
            return place
        outer = outer.via.span
    return f"{place}, from {os.path.basename(outer.source.path)}:{outer.line}"


def _source(span: Span | None) -> str:
    """The line in which a span begins."""
    if span is None or not span.source.text:
        return ""
    text = span.source.line(span.line).strip()
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.2f} {unit}"
    return f"{seconds * 1e6:.2f} µs"
