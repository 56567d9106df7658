"""Measures once what a device can do at most: bytes copied in its memory and operations of products in a second.

It is measured by marks around what the stream is asked for, and kept for devices of that name.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from dlang.cache.store import digest, user_store
from dlang.diagnostics import DlangError
from dlang.lazy_modules import np
from dlang.ops.dtypes import DTYPES, FLOATS, TRUNCATED
from dlang.runtime.devices import PRODUCT, Driver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BYTES = 256 << 20  # of an array that is copied: more than caches hold
SIDE = 4096  # of the matrices of a product
REPEATS = 8
KIND, VERSION = "deviceceilings", "1"
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


def device_ceilings(driver: Driver, bytes: int = BYTES, side: int = SIDE) -> DeviceCeilings | None:
    """Returns the measured ceilings of devices of this name; None for an emulation.

    bytes, side: of what is copied, and of the matrices that are multiplied. Raises MemoryError if there is no room.
    """
    if driver.name is None:
        return None
    store, key = user_store(), digest(VERSION, driver.name, str(bytes), str(side))
    known = _read(store.get(KIND, key))
    if known is None:
        known = DeviceCeilings(driver.name, _copying(driver, bytes), _multiplying(driver, side))
        store.put(KIND, key, json.dumps(asdict(known)).encode())
    return known


def _read(kept: bytes | None) -> DeviceCeilings | None:
    try:
        return None if kept is None else DeviceCeilings(**json.loads(kept))
    except (ValueError, TypeError):
        return None


def _copying(driver: Driver, size: int) -> float:
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
    marks, record = driver.marks(REPEATS + 1), _RECORD(driver.functions.record)
    _check(driver, ask())  # what comes first may take longer
    _check(driver, record(marks.handles[0], driver.stream))
    for k in range(REPEATS):
        _check(driver, ask())
        _check(driver, record(marks.handles[k + 1], driver.stream))
    driver.wait()
    return min([marks.elapsed(k, k + 1) for k in range(REPEATS)])


def _check(driver: Driver, status: int) -> None:
    if status:
        raise driver.error(status)
