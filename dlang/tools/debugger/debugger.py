"""The operations of the debugger on a run: step, go on and back, look at variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from dlang.diagnostics import DlangError
from dlang.host.errors import RunError
from dlang.ir.marks import TANGENT
from dlang.ir.values import array_of
from dlang.tools.debugger.breakpoints import Breakpoint, Points, Watch, Watched
from dlang.tools.debugger.code import Instruction, Spot
from dlang.tools.debugger.differentials import cotangent, derivatives, tangent, variable
from dlang.tools.debugger.expressions import Expressions
from dlang.tools.debugger.levels import Level, Walk, Why
from dlang.tools.debugger.machine import MEMORY, Machine, Stop
from dlang.tools.debugger.places import ELEMENT
from dlang.tools.debugger.seen import Seen
from dlang.tools.debugger.state import Frame, State
from dlang.tools.debugger.timeline import Timeline
from dlang.tools.debugger.values import Trees, identity, leaves_of, shown, tangents


@dataclass(frozen=True, slots=True)
class View:
    """A frame as a person sees it: a call, or code in the place of one. spot: where it is."""

    frame: Frame
    spot: Spot | None
    label: str

    @property
    def forward(self) -> bool:
        """Tells whether there are tangents: the code is run by a derivative in forward mode."""
        return self.spot is not None and any(s.tangents for s in self.frame.variables(self.spot))

    @property
    def backward(self) -> bool:
        """Tells whether it is of a backward pass."""
        return self.spot is not None and self.frame.backward(self.spot.via)

    @property
    def mode(self) -> list[str]:
        """Lists the modes of the derivatives at work here."""
        return ["forward mode"] * self.forward + ["backward pass"] * self.backward


@dataclass(frozen=True, slots=True)
class Change:
    """Another value of a watch."""

    watch: Watch
    before: Watched
    now: Watched


@dataclass(slots=True)
class Debugger:
    """A run under way. selected: which of the views, innermost first, is looked at."""

    machine: Machine
    start: State
    expressions: Expressions
    trees: Trees
    memory: int = MEMORY
    selected: int = 0
    walk: Walk = field(init=False)
    points: Points = field(init=False)
    met: list[Breakpoint | Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.walk = Walk(self.machine, [Level(Timeline(self.machine, self.start, self.memory))], self.memory)
        self.points = Points(self.machine.library.sources)

    # ---- where it is
    @property
    def levels(self) -> list[Level]:
        return self.walk.levels

    @property
    def top(self) -> Level:
        return self.walk.top

    @property
    def root(self) -> Level:
        return self.walk.root

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
                spot = spot.caller
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
        return {s.name.text: s for s in self._in_scope(v) if not s.name.is_result}

    def known(self, expression: str) -> dict[str, Seen]:
        """The variables in scope, with the tangents and cotangents that an expression mentions. Raises `DlangError`."""
        seen = self.seen()
        for word, name in derivatives(self.expressions.tree(expression)[1]):
            found = tangent(name, seen) if word == TANGENT else cotangent(name, seen, self.cotangents())
            seen[variable(word, name)] = found
        return seen

    def cotangents(self, view: View | None = None) -> list[Seen]:
        """The cotangents that a backward pass has found so far, also of variables that are out of scope by then."""
        v = view or self.view
        via = v.spot.via if v.spot is not None else ()
        found = [s for s in v.frame.cotangents.values() if s.holds(v.frame.iterations, via)]
        return list({(s.name.text, s.kinds): s for s in found}.values())

    def _in_scope(self, v: View) -> Iterator[Seen]:
        sources = self.machine.library.sources
        if v.spot is None:
            return
        place = v.spot.place
        for s in v.frame.variables(v.spot):
            span = s.name.span
            if span is None:  # what a function gives
                yield s
                continue
            if span.source.file.path != place.source.path:
                continue
            scope = sources.of(span.source).scope(span.first)
            # A cotangent is known when the statement that computes the variable comes, before it does so.
            first = min(scope.start, scope.first) if v.backward else scope.first
            if first <= place.start < scope.last or (place.kind == ELEMENT and first <= place.end <= scope.last):
                yield s

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
                why = self.walk.forward(chosen) if ahead else self.walk.backward(chosen)
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
        known: dict[Instruction, bool] = {}

        def chosen(i: Instruction) -> bool:
            if i not in known:
                reached = library.reached(i, self.top.state().frame.code.function)
                known[i] = any(library.spots[n].place in places for n in reached)
            return known[i]

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
        call = self._call()

        def done() -> bool:
            now = len(self.levels)
            if now != levels:
                return now < levels
            return inside and (self.top.depth < depth or (ahead and self.top.depth == depth and self._call() != call))

        return self.move(ahead, done)

    def _call(self) -> object:
        """Identifies the call that the statement is in."""
        return self.top.timeline.call(self.top.moment) if self.top.moment >= 0 else None

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
            if b.condition is not None and not self._holds(b, b.condition):
                continue
            b.hits += 1
            self.met.append(b)
            if b.once:
                self.points.delete(b.number)
        return bool(self.met)

    def _holds(self, b: Breakpoint, condition: str) -> bool:
        """Tells whether a condition holds here. If it cannot be evaluated, the run stops there to say so."""
        b.problem = ""
        try:
            return self.expressions.holds(condition, self.known(condition), self.module)
        except DlangError as e:
            b.problem = e.diagnostics[0].message
            return True

    def watched(self, w: Watch) -> str | None:
        """The value of a watch here; None in other functions than the one where it was set."""
        return self.value(w.expression) if self.function == w.function else None

    def _look_at_watches(self) -> None:
        for w in self.points.watches:
            self._look_at(w)

    def _changed(self) -> bool:
        for w in self.points.watches:
            before = w.last
            if self._look_at(w) and before is not None and w.last is not None:
                self.met.append(Change(w, before, w.last))
        return bool(self.met)

    def _look_at(self, w: Watch) -> bool:
        """Tells whether the value of a watch differs from its last one."""
        if self.function != w.function:
            return False
        seen = self.seen()
        try:
            if w.expression in seen:
                own = seen[w.expression]
                now = [*leaves_of(own), *(x for t in own.tangents for x in t.values)]
            else:
                now = self.expressions.leaves(w.expression, self.known(w.expression), self.module)
        except DlangError:
            return False
        if w.last is not None and identity(w.last.leaves) == identity(now):
            return False
        kept = tuple([np.array(v) if isinstance(v, np.ndarray) else v for v in map(array_of, now)])
        w.last = Watched(kept, self.value(w.expression) or "")
        return True

    def value(self, expression: str) -> str | None:
        """The value of an expression here; None where it has none. What is a name costs little."""
        seen = self.seen()
        if expression in seen:
            own = seen[expression]
            return shown(own, self.trees, brief=True) + tangents(own, self.trees, brief=True)
        try:
            return self.expressions.text(expression, self.known(expression), self.module)
        except DlangError:
            return None

    @property
    def function(self) -> str:
        """The function of what is looked at, as the source calls it."""
        spot = self.view.spot
        return spot.place.function if spot is not None else ""

    @property
    def module(self) -> str:
        """The file of what is looked at; where there is no statement, that of the program."""
        spot = self.view.spot
        return spot.place.source.path if spot is not None else next(iter(self.machine.library.sources.known))
