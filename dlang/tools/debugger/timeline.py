"""The history of a run, and the position in it: it goes on as far as somebody looks, and back by running again."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from dlang.host.errors import RunError
from dlang.identity import ByIdentity
from dlang.ir.anf import Var
from dlang.tools.debugger.code import Instruction, Spot
from dlang.tools.debugger.finite import Sought
from dlang.tools.debugger.machine import MEMORY, Entered, Machine, State, Stop

CLOSE = 50  # operations that are run again each time that somebody looks
WAYS = 20  # states on the way
BETWEEN = 2000  # operations from one state that is kept to the next, at first


@dataclass(slots=True)
class Log:
    """For each moment. calls: how many operations ran before the call that it is in.

    entered: the comprehensions that can be entered, with how many operations ran before them.
    """

    steps: array[int] = field(default_factory=lambda: array("q"))
    spots: array[int] = field(default_factory=lambda: array("i"))
    depths: array[int] = field(default_factory=lambda: array("i"))
    backward: array[int] = field(default_factory=lambda: array("b"))
    begun: array[int] = field(default_factory=lambda: array("b"))
    calls: array[int] = field(default_factory=lambda: array("q"))
    entered: Entered = field(default_factory=Entered)


@dataclass(slots=True)
class Timeline:
    """One run. front: as far as it went. failure: why it ends there, if it failed; ended: whether it is over.

    looked: a state somewhere in the past, where somebody looked last; ways: states on the way there, closer and closer.
    """

    machine: Machine
    front: State
    memory: int = MEMORY
    log: Log = field(default_factory=Log)
    failure: RunError | None = None
    ended: bool = False
    kept: list[State] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    between: int = BETWEEN
    looked: State | None = None
    ways: list[State] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._keep()

    def __len__(self) -> int:
        """How many moments are known."""
        return len(self.log.steps)

    # ---- forward
    def more(self) -> Stop:
        """Goes on from the front to the next moment, or to what stops before it."""
        if self.ended:
            return Stop.END
        if self.front.steps - self.kept[-1].steps >= self.between:
            self._keep()
        self.machine.entered = self.log.entered
        try:
            stop = self.machine.run(self.front)
        except RunError as e:
            self._failed(e)
            return Stop.END
        finally:
            self.machine.entered = None
        if stop is Stop.STATEMENT:
            self._note()
        elif stop is Stop.END:
            self.ended = True
        return stop

    def _failed(self, e: RunError) -> None:
        frame = self.front.frame
        while frame.caller is not None and frame.parent is not None:
            e.called(frame.label, frame.caller.let.span)
            frame = frame.parent
        self.failure, self.ended = e, True

    def _note(self) -> None:
        frame, log = self.front.frame, self.log
        assert frame.spot is not None
        log.steps.append(self.front.steps)
        log.spots.append(frame.spot.number)
        log.depths.append(frame.depth_here)
        log.backward.append(frame.backward(frame.spot.via))
        log.begun.append(self.front.begun)
        log.calls.append(frame.began)

    # ---- states
    def _keep(self) -> None:
        before = self.kept[-1].frame.env if self.kept else {}
        size = self.front.detach(ByIdentity((x, None) for x in before.values()))
        self.kept.append(self.front.copy())
        self.sizes.append(size)
        while sum(self.sizes) > self.memory and len(self.kept) > 2:
            del self.kept[1::2], self.sizes[1::2]
            self.between *= 2

    def at(self, steps: int, moment: int | None = None) -> State:
        """The state after so many operations; of a moment its statement is under way. It is only to be looked at."""
        if steps == self.front.steps and (moment is None or (moment == len(self) - 1 and not self.ended)):
            return self.front
        early = moment is not None and bool(self.log.begun[moment])
        latest = steps - early  # where a block has ended, it is left without an operation, and there is no way back
        near = self.looked = self._near(latest)
        self.again(near, steps, early)
        if moment is not None:
            near.frame.spot = self.spot(moment)
            if not early:
                near.frame.fresh = ()
        return near

    def _near(self, steps: int) -> State:
        """A state that is not far before a number of operations.

        Of the way there each half is kept that somebody has to go again who goes back from there, step by step.
        """
        kept = self.kept[bisect_right(self.kept, steps, key=lambda s: s.steps) - 1]
        while self.ways and self.ways[-1].steps > steps:
            self.ways.pop()
        if not self.ways or self.ways[-1].steps < kept.steps:
            self.ways = [kept]
        s = self.looked
        if s is None or not self.ways[-1].steps <= s.steps <= steps:
            s = self.ways[-1].copy()
        while steps - s.steps > CLOSE:
            self.again(s, (s.steps + steps) // 2)
            self.ways.append(s.copy())
        del self.ways[:-WAYS]
        return s

    def again(self, s: State, steps: int, early: bool = False) -> None:
        """Runs a state of the past up to a number of operations, without anything that stops it.

        early: whether to stay in a block that has ended there.
        """
        machine = self.machine
        sought, machine.sought = machine.sought, None
        try:
            if machine.run(s, steps, statements=False, early=early) is Stop.INTERRUPTED:
                raise KeyboardInterrupt
        finally:
            machine.sought = sought

    def moment(self, k: int) -> State:
        return self.at(self.log.steps[k], k)

    def spot(self, k: int) -> Spot:
        return self.machine.library.spots[self.log.spots[k]]

    def call(self, k: int) -> object:
        """Identifies the call that a moment is in; inlined calls count too."""
        return self.log.calls[k], self.spot(k).via

    def last_before(self, steps: int) -> int:
        """The last moment that began before, or where, so many operations had run; -1 if there is none."""
        return bisect_right(self.log.steps, steps) - 1

    def comprehensions(self, k: int) -> list[tuple[int, Instruction]]:
        """The comprehensions that can be entered between a moment and the next that is known, with their steps.

        A moment of -1 is the beginning.
        """
        low = self.log.steps[k] if k >= 0 else -1
        high = self.log.steps[k + 1] if k + 1 < len(self) else self.front.steps + 1
        return self.log.entered.between(low, high)

    # ---- what is looked for
    def found(self, sought: Sought, steps: int) -> int | None:
        """After how many operations the last one is one that is looked for, from some on."""
        machine, machine.sought = self.machine, sought
        try:
            if steps < self.front.steps:
                s = self.at(steps).copy()
                stop = machine.run(s, self.front.steps, statements=False)
                if stop is Stop.FOUND:
                    return s.steps
                if stop is Stop.INTERRUPTED:
                    raise KeyboardInterrupt
            while True:
                match self.more():
                    case Stop.FOUND:
                        return self.front.steps
                    case Stop.INTERRUPTED:
                        raise KeyboardInterrupt
                    case Stop.END:
                        return None
        finally:
            machine.sought = None


# ---- levels ----------------------------------------------------------------------------------------------------------
# The position in a run: a stack of levels, and the moments before and after.
#
# The outermost level is the run; a level inside is one point of a comprehension, a timeline of its own. What happens at
# a point touches nothing else, so points are looked at in any order, after the whole ran.


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
