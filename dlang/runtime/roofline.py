"""Measures what this machine, and a device, can do at most in a second: bytes copied, and operations."""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any

from dlang.cache.store import digest, user_store
from dlang.codegen.llvm.symbols import entry_symbol
from dlang.diagnostics import DlangError
from dlang.lazy_modules import lazy_module, np
from dlang.ops.dtypes import DTYPES, FLOATS, TRUNCATED
from dlang.runtime.devices import PRODUCT, Driver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dlang.codegen.llvm import jit, objects
else:
    jit = lazy_module("dlang.codegen.llvm.jit")
    objects = lazy_module("dlang.codegen.llvm.objects")


BYTES = 128 << 20  # of a copy, on all threads together: more than caches hold
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


def ceilings(threads: int) -> Ceilings:
    """Returns this processor's ceilings; measures for a second the first few times, as others may disturb it."""
    from dlang.codegen.llvm.objects import processor

    store, key = user_store(), digest(VERSION, processor(), str(threads))
    known = _read(store.get(KIND, key)) or Ceilings(threads, 0.0, 0.0, 0.0, 0)
    if known.times >= TIMES:
        return known
    found = Ceilings(
        threads,
        max(known.bytes, _copying(threads)),
        max(known.f64, _computing("f64", threads)),
        max(known.f32, _computing("f32", threads)),
        known.times + 1,
    )
    store.put(KIND, key, json.dumps(asdict(found)).encode())
    return found


def _read(kept: bytes | None) -> Ceilings | None:
    try:
        return None if kept is None else Ceilings(**json.loads(kept))
    except (ValueError, TypeError):
        return None


def _copying(threads: int) -> float:
    share = BYTES // threads // 8
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
    known = _read_of_device(store.get(DEVICE_KIND, key))
    if known is None:
        known = DeviceCeilings(driver.name, _copying_on_device(driver, bytes), _multiplying(driver, side))
        store.put(DEVICE_KIND, key, json.dumps(asdict(known)).encode())
    return known


def _read_of_device(kept: bytes | None) -> DeviceCeilings | None:
    try:
        return None if kept is None else DeviceCeilings(**json.loads(kept))
    except (ValueError, TypeError):
        return None


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
