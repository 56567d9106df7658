"""What a person can do with a run: step, go on and back, look at variables. Without a terminal, and without commands.

A position is a stack of levels. The outermost is the run; a level inside is one point of a comprehension, a timeline of
its own. What happens at a point touches nothing else, so points are looked at in any order, after the whole ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Any

from dlang.diagnostics import DlangError
from dlang.ir.anf import Var
from dlang.runtime.errors import RunError
from dlang.tools.debugger.breakpoints import Breakpoint, Points, Watch
from dlang.tools.debugger.code import Instruction, Spot
from dlang.tools.debugger.expressions import Expressions
from dlang.tools.debugger.machine import Machine, Stop
from dlang.tools.debugger.places import ELEMENT
from dlang.tools.debugger.state import Frame, Seen, State
from dlang.tools.debugger.timeline import MEMORY, Timeline
from dlang.tools.debugger.values import Trees, shown


class Why(Enum):
    """What has ended a movement."""

    STEP = "step"
    BREAKPOINT = "breakpoint"
    WATCH = "watch"
    FAILURE = "failure"
    END = "end"
    BEGINNING = "beginning"
    INTERRUPTED = "interrupted"
    NOT_FINITE = "not finite"


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


@dataclass(frozen=True, slots=True)
class View:
    """A frame as a person sees it: a call, or code in the place of one. spot: where it is."""

    frame: Frame
    spot: Spot | None
    label: str


@dataclass(slots=True)
class Debugger:
    """A run under way. selected: which of the views, innermost first, is looked at."""

    machine: Machine
    start: State
    expressions: Expressions
    trees: Trees
    memory: int = MEMORY
    selected: int = 0
    levels: list[Level] = field(init=False)
    points: Points = field(init=False)
    met: list[Breakpoint | tuple[Watch, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.levels = [Level(Timeline(self.machine, self.start, self.memory))]
        self.points = Points(self.machine.library.sources)

    # ---- where it is
    @property
    def top(self) -> Level:
        return self.levels[-1]

    @property
    def root(self) -> Level:
        return self.levels[0]

    @property
    def failure(self) -> RunError | None:
        """Why the run ended, where it is looked at."""
        return self.top.timeline.failure if self.top.over else None

    @property
    def at_end(self) -> bool:
        return self.root.over and self.root.timeline.failure is None

    def views(self) -> Iterator[View]:
        """The calls under way, innermost first; those in whose place code stands are among them."""
        frame: Frame | None = self.top.state().frame
        spot = frame.spot if frame is not None else None
        while frame is not None:
            while spot is not None and spot.via:
                yield View(frame, spot, spot.via[0].label)
                spot = self.machine.library.spot(spot.via[0].span, False)
            if spot is not None:
                yield View(frame, spot, frame.label)
            if frame.caller is None or (frame.parent is not None and frame.parent.caller is None):
                return  # nobody wrote the outermost call
            spot, frame = frame.caller.spot, frame.parent

    @property
    def view(self) -> View:
        """The call that is looked at."""
        frame = self.top.state().frame
        return next(islice(self.views(), self.selected, None), View(frame, None, frame.label))

    def seen(self, view: View | None = None) -> dict[str, Seen]:
        """The variables in scope, in the order in which they got their values."""
        v = view or self.view
        return {s.name.text: s for s in self._in_scope(v, v.frame.names.values()) if not s.name.is_result}

    def cotangents(self, view: View | None = None) -> dict[str, Seen]:
        """The cotangents that a backward pass has found so far, also of variables that are out of scope by then."""
        v = view or self.view
        via = v.spot.via if v.spot is not None else ()
        return {s.name.text: s for s in v.frame.cotangents.values() if s.holds(v.frame, via)}

    def _in_scope(self, v: View, given: Any) -> Iterator[Seen]:
        sources = self.machine.library.sources
        if v.spot is None:
            return
        place = v.spot.place
        for s in list(given):
            if not s.holds(v.frame, v.spot.via):
                continue
            span = s.name.span
            if span is None:  # what a function gives
                yield s
                continue
            if span.source.file.path != place.source.path:
                continue
            scope = sources.of(span.source).scope(span.first)
            # A cotangent is known when the statement that computes the variable comes, before it does so.
            first = min(scope.start, scope.first) if v.frame.backward else scope.first
            if first <= place.start < scope.last or (place.kind == ELEMENT and first <= place.end <= scope.last):
                yield s

    # ---- one step
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
                    if self.failure is not None:
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

    # ---- movements
    def move(self, ahead: bool, done: Callable[[], bool], into: bool = False) -> Why:
        """Moments one after another until one is what was wanted, or somebody wanted to stop there.

        into: whether comprehensions are entered in any case, and not only where there is a breakpoint in them.
        """
        self.selected, self.met = 0, []
        chosen = self._chosen(into)
        self._look_at_watches()
        self.machine.resume()
        try:
            while True:
                why = self.forward(chosen) if ahead else self.backward(chosen)
                if why is not Why.STEP:
                    return why
                if self._hit():
                    return Why.BREAKPOINT
                if self.points.watches and self._changed():
                    return Why.WATCH
                if done():
                    return Why.STEP
                if self.machine.interrupted:
                    return Why.INTERRUPTED
        except KeyboardInterrupt:
            return Why.INTERRUPTED
        finally:
            self.machine.resume()

    def _chosen(self, into: bool) -> Callable[[Instruction], bool]:
        if into:
            return lambda i: True
        if not self.points.by_place:
            return lambda i: False
        library, places = self.machine.library, self.points.by_place
        known: dict[int, bool] = {}

        def chosen(i: Instruction) -> bool:
            if id(i) not in known:
                reached = library.reached(i, self.top.state().frame.code.function)
                known[id(i)] = any(library.spots[n].place in places for n in reached)
            return known[id(i)]

        return chosen

    def step(self, ahead: bool = True) -> Why:
        return self.move(ahead, lambda: True, into=True)

    def next(self, ahead: bool = True) -> Why:
        """As `step`, but calls and comprehensions run as a whole."""
        levels, depth = len(self.levels), self.top.depth

        def done() -> bool:
            now = len(self.levels)
            return now < levels or (now == levels and self.top.depth <= depth)

        return self.move(ahead, done)

    def finish(self, ahead: bool = True) -> Why:
        """To where the function, or the comprehension, has ended; backward, to where it was called."""
        levels, depth = len(self.levels), self.top.depth
        base = self.top.timeline.log.depths[0] if len(self.top.timeline) else 0
        inside = depth > base

        def done() -> bool:
            now = len(self.levels)
            return now < levels or (inside and now == levels and self.top.depth < depth)

        return self.move(ahead, done)

    def go_on(self, ahead: bool = True) -> Why:
        return self.move(ahead, lambda: False)

    def goto(self, k: int) -> Why:
        """To a moment of the run."""
        self.selected, self.met = 0, []
        del self.levels[1:]
        level, t = self.root, self.root.timeline
        self.machine.resume()
        while len(t) <= k and not t.ended:
            if t.more() is Stop.INTERRUPTED:
                self.machine.resume()
                level.moment, level.over = len(t) - 1, False
                return Why.INTERRUPTED
        if k >= len(t):
            level.moment, level.over = len(t) - 1, True
            return Why.FAILURE if t.failure is not None else Why.END
        level.moment, level.over, level.passed = k, False, t.log.steps[k]
        return Why.STEP

    # ---- breakpoints and watches
    def _hit(self) -> bool:
        level = self.top
        t = level.timeline
        if not self.points.by_place:
            return False
        here = self.points.by_place.get(t.spot(level.moment).place, ())
        for b in list(here):
            if b.forward and t.log.backward[level.moment]:
                continue
            if b.condition is not None and not self.holds(b.condition):
                continue
            b.hits += 1
            self.met.append(b)
            if b.once:
                self.points.delete(b.number)
        return bool(self.met)

    def holds(self, condition: str) -> bool:
        """Whether a condition does here; one that cannot be evaluated here does not."""
        try:
            return self.expressions.holds(condition, self.seen(), self.module)
        except DlangError:
            return False

    def watched(self, w: Watch) -> str | None:
        """The value of a watch here; None in other functions than the one where it was set."""
        return self.value(w.expression) if self.function == w.function else None

    def _look_at_watches(self) -> None:
        for w in self.points.watches:
            now = self.watched(w)
            w.last = now if now is not None else w.last

    def _changed(self) -> bool:
        for w in self.points.watches:
            now = self.watched(w)
            if now is not None and w.last is not None and now != w.last:
                self.met.append((w, w.last, now))
            w.last = now if now is not None else w.last
        return bool(self.met)

    def value(self, expression: str) -> str | None:
        """The value of an expression here; None where it has none. What is a name costs little."""
        seen = self.seen()
        if expression in seen:
            return shown(seen[expression], self.trees)
        try:
            return self.expressions.text(expression, seen, self.module)
        except DlangError:
            return None

    @property
    def function(self) -> str:
        """The function of what is looked at, as the source calls it."""
        spot = self.view.spot
        return spot.place.function if spot is not None else ""

    @property
    def module(self) -> str:
        """The file of what is looked at."""
        spot = self.view.spot
        return spot.place.source.path if spot is not None else ""
