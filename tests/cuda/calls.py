"""The C functions of a driver, called as machine code does."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from dlang.codegen.abi import WORDS
from dlang.runtime.device_runs import NEVER, State
from dlang.runtime.devices import Driver

TYPES = {"float64": 1, "float32": 0, "float16": 2, "uint16": 14}  # of cuBLAS; 16 bits without more are those of bf16
DOUBLE, SINGLE = 70, 68
_INT, _UNSIGNED, _LONG, _ADDRESS = ctypes.c_int, ctypes.c_uint, ctypes.c_int64, ctypes.c_void_p
_MATRIX = [_ADDRESS, _INT, _LONG, ctypes.c_longlong]
LAUNCH = ctypes.CFUNCTYPE(_INT, _ADDRESS, *[_UNSIGNED] * 7, _ADDRESS, _ADDRESS, _ADDRESS)
_COPY = ctypes.CFUNCTYPE(_INT, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, _ADDRESS)
_FILL = ctypes.CFUNCTYPE(_INT, ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, _ADDRESS)
PRODUCT = ctypes.CFUNCTYPE(
    _INT, _ADDRESS, _INT, _INT, _LONG, _LONG, _LONG, _ADDRESS, *_MATRIX, *_MATRIX, _ADDRESS, *_MATRIX, _LONG, _INT, _INT
)


def check(driver: Driver, status: int) -> None:
    if status:
        raise driver.error(status)


def launch(driver: Driver, kernel: int, grid: int, block: int, *args: int) -> None:
    """Launches a kernel whose arguments are words."""
    words = (ctypes.c_int64 * max(len(args), 1))(*args)
    given = (ctypes.c_void_p * max(len(args), 1))(*[ctypes.addressof(words) + 8 * k for k in range(len(args))])
    call = LAUNCH(driver.functions.launch)
    check(driver, call(kernel, grid, 1, 1, block, 1, 1, 0, driver.stream, ctypes.addressof(given), None))
    words[:] = [-1] * len(words)  # they are the caller's again


def copy(driver: Driver, target: int, source: int, size: int) -> None:
    check(driver, _COPY(driver.functions.copy)(target, source, size, driver.stream))


def fill(driver: Driver, target: int, value: int, size: int) -> None:
    check(driver, _FILL(driver.functions.fill)(target, value, size, driver.stream))


def product(
    driver: Driver,
    transposed: tuple[bool, bool],
    sizes: tuple[int, int, int],
    matrices: Sequence[tuple[int, str, int, int]],
    alpha: float = 1.0,
    beta: float = 0.0,
    batch: int = 1,
) -> None:
    """Two operands and a result, column by column: the address, the type, from column to column, from one to the next.

    sizes: rows and columns of the result, and how many products each of its elements is the sum of.
    """
    wide = matrices[0][1] == "float64"
    scalar = ctypes.c_double if wide else ctypes.c_float
    one, other = scalar(alpha), scalar(beta)
    a, b, c = [(address, TYPES[dtype], lead, stride) for address, dtype, lead, stride in matrices]
    status = PRODUCT(driver.product)(
        driver.blas, int(transposed[0]), int(transposed[1]), *sizes, ctypes.addressof(one), *a, *b,
        ctypes.addressof(other), *c, batch, DOUBLE if wide else SINGLE, -1,
    )  # fmt: skip
    check(driver, status)


def uploaded(driver: Driver, array: Any) -> int:
    """The address of a copy of an array of the host."""
    array = np.ascontiguousarray(array)
    address = driver.allocate(array.nbytes)
    driver.upload(address, array.ctypes.data, array.nbytes)
    return address


def downloaded(driver: Driver, address: int, shape: Sequence[int], dtype: str = "float64") -> Any:
    out = np.empty(tuple(shape), dtype)
    driver.download(out.ctypes.data, address, out.nbytes)
    return out


def run_of(driver: Driver, blocks: int = 16) -> int:
    """The address of a run in which nothing has failed."""
    state = State(partials=driver.allocate(8 * WORDS * blocks), iteration=NEVER)
    address = driver.allocate(ctypes.sizeof(state))
    driver.upload(address, ctypes.addressof(state), ctypes.sizeof(state))
    return address
