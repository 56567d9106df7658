"""The state of a run, which can be copied: the calls under way."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlang.identity import ByIdentity
from dlang.interpret.code import Frame as Variables
from dlang.ir.anf import Var
from dlang.ir.values import Version
from dlang.tools.debugger.code import IF, Code, Instruction, Key, Spot, Via
from dlang.tools.debugger.past import Past
from dlang.tools.debugger.seen import Seen, reached


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
