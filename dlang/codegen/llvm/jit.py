"""Machine code to callable addresses in this process."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any

import llvmlite.binding as llvm

from dlang.codegen.llvm import capi, collector, objects, pool, support, waiting
from dlang.codegen.llvm.symbols import caller_symbol, entry_symbol, text_symbol
from dlang.runtime import c_functions
from dlang.runtime.platform import objects as python
from dlang.runtime.platform.openblas import openblas
from dlang.runtime.platform.stack import has_switch
from dlang.runtime.platform.threads import has_futexes

_names = count(1)


@cache
def _jit() -> Any:
    objects.target()
    return llvm.create_lljit_compiler()


@cache
def _support() -> Any:
    """The shared functions: one library for the process."""
    threads = pool.text(has_futexes(), platform.machine() in ("x86_64", "AMD64"))
    shared = support.TEXT + support.switch_text(has_switch()) + threads + collector.TEXT
    builder = llvm.JITLibraryBuilder().add_object_img(objects.compile_object(shared))
    calls = waiting.WITH_FUTEXES if has_futexes() else waiting.WITHOUT
    for name in ("aligned_alloc", "free", "madvise", "memcpy", "memmove", *pool.IMPORTS, *calls):
        builder.import_symbol(name, address_of(name))
    for name in (*support.NAMES, *pool.NAMES, *collector.NAMES):
        builder.export_symbol(name)
    return builder.link(_jit(), "dlang.support")


def support_address(name: str) -> int:
    """Where a function of `support` is."""
    return int(_support()[name])


@cache
def address_of(name: str) -> int:
    """The address of a function of the C library, its mathematics, or BLAS."""
    if name.startswith("scipy_"):
        library = openblas()
    else:
        library = _mathematics() if hasattr(_mathematics(), name) else _process()
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


@cache
def _mathematics() -> Any:
    try:
        return ctypes.CDLL("libm.so.6")  # its name on Linux, where looking for it would start a process
    except OSError:
        from ctypes.util import find_library

        return ctypes.CDLL(find_library("m"))


@cache
def _process() -> Any:
    return ctypes.CDLL(None)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A module in memory; it lives as long as this does. data: where global variables of it are."""

    tracker: Any
    entries: dict[str, int]
    data: dict[str, int] = field(default_factory=dict)


def load(
    code: bytes,
    entries: Sequence[str],
    imports: Sequence[str] = (),
    foreign: Sequence[tuple[str, str]] = (),
    texts: Sequence[int] = (),
    data: Sequence[str] = (),
) -> Loaded:
    """Links machine code into the process; gives the addresses of the entries.

    imports: functions of libraries that it calls; foreign: symbols, and the functions of C that they stand for; texts:
    the numbers of its texts; data: global variables whose addresses are wanted.
    """
    builder = llvm.JITLibraryBuilder().add_object_img(code)
    for name in (*support.NAMES, *pool.NAMES, *collector.NAMES):
        builder.import_symbol(name, support_address(name))
    for name in (*imports, *RUNTIME_LIBRARY):
        builder.import_symbol(name, address_of(name))
    for name, target in foreign:
        builder.import_symbol(name, c_functions.address_of(target))
    for k, number in enumerate(texts):
        builder.import_symbol(text_symbol(k), number + 1)
    for name in entries:
        builder.export_symbol(entry_symbol(name))
    for name in data:
        builder.export_symbol(name)
    tracker = builder.link(_jit(), f"dlang.{next(_names)}")
    addresses = {name: int(tracker[entry_symbol(name)]) for name in entries}
    return Loaded(tracker, addresses, {name: int(tracker[name]) for name in data})


@cache
def _capi(word: int) -> Any:
    """What callers share. word: where an object that is called has the address of its record."""
    builder = llvm.JITLibraryBuilder().add_object_img(objects.compile_object(capi.text(word)))
    for name in capi.SUPPORT:
        builder.import_symbol(name, support_address(name))
    for name in capi.SHARED:
        builder.import_symbol(name, python.address(name))
    for name in capi.NAMES:
        builder.export_symbol(name)
    return builder.link(_jit(), "dlang.capi")


def capi_address(name: str, word: int) -> int:
    """Where a function of `capi` is."""
    return int(_capi(word)[name])


def load_caller(code: bytes, entry: str, address: int, word: int) -> Loaded:
    """Links the function that Python calls for an entry, which is at an address."""
    builder = llvm.JITLibraryBuilder().add_object_img(code)
    for name in capi.NAMES:
        builder.import_symbol(name, capi_address(name, word))
    for name in capi.SYMBOLS:
        builder.import_symbol(name, python.address(name))
    builder.import_symbol("memset", address_of("memset"))
    builder.import_symbol(entry_symbol(entry), address)
    builder.export_symbol(caller_symbol(entry))
    tracker = builder.link(_jit(), f"dlang.{next(_names)}")
    return Loaded(tracker, {entry: int(tracker[caller_symbol(entry)])})


RUNTIME_LIBRARY = (
    "memcpy", "memset", "memmove", "fmod", "fmodf", "sin", "cos", "sinf", "cosf", "floor", "ceil", "roundeven",
    "floorf", "ceilf", "roundevenf", "fma", "fmaf", "sincos", "sincosf",
)  # fmt: skip
"""What LLVM calls on its own account."""
