"""Machine code to callable addresses in this process.

Linking needs no LLVM where `host/platform/loader.py` can do it.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from dlang.codegen.abi import caller_symbol, entry_symbol
from dlang.codegen.llvm import (
    access_checks,
    capi,
    collector,
    microkernel,
    objects,
    pool,
    registry,
    support,
    texts,
    waiting,
    windows,
)
from dlang.host.foreign import address_of as c_address
from dlang.host.platform import loader, objects as python
from dlang.host.platform.machine import has_futexes, openblas
from dlang.host.platform.stack import has_switch
from dlang.lazy_modules import lazy_module

if TYPE_CHECKING:
    from dlang.codegen.llvm import linker
else:
    linker = lazy_module("dlang.codegen.llvm.linker")


@dataclass(frozen=True, slots=True)
class Linked:
    """An object in memory; it lives as long as this does. addresses: of what was asked for."""

    memory: Any
    addresses: dict[str, int]


def _link(code: bytes, symbols: Mapping[str, int], wanted: Sequence[str], lasting: bool = False) -> Linked:
    """Links an object into the process. symbols: all that it may refer to. lasting: it is never unloaded."""
    if loader.can_load():
        try:
            image = loader.load(code, symbols, wanted, lasting)
            return Linked(image, image.addresses)
        except loader.Unlinkable:  # a relocation of a processor to come: LLVM knows what it has made
            pass
    library = linker.load(code, symbols, wanted)
    return Linked(library, library.addresses)


def support_text() -> str:
    """The module of the functions that all programs share."""
    threads = pool.text(has_futexes(), platform.machine() in ("x86_64", "AMD64"))
    return support.TEXT + support.switch_text(has_switch()) + threads + collector.TEXT + texts.TEXT


@cache
def _support() -> Linked:
    """The shared functions: one library for the process."""
    shared = support_text()
    calls = waiting.WITH_FUTEXES if has_futexes() else waiting.WITHOUT
    names = ("aligned_alloc", "free", "madvise", "memcmp", "memcpy", "memmove", *pool.IMPORTS, *calls)
    symbols = {name: address_of(name) for name in names}
    return _link(objects.compile_object(shared), symbols, _SUPPORT, lasting=True)


_SUPPORT = (*support.NAMES, *pool.NAMES, *collector.NAMES, *texts.NAMES)


def support_address(name: str) -> int:
    """Returns the address of a function of `support`."""
    return _support().addresses[name]


@cache
def _registry() -> Linked:
    """Links the code that sanitised programs share."""
    symbols = {name: address_of(name) for name in registry.IMPORTS}
    symbols |= {name: support_address(name) for name in registry.SUPPORT}
    return _link(objects.compile_object(registry.TEXT + access_checks.TEXT), symbols, _CHECKED, lasting=True)


_CHECKED = (*registry.NAMES, *access_checks.NAMES)


@cache
def address_of(name: str) -> int:
    """The address of a function of the C library, mathematics, BLAS, products of matrices, or sanitised code."""
    if name in _CHECKED:
        return _registry().addresses[name]
    products = microkernel.module_of(name)
    if products is not None:
        return _products(*products).addresses[name]
    windowed = windows.module_of(name)
    if windowed is not None:
        return _windows(*windowed).addresses[name]
    if name.startswith("scipy_"):
        library = openblas()
    else:
        library = _mathematics() if hasattr(_mathematics(), name) else _process()
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


@cache
def _products(dtype: str, bits: int) -> Linked:
    """The products of matrices of a dtype."""
    code = objects.compile_shared(microkernel.text(dtype, bits))
    return _link(code, {}, microkernel.names(dtype, bits), lasting=True)


@cache
def _windows(dtype: str, bits: int) -> Linked:
    """The products of a dtype with a factor in windows."""
    code = objects.compile_shared(windows.text(dtype, bits))
    return _link(code, {}, windows.names(dtype, bits), lasting=True)


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

    linked: Linked
    entries: dict[str, int]
    data: dict[str, int] = field(default_factory=dict)


def load(
    code: bytes,
    entries: Sequence[str],
    imports: Sequence[str] = (),
    foreign: Sequence[tuple[str, str]] = (),
    data: Sequence[str] = (),
) -> Loaded:
    """Links machine code into the process; gives the addresses of the entries.

    imports: functions of libraries that it calls; foreign: symbols, and the functions of C that they stand for;
    data: global variables whose addresses are wanted.
    """
    symbols = dict(_support().addresses)
    symbols |= {name: address_of(name) for name in (*imports, *RUNTIME_LIBRARY)}
    symbols |= {name: c_address(target) for name, target in foreign}
    linked = _link(code, symbols, [*map(entry_symbol, entries), *data])
    addresses = {name: linked.addresses[entry_symbol(name)] for name in entries}
    return Loaded(linked, addresses, {name: linked.addresses[name] for name in data})


@cache
def _capi(word: int) -> Linked:
    """Links the code that callers share. word: where an object that is called has the address of its record."""
    symbols = {name: support_address(name) for name in capi.SUPPORT}
    symbols |= {name: python.address(name) for name in capi.SHARED}
    return _link(objects.compile_object(capi.text(word)), symbols, capi.NAMES, lasting=True)


def capi_address(name: str, word: int) -> int:
    """Returns the address of a function of `capi`."""
    return _capi(word).addresses[name]


def load_caller(code: bytes, entry: str, word: int) -> Loaded:
    """Links the function that Python calls for an entry."""
    symbols = {name: capi_address(name, word) for name in capi.NAMES}
    symbols |= {name: python.address(name) for name in capi.SYMBOLS}
    symbols["memset"] = address_of("memset")
    linked = _link(code, symbols, [caller_symbol(entry)])
    return Loaded(linked, {entry: linked.addresses[caller_symbol(entry)]})


RUNTIME_LIBRARY = (
    "memcpy", "memset", "memmove", "fmod", "fmodf", "sin", "cos", "tan", "sinf", "cosf", "tanf", "floor", "ceil",
    "roundeven", "floorf", "ceilf", "roundevenf", "fma", "fmaf", "sincos", "sincosf",
)  # fmt: skip
"""The functions that LLVM calls on its own account, and our mathematics for huge angles."""
