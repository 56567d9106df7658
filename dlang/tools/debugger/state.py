"""The state of a run, which can be copied: the calls under way."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dlang.identity import ByIdentity
from dlang.interpret.code import Frame as Variables
from dlang.ir.anf import Var
from dlang.ir.values import Version
from dlang.specialize.names import Name
from dlang.tools.debugger.code import IF, Code, Instruction, Key, Spot, Via


@dataclass(frozen=True, slots=True)
class Cell:
    """A continuation: what to do when a block has run. `around` is the next cell."""

    instruction: Instruction
    kind: int
    code: Code
    at: int
    around: Cell | None
    number: int = 0
    high: int = 0
    testing: bool = False


class Frame:
    """A call under way. names, cotangents: by their keys; fresh: the cotangents that the statement begins with.

    began: how many operations ran before the call.
    iterations: of the loops around, counted from 0; of one that runs backward and of which nobody knows how many it
    has, counted from the end, from -1. passes: the backward passes under way, by the calls in whose place they stand.
    past: what is remembered for one. depth: how many calls are around. base: whether the machine ends with it. shared:
    whether a copy of the state has it too.
    """

    __slots__ = (
        "base", "began", "caller", "cell", "code", "cotangents", "depth", "fresh", "label", "names", "parent", "passes",
        "past", "pc", "shared", "spot", "iterations", "view",
    )  # fmt: skip

    def __init__(self, label: str, code: Code, env: dict[Var, Any], depth: int, parent: Frame | None) -> None:
        self.label, self.code, self.depth, self.parent = label, code, depth, parent
        self.view = Variables(env, None)
        self.pc = 0
        self.cell: Cell | None = None
        self.spot: Spot | None = None
        self.iterations: tuple[int, ...] = ()
        self.names: dict[Key, Seen] = {}
        self.cotangents: dict[Key, Seen] = {}
        self.fresh: tuple[Seen, ...] = ()
        self.passes: tuple[Via, ...] = ()
        self.past: Past | None = None
        self.base = self.shared = False
        self.began = 0
        self.caller: Instruction | None = None

    @property
    def env(self) -> dict[Var, Any]:
        return self.view.env

    def copy(self) -> Frame:
        new = Frame(self.label, self.code, dict(self.env), self.depth, self.parent)
        new.pc, new.cell, new.spot, new.iterations = self.pc, self.cell, self.spot, self.iterations
        new.names, new.cotangents = dict(self.names), dict(self.cotangents)
        new.passes, new.past, new.base = self.passes, self.past, self.base
        new.caller, new.fresh, new.began = self.caller, self.fresh, self.began
        return new

    def backward(self, via: Via) -> bool:
        """Tells whether code that stands in the place of calls is of a backward pass."""
        return bool(self.passes) and any(reached(via, p) for p in self.passes)

    def variables(self, spot: Spot) -> list[Seen]:
        """Lists the variables that have a value at a statement of this call."""
        backward = self.backward(spot.via)
        known = [s for s in self.names.values() if s.backward == backward and s.holds(self.iterations, spot.via)]
        if not backward or self.past is None:
            return known
        past = self.past.at(spot, *self._around(spot)) or []
        remembered = {s.name.local for s in past}
        return [*past, *(s for s in known if s.name.local not in remembered)]

    def forgot(self, spot: Spot) -> bool:
        """Tells whether there was no room to remember the variables at a statement of a backward pass."""
        past = self.past if self.backward(spot.via) else None
        return past is not None and past.full and past.at(spot, *self._around(spot)) is None

    @property
    def loop(self) -> Spot | None:
        """The innermost loop under way."""
        cell = self.cell
        while cell is not None and cell.kind == IF:
            cell = cell.around
        return None if cell is None else cell.instruction.spot

    def _around(self, spot: Spot) -> tuple[Spot | None, tuple[int, ...]]:
        """The innermost of the loops around a statement that are under way, and their iterations."""
        cell, iterations = self.cell, self.iterations
        while cell is not None:
            if cell.kind != IF:
                loop = cell.instruction.spot
                if loop is not None and spot.inside(loop):
                    return loop, iterations
                iterations = iterations[:-1]
            cell = cell.around
        return None, iterations

    @property
    def depth_here(self) -> int:
        """How many calls are around, with those in whose place the code stands."""
        return self.depth + (len(self.spot.via) if self.spot is not None else 0)


@dataclass(slots=True)
class State:
    """The state of a run. steps: how many operations ran; effects: how many of them the world has seen.

    returned: the depth of the function that has returned last, and what it gave: its result, or the cotangents of its
    parameters if it is a derivative. begun: whether a statement of a backward pass begins here, whose cotangents are
    known.
    """

    frame: Frame
    steps: int = 0
    effects: int = 0
    returned: tuple[int, tuple[Seen, ...]] | None = None
    results: list[Any] = field(default_factory=list)
    begun: bool = False

    def copy(self) -> State:
        p = self.frame.parent
        while p is not None and not p.shared:
            p.shared = True
            p = p.parent
        return State(self.frame.copy(), self.steps, self.effects, self.returned, self.results)

    def detach(self, known: ByIdentity[Any, None]) -> int:
        """Arrays no longer share memory with what they become by updates.

        About how many bytes the state has, without the objects that are known.
        """
        size = 0
        env = self.frame.env
        for var, value in env.items():
            if type(value) is Version:
                value = env[var] = value.read().copy()
            size += 100 + (value.nbytes if type(value) is np.ndarray and value not in known else 0)
        for seen in (self.frame.names, self.frame.cotangents):
            for key, s in seen.items():
                seen[key] = s.detached()
        return size


@dataclass(slots=True)
class Entered:
    """The comprehensions of a run that can be entered, in order, each with how many operations ran before it."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    which: array[int] = field(default_factory=lambda: array("i"))
    known: list[Instruction] = field(default_factory=list)
    numbers: dict[Instruction, int] = field(default_factory=dict)

    def note(self, steps: int, i: Instruction) -> None:
        """Once, however often a run that was interrupted comes by."""
        if self.steps and self.steps[-1] >= steps:
            return
        if i not in self.numbers:
            self.numbers[i] = len(self.known)
            self.known.append(i)
        self.steps.append(steps)
        self.which.append(self.numbers[i])

    def between(self, low: int, high: int) -> list[tuple[int, Instruction]]:
        """Lists the instructions before which at least `low` operations ran, and less than `high`."""
        first, last = bisect_left(self.steps, low), bisect_left(self.steps, high)
        return [(self.steps[k], self.known[self.which[k]]) for k in range(first, last)]


# ---- what forward passes leave ---------------------------------------------------------------------------------------
# The record that a forward pass leaves for the backward one: the values that variables had, and when statements began.
#
# When a backward pass comes to a statement, the variables of the function have got other values since, or the call has
# returned. So whoever looks is shown what was remembered of that statement in that iteration of its loops. A call that
# saves a tape leaves its past with the tape.

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


# ---- variables -------------------------------------------------------------------------------------------------------
# A variable of the source as the machine sees it.

OBJECT = 250  # bytes of a variable with a number, about


@dataclass(slots=True, eq=False)
class Seen:
    """A variable with its value, or its cotangent or tangent: which of the guarded values it has, and what they are.

    It is not changed, only replaced; a frozen class takes longer to make. kinds: as of its mark. backward, iterations,
    spot, via: where that was found. tangents: those of the value, or of the cotangent.
    """

    name: Name
    values: tuple[Any, ...]
    kinds: tuple[str, ...] = ()
    guarded: tuple[int, ...] = ()
    backward: bool = False
    iterations: tuple[int, ...] = ()
    spot: Spot | None = None
    via: Via = ()
    tangents: tuple[Seen, ...] = ()

    @property
    def key(self) -> Key:
        """Of which there is one value at a time: what a lambda has captured is not the variable around it."""
        return self.name.local, self.via, self.kinds

    def detached(self) -> Seen:
        """Sharing no memory with what its arrays become by updates."""
        if not any(type(v) is Version for v in self.values) and not self.tangents:
            return self
        values = tuple([v.read().copy() if type(v) is Version else v for v in self.values])
        return replace(self, values=values, tangents=tuple([t.detached() for t in self.tangents]))

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        return (
            OBJECT
            + sum([v.nbytes for v in self.values if isinstance(v, np.ndarray)])
            + sum([t.nbytes for t in self.tangents])
        )

    def holds(self, iterations: tuple[int, ...], via: Via) -> bool:
        """Tells whether it still holds: in the same iterations of the loops, and in the same calls that code was
        inlined for."""
        return iterations[: len(self.iterations)] == self.iterations and reached(via, self.via)


def reached(via: Via, inner: Via) -> bool:
    """Tells whether code that is reached by some calls sees what is known in others of them: those around."""
    return via[len(via) - len(inner) :] == inner
