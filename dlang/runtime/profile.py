"""What a run of a program that measures itself has found: its nests, what they took, moved and computed."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dlang.codegen.llvm.profiling import BYTES, CALLS, EVENT, EVENTS, OPERATIONS, ROW, TICKS, words
from dlang.codegen.llvm.symbols import PROFILE
from dlang.codegen.loops import Nest
from dlang.diagnostics import Span
from dlang.runtime.usage import Usage, memory_use

if TYPE_CHECKING:
    from dlang.runtime.ceilings import Ceilings
    from dlang.runtime.engine import CompiledProgram

LONG_ENOUGH = 0.02  # seconds by which the processor's clock is compared with the system's
IN_CACHES = 1.05  # of the speed of a copy through memory
WIDTH = 60  # characters of a line of source that are shown


@dataclass(frozen=True, slots=True)
class Row:
    """What a nest took in all of its calls; operations are None where some of its work is not the compiler's own."""

    nest: Nest
    calls: int
    seconds: float
    bytes: int
    operations: int | None

    @property
    def place(self) -> str:
        return where(self.nest.span)


@dataclass(frozen=True, slots=True)
class Event:
    """A call of a nest, in seconds since the profile began."""

    nest: Nest
    begin: float
    end: float


@dataclass(slots=True)
class Profile:
    """What was measured, the nest that took most first.

    seconds: from beginning to end, what is around compiled code included; threads: how many there were for large loops;
    lost: how many calls of nests are in `rows` and not in `events`, of which there is room for the first 65,536.
    """

    rows: tuple[Row, ...] = ()
    events: tuple[Event, ...] = ()
    seconds: float = 0.0
    threads: int = 1
    lost: int = 0
    memory: Usage = field(default_factory=Usage)
    result: Any = None

    def table(self, ceilings: Ceilings | None = None, least: float = 0.001) -> str:
        """A line for each nest that ran and took at least this share of the time.

        ceilings: what the machine can do, measured if not given.
        """
        if ceilings is None:
            from dlang.runtime.ceilings import ceilings as measured

            ceilings = measured(self.threads)
        total = sum(row.seconds for row in self.rows)
        head = ("time", "share", "calls", "GB/s", "GFLOP/s", "of the machine", "nest")
        shown = [row for row in self.rows if row.seconds >= least * total]
        lines = [head, *(_line(row, total, ceilings) for row in shown)]
        widths = [max(len(line[k]) for line in lines) for k in range(len(head) - 1)]
        out = []
        for line in lines:
            cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=False)]
            out.append("  ".join([*cells, line[-1]]))
        if len(shown) < len(self.rows):
            rest = sum(row.seconds for row in self.rows[len(shown) :])
            out.append(f"{_time(rest)} in {len(self.rows) - len(shown)} more")
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        out.append(f"{_time(total)} in compiled code of {_time(self.seconds)}, {threads}; memory: {self.memory}")
        out.append(
            f"the machine: copies {ceilings.bytes / 1e9:.3g} GB/s, computes {ceilings.f64 / 1e9:.3g} GFLOP/s in f64, "
            f"{ceilings.f32 / 1e9:.3g} in f32"
        )
        return "\n".join(out)

    def trace(self) -> dict[str, Any]:
        """The calls of nests in the format of Chrome's tracer, which Perfetto reads: to be written as JSON."""
        process = os.getpid()
        events = [
            {
                "name": f"{_named(e.nest)}, {where(e.nest.span)}", "cat": e.nest.kind, "ph": "X",
                "pid": process, "tid": 1, "ts": e.begin * 1e6, "dur": (e.end - e.begin) * 1e6,
                "args": {"source": _source(e.nest.span)},
            }
            for e in self.events
        ]  # fmt: skip
        return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"lost": self.lost}}


@contextmanager
def recorded(programs: Callable[[], Sequence[CompiledProgram]]) -> Iterator[Profile]:
    """Measures what programs made for it do in the block, those loaded there too; then the profile is complete."""
    from dlang.runtime.platform.threads import default_pool

    profile = Profile()
    for program in programs():
        array = _words(program)
        ctypes.memset(array, 0, ctypes.sizeof(array))
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
                _read(profile, program.nests, _words(program), first, rate)


def _words(program: CompiledProgram) -> Any:
    return (ctypes.c_int64 * words(len(program.nests))).from_address(program.loaded[-1].data[PROFILE])


def _clock() -> Callable[[], int]:
    from dlang.codegen.llvm import jit

    read: Callable[[], int] = ctypes.CFUNCTYPE(ctypes.c_int64)(jit.support_address("dl_ticks"))
    return read


def _read(profile: Profile, nests: Sequence[Nest], array: Any, first: int, rate: float) -> None:
    rows = list(profile.rows)
    for k, nest in enumerate(nests):
        row = array[k * ROW : (k + 1) * ROW]
        if row[CALLS]:
            computed = row[OPERATIONS] if nest.countable else None
            rows.append(Row(nest, row[CALLS], row[TICKS] / rate, row[BYTES], computed))
    profile.rows = tuple(sorted(rows, key=lambda row: -row.seconds))
    at = len(nests) * ROW
    count = min(array[at], EVENTS)
    profile.lost += array[at] - count
    found = list(profile.events)
    for k in range(count):
        nest, begin, end = array[at + 1 + k * EVENT : at + 1 + (k + 1) * EVENT]
        found.append(Event(nests[nest], (begin - first) / rate, (end - first) / rate))
    profile.events = tuple(sorted(found, key=lambda e: (e.begin, -e.end)))


# ---- text ------------------------------------------------------------------------------------------------------------
def _line(row: Row, total: float, ceilings: Ceilings) -> tuple[str, ...]:
    share = f"{100 * row.seconds / total:.1f} %" if total else ""
    source = _source(row.nest.span)
    where_ = f"{_named(row.nest)}, {row.place}" + (f"  {source}" if source else "")
    bytes = row.bytes / row.seconds if row.seconds else 0.0
    operations = (row.operations or 0) / row.seconds if row.seconds else 0.0
    return (
        _time(row.seconds), share, str(row.calls), f"{bytes / 1e9:.2f}" if row.bytes else "–",
        f"{operations / 1e9:.2f}" if row.operations else "–", _limit(row, bytes, operations, ceilings), where_,
    )  # fmt: skip


def _limit(row: Row, bytes: float, operations: float, ceilings: Ceilings) -> str:
    """How near a nest comes to what the machine can do, by what it is nearer to; memory is none where caches serve."""
    memory, arithmetic = bytes / ceilings.bytes, operations / ceilings.operations(row.nest.dtype)
    if not memory and not arithmetic:
        return "–"
    if arithmetic < memory <= IN_CACHES:
        return f"{100 * memory:.0f} % memory"
    return f"{100 * arithmetic:.0f} % arithmetic" if arithmetic else "in caches"


def _named(nest: Nest) -> str:
    return f"the rest of `{nest.label}`" if nest.kind == "function" else f"{nest.kind} in `{nest.label}`"


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
