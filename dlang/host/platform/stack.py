"""Stacks for recursion: as deep as there is memory, whatever stack the calling thread has.

Compiled code that may recurse runs on a stack of its own, to which the entry switches (`support.switch_text`); what it
asks of the host runs on the thread's own stack, so Python never sees another. Where there is no code for the switch, a
thread with a large stack does the same.

A stack is as large as the machine's memory, but only reserved. A recursive function compares its frame with a limit,
and asks for more where it is reached. After a deep run the memory is given back.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from dlang.host.interruptions import wait
from dlang.host.platform import portable
from dlang.host.platform.machine import physical_memory, spare_memory

# ---- memory for nodes ------------------------------------------------------------------------------------------------
# Reserved memory that is there from its first use: where the nodes of a run lie.

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


# ---- stacks ----------------------------------------------------------------------------------------------------------

MARGIN = 256 << 10  # left at the end for what compiled code calls
FIRST = 64 << 20  # bytes that a run has without asking, and that stay from one run to the next
LEAST_STEP = 16 << 20
THREAD = 1 << 30  # bytes of the stack of a thread: reserved, where the system only reserves
PAGE = 4096


def has_switch() -> bool:
    """Tells whether there is code for this machine that switches to another stack."""
    return os.name == "posix" and platform.machine() in ("x86_64", "AMD64")


def can_switch() -> bool:
    """Tells whether the code that switches to another stack is to be used."""
    return has_switch() and not portable()


@dataclass(slots=True)
class Stack:
    """Addresses from `lowest` to `top`; a run may go down to `limit`, and then has to ask for more."""

    lowest: int
    top: int
    limit: int
    memory: Reservation | None = None

    def deeper(self, frame: int) -> bool:
        """Lowers the limit for a run that has reached it, by half of the memory that there is to spare."""
        room = frame - self.lowest
        step = min(room, spare_memory() // 2)
        if step < LEAST_STEP and step < room:
            return False
        self.limit = frame - step
        return step > 0

    def give_back(self) -> None:
        """After a run: lets the system have the memory of one that went deep."""
        first = max(self.top - FIRST, self.lowest)
        if self.limit < first and self.memory is not None:
            self.memory.give_back(PAGE, first - self.memory.address)
        self.limit = first


def new_stack(bytes: int = 0) -> Stack:
    """A stack of so many bytes; 0 for as many as there is memory. Raises `MemoryError`."""
    memory = reserve(bytes)
    top = (memory.address + memory.bytes) & -64
    _guard(memory.address)
    lowest = min(memory.address + MARGIN, top)
    return Stack(lowest, top, max(top - FIRST, lowest), memory)


def _guard(address: int) -> None:
    """Makes a page unusable: the last defence."""
    protect = _protect()
    if protect is not None:
        protect(address, PAGE, 0)


@cache
def _protect() -> Callable[[int, int, int], int] | None:
    try:
        function = ctypes.CDLL(None).mprotect
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function


# ---- the fallback ----------------------------------------------------------------------------------------------------
_sizes = threading.Lock()  # the size of a new thread's stack is a setting of the process


def start(thread: threading.Thread, bytes: int) -> None:
    """Starts a thread with a stack of so many bytes."""
    with _sizes:
        before = threading.stack_size(bytes)
        try:
            thread.start()
        finally:
            threading.stack_size(before)


def call_on_thread(
    function: Callable[[Stack], int],
    stack_pointer: Callable[[], int],
    bytes: int,
    cancel: Callable[[BaseException], None],
) -> int:
    """Calls a function on a thread with a large stack, which it is told. stack_pointer: where the stack is.

    cancel: told of what interrupts the waiting, which ends when the function does, and is raised then.
    """
    size = max(bytes or min(THREAD, physical_memory() // 2), 4 * MARGIN)
    outcome: list[int | BaseException] = []
    done = threading.Event()

    def work() -> None:
        top = stack_pointer()
        lowest = top - size + MARGIN
        try:
            outcome.append(function(Stack(lowest, top, lowest)))
        except BaseException as error:  # handed to the thread that waits
            outcome.append(error)
        finally:
            done.set()

    start(threading.Thread(target=work, name="dlang", daemon=True), size)
    interruption: BaseException | None = None
    while not done.is_set():
        try:
            wait(done)
        except BaseException as error:
            interruption = error
            cancel(error)
    if interruption is not None:
        raise interruption
    (result,) = outcome
    if isinstance(result, BaseException):
        raise result
    return result
