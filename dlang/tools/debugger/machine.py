"""Runs a program one operation at a time, with a state that can be copied.

What holds no code is evaluated as the reference interpreter does it, comprehensions as a whole; control is here. Values
are immutable, so a copy of a state is one of its variables: of the functions that wait for a result none is copied
before it goes on.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dlang.host.errors import RunError
from dlang.identity import ByIdentity
from dlang.interpret.code import Frame as Variables
from dlang.interpret.interpreter import MEMORY_EXHAUSTED, STACK_EXHAUSTED, Interpreter, too_deep
from dlang.interpret.operations import Effect, bounds, goes_on
from dlang.interpret.points import box_of, points_of
from dlang.ir import anf
from dlang.ir.anf import Scalar, Token, Var
from dlang.ir.crossing import Node
from dlang.ir.marks import BACKWARD, COTANGENT, FORWARD, REVERSED
from dlang.ir.values import Version, accept, size_of, value_of
from dlang.specialize.names import Name
from dlang.tools.debugger.code import (
    CALL,
    COMP,
    EFFECT,
    FOR,
    IF,
    MARK,
    PLAIN,
    WHILE,
    Code,
    Instruction,
    Key,
    Library,
    Spot,
    Via,
)
from dlang.tools.debugger.finite import Finder, Searching, Sought


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
        previous = self.seen[before - 1] if before else None
        return previous if previous is not None and previous.holds(iterations, spot.via) else None


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
        values = [track.of(spot, iterations, begin, end) for _, track in tracks]
        return [seen for seen in values if seen is not None]


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


MEMORY = 512 << 20  # bytes


class Stop(Enum):
    """Why the machine has stopped.

    STATEMENT: one begins; in the backward pass the cotangents that it is about are known by then. POINT: the given
    number of operations ran. FOUND: the last operation is one that is looked for.
    """

    STATEMENT = 1
    POINT = 2
    FOUND = 3
    END = 4
    INTERRUPTED = 5


@dataclass(slots=True)
class Machine:
    """Runs the states of one program. log: the results of effects, so that they happen once.

    memory: bytes that what is remembered for one backward pass may take. sought: where to stop beside, as
    `finite.py` says. entered: where to note comprehensions that can be entered, with the number of operations before
    them. pasts: of calls that have returned, by their tapes.
    """

    library: Library
    interpreter: Interpreter
    memory: int = MEMORY
    log: list[list[Any]] = field(default_factory=list)
    interrupted: bool = False
    sought: Sought | None = None
    entered: Entered | None = None
    pasts: WeakKeyDictionary[Node, Past] = field(default_factory=WeakKeyDictionary)
    finder: Finder = field(init=False)

    def __post_init__(self) -> None:
        self.finder = Finder(Searching(self.library.program, self.interpreter.host))

    # ---- states
    def start(self, name: str, args: Sequence[Any]) -> State:
        """Before the first operation of a function, with NumPy or Python values for its parameters."""
        function = self.library.program.functions[name]
        env: dict[Var, Any] = dict.fromkeys(function.params)
        given = [p for p in function.params if not isinstance(p.type, Token)]
        env.update({p: accept(a, p.type) for p, a in zip(given, args, strict=True)})
        code = self.library.function(name)
        for i in code.instructions:  # nobody wrote the outermost call
            i.spot, i.starts = None, False
        frame = Frame(function.label or name, code, env, 0, None)
        frame.base = True
        return State(frame)

    def points(self, s: State, i: Instruction) -> list[dict[Var, Any]]:
        """The indices at the points of a comprehension that is next, in order; one point for each row."""
        op = i.let.op
        assert isinstance(op, anf.Comp)
        env = s.frame.env
        if not op.axes:
            return [{}]
        low = max(size_of(x, env) for x in op.axes[0].lows)
        end = min(size_of(x, env) for x in op.axes[0].highs)
        if end <= low:
            return []
        points = points_of(op.axes, env, True, low, end, box_of(op.axes, env), 1 << 62)
        assert points is not None
        batch, values = points
        indices = [{v: np.int64(c[k]) for v, c in values.items()} for k in range(batch.n)]
        if i.rows:
            first: dict[tuple[np.int64, ...], dict[Var, Any]] = {}
            for p in indices:
                first.setdefault(tuple([x for v, x in p.items() if v not in i.rows]), p)
            return list(first.values())
        return indices

    def element(self, s: State, i: Instruction, index: dict[Var, Any]) -> State:
        """Before the first operation at a point of a comprehension that is next."""
        around = s.copy().frame
        frame = Frame(
            around.label, self.library.element(i, around.code.function), around.env, around.depth, around.parent
        )
        frame.env.update(index)
        known = around.names.values() if around.spot is None else around.variables(around.spot)
        backward = around.backward(i.spot.via) if i.spot is not None else bool(around.passes)
        frame.names = {s.key: replace(s, backward=backward) for s in known}
        frame.cotangents, frame.passes, frame.iterations = around.cotangents, around.passes, around.iterations
        frame.caller, frame.base, frame.spot = around.caller, True, i.spot
        return State(frame, 0, s.effects)

    # ---- running
    def interrupt(self) -> None:
        """Makes a run stop soon; to be called while one is under way."""
        self.interrupted = True
        self.interpreter.interrupt()

    def resume(self) -> None:
        """Before a run, whatever interrupted the last one."""
        self.interrupted = False
        self.interpreter.resume()

    def run(self, s: State, until: int | None = None, statements: bool = True, early: bool = False) -> Stop:
        """Goes on to where a statement begins, or until so many operations have run.

        statements: whether to stop there. early: whether to stay in a block that has ended there. Raises `RunError`;
        the state is then before the operation that failed.
        """
        with np.errstate(all="ignore"):
            return self._run(s, until, statements, early)

    def _run(self, s: State, until: int | None, statements: bool, early: bool) -> Stop:
        frame = s.frame
        instructions, pc, view = frame.code.instructions, frame.pc, frame.view
        sought, entered, interpreter = self.sought, self.entered, self.interpreter
        begun, steps = False, s.steps
        s.begun = False
        try:
            while True:
                if steps == until and (early or pc < len(instructions)) and not begun:
                    return Stop.POINT
                if pc == len(instructions):
                    if begun:
                        return Stop.STATEMENT
                    if self.interrupted:
                        return Stop.INTERRUPTED
                    frame.pc, s.steps = pc, steps
                    if self._leave(s):
                        return Stop.END
                    frame = s.frame
                    instructions, pc, view = frame.code.instructions, frame.pc, frame.view
                    continue
                i = instructions[pc]
                kind = i.kind
                spot = i.spot
                if begun and (kind != MARK or spot is not frame.spot or i.mark is None or not i.mark.is_backward):
                    return Stop.STATEMENT
                if spot is not frame.spot and spot is not None and i.starts:
                    before = frame.spot
                    frame.spot, frame.fresh = spot, ()
                    if before is None or not before.inside(spot):
                        if spot.via and statements:  # a call begins before what stands in its place
                            frame.spot = spot.beginning(before, frame.loop)[-1]
                        if frame.past is not None and not frame.passes:
                            for each in spot.beginning(before, frame.loop):
                                frame.past.statement(steps, each)
                        if frame.spot is spot and kind == MARK and i.mark is not None and i.mark.is_backward:
                            begun = s.begun = statements
                        elif statements:
                            return Stop.STATEMENT
                let = i.let
                if kind in (PLAIN, COMP):
                    if kind == COMP:
                        if self.interrupted:
                            return Stop.INTERRUPTED
                        if entered is not None and i.enters:
                            entered.note(steps, i)
                    step = i.step
                    assert step is not None
                    step.run(interpreter, view)
                    if sought is not None and self.finder.found(sought, step, frame.code.block, view.env):
                        pc, steps = pc + 1, steps + 1
                        return Stop.FOUND
                elif kind == MARK:
                    s.steps = steps
                    pass_mark(s, i)
                elif kind == EFFECT:
                    self._effect(s, i)
                else:
                    if self.interrupted:
                        return Stop.INTERRUPTED
                    frame.pc, s.steps = pc, steps
                    if kind == CALL:
                        self._call(s, i)
                    elif kind == IF:
                        op = let.op
                        assert isinstance(op, anf.If)
                        taken = i.blocks[0] if value_of(op.condition, view.env) else i.blocks[1]
                        self._enter(frame, Cell(i, IF, frame.code, pc, frame.cell), taken)
                    else:
                        self._loop(s, i)
                    steps += 1
                    frame = s.frame
                    instructions, pc, view = frame.code.instructions, frame.pc, frame.view
                    continue
                pc += 1
                steps += 1
        except (MemoryError, OverflowError):
            raise RunError(MEMORY_EXHAUSTED, "the memory is exhausted", let.span) from None
        except RecursionError:
            raise RunError(STACK_EXHAUSTED, "the stack is exhausted", let.span) from None
        except KeyboardInterrupt:  # from inside of an operation, which has not happened then
            return Stop.INTERRUPTED
        finally:
            frame.pc, s.steps = pc, steps

    # ---- control
    def _enter(self, frame: Frame, cell: Cell, code: Code) -> None:
        frame.cell, frame.code, frame.pc = cell, code, 0

    def _loop(self, s: State, i: Instruction) -> None:
        frame, op = s.frame, i.let.op
        assert isinstance(op, anf.For | anf.While)
        env = frame.env
        state = [value_of(a, env) for a in op.init]
        frame.iterations = (*frame.iterations, self._iterations(frame, i) if i.reversed else -1)
        if isinstance(op, anf.While):
            self._iteration(s, Cell(i, WHILE, frame.code, frame.pc, frame.cell), state, first=True)
            return
        self._iteration(s, Cell(i, FOR, frame.code, frame.pc, frame.cell, *bounds(op, env)), state)

    def _iterations(self, frame: Frame, loop: Instruction) -> int:
        """How many iterations the loop had that another one goes through backward; 0 if nobody knows."""
        return 0 if frame.past is None or loop.spot is None else frame.past.count(loop.spot, frame.iterations)

    def _iteration(self, s: State, cell: Cell, state: Sequence[Any], first: bool = False) -> None:
        """Begins the next iteration of a loop, or ends it."""
        frame = s.frame
        i, op, env = cell.instruction, cell.instruction.let.op, frame.env
        assert isinstance(op, anf.For | anf.While)
        if isinstance(op, anf.For) and cell.number >= cell.high:
            self._end(frame, cell, state)
            return
        frame.iterations = (*frame.iterations[:-1], frame.iterations[-1] + (-1 if i.reversed else 1))
        if isinstance(op, anf.For) or not first:  # a `while` that begins looks at its condition, and stops once
            frame.spot = None
        for param, value in zip(op.params, state, strict=True):
            env[param] = value
        if isinstance(op, anf.For):
            env[op.index] = np.int64(cell.number)
            self._begun(s, i)
            next = Cell(i, FOR, cell.code, cell.at, cell.around, cell.number + 1, cell.high)
            self._enter(frame, next, i.blocks[0])
        else:
            self._enter(frame, Cell(i, WHILE, cell.code, cell.at, cell.around, testing=True), i.blocks[0])

    def _begun(self, s: State, loop: Instruction) -> None:
        """Notes the iteration of a loop that begins."""
        frame = s.frame
        if frame.past is not None and not frame.passes and loop.spot is not None:
            frame.past.iteration(s.steps, loop.spot, frame.iterations)

    def _end(self, frame: Frame, cell: Cell, results: Sequence[Any]) -> None:
        """After a branch or a loop."""
        i = cell.instruction
        for var, value in zip(i.let.vars, results, strict=True):
            frame.env[var] = value
        frame.cell, frame.code, frame.pc = cell.around, cell.code, cell.at + 1
        if cell.kind != IF:
            frame.iterations = frame.iterations[:-1]
            frame.spot = i.spot

    def _leave(self, s: State) -> bool:
        """Continues after a block that has run; returns whether nothing follows."""
        frame = s.frame
        env, cell = frame.env, frame.cell
        results = [value_of(a, env) for a in frame.code.results]
        if cell is not None:
            op = cell.instruction.let.op
            if cell.kind == IF:
                self._end(frame, cell, results)
            elif cell.testing:
                assert isinstance(op, anf.While)
                if results[0]:
                    condition = Cell(cell.instruction, WHILE, cell.code, cell.at, cell.around)
                    self._enter(frame, condition, cell.instruction.blocks[1])
                    self._begun(s, cell.instruction)
                else:
                    self._end(frame, cell, [env[p] for p in op.params])
            else:
                assert isinstance(op, anf.For | anf.While)
                if goes_on(op, results):
                    self._iteration(s, cell, results)
                else:
                    self._end(frame, cell, results)
            return False
        if frame.base or frame.parent is None:
            s.results = results
            return True
        parent = frame.parent.copy() if frame.parent.shared else frame.parent
        gave = [x for x in frame.cotangents.values() if x.name.given and not x.via]
        gave.sort(key=lambda x: 0 if x.name.span is None else x.name.span.first)
        if not gave:
            gave = [x for x in frame.names.values() if x.name.is_result and not x.via][-1:]
        if gave or frame.spot is not None:  # else nobody wrote it
            s.returned = (frame.depth, tuple(gave))
        assert frame.caller is not None
        for var, value in zip(frame.caller.let.vars, results, strict=True):
            parent.env[var] = value
            if (
                frame.past is not None
                and type(value) is Node
                and isinstance(var.type, Scalar)
                and var.type.dtype in self.library.tapes
            ):
                self.pasts[value] = frame.past
        parent.pc += 1
        s.frame = parent
        return False

    def _call(self, s: State, i: Instruction) -> None:
        op, frame = i.let.op, s.frame
        assert isinstance(op, anf.Call)
        function = self.library.program.functions[op.function]
        label = function.label or function.name
        depth = frame.depth + 1 + (len(i.spot.via) if i.spot is not None else 0)
        if self.interpreter.is_deep(depth):
            raise too_deep(label, depth, i.let.span)
        env = {p: value_of(a, frame.env) for p, a in zip(function.params, op.args, strict=True)}
        inner = Frame(label, self.library.function(op.function), env, depth, frame)
        inner.caller, inner.began = i, s.steps
        tape = next(iter(env.values()), None)
        if type(tape) is Node and tape in self.pasts:
            inner.past = self.pasts[tape]
        elif self.library.remembers(function):
            inner.past = Past(self.memory)
        s.frame = inner

    def _effect(self, s: State, i: Instruction) -> None:
        """An effect happens once; a run that comes by again gets the same results."""
        if s.effects == len(self.log):
            assert isinstance(i.step, Effect)
            self.log.append(i.step.values(self.interpreter, s.frame.view))
        for var, value in zip(i.let.vars, self.log[s.effects], strict=True):
            s.frame.env[var] = value
        s.effects += 1


# ---- records of variables --------------------------------------------------------------------------------------------
# Records what a run knows of variables: it passes the marks that name them.


def pass_mark(s: State, i: Instruction) -> None:
    """Binds what a mark binds, and notes the value, the cotangent or the tangent that it is about."""
    frame, let = s.frame, i.let
    op, mark, name, key, env = let.op, i.mark, i.name, i.key, frame.env
    assert isinstance(op, anf.Assert) and mark is not None
    values = [env[a] if type(a) is Var else value_of(a, env) for a in op.guarded]
    for var, value in zip(let.vars, values, strict=True):
        env[var] = value
    if name is None or key is None:
        _pass(frame, mark.key, i)
        return
    kinds, via, passes = mark.kinds, i.via, frame.passes
    backward = bool(passes) and frame.backward(via)
    others = [value_of(a, env) for a in op.values]
    if kinds:
        seen = Seen(name, tuple(values), kinds, mark.guarded, backward, frame.iterations, i.spot, via)
        if kinds[-1] != COTANGENT:
            _tangent(s, seen)
            return
        frame.cotangents[key] = seen
        frame.fresh = (*frame.fresh, seen)
        if not others:
            return
        key = (name.local, via, ())
    elif len(values) == len(name.passed):
        others = values + others
    else:
        others = [*values[: len(name.passed)], *others]
    seen = Seen(name, tuple(others), (), (), backward, frame.iterations, i.spot, via)
    names = frame.names
    if key in names:
        del names[key]  # the last one comes last
    names[key] = seen
    if not passes and frame.past is not None:
        frame.past.variable(s.steps, key, seen)


def _pass(frame: Frame, key: str, i: Instruction) -> None:
    """At the beginning or the end of a backward pass."""
    if key == BACKWARD:
        if not frame.passes:
            frame.cotangents = {}
        frame.passes, frame.spot = (*frame.passes, i.via), i.spot
    elif key == FORWARD:
        frame.passes = frame.passes[:-1]
    else:
        assert key == REVERSED


def _tangent(s: State, seen: Seen) -> None:
    """Keeps a tangent with the value, or with the cotangent, that it belongs to: that of the mark before."""
    frame = s.frame
    kinds = seen.kinds
    while kinds and kinds[-1] != COTANGENT:
        kinds = kinds[:-1]
    key = (seen.name.local, seen.via, kinds)
    held = frame.cotangents if kinds else frame.names
    before = held.get(key)
    if before is None:
        return
    after = held[key] = replace(before, tangents=(*before.tangents, seen))
    if kinds:
        frame.fresh = tuple([after if x is before else x for x in frame.fresh])
    elif frame.past is not None and not frame.passes:
        frame.past.variable(s.steps, key, after)
