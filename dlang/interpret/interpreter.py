"""The reference interpreter: what a program of the IR means, and how many operations it takes.

    results = Interpreter(program).run("main", [x, 3])

Outside of comprehensions it goes one operation at a time. The body of a comprehension is evaluated for many points at
once, an operation for all of them, then the next; an arm of a branch only for the points that take it. Loops and
recursive calls inside are evaluated point by point. A failed check in a comprehension is that of the first failing
point in lexicographic order.

An operation is one scalar primitive, or one element read or written. Sizes and indices cost nothing. `metering.py` has
a run that counts bytes and memory too, and says which lines they are of.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.host.platform.memory import spare_memory
from dlang.host.platform.stack import start
from dlang.interpret import operations
from dlang.interpret.algebra import Algebra, Numbers
from dlang.interpret.operations import Failed, Frame, Run, dtype_of, value_of
from dlang.interpret.outside import call_outside
from dlang.interpret.points import Batch, box_of, elements, points_of
from dlang.interpret.reduction import Sink
from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Block, Function, Let, Program, Token, Var
from dlang.ir.call_graph import recursive_functions
from dlang.ir.errors import IRError
from dlang.ir.traverse import op_blocks
from dlang.ir.values import (
    Lanes,
    accept,
    at,
    bound_of,
    extent_of,
    literal,
    merge_lanes,
    merge_rows,
    release,
    select,
    size_of,
)
from dlang.recursion import recursion

STACK_EXHAUSTED, MEMORY_EXHAUSTED = "E0805", "E0806"
DEPTH = 2_000_000  # calls, where memory does not end before: half a minute and 3 GB
_STACK = 1 << 28  # bytes of the stack of its thread
_RUNS = 200  # inside of one another, through functions of Python
_CALLS_BETWEEN = 10_000  # two looks at how much memory is left
_POINTS = 1 << 20  # evaluated at once, in a body without nested arrays
_POINTS_OF_BLOCKS = 1 << 16  # in a body with nested blocks or calls


class World(Protocol):
    """The world on which effects act: `dlang.host.effects.Host`, or a stand-in."""

    def print(self, text: str) -> None: ...
    def effect(self, name: str, static: Sequence[str], args: Sequence[Any]) -> list[Any]: ...


class _Thread(threading.Thread):
    """A thread with room for a deep recursion. running: the runs on it, each called by the one before."""

    def __init__(self, target: Callable[[], None], name: str) -> None:
        super().__init__(target=target, name=name)
        self.running: list[Interpreter] = []


class Interpreter(Run):
    """Runs functions of a program, and counts.

    depth: how many calls may be under way; spare: how many bytes are left, below 0 if a recursion has to end.
    """

    def __init__(
        self,
        program: Program,
        host: World | None = None,
        algebra: Algebra | None = None,
        *,
        depth: int = DEPTH,
        spare: Callable[[], int] = spare_memory,
    ) -> None:
        super().__init__(Numbers() if algebra is None else algebra)
        self.program = program
        self.host: World = host if host is not None else Host()
        self.depth = depth
        self.spare = spare
        self._calls = 0
        self._interrupted = False
        self._recursive = recursive_functions(program)

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """Calls a function with NumPy or Python values for its parameters; a token is neither given nor returned."""
        function = self.program.functions[name]
        around = threading.current_thread()
        if isinstance(around, _Thread):  # a function of Python that this calls has called a program again
            return self._run_on(around, function, args)
        outcome: list[Any] = []

        def work() -> None:
            try:
                outcome.append(self._run_on(thread, function, args))
            except BaseException as error:  # handed to the thread that waits
                outcome.append(error)

        self._interrupted, self._calls = False, 0
        thread = _Thread(target=work, name="interpreter")
        with recursion(min(40 * self.depth, 2**31 - 1)):
            try:
                start(thread, _STACK)
                thread.join()
            except BaseException:
                self._interrupted = True
                for interpreter in list(thread.running):
                    interpreter._interrupted = True
                if thread.ident is not None:
                    thread.join()
                raise
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        results: list[Any] = outcome[0]
        return results

    def run_here(self, name: str, args: Sequence[Any]) -> list[Any]:
        """As `run`, but on this thread, which is quicker to begin. Raises RecursionError where it goes too deep."""
        with np.errstate(all="ignore"):
            return self._enter(self.program.functions[name], args)

    def interrupt(self) -> None:
        """Makes a run stop soon with a `KeyboardInterrupt`; to be called while one is under way."""
        self._interrupted = True

    def resume(self) -> None:
        """Before operations are evaluated one by one: forgets an interruption."""
        self._interrupted, self._calls = False, 0

    def _run_on(self, thread: _Thread, function: Function, args: Sequence[Any]) -> list[Any]:
        """Runs a function on a thread of the interpreter, perhaps inside of other runs."""
        if len(thread.running) >= _RUNS:
            raise RunError(STACK_EXHAUSTED, f"the stack is exhausted: `{function.label}` is {_RUNS} runs deep")
        thread.running.append(self)
        try:
            with np.errstate(all="ignore"):
                return self._enter(function, args)
        except MemoryError:
            raise RunError(MEMORY_EXHAUSTED, "the memory is exhausted") from None
        finally:
            thread.running.pop()

    def _enter(self, function: Function, args: Sequence[Any]) -> list[Any]:
        params = [p for p in function.params if not isinstance(p.type, Token)]
        if len(args) != len(params):
            raise IRError(f"{function.name} takes {len(params)} arguments, not {len(args)}")
        env: dict[Var, Any] = dict.fromkeys(function.params)
        for param, arg in zip(params, args, strict=True):
            env[param] = accept(arg, param.type)
            if isinstance(param.type, Array):
                wanted = tuple([extent_of(s, env) for s in param.type.shape])
                if env[param].shape != wanted:
                    raise IRError(f"{param.name} of {function.name} has the shape {env[param].shape}, not {wanted}")
        results = self._block(function.body, Frame(env, None))
        formals = zip(results, function.results, strict=True)
        return [self.algebra.plain(release(r), dtype_of(f)) for r, f in formals if not isinstance(f.type, Token)]

    # ---- blocks ------------------------------------------------------------------------------------------------------
    def _block(self, block: Block, frame: Frame) -> list[Any]:
        env = frame.env
        for let in block.lets:
            self._evaluate(let, frame)
        return [env[r] if isinstance(r, Var) else literal(r) for r in block.results]

    def _evaluate(self, let: Let, frame: Frame) -> None:
        """Binds what a let gives."""
        op, env = let.op, frame.env
        many = _MANY.get(type(op))
        try:
            if many is not None:
                if frame.n is not None and type(op) in _BY_POINT:
                    values = self._each_point(let, frame, many)
                else:
                    values = many(self, op, let, frame)
                for var, value in zip(let.vars, values, strict=True):
                    env[var] = value
            elif frame.n is not None and type(op) in _BY_POINT:
                env[let.vars[0]] = self._each_point(let, frame, _ONE[type(op)])[0]
            else:
                env[let.vars[0]] = _ONE[type(op)](self, op, let, frame)
        except (MemoryError, OverflowError):  # a size that is no i64 is larger than all memory
            raise _at_point(RunError(MEMORY_EXHAUSTED, "the memory is exhausted", let.span), frame.n) from None

    def _each_point(self, let: Let, frame: Frame, evaluate: Callable[..., Any]) -> list[Any]:
        """An operation that is evaluated for one point at a time."""
        n = frame.times
        outer = {v: frame.env[v] for v in self.free(let.op)}
        columns: list[list[Any]] = [[] for _ in let.vars]
        mark = self.made_so_far()
        for p in range(n):
            self.forget(mark)
            one = Frame({v: at(value, p) for v, value in outer.items()}, None)
            try:
                values = evaluate(self, let.op, let, one)
            except RunError as error:
                raise Failed(p, error) from None
            for column, value in zip(columns, values if type(let.op) in _MANY else (values,), strict=True):
                column.append(release(value))
        out: list[Any] = []
        for var, column in zip(let.vars, columns, strict=True):
            pieces = [(np.array([p]), value) for p, value in enumerate(column)]
            match var.type:
                case Token():
                    out.append(None)
                case Array(_, shape):
                    out.append(merge_rows(pieces, n, len(shape)))
                case scalar:
                    out.append(merge_lanes(pieces, n, scalar.dtype))
        return out

    # ---- comprehensions ----------------------------------------------------------------------------------------------
    def _comp(self, op: anf.Comp, let: Let, frame: Frame) -> list[Any]:
        if self._interrupted:
            raise KeyboardInterrupt
        axes = op.axes
        names = {axis.var: k for k, axis in enumerate(axes)}
        free = self.free(op)
        box = box_of(axes, frame.env)
        if frame.n is not None:
            low, end = 0, frame.n
        elif axes:
            low = max(bound_of(s, frame.env) for s in axes[0].lows)
            end = min(bound_of(s, frame.env) for s in axes[0].highs)
        else:
            low, end = 0, 1
        sinks: list[Sink] = []
        for d, value in zip(op.destinations, op.body.results, strict=True):
            sinks.append(self._sink(d, value, names, frame))
            if d.into is not None and sinks[-1].copied:
                self.replaced(frame.env[d.into], sinks[-1].data)
            if isinstance(d, anf.Reduce) and d.after is not None:
                sinks[-1].goes_on(sinks[d.after])
        crowded = any(isinstance(inner.op, anf.Call) or op_blocks(inner.op) for inner in op.body.lets)
        limit = _POINTS_OF_BLOCKS if crowded else _POINTS
        if frame.n is None and any(s.arg and 0 in s.reduced for s in sinks):
            limit = sys.maxsize  # positions from different batches do not combine
        step = max(end - low, 1)
        whole = True
        while low < end:
            if self._interrupted:
                raise KeyboardInterrupt
            stop = min(low + step, end)
            made = points_of(axes, frame.env, frame.n is None, low, stop, box, limit)
            if made is None:
                step = (step + 1) // 2
                whole = False
                continue
            batch, values = made
            if batch.n:
                env = {v: frame.env[v] for v in free}
                if batch.parent is not None:
                    env = {v: select(value, batch.parent) for v, value in env.items()}
                env.update(values)
                self._fill(op, batch, Frame(env, batch.n), sinks, whole or frame.n is not None)
            low = stop
        self.count(let, sum(s.written for s in sinks), sum(s.moved for s in sinks))
        self.passed(frame, *(s.data for s in sinks if s.fresh and s.shape))
        return [s.result() for s in sinks]

    def _fill(self, op: anf.Comp, batch: Batch, frame: Frame, sinks: list[Sink], whole: bool) -> None:
        try:
            results = self._first_failing(op.body, frame)
        except Failed as failed:
            if batch.parent is None:
                raise failed.error from failed.error.__cause__
            raise Failed(int(batch.parent[failed.lane]), failed.error) from None
        for sink, destination, value in zip(sinks, op.destinations, results, strict=True):
            kept_apart = whole or bool(op.axes and 0 not in sink.reduced and not sink.by_data and not sink.scatter)
            index = [size_of(i, frame.env) for i in destination.index]
            if sink.row:
                sink.accumulate(*elements(batch, value, index, len(sink.shape)), kept_apart)
            else:
                sink.accumulate(batch, value, index, kept_apart)

    def _first_failing(self, block: Block, frame: Frame) -> list[Any]:
        """The body at all points; of several failing points the first one's refusal."""
        start = dict(frame.env)
        try:
            return self._block(block, frame)
        except Failed as error:
            failed = error
        while failed.lane:  # an earlier point may fail at a later operation
            before = slice(0, failed.lane)
            try:
                self._block(block, Frame({v: select(value, before) for v, value in start.items()}, failed.lane))
                break
            except Failed as error:
                failed = error
        raise failed

    def _sink(self, destination: anf.Destination, value: Atom, names: Mapping[Var, int], frame: Frame) -> Sink:
        mentioned = {v for entry in destination.index for v in entry.atoms()}
        row = len(value.type.shape) if isinstance(value.type, Array) else 0
        return Sink(
            destination,
            dtype_of(value),
            [extent_of(s, frame.env) for s in destination.shape],
            frame.n,
            None if destination.into is None else frame.env[destination.into],
            len(names) + row,
            [*(names[v] for v in mentioned if v in names), *range(len(names), len(names) + row)],
            any(v not in names and v not in frame.env for v in mentioned),
            row,
            self.algebra,
        )

    # ---- control -----------------------------------------------------------------------------------------------------
    def _if(self, op: anf.If, let: Let, frame: Frame) -> list[Any]:
        condition = value_of(op.condition, frame.env)
        if type(condition) is not Lanes:
            return self._block(op.then if condition else op.otherwise, frame)
        if not condition.data.any():
            return self._block(op.otherwise, frame)
        if condition.data.all():
            return self._block(op.then, frame)
        arms = []
        for block, taken in ((op.then, condition.data), (op.otherwise, ~condition.data)):
            lanes = np.flatnonzero(taken)
            env = {v: select(frame.env[v], lanes) for v in self.free(block)}
            try:
                arms.append((lanes, self._block(block, Frame(env, len(lanes)))))
            except Failed as failed:
                raise Failed(int(lanes[failed.lane]), failed.error) from None
        out: list[Any] = []
        for k, var in enumerate(let.vars):
            pieces = [(lanes, values[k]) for lanes, values in arms]
            match var.type:
                case Token():
                    out.append(None)
                case Array(_, shape):
                    out.append(merge_rows(pieces, frame.times, len(shape)))
                case scalar:
                    out.append(merge_lanes(pieces, frame.times, scalar.dtype))
        return out

    def _for(self, op: anf.For, let: Let, frame: Frame) -> list[Any]:
        env, params, body = frame.env, op.params, op.body
        state = [value_of(a, env) for a in op.init]
        low, high = np.int64(size_of(op.low, env)), np.int64(size_of(op.high, env))  # beyond an i64: refused, not run
        for i in range(int(low), int(high)):
            if self._interrupted:
                raise KeyboardInterrupt
            env[op.index] = np.int64(i)
            for param, value in zip(params, state, strict=True):
                env[param] = value
            state = self._block(body, frame)
            if op.early and not state.pop(0):
                break
        return state

    def _while(self, op: anf.While, let: Let, frame: Frame) -> list[Any]:
        env, params = frame.env, op.params
        state = [value_of(a, env) for a in op.init]
        while True:
            if self._interrupted:
                raise KeyboardInterrupt
            for param, value in zip(params, state, strict=True):
                env[param] = value
            if not self._block(op.condition, frame)[0]:
                return state
            state = self._block(op.body, frame)
            if op.early and not state.pop(0):
                return state

    def _call(self, op: anf.Call, let: Let, frame: Frame) -> list[Any]:
        if frame.n is not None and op.function in self._recursive:
            return self._each_point(let, frame, Interpreter._call)
        return self.called(op.function, [value_of(a, frame.env) for a in op.args], let, frame.n)

    def called(self, name: str, args: Sequence[Any], let: Let, n: int | None) -> list[Any]:
        """What a function of the program gives for arguments. let: the call; n: how many points they are for."""
        function = self.program.functions[name]
        label = function.label or function.name
        if self._interrupted:
            raise KeyboardInterrupt
        if self._calls >= self.depth or (self._calls % _CALLS_BETWEEN == 0 and self._calls and self.spare() < 0):
            message = f"the stack is exhausted: `{label}` is {self._calls} calls deep"
            raise _at_point(RunError(STACK_EXHAUSTED, message, let.span), n)
        self._calls += 1
        try:
            return self._block(function.body, Frame(dict(zip(function.params, args, strict=True)), n))
        except RunError as error:
            error.called(label, let.span)
            raise
        except Failed as failed:
            failed.error.called(label, let.span)
            raise
        finally:
            self._calls -= 1

    def _foreign(self, op: anf.Foreign, let: Let, frame: Frame) -> list[Any]:
        return self._outside(op.target, op.args, let, let.vars, frame)

    def _outside(self, target: str, atoms: Sequence[Atom], let: Let, vars: Sequence[Var], frame: Frame) -> list[Any]:
        values = [release(value_of(a, frame.env)) for a in atoms]
        args = [self.algebra.outgoing(v, dtype_of(a), target) for v, a in zip(values, atoms, strict=True)]
        return call_outside(self.program, target, args, atoms, vars, frame.env, let.span)

    def _effect(self, op: anf.Effect, let: Let, frame: Frame) -> list[Any]:
        if op.name == "foreign":
            return [None, *self._outside(op.static[0], op.args, let, let.vars[1:], frame)]
        args = self.plain(op.args, frame)
        try:
            if op.name == "print":
                self.host.print(args[0])
                return [None]
            results = self.host.effect(op.name, op.static, args)
        except RunError as error:
            error.at(let.span)
            raise
        return [None, *(accept(r, v.type) for r, v in zip(results, let.vars[1:], strict=True))]

    def _derivative(self, op: anf.Derivative, let: Let, frame: Frame) -> list[Any]:
        return self.algebra.derivative(self, op, let, frame)


def _at_point(error: RunError, n: int | None) -> Exception:
    return error if n is None else Failed(0, error)


def evaluation(op: anf.Op) -> tuple[bool, Callable[..., Any]]:
    """Tells whether an operation gives several values; returns the function (run, op, let, frame) that evaluates it."""
    several = type(op) in _MANY
    return several, (_MANY if several else _ONE)[type(op)]


_ONE = operations.ONE
_MANY: dict[type, Callable[..., list[Any]]] = {
    **operations.SEVERAL,
    anf.Comp: Interpreter._comp,
    anf.If: Interpreter._if,
    anf.For: Interpreter._for,
    anf.While: Interpreter._while,
    anf.Call: Interpreter._call,
    anf.Foreign: Interpreter._foreign,
    anf.Effect: Interpreter._effect,
    anf.Vjp: Interpreter._derivative,
    anf.Jvp: Interpreter._derivative,
    anf.VjpForward: Interpreter._derivative,
    anf.VjpBackward: Interpreter._derivative,
}
# Inside a comprehension these are evaluated for one point at a time.
_BY_POINT = {
    anf.Format, anf.Update, anf.Copy, anf.Empty, anf.Concat, anf.Scan, anf.Contract, anf.For, anf.While, anf.Compact,
    anf.LinalgOp, anf.Foreign, anf.Effect, anf.Construct, anf.Tag, anf.Fields,
    anf.Vjp, anf.Jvp, anf.VjpForward, anf.VjpBackward,
}  # fmt: skip
