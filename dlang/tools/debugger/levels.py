"""The position in a run: a stack of levels, and the moments before and after.

The outermost level is the run; a level inside is one point of a comprehension, a timeline of its own. What happens at a
point touches nothing else, so points are looked at in any order, after the whole ran.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from dlang.ir.anf import Var
from dlang.tools.debugger.code import Instruction
from dlang.tools.debugger.machine import Machine, Stop
from dlang.tools.debugger.state import State
from dlang.tools.debugger.timeline import Timeline


class Why(Enum):
    """The reason why a movement ended."""

    STEP = "step"
    BREAKPOINT = "breakpoint"
    WATCH = "watch"
    FAILURE = "failure"
    END = "end"
    BEGINNING = "beginning"
    INTERRUPTED = "interrupted"


@dataclass(slots=True)
class Level:
    """A run, or a point of a comprehension. moment: where it is, of the timeline; -1 before the first.

    over: whether it is behind the last moment, where the run has ended or failed. passed: how many operations ran
    before what has not been entered yet. entered: of a point, the comprehension; indices: of all of its points.
    """

    timeline: Timeline
    moment: int = -1
    over: bool = False
    passed: int = 0
    entered: tuple[int, Instruction] | None = None
    indices: list[dict[Var, Any]] = field(default_factory=list)
    point: int = 0

    def index(self, k: int) -> list[tuple[Var, int]]:
        """The indices of a point, of those axes that a person knows."""
        rows = self.entered[1].rows if self.entered is not None else ()
        return [(v, int(x)) for v, x in self.indices[k].items() if v not in rows]

    @property
    def depth(self) -> int:
        """How many calls are around the statement."""
        if self.over:
            return self.timeline.front.frame.depth_here
        return self.timeline.log.depths[self.moment] if self.moment >= 0 else 0

    def state(self) -> State:
        t = self.timeline
        if self.over:
            return t.front
        return t.moment(self.moment) if self.moment >= 0 else t.at(0)


@dataclass(slots=True)
class Walk:
    """A way through a run. memory: bytes that states of the past of each timeline may take."""

    machine: Machine
    levels: list[Level]
    memory: int

    @property
    def top(self) -> Level:
        return self.levels[-1]

    @property
    def root(self) -> Level:
        return self.levels[0]

    def forward(self, into: Callable[[Instruction], bool]) -> Why:
        """To the next moment. into: which comprehensions are entered."""
        while True:
            level = self.top
            t = level.timeline
            if not level.over and level.moment + 1 >= len(t) and not t.ended:
                if t.more() is Stop.INTERRUPTED:
                    return Why.INTERRUPTED
            if not level.over and self._entered(level, into):
                return Why.STEP
            if level.moment + 1 < len(t):
                level.moment += 1
                level.passed = t.log.steps[level.moment]
                return Why.STEP
            level.over = True
            if t.failure is not None:
                return Why.FAILURE
            if level is self.root:
                return Why.END
            why = self._next_point(level)
            if why is not None:
                return why
            self._leave()

    def _entered(self, level: Level, into: Callable[[Instruction], bool]) -> bool:
        """Enters the next comprehension of the statement that is to be, at its first point."""
        if level.moment < 0:
            return False
        for steps, i in level.timeline.comprehensions(level.moment):
            if steps >= level.passed and into(i) and self._enter(level, steps, i, first=True):
                return True
            level.passed = max(level.passed, steps + 1)
        return False

    def _enter(self, level: Level, steps: int, i: Instruction, first: bool) -> bool:
        """Enters a comprehension at its first or last point; false if there is nothing to see there."""
        level.passed = steps
        around = level.timeline.at(steps)
        indices = self.machine.points(around, i)
        if not indices:
            return False
        inner = Level(self._point(around, i, indices[0]), entered=(steps, i), indices=indices)
        self.levels.append(inner)
        self._begin(inner)
        if len(inner.timeline) == 0 and inner.timeline.failure is None:
            self.levels.pop()
            return False
        if not first:
            failing = steps == level.timeline.front.steps and level.timeline.failure is not None
            for k in range(0 if failing else len(indices) - 1, len(indices)):
                self.to_point(k, last=True)
                if failing and inner.timeline.failure is not None:
                    break
        return True

    def _point(self, around: State, i: Instruction, index: dict[Var, Any]) -> Timeline:
        return Timeline(self.machine, self.machine.element(around, i, index), self.memory)

    def _begin(self, level: Level) -> None:
        """At the first moment of a point."""
        level.timeline.more()
        if len(level.timeline):
            level.moment, level.over = 0, False
        else:
            level.over = level.timeline.ended

    def enter_next(self) -> bool:
        """Enters the next comprehension of the statement, if there is one."""
        level = self.top
        if not level.over and level.moment + 1 >= len(level.timeline) and not level.timeline.ended:
            level.timeline.more()
        return self._entered(level, lambda i: True)

    def to_point(self, k: int, last: bool = False) -> None:
        """To another point of the comprehension of the innermost level: its first moment, or behind its last."""
        level = self.top
        assert level.entered is not None
        steps, i = level.entered
        around = self.levels[-2].timeline.at(steps)
        level.timeline, level.point, level.moment, level.over = self._point(around, i, level.indices[k]), k, -1, False
        level.passed = 0
        self._begin(level)
        if last:
            while not level.timeline.ended:
                if level.timeline.more() is Stop.INTERRUPTED:
                    break
            level.moment, level.over = len(level.timeline) - 1, True

    def _next_point(self, level: Level) -> Why | None:
        """At the first moment of the next point that has one; None if there is none."""
        while level.point + 1 < len(level.indices):
            self.to_point(level.point + 1)
            if level.moment >= 0:
                return Why.STEP
            if level.timeline.failure is not None:
                return Why.FAILURE
        return None

    def _leave(self) -> None:
        """Behind the comprehension of the innermost level."""
        entered = self.levels.pop().entered
        assert entered is not None
        self.top.passed = entered[0] + 1

    def backward(self, into: Callable[[Instruction], bool]) -> Why:
        """To the moment before."""
        while True:
            level = self.top
            t = level.timeline
            failed = level.over and t.failure is not None
            before = level.moment if level.over else level.moment - 1
            level.over = False
            if before >= 0:
                level.moment, level.passed = before, t.log.steps[before]
                if self._entered_from_behind(level, None, into):
                    if self.top.over and self.top.timeline.failure is not None:
                        return Why.STEP
                elif not failed:  # else it was at this very statement
                    return Why.STEP
            elif level is self.root:
                level.moment = 0 if len(t) else -1
                return Why.BEGINNING
            elif level.point > 0:
                self.to_point(level.point - 1, last=True)
            else:
                entered = self.levels.pop().entered
                assert entered is not None
                if not self._entered_from_behind(self.top, entered[0], into):
                    return Why.STEP

    def _entered_from_behind(self, level: Level, limit: int | None, into: Callable[[Instruction], bool]) -> bool:
        """Enters the last comprehension of the statement, before a number of operations, behind its last point."""
        for steps, i in reversed(level.timeline.comprehensions(level.moment)):
            if (limit is None or steps < limit) and into(i) and self._enter(level, steps, i, first=False):
                return True
        level.passed = level.timeline.log.steps[level.moment]
        return False
