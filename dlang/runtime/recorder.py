"""Marks in what a program that measures itself asks of a device: when each nest began there, and when it ended."""

from __future__ import annotations

import ctypes
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dlang.codegen.llvm.marks import COUNT, NEST, PAIR, PAIRS, RECORD, ROOM
from dlang.codegen.llvm.profiling import EVENTS
from dlang.runtime.devices import Driver, Marks


@dataclass(slots=True)
class Recording:
    """The device work of runs, by the numbers of nests: how often they asked the device, the seconds that it took,
    and the bytes that went between it and the host.

    events: nests with when they began and ended, on the host's clock; those that there is no room for are `lost`.
    outside: the nest of what is asked for before and after machine code.
    """

    outside: int
    seconds: dict[int, float] = field(default_factory=dict)
    calls: Counter[int] = field(default_factory=Counter)
    bytes: Counter[int] = field(default_factory=Counter)
    events: list[tuple[int, float, float]] = field(default_factory=list)
    lost: int = 0
    recorders: list[Recorder] = field(default_factory=list)

    def clear(self) -> None:
        """Nothing has been found so far."""
        self.seconds.clear()
        self.calls.clear()
        self.bytes.clear()
        self.events.clear()
        self.lost = 0

    def recorder(self, driver: Driver) -> Recorder:
        """One for a run that begins now."""
        found = self.recorders.pop() if self.recorders else Recorder(self, driver)
        found.begin()
        return found


@dataclass(eq=False)
class Recorder:
    """The marks of one run. words: as in `codegen/llvm/marks.py`; base: when the last mark was, on the host's clock."""

    recording: Recording
    driver: Driver
    marks: Marks = field(init=False)
    words: Any = field(init=False)
    record: Callable[[int, int], int] = field(init=False)
    base: float = field(init=False)

    def __post_init__(self) -> None:
        self.marks = self.driver.marks(2 * ROOM + 1)
        self.words = (ctypes.c_int64 * (PAIRS + PAIR * ROOM))()
        self.words[RECORD] = self.driver.functions.record
        handles = self.marks.handles
        for k in range(ROOM):
            self.words[PAIRS + PAIR * k : PAIRS + PAIR * k + 2] = list(handles[2 * k : 2 * k + 2])
        self.record = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64)(self.driver.functions.record)

    def begin(self) -> None:
        """A run begins, and the device has nothing to do."""
        self.words[COUNT], self.words[NEST] = 0, self.recording.outside
        self.mark(self.marks.handles[2 * ROOM])
        self.driver.wait()
        self.base = time.perf_counter()

    def mark(self, handle: int) -> None:
        """Has the device note when it comes here."""
        status = self.record(handle, self.driver.stream)
        if status:
            raise self.driver.error(status)

    @contextmanager
    def copying(self, size: int) -> Iterator[None]:
        """A copy of so many bytes between device and host, for the nest that is under way."""
        pair, nest = PAIRS + PAIR * self.words[COUNT], self.words[NEST]
        self.mark(self.words[pair])
        yield
        self.mark(self.words[pair + 1])
        self.words[pair + 2] = nest
        self.words[COUNT] += 1
        self.recording.bytes[nest] += size
        if self.words[COUNT] == ROOM:
            self.read()

    def ends(self) -> None:
        """Machine code has ended: what follows counts as outside."""
        self.words[NEST] = self.recording.outside

    def read(self) -> None:
        """Reads all marks, for which it waits."""
        found, count, marks = self.recording, self.words[COUNT], self.marks
        if not count:
            return
        self.driver.wait()
        for k in range(count):
            nest, seconds = self.words[PAIRS + PAIR * k + 2], marks.elapsed(2 * k, 2 * k + 1)
            found.calls[nest] += 1
            found.seconds[nest] = found.seconds.get(nest, 0.0) + seconds
            if len(found.events) < EVENTS:
                begin = self.base + marks.elapsed(2 * ROOM, 2 * k)
                found.events.append((nest, begin, begin + seconds))
            else:
                found.lost += 1
        self.words[COUNT] = 0

    def end(self) -> None:
        """The run has ended; another one may use this."""
        self.read()
        self.recording.recorders.append(self)
