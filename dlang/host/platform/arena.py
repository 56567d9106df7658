"""Reserved memory that is there from its first use: where the nodes of a run lie."""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dlang.host.platform import portable
from dlang.host.platform.memory import physical_memory

NORESERVE = "MAP_NORESERVE"
FALLBACK = 1 << 30  # bytes, where memory that is only reserved counts as used
LEAST = 1 << 24
HUGE = 2 << 20  # the first pages stay small: most programs need few


@dataclass(frozen=True, slots=True)
class Reservation:
    """Addresses from `address` on, so many bytes; given back when the object dies."""

    memory: mmap.mmap
    address: int
    bytes: int

    def give_back(self, start: int, end: int | None = None) -> None:
        """Lets the system have the pages between two offsets; they are zero when they are used again."""
        if hasattr(mmap, "MADV_DONTNEED") and not portable():
            start = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
            end = self.bytes if end is None else end // mmap.PAGESIZE * mmap.PAGESIZE
            if start < end:
                self.memory.madvise(mmap.MADV_DONTNEED, start, end - start)


def reserve(limit: int = 0) -> Reservation:
    """Reserves as much as there is memory, or `limit` bytes. Raises `MemoryError`."""
    wanted = limit or (FALLBACK if portable() or not _can_overcommit() else physical_memory())
    wanted = -(-wanted // mmap.PAGESIZE) * mmap.PAGESIZE
    while True:
        try:
            memory = _map(wanted)
            break
        except OSError:
            if wanted <= LEAST:
                raise MemoryError from None
            wanted //= 2
    probe = ctypes.c_char.from_buffer(memory)
    address = ctypes.addressof(probe)
    del probe
    return Reservation(memory, address, wanted)


def _can_overcommit() -> bool:
    return hasattr(mmap, NORESERVE)


def _map(bytes: int) -> mmap.mmap:
    if portable() or not _can_overcommit():
        return mmap.mmap(-1, bytes)
    flags: Any = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, NORESERVE)
    memory = mmap.mmap(-1, bytes, flags)
    if hasattr(mmap, "MADV_HUGEPAGE") and bytes > HUGE:
        with suppress(OSError):  # of a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE, HUGE, bytes - HUGE)
    return memory
