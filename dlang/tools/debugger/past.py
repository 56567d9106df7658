"""The record that a forward pass leaves for the backward one: the values that variables had, and when statements began.

When a backward pass comes to a statement, the variables of the function have got other values since, or the call has
returned. So whoever looks is shown what was remembered of that statement in that iteration of its loops. A call that
saves a tape leaves its past with the tape.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field

from dlang.tools.debugger.code import Key, Spot
from dlang.tools.debugger.seen import OBJECT, Seen, reached

Iterations = tuple[int, ...]


@dataclass(slots=True)
class Track:
    """The values of a variable, each with how many operations ran before it."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    seen: list[Seen] = field(default_factory=list)

    def of(self, spot: Spot, iterations: Iterations, begin: int, end: int) -> Seen | None:
        """The value when a statement has run that began after some operations, before it begins again.

        That is what it gave itself, or else what was there before it.
        """
        before = bisect_left(self.steps, begin)
        for k in range(bisect_left(self.steps, end) - 1, before - 1, -1):
            if self.seen[k].spot is spot and self.seen[k].iterations == iterations:
                return self.seen[k]
        found = self.seen[before - 1] if before else None
        return found if found is not None and found.holds(iterations, spot.via) else None


@dataclass(slots=True)
class Past:
    """The past of one call, which all copies of its frame have in common: a run that comes by again adds nothing.

    room: bytes that are left; without any, nothing more is remembered. begun: when statements did, by the number of the
    spot. iterations: when iterations of loops began. counts: how many iterations a loop had. cut: the statement that
    was under way, with those around it, when the room ended.
    """

    room: int
    variables: dict[Key, Track] = field(default_factory=dict)
    begun: dict[int, array[int]] = field(default_factory=dict)
    iterations: dict[tuple[int, Iterations], int] = field(default_factory=dict)
    counts: dict[tuple[int, Iterations], int] = field(default_factory=dict)
    cut: frozenset[int] = frozenset()

    @property
    def full(self) -> bool:
        return bool(self.cut)

    # ---- remembering
    def statement(self, steps: int, spot: Spot) -> None:
        if self.full:
            return
        if self.room <= 0:
            self.cut = frozenset(spot.around())
            return
        begun = self.begun.get(spot.number)
        if begun is None:
            begun = self.begun[spot.number] = array("q")
        if not (begun and begun[-1] >= steps):
            begun.append(steps)
            self.room -= 8

    def variable(self, steps: int, key: Key, seen: Seen) -> None:
        if self.full:
            return
        track = self.variables.get(key)
        if track is None:
            track = self.variables[key] = Track()
        if not (track.steps and track.steps[-1] >= steps):
            track.steps.append(steps)
            track.seen.append(seen)
            self.room -= seen.nbytes

    def iteration(self, steps: int, loop: Spot, iterations: Iterations) -> None:
        key = (loop.number, iterations[:-1])
        self.counts[key] = max(self.counts.get(key, 0), iterations[-1] + 1)
        if not self.full and self.iterations.get((loop.number, iterations), -1) < steps:
            self.iterations[loop.number, iterations] = steps
            self.room -= OBJECT

    # ---- what was
    def count(self, loop: Spot, iterations: Iterations) -> int:
        """How many iterations a loop had, in iterations of those around; 0 if that is not known."""
        return self.counts.get((loop.number, iterations), 0)

    def at(self, spot: Spot, loop: Spot | None, iterations: Iterations) -> list[Seen] | None:
        """The variables when a statement has run; None if that is not remembered.

        loop: the innermost one around the statement; iterations: of all around.
        """
        first = -1 if loop is None else self.iterations.get((loop.number, iterations))
        begun = self.begun.get(spot.number)
        if first is None or begun is None or first > begun[-1]:
            return None
        k = bisect_left(begun, first) if loop is not None else len(begun) - 1
        if k == len(begun) - 1 and spot.number in self.cut:
            return None
        begin, end = begun[k], begun[k + 1] if k + 1 < len(begun) else 1 << 62
        tracks = [(via, track) for (_, via, _), track in self.variables.items() if reached(spot.via, via)]
        tracks.sort(key=lambda t: len(t[0]))  # what is inside counts
        found = [track.of(spot, iterations, begin, end) for _, track in tracks]
        return [seen for seen in found if seen is not None]
