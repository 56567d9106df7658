"""The operations of the debugger on a run: step, go on and back, look at variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dlang.ad.tangent_types import holding
from dlang.diagnostics import DlangError, Source, error
from dlang.driver import Request, followed
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.marks import TANGENT
from dlang.ir.values import array_of
from dlang.spelling import closest
from dlang.tools.debugger.code import ELEMENT, Instruction, Library, Place, Places, Sources, Spot
from dlang.tools.debugger.expressions import Expressions, cotangent, derivatives, tangent, variable
from dlang.tools.debugger.machine import MEMORY, Frame, Machine, Seen, State, Stop
from dlang.tools.debugger.timeline import Level, Timeline, Walk, Why
from dlang.tools.debugger.values import Trees, identity, leaves_of, shown, tangents
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.modules import library_folders, read
from dlang.typecheck.program import Checked


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
            derivative = tangent(name, seen) if word == TANGENT else cotangent(name, seen, self.cotangents())
            seen[variable(word, name)] = derivative
        return seen

    def cotangents(self, view: View | None = None) -> list[Seen]:
        """The cotangents that a backward pass has found so far, also of variables that are out of scope by then."""
        v = view or self.view
        via = v.spot.via if v.spot is not None else ()
        held = [s for s in v.frame.cotangents.values() if s.holds(v.frame.iterations, via)]
        return list({(s.name.text, s.kinds): s for s in held}.values())

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
        breakpoints = self.points.by_place.get(t.spot(level.moment).place, ())
        for b in list(breakpoints):
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
                value = seen[w.expression]
                now = [*leaves_of(value), *(x for t in value.tangents for x in t.values)]
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
            variable = seen[expression]
            return shown(variable, self.trees, brief=True) + tangents(variable, self.trees, brief=True)
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


# ---- breakpoints -----------------------------------------------------------------------------------------------------
# Breakpoints and watches: at lines, in functions, and where the value of an expression changes.

NO_PLACE = "E0983"


@dataclass(slots=True)
class Breakpoint:
    """places: where it stops. forward: not in backward passes. once: it is gone when it was met, and has no number.

    problem: why its condition could not be evaluated where it was met last.
    """

    number: int
    text: str
    places: frozenset[Place]
    condition: str | None = None
    forward: bool = False
    once: bool = False
    hits: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Watched:
    """A value as its leaves, and how it was shown."""

    leaves: tuple[Any, ...]
    text: str


@dataclass(slots=True)
class Watch:
    """An expression over the variables of a function, whose value is shown at each stop, and whose changes are stops.

    last: its value where it had one last.
    """

    number: int
    expression: str
    function: str
    last: Watched | None = None


@dataclass(slots=True)
class Points:
    """All of them. by_place: the breakpoints of each place."""

    sources: Sources
    breakpoints: list[Breakpoint] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)
    given: int = 0
    by_place: dict[Place, list[Breakpoint]] = field(default_factory=dict)

    def at(self, text: str, file: str, condition: str | None, once: bool = False) -> Breakpoint:
        """A breakpoint at `LINE`, `FILE:LINE` or in a function. Raises `DlangError`.

        file: the file of a line without one.
        """
        places, forward = self._places(text, file)
        self.given += not once
        new = Breakpoint(0 if once else self.given, text, places, condition, forward, once)
        self.breakpoints.append(new)
        self._sort()
        return new

    def watch(self, expression: str, function: str) -> Watch:
        self.given += 1
        self.watches.append(Watch(self.given, expression, function))
        return self.watches[-1]

    def delete(self, number: int | None) -> int:
        """Removes one, or all; how many these were."""
        before = len(self.breakpoints) + len(self.watches)
        self.breakpoints = [b for b in self.breakpoints if number is not None and b.number != number]
        self.watches = [w for w in self.watches if number is not None and w.number != number]
        self._sort()
        return before - len(self.breakpoints) - len(self.watches)

    def _sort(self) -> None:
        self.by_place = {}
        for b in self.breakpoints:
            for place in b.places:
                self.by_place.setdefault(place, []).append(b)

    # ---- where
    def _places(self, text: str, current: str) -> tuple[frozenset[Place], bool]:
        file, colon, line = text.rpartition(":")
        if line.isdigit():
            return frozenset(self._line(int(line), self._path(file) if colon else current)), False
        functions = list(self.sources.functions(text))
        if not functions:
            known = [n for p in self.sources.known.values() for n in p.functions]
            close = closest(text, known)
            help = f"write a line, FILE:LINE or the name of a function{self._elsewhere}"
            raise error(
                NO_PLACE, f"there is no function `{text}`", None, help=(f"did you mean `{close}`?" if close else help,)
            )
        return frozenset(functions), True

    def _path(self, file: str) -> str:
        known = list(self.sources.known)
        for path in known:
            if path == file or Path(path).name == file or Path(path).stem == file:
                return path
        names = ", ".join(sorted({Path(p).name for p in known if self.sources.known[p].places}))
        raise error(
            NO_PLACE, f"the program has no file `{file}`", None, help=(f"its files are {names}{self._elsewhere}",)
        )

    @property
    def _elsewhere(self) -> str:
        return "; `dlc debug --library` sees the standard library, too" if self.sources.hidden else ""

    def _line(self, line: int, path: str) -> Sequence[Place]:
        """The statements that begin in a line, or in the next one where one does."""
        places = self.sources.known[path].places
        later = [p.line for p in places if p.line >= line]
        if not later:
            last = max([p.line for p in places], default=0)
            help = f"the last statement of the file is in line {last}"
            raise error(NO_PLACE, f"there is no statement in line {line} of `{path}`", None, help=(help,))
        chosen = min(later)
        on_line = [p for p in places if p.line == chosen]
        return [p for p in on_line if p.parent is None or p.parent not in on_line]


# ---- the start -------------------------------------------------------------------------------------------------------
# From a checked program and a function to a run that has not begun.


def debugger_of(
    checked: Checked,
    start: FnDecl,
    source: Source,
    *,
    host: Host | None = None,
    seed: int = 0,
    memory: int = MEMORY,
    library: bool = False,
) -> Debugger:
    """A debugger before the first statement of a function without parameters.

    seed: of random numbers. memory: bytes that states of the past may take. library: whether one steps into functions
    of the standard library. Raises `DlangError`.
    """
    program, entry, names, trees, functions = followed(Request(start))
    hidden = () if library else tuple([str(folder) for folder in library_folders()])
    sources = Sources(hidden, {source.path: Places.of(source)})
    for table in checked.program.tables.values():
        if table.path not in sources.known and not table.path.startswith(hidden):
            sources.of(Source(table.path, read(table.path)))
    machine = Machine(Library(program, sources, names.table), Interpreter(program, host or Host()), memory)
    state = machine.start(entry.name, [seed] if entry.seed else [])
    return Debugger(machine, state, Expressions(checked), Trees(trees, functions, holding(program.datatypes)), memory)
