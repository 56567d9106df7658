"""Measures how long the parts of the compiler take: each says its name, and whoever asks gets the timings.

with timings_of() as timings:
    …                    # in it, perhaps: with timed("fuse"): …
timings[0].seconds
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Timing:
    """Something that was done once. begin: by `time.perf_counter`. inner: the seconds of timings inside it."""

    name: str
    begin: float
    seconds: float = 0.0
    inner: float = 0.0

    @property
    def own(self) -> float:
        """Seconds, without those of timings inside it."""
        return self.seconds - self.inner


_asked: ContextVar[tuple[list[Timing], list[Timing]] | None] = ContextVar(
    "timings", default=None
)  # all, and those under way


@contextmanager
def timings_of() -> Iterator[list[Timing]]:
    """The timings of this thread in the block, in the order in which they began."""
    timings: list[Timing] = []
    token = _asked.set((timings, []))
    try:
        yield timings
    finally:
        _asked.reset(token)


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Times the block under a name, if timings are asked for."""
    asked = _asked.get()
    if asked is None:
        yield
        return
    timings, open = asked
    timing = Timing(name, time.perf_counter())
    timings.append(timing)
    open.append(timing)
    try:
        yield
    finally:
        timing.seconds = time.perf_counter() - timing.begin
        open.pop()
        if open:
            open[-1].inner += timing.seconds
