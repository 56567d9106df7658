"""The reference interpreter: what a program of the IR means, and how many operations it takes.

    results = Interpreter(program).run("main", [x, 3])

Outside of comprehensions it goes one operation at a time. The body of a comprehension is evaluated for many points at
once, an operation for all of them, then the next; an arm of a branch only for the points that take it. Loops and
recursive calls inside are evaluated point by point. A failed check in a comprehension is that of the first failing
point in lexicographic order.

An operation is one scalar primitive, or one element read or written. Sizes and indices cost nothing. `metering.py` has
a run that counts bytes and memory too, and says which lines they are of.

`code_of` makes steps of blocks: it is the one place that says which step an operation has.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from dlang.diagnostics import Span
from dlang.host import interruptions
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.host.platform.machine import spare_memory
from dlang.host.platform.stack import start
from dlang.interpret import boxes, operations, scalars
from dlang.interpret.algebra import Algebra
from dlang.interpret.code import Code, Failed, Frame, PointStep, Step, at_point
from dlang.interpret.comprehensions import Comp
from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Block, Function, Let, Program, Scalar, Token, Var
from dlang.ir.errors import IRError
from dlang.ir.marks import is_mark
from dlang.ir.traverse import op_blocks, recursive_functions
from dlang.ir.types import dtype_of
from dlang.ir.values import accept, at, entry_of, extent_of, lanes_from, literal, merged, release, value_of
from dlang.process import recursion

STACK_EXHAUSTED, MEMORY_EXHAUSTED = "E0805", "E0806"
DEPTH = 2_000_000  # calls, where memory does not end before: half a minute and 3 GB
_STACK = 1 << 28  # bytes of the stack of its thread
_RUNS = 200  # inside of one another, through functions of Python
_CALLS_BETWEEN = 10_000  # two looks at how much memory is left


class World(Protocol):
    """The world on which effects act: `dlang.host.effects.Host`, or a stand-in."""

    def print(self, text: str) -> None: ...
    def effect(self, name: str, static: Sequence[str], args: Sequence[Any]) -> list[Any]: ...


class _Thread(threading.Thread):
    """A thread with room for a deep recursion. running: the runs on it, each called by the one before."""

    def __init__(self, target: Callable[[], None], name: str) -> None:
        super().__init__(target=target, name=name)
        self.running: list[Interpreter] = []


def too_deep(label: str, calls: int, span: Span | None) -> RunError:
    """The refusal of a call where so many are under way."""
    return RunError(STACK_EXHAUSTED, f"the stack is exhausted: `{label}` is {calls} calls deep", span)


class Interpreter:
    """Runs functions of a program, and counts.

    algebra: that of its scalars. depth: how many calls may be under way; spare: how many bytes are left, below 0 if a
    recursion has to end.

    counts: operations by the name of the op that they belong to. copies: how many `Copy` ran. passes: over arrays: how
    many comprehensions, products and the like ran, not counting those at the points of a comprehension. turns:
    iterations of loops, and branches, at all points. allocated: bytes of the arrays that were made, whether they were
    alive at once or not. counted: checks whose messages begin so always hold; how many points have come to each.
    recursive: the functions that call themselves, perhaps by others.
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
        self.program = program
        self.algebra = Algebra() if algebra is None else algebra
        self.host: World = host if host is not None else Host()
        self.depth = depth
        self.spare = spare
        self.counts: Counter[str] = Counter()
        self.copies = 0
        self.passes = 0
        self.turns = 0
        self.allocated = 0
        self.counted: dict[str, int] = {}
        self.recursive = recursive_functions(program)
        self._calls = 0
        self._interrupted = False
        self._codes: dict[str, Code] = {}

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """Calls a function with NumPy or Python values for its parameters; a token is neither given nor returned."""
        function = self.program.functions[name]
        around = threading.current_thread()
        if isinstance(around, _Thread):  # a function of Python that this calls has called a program again
            return self._run_on(around, function, args)
        outcome: list[Any] = []
        done = threading.Event()

        def work() -> None:
            try:
                outcome.append(self._run_on(thread, function, args))
            except BaseException as error:  # handed to the thread that waits
                outcome.append(error)
            finally:
                done.set()

        interruptions.watch()
        self._interrupted, self._calls = False, 0
        thread = _Thread(target=work, name="interpreter")
        with recursion(min(40 * self.depth, 2**31 - 1)):
            try:
                start(thread, _STACK)
                interruptions.wait(done)
            except BaseException:
                self._interrupted = True
                for interpreter in list(thread.running):
                    interpreter._interrupted = True
                if thread.ident is not None:
                    interruptions.wait(done)
                raise
        interruptions.check()
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
        results = self.block(self.code(function.name), Frame(env, None))
        formals = zip(results, function.results, strict=True)
        return [self.algebra.plain(release(r), dtype_of(f)) for r, f in formals if not isinstance(f.type, Token)]

    def plain(self, atoms: Sequence[Atom], frame: Frame, lane: int = 0) -> list[Any]:
        """The values of atoms at one point, for the world outside."""
        values = [release(at(a, value_of(a, frame.env), lane)) for a in atoms]
        return [self.algebra.plain(v, dtype_of(a)) for v, a in zip(values, atoms, strict=True)]

    # ---- costs -------------------------------------------------------------------------------------------------------
    @property
    def operations(self) -> int:
        """The operations of all runs so far."""
        return sum(self.counts.values())

    def count(self, let: Let, operations: int, moved: int = 0) -> None:
        """Counts what one operation took. moved: bytes that it read and wrote."""
        self.counts[type(let.op).__name__] += operations

    def passed(self, frame: Frame, arrays: Sequence[Any]) -> None:
        """Counts a pass over arrays that makes others."""
        self.passes += frame.n is None
        if arrays:
            self.made(frame, arrays)

    def made(self, frame: Frame, arrays: Sequence[Any]) -> None:
        """Counts the memory of arrays."""
        self.allocated += sum([a.nbytes for a in arrays if isinstance(a, np.ndarray)])

    def replaced(self, old: Any, new: np.ndarray[Any, Any]) -> None:
        """Is told that an array goes on as a copy, because it is updated in place from now on."""

    def made_so_far(self) -> int:
        """A mark in the list of all arrays that were made."""
        return 0

    def forget(self, mark: int) -> None:
        """Is told that the arrays made after a mark are those of one point, and that the next point comes."""

    # ---- code --------------------------------------------------------------------------------------------------------
    def poll(self) -> None:
        """Ends the run if it was interrupted."""
        if self._interrupted:
            raise KeyboardInterrupt

    def code(self, name: str) -> Code:
        """The body of a function of the program, compiled when it is first called."""
        compiled = self._codes.get(name)
        if compiled is None:
            compiled = self._codes[name] = code_of(self.program.functions[name].body)
        return compiled

    def block(self, code: Code, frame: Frame) -> list[Any]:
        """Runs a block, and gives its results."""
        try:
            for step in code.steps:
                step.run(self, frame)
        except (MemoryError, OverflowError):
            raise self.exhausted(step, frame) from None
        for name, count in code.costs:
            self.counts[name] += count * frame.times
        env = frame.env
        return [env[r] if isinstance(r, Var) else literal(r) for r in code.results]

    def exhausted(self, step: Step, frame: Frame) -> Exception:
        """The refusal where a step found no memory: a size that is no i64 is larger than all there is."""
        return at_point(RunError(MEMORY_EXHAUSTED, "the memory is exhausted", step.let.span), frame.n)

    def each_point(self, step: PointStep, frame: Frame) -> list[Any]:
        """The values of an operation that is evaluated for one point at a time."""
        n, vars = frame.times, step.let.vars
        outer = {v: frame.env[v] for v in step.free}
        columns: list[list[Any]] = [[] for _ in vars]
        mark = self.made_so_far()
        for p in range(n):
            self.forget(mark)
            one = Frame({v: at(v, value, p) for v, value in outer.items()}, None)
            try:
                values = step.values(self, one)
            except RunError as error:
                raise Failed(p, error) from None
            for column, value in zip(columns, values, strict=True):
                column.append(release(value))
        return [
            lanes_from(column, var.type.dtype)
            if isinstance(var.type, Scalar)
            else merged([(np.array([p]), value) for p, value in enumerate(column)], n, var.type)
            for var, column in zip(vars, columns, strict=True)
        ]

    def is_deep(self, calls: int) -> bool:
        """Tells whether no more calls may be under way than so many."""
        return calls >= self.depth or (calls % _CALLS_BETWEEN == 0 and calls > 0 and self.spare() < 0)

    def called(self, name: str, args: Sequence[Any], let: Let, n: int | None) -> list[Any]:
        """The results of a function of the program. let: the call; n: how many points the arguments are for."""
        function = self.program.functions[name]
        label = function.label or function.name
        self.poll()
        if self.is_deep(self._calls):
            raise at_point(too_deep(label, self._calls, let.span), n)
        self._calls += 1
        try:
            return self.block(self.code(name), Frame(dict(zip(function.params, args, strict=True)), n))
        except RunError as error:
            error.called(label, let.span)
            raise
        except Failed as failed:
            failed.error.called(label, let.span)
            raise
        finally:
            self._calls -= 1


# ---- blocks to steps -------------------------------------------------------------------------------------------------
def code_of(block: Block, axes: scalars.Axes | None = None) -> Code:
    """A block, compiled. axes: those of a box, if it runs at all of its points at once."""
    return Code(block, [step_of(let, axes) for let in block.lets if let.vars or not is_mark(let.op)])


def step_of(let: Let, axes: scalars.Axes | None = None) -> Step:
    """The step of a let. axes: as of a block."""
    match let.op:
        case anf.Prim() as op:
            return scalars.prim(let, op)
        case anf.Read() as op:
            return scalars.read(let, op, axes)
        case anf.Cast() as op:
            return scalars.Cast(let, op)
        case anf.IndexExpr(size):
            return scalars.IndexExpr(let, entry_of(size))
        case anf.Assert() as op:
            return scalars.Assert(let, op)
        case anf.StopGradient() as op:
            return scalars.StopGradient(let, op)
        case anf.Comp() as op:
            return comprehension(let, op)
        case anf.If() as op:
            return operations.If(let, op, code_of(op.then), code_of(op.otherwise))
        case anf.For() as op:
            return operations.For(let, op, code_of(op.body))
        case anf.While() as op:
            return operations.While(let, op, code_of(op.condition), code_of(op.body))
        case anf.Call() as op:
            return operations.Call(let, op)
        case anf.Update() as op:
            return operations.Update(let, op, [entry_of(e) for e in op.index])
        case anf.View() as op:
            first = operations.first_of(op)
            return operations.View(let, op, None if first is None else [entry_of(e) for e in first])
        case anf.Reshape() as op:
            return operations.Reshape(let, op)
        case anf.Construct() as op:
            return operations.Construct(let, op)
        case anf.Tag() as op:
            return operations.Tag(let, op)
        case anf.Fields() as op:
            return operations.Fields(let, op)
        case anf.Foreign() as op:
            return operations.Foreign(let, op)
        case anf.Effect() as op:
            return operations.Effect(let, op)
        case anf.Vjp() | anf.Jvp() | anf.VjpForward() | anf.VjpBackward() as op:
            return operations.Derivative(let, op)
        case op:
            return operations.Whole(let, op)


def comprehension(let: Let, op: anf.Comp) -> Comp:
    """The step of a comprehension."""
    names = {axis.var: k for k, axis in enumerate(op.axes)}
    crowded = any(isinstance(inner.op, anf.Call) or op_blocks(inner.op) for inner in op.body.lets)
    quick = None
    if boxes.is_simple(op):
        box = boxes.known_box(op)
        quick = boxes.boxed(op, names, code_of(op.body, boxes.lines_of(op, box)), box)
    return Comp(let, op, code_of(op.body), names, crowded, quick)
