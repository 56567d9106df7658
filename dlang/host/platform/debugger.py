"""Compiled code as debuggers and profilers of the system see it, where they are told (Linux, ELF).

GDB is told where code is by the interface that LLVM has for that: an image of the object whose sections have the
addresses at which they lie, in a list that GDB reads. perf has a file in which it looks for the names and addresses of
functions.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import tempfile
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from dlang.drafts import add, appending
from dlang.host.platform.loader import FUNCTION, Elf

REGISTER = 1  # what GDB is told to do


# ---- perf ------------------------------------------------------------------------------------------------------------
def write_map(code: bytes, entry: str, address: int) -> None:
    """Adds the functions of an object in memory to perf's file. entry: one of them, which is at the address."""
    elf = Elf(code)
    place = elf.loaded(entry, address)
    if place is None:
        return
    section, start = place
    found = [s for s in elf.symbols() if s.type == FUNCTION and s.section == section]
    lines = [f"{start + s.value:x} {s.size:x} {_readable(s.name)}\n" for s in found]
    with appending(Path(tempfile.gettempdir()) / f"perf-{os.getpid()}.map") as file:
        add(file, "".join(lines).encode())


def _readable(symbol: str) -> str:
    """Returns a function's name as a person reads it."""
    if symbol.startswith("entry."):
        return "call of " + bytes.fromhex(symbol.removeprefix("entry.")).decode()
    return symbol.removeprefix("f.")


# ---- GDB -------------------------------------------------------------------------------------------------------------
class _Entry(ctypes.Structure):
    pass


_Entry._fields_ = [
    ("next", ctypes.POINTER(_Entry)), ("previous", ctypes.POINTER(_Entry)), ("image", ctypes.c_void_p),
    ("size", ctypes.c_uint64),
]  # fmt: skip


class _Descriptor(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32), ("action", ctypes.c_uint32), ("relevant", ctypes.POINTER(_Entry)),
        ("first", ctypes.POINTER(_Entry)),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Gdb:
    """LLVM's list of objects, and the function at which GDB stops to read it. kept: what is in it."""

    descriptor: Any
    register: Any
    kept: list[Any] = field(default_factory=list)


def tell_gdb(code: bytes, entry: str, address: int) -> None:
    """Tells GDB of an object in memory. entry: a function of it, which is at the address."""
    gdb = _gdb()
    place = Elf(code).loaded(entry, address)
    if gdb is None or place is None:
        return
    image = ctypes.create_string_buffer(code, len(code))
    section, start = place
    offset, size, _ = Elf(code).header()
    struct.pack_into("<Q", image, offset + section * size + 0x10, start)
    made = _Entry(gdb.descriptor.first, None, ctypes.addressof(image), len(code))
    gdb.kept.append((image, made))
    if gdb.descriptor.first:
        gdb.descriptor.first.contents.previous = ctypes.pointer(made)
    gdb.descriptor.first = gdb.descriptor.relevant = ctypes.pointer(made)
    gdb.descriptor.action = REGISTER
    gdb.register()
    gdb.descriptor.action = 0


@cache
def _gdb() -> _Gdb | None:
    """None where LLVM's library does not show the names that GDB looks for."""
    import_module("llvmlite.binding")  # GDB looks into a library that is loaded
    found = _library()
    if found is None:
        return None
    path, base = found
    wanted = ("__jit_debug_descriptor", "__jit_debug_register_code")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = {s.name: base + s.value for s in Elf(data).symbols() if s.name in wanted}
    if len(at) < len(wanted):
        return None
    descriptor, register = (at[name] for name in wanted)
    return _Gdb(_Descriptor.from_address(descriptor), ctypes.CFUNCTYPE(None)(register))


def _library() -> tuple[str, int] | None:
    """Finds LLVM's library: its path on disk, and its address in memory; None if it is not found."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.endswith("libllvmlite.so"):
            addresses, _, offset, *_ = line.split()
            return line[line.index("/") :], int(addresses.split("-")[0], 16) - int(offset, 16)
    return None
