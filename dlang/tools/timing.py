"""How long a call takes: warmed up, repeated, and with what is known of the noise.

What is timed is timed in several rounds, between which other things are timed and its arguments are made anew: where
arrays lie, and what else the machine does for a while, changes times by more than what happens from call to call.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat

ROUNDS = 5
SAMPLE = 1e-3
"""Seconds that a sample takes at least: calls that are shorter are timed together."""
MOST = 200
"""Samples of a round; one at least."""
WARM_UP = 0.2
"""The part of the time of a round in which nothing is counted yet."""
FIRST = 3
"""Calls that are made one by one, since they may compile something."""
NORMAL = 1.4826
"""Standard deviations of what is distributed normally, in a median deviation."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of a call, in each sample of each round. calls: in all of them together."""

    rounds: tuple[tuple[float, ...], ...]
    calls: int

    @property
    def samples(self) -> list[float]:
        return [x for samples in self.rounds for x in samples]

    @property
    def least(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def deviation(self) -> float:
        """The median of the distances from the median (MAD)."""
        return deviation(self.samples)

    @property
    def uncertainty(self) -> float:
        """The standard error of the median, by how far rounds differ, or else by how far samples do."""
        middles = [statistics.median(samples) for samples in self.rounds]
        between, within = (_standard_error(x) for x in (middles, self.samples))
        return max(between, within)

    def joined(self, other: Times) -> Times:
        return Times(self.rounds + other.rounds, self.calls + other.calls)


def deviation(samples: Sequence[float]) -> float:
    middle = statistics.median(samples)
    return statistics.median(abs(x - middle) for x in samples)


def _standard_error(samples: Sequence[float]) -> float:
    """Returns the standard error of the median, which is that of a mean times the root of π/2."""
    return math.sqrt(math.pi / 2) * NORMAL * deviation(samples) / math.sqrt(len(samples))


def timed(call: Callable[[], object], seconds: float) -> Times:
    """One round of about so many seconds; Python collects no garbage meanwhile."""
    loop = _loop(call)
    with _no_garbage():
        once = _warmed_up(loop, WARM_UP * seconds)
        count = max(1, round(SAMPLE / max(once, 1e-9)))
        samples: list[float] = []
        end = time.perf_counter() + (1 - WARM_UP) * seconds
        while not samples or (len(samples) < MOST and time.perf_counter() < end):
            samples.append(loop(count) / count)
    return Times((tuple(samples),), count * len(samples))


def _loop(call: Callable[[], object]) -> Callable[[int], float]:
    """Makes a function that calls so many times, and returns how long that took."""

    def loop(count: int) -> float:
        start = time.perf_counter()
        for _ in repeat(None, count):
            call()
        return time.perf_counter() - start

    return loop


def _warmed_up(loop: Callable[[int], float], seconds: float) -> float:
    """Calls until caches are warm, and all is compiled that only later calls need; gives the time of a call."""
    spent, once, count, calls = 0.0, 0.0, 1, 0
    while spent < seconds:
        took = loop(count)
        spent, once, calls = spent + took, took / count, calls + count
        if calls >= FIRST:
            count = min(2 * count, max(1, round(SAMPLE / max(once, 1e-9))))
    return once


@contextmanager
def _no_garbage() -> Iterator[None]:
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
