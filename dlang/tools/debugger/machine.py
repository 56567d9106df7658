"""Runs a program one operation at a time, with a state that can be copied.

What holds no code is evaluated as the reference interpreter does it, comprehensions as a whole; control is here. Values
are immutable, so a copy of a state is one of its variables: of the functions that wait for a result none is copied
before it goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dlang.host.errors import RunError
from dlang.interpret.interpreter import MEMORY_EXHAUSTED, STACK_EXHAUSTED, Interpreter, too_deep
from dlang.interpret.operations import Effect, bounds, goes_on
from dlang.interpret.points import box_of, points_of
from dlang.ir import anf
from dlang.ir.anf import Scalar, Token, Var
from dlang.ir.marks import BACKWARD, COTANGENT, FORWARD, REVERSED
from dlang.ir.node import Node
from dlang.ir.values import accept, size_of, value_of
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
    Library,
)
from dlang.tools.debugger.finite import Finder, Searching, Sought
from dlang.tools.debugger.state import Cell, Entered, Frame, Past, Seen, State

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
        made = points_of(op.axes, env, True, low, end, box_of(op.axes, env), 1 << 62)
        assert made is not None
        batch, values = made
        found = [{v: np.int64(c[k]) for v, c in values.items()} for k in range(batch.n)]
        if i.rows:
            first: dict[tuple[np.int64, ...], dict[Var, Any]] = {}
            for p in found:
                first.setdefault(tuple([x for v, x in p.items() if v not in i.rows]), p)
            return list(first.values())
        return found

    def element(self, s: State, i: Instruction, index: dict[Var, Any]) -> State:
        """Before the first operation at a point of a comprehension that is next."""
        around = s.copy().frame
        frame = Frame(
            around.label, self.library.element(i, around.code.function), around.env, around.depth, around.parent
        )
        frame.env.update(index)
        known = around.names.values() if around.spot is None else around.variables(around.spot)
        here = around.backward(i.spot.via) if i.spot is not None else bool(around.passes)
        frame.names = {s.key: replace(s, backward=here) for s in known}
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
                    here = Cell(cell.instruction, WHILE, cell.code, cell.at, cell.around)
                    self._enter(frame, here, cell.instruction.blocks[1])
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
