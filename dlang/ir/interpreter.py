"""The reference interpreter: what a program of the IR means, and how many operations it takes.

    results = Interpreter(program).run("main", [x, 3])

Outside of comprehensions it goes one operation at a time. The body of a comprehension is evaluated for many points at
once, an operation for all of them, then the next; an arm of a branch only for the points that take it. Loops and
recursive calls inside are evaluated point by point. A failed check in a comprehension is that of the first failing
point in lexicographic order.

An operation is one scalar primitive, or one element read or written. Sizes and indices cost nothing.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Block, Function, Let, Op, Program, Size, Token, Var
from dlang.ir.errors import IRError
from dlang.ir.libraries import library_cost
from dlang.ir.points import Batch, box_of, points_of, view_rows
from dlang.ir.reduction import Sink
from dlang.ir.traverse import free_vars, op_blocks, walk
from dlang.ir.values import (
    FUNCTIONS,
    HALF,
    Lanes,
    Node,
    Rows,
    Version,
    accept,
    array_of,
    at,
    convert,
    count_of,
    exact,
    flat_index,
    literal,
    merge_lanes,
    merge_rows,
    release,
    rows_of,
    select,
    size_of,
)
from dlang.runtime import libraries
from dlang.runtime.c_functions import call_c
from dlang.runtime.errors import RunError
from dlang.runtime.foreign import call_python
from dlang.runtime.host import Host
from dlang.runtime.platform.memory import spare_memory
from dlang.runtime.text import format_parts

STACK_EXHAUSTED, MEMORY_EXHAUSTED = "E0805", "E0806"
DEPTH = 2_000_000  # calls, where memory does not end before: half a minute and 3 GB
_CALLS_BETWEEN = 10_000  # two looks at how much memory is left
_POINTS = 1 << 20  # evaluated at once, in a body without nested arrays
_POINTS_OF_BLOCKS = 1 << 16  # in a body with nested blocks or calls


class World(Protocol):
    """What effects act on: `dlang.runtime.host.Host`, or a stand-in."""

    def print(self, text: str) -> None: ...
    def effect(self, name: str, static: Sequence[str], args: Sequence[Any]) -> list[Any]: ...


class _Failed(Exception):
    """A refusal at one of the points under evaluation."""

    def __init__(self, lane: int, error: RunError) -> None:
        super().__init__(error)
        self.lane = lane
        self.error = error


class _Frame:
    """The variables of a call. n: how many points are under evaluation, None outside of comprehensions."""

    __slots__ = ("env", "n", "times")

    def __init__(self, env: dict[Var, Any], n: int | None) -> None:
        self.env = env
        self.n = n
        self.times = 1 if n is None else n


class Interpreter:
    """Runs functions of a program, and counts.

    depth: how many calls may be under way; spare: how many bytes are left, below 0 if a recursion has to end.
    counts: operations by the name of the op that they belong to. copies: how many `Copy` ran.
    """

    def __init__(
        self,
        program: Program,
        host: World | None = None,
        *,
        depth: int = DEPTH,
        spare: Callable[[], int] = spare_memory,
    ) -> None:
        self.program = program
        self.host: World = host if host is not None else Host()
        self.depth = depth
        self.spare = spare
        self.counts: Counter[str] = Counter()
        self.copies = 0
        self._calls = 0
        self._interrupted = False
        self._free_of: dict[int, tuple[Op | Block, list[Var]]] = {}
        self._recursive = recursive_functions(program)

    @property
    def operations(self) -> int:
        """The operations of all runs so far."""
        return sum(self.counts.values())

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """Calls a function with NumPy or Python values for its parameters; a token is neither given nor returned."""
        function = self.program.functions[name]
        outcome: list[Any] = []

        def work() -> None:
            try:
                with np.errstate(all="ignore"):
                    outcome.append(self._enter(function, args))
            except MemoryError:
                outcome.append(RunError(MEMORY_EXHAUSTED, "the memory is exhausted"))
            except BaseException as error:  # handed to the thread that waits
                outcome.append(error)

        limit, size = sys.getrecursionlimit(), threading.stack_size()
        sys.setrecursionlimit(max(limit, min(40 * self.depth, 2**31 - 1)))
        threading.stack_size(1 << 28)
        self._interrupted, self._calls = False, 0
        try:
            thread = threading.Thread(target=work, name="interpreter")
            try:
                thread.start()
                thread.join()
            except BaseException:
                self._interrupted = True
                if thread.ident is not None:
                    thread.join()
                raise
        finally:
            sys.setrecursionlimit(limit)
            threading.stack_size(size)
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        results: list[Any] = outcome[0]
        return results

    def _enter(self, function: Function, args: Sequence[Any]) -> list[Any]:
        params = [p for p in function.params if not isinstance(p.type, Token)]
        if len(args) != len(params):
            raise IRError(f"{function.name} takes {len(params)} arguments, not {len(args)}")
        env: dict[Var, Any] = dict.fromkeys(function.params)
        for param, arg in zip(params, args, strict=True):
            env[param] = accept(arg, param.type)
            if isinstance(param.type, Array):
                wanted = tuple([size_of(s, env) for s in param.type.shape])
                if env[param].shape != wanted:
                    raise IRError(f"{param.name} of {function.name} has the shape {env[param].shape}, not {wanted}")
        results = self._block(function.body, _Frame(env, None))
        return [release(r) for r, f in zip(results, function.results, strict=True) if not isinstance(f.type, Token)]

    # ---- blocks and atoms --------------------------------------------------------------------------------------------
    def _block(self, block: Block, frame: _Frame) -> list[Any]:
        env = frame.env
        try:
            for let in block.lets:
                vars, op = let.vars, let.op
                many = _MANY.get(type(op))
                if many is not None:
                    if frame.n is not None and type(op) in _BY_POINT:
                        values = self._each_point(let, frame, many)
                    else:
                        values = many(self, op, let, frame)
                    for var, value in zip(vars, values, strict=True):
                        env[var] = value
                elif frame.n is not None and type(op) in _BY_POINT:
                    env[vars[0]] = self._each_point(let, frame, _ONE[type(op)])[0]
                else:
                    env[vars[0]] = _ONE[type(op)](self, op, let, frame)
        except MemoryError:
            raise _at_point(RunError(MEMORY_EXHAUSTED, "the memory is exhausted", let.span), frame) from None
        return [env[r] if type(r) is Var else literal(r) for r in block.results]  # type: ignore[arg-type]

    def _atom(self, atom: Atom, env: Mapping[Var, Any]) -> Any:
        return env[atom] if type(atom) is Var else literal(atom)  # type: ignore[arg-type]

    def _free(self, x: Op | Block) -> list[Var]:
        known = self._free_of.get(id(x))
        if known is None:
            known = self._free_of[id(x)] = x, free_vars(x)
        return known[1]

    def _each_point(self, let: Let, frame: _Frame, evaluate: Callable[..., Any]) -> list[Any]:
        """An operation that is evaluated for one point at a time."""
        n = frame.times
        outer = {v: frame.env[v] for v in self._free(let.op)}
        columns: list[list[Any]] = [[] for _ in let.vars]
        for p in range(n):
            one = _Frame({v: at(value, p) for v, value in outer.items()}, None)
            try:
                values = evaluate(self, let.op, let, one)
            except RunError as error:
                raise _Failed(p, error) from None
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

    # ---- scalars -----------------------------------------------------------------------------------------------------
    def _prim(self, op: anf.Prim, let: Let, frame: _Frame) -> Any:
        self.counts["Prim"] += frame.times
        env = frame.env
        args = [env[a] if type(a) is Var else literal(a) for a in op.args]  # type: ignore[arg-type]
        dtype = let.vars[0].type.dtype  # type: ignore[union-attr]
        if frame.n is not None:
            lanes = False
            for k, arg in enumerate(args):
                if type(arg) is Lanes:
                    args[k] = arg.data
                    lanes = True
            if lanes:
                result = exact(FUNCTIONS[op.name](*args), dtype)
                return Lanes(result) if np.ndim(result) else result  # `select` may have chosen what is no lanes
        return exact(FUNCTIONS[op.name](*args), dtype)

    def _cast(self, op: anf.Cast, let: Let, frame: _Frame) -> Any:
        self.counts["Cast"] += frame.times
        value = self._atom(op.arg, frame.env)
        source: str = op.arg.type.dtype  # type: ignore[union-attr]
        if type(value) is Lanes:
            return Lanes(convert(value.data, source, op.dtype))
        return convert(value, source, op.dtype)

    def _size_of(self, op: anf.SizeOf, let: Let, frame: _Frame) -> Any:
        return self._number(op.size, frame)

    def _number(self, size: Size, frame: _Frame) -> Any:
        value = size_of(size, frame.env)
        return Lanes(value) if isinstance(value, np.ndarray) else np.int64(value)

    def _format(self, op: anf.Format, let: Let, frame: _Frame) -> Any:
        return format_parts(op.parts, [release(self._atom(a, frame.env)) for a in op.args])

    def _stop(self, op: anf.Stop, let: Let, frame: _Frame) -> Any:
        return self._atom(op.arg, frame.env)

    def _check(self, op: anf.Check, let: Let, frame: _Frame) -> list[Any]:
        condition = self._atom(op.condition, frame.env)
        lane: int | None = None
        if type(condition) is Lanes:
            wrong = np.flatnonzero(~condition.data)
            lane = int(wrong[0]) if len(wrong) else None
        elif not condition:
            lane = 0
        if lane is not None:
            values = [release(at(self._atom(a, frame.env), lane)) for a in op.values]
            error = RunError(op.code, format_parts(op.parts, values), let.span)
            raise error if frame.n is None else _Failed(lane, error)
        return [self._atom(s, frame.env) for s in op.subjects]

    # ---- datatypes ---------------------------------------------------------------------------------------------------
    def _construct(self, op: anf.Construct, let: Let, frame: _Frame) -> Any:
        self.counts["Construct"] += len(op.args)
        return Node(op.variant.tag, tuple([release(self._atom(a, frame.env)) for a in op.args]))

    def _tag(self, op: anf.Tag, let: Let, frame: _Frame) -> Any:
        self.counts["Tag"] += 1
        return np.int64(self._node(op.node, frame).tag)

    def _fields(self, op: anf.Fields, let: Let, frame: _Frame) -> list[Any]:
        node = self._node(op.node, frame)
        if node.tag != op.variant.tag:
            raise IRError(f"{op.node} is of the variant {node.tag}, not {op.variant.tag} ({let.span})")
        self.counts["Fields"] += len(node.fields)
        return list(node.fields)

    def _node(self, atom: Atom, frame: _Frame) -> Node:
        node = self._atom(atom, frame.env)
        if node is None:
            raise IRError(f"{atom} is null")
        assert isinstance(node, Node)
        return node

    # ---- arrays ------------------------------------------------------------------------------------------------------
    def _read(self, op: anf.Read, let: Let, frame: _Frame) -> Any:
        self.counts["Read"] += frame.times
        env = frame.env
        array = env[op.array]
        index = [size_of(i, env) for i in op.index]
        try:
            if type(array) is Rows:
                return Lanes(array.data[array.base + flat_index(array.shape, index)])
            array = array_of(array)
            position = flat_index(array.shape, index)
        except IRError as error:
            raise IRError(f"{op.array}: {error} ({let.span})") from None
        value = array.reshape(-1)[position]
        return Lanes(value) if isinstance(position, np.ndarray) else value

    def _update(self, op: anf.Update, let: Let, frame: _Frame) -> Any:
        self.counts["Update"] += 1
        array = frame.env[op.array]
        if type(array) is not Version:
            array = Version(array.copy())
        position = flat_index(array.read().shape, [size_of(i, frame.env) for i in op.index])
        return array.updated(position, self._atom(op.value, frame.env))

    def _copy(self, op: anf.Copy, let: Let, frame: _Frame) -> Any:
        self.copies += 1
        array = array_of(frame.env[op.array])
        self.counts["Copy"] += 2 * array.size
        return Version(array.copy())

    def _view(self, op: anf.View, let: Let, frame: _Frame) -> Any:
        env = dict(frame.env)
        array = env[op.array]
        shape = [size_of(s, env) for s in op.shape]
        if frame.n is not None and (type(array) is Rows or any(isinstance(s, np.ndarray) for s in shape)):
            return view_rows(op, frame.env, self._free(op), frame.times, shape)
        if any(type(env[v]) is Lanes for v in self._free(op)):
            return view_rows(op, frame.env, self._free(op), frame.times, shape)
        array = array_of(array)
        for k, (var, size) in enumerate(zip(op.axes, shape, strict=True)):
            env[var] = Lanes(np.arange(size).reshape([-1 if j == k else 1 for j in range(len(shape))]))
        if 0 in shape:
            return np.empty(shape, array.dtype)
        position = flat_index(array.shape, [size_of(i, env) for i in op.index])
        return array.reshape(-1)[np.broadcast_to(position, shape)]

    def _reshape(self, op: anf.Reshape, let: Let, frame: _Frame) -> Any:
        array = frame.env[op.array]
        shape = tuple([size_of(s, frame.env) for s in op.shape])
        if type(array) is Rows or any(isinstance(s, np.ndarray) for s in shape):
            rows = rows_of(array, frame.times)
            return Rows(rows.data, rows.base, shape)
        array = release(array)
        if count_of(shape) != array.size:
            raise IRError(f"{op.array} of shape {array.shape} is reshaped to {shape}")
        return array.reshape(shape)

    def _concat(self, op: anf.Concat, let: Let, frame: _Frame) -> Any:
        out = np.concatenate([array_of(frame.env[a]) for a in op.arrays])
        self.counts["Concat"] += 2 * out.size
        return out

    def _compact(self, op: anf.Compact, let: Let, frame: _Frame) -> list[Any]:
        mask = array_of(frame.env[op.mask])
        positions = np.flatnonzero(mask)
        self.counts["Compact"] += mask.size + len(positions)
        return [np.int64(len(positions)), positions]

    def _scan(self, op: anf.Scan, let: Let, frame: _Frame) -> Any:
        array = array_of(frame.env[op.array])
        self.counts["Scan"] += 3 * array.size
        dtype: str = op.array.type.dtype  # type: ignore[union-attr]
        total = np.cumsum if op.monoid == "sum" else np.cumprod
        return exact(total(array, dtype=np.float32 if dtype in HALF else array.dtype), dtype)

    def _contract(self, op: anf.Contract, let: Let, frame: _Frame) -> Any:
        a, b = array_of(frame.env[op.a]), array_of(frame.env[op.b])
        sizes = dict(zip((*op.left, *op.right), (*a.shape, *b.shape), strict=True))
        if a.dtype == np.float16:
            a, b = a.astype(np.float32), b.astype(np.float32)
        out = np.einsum(a, list(op.left), b, list(op.right), list(op.out), optimize=True)
        self.counts["Contract"] += 4 * count_of(tuple(sizes.values())) + (out.size if op.out else 0)
        return exact(np.ascontiguousarray(out) if op.out else out, let.vars[0].type.dtype)  # type: ignore[union-attr]

    def _library(self, op: anf.Library, let: Let, frame: _Frame) -> list[Any]:
        args = [release(self._atom(a, frame.env)) for a in op.args]
        self.counts["Library"] += library_cost(op.name, args, args[0].shape)
        return libraries.perform(op.name, args)

    # ---- comprehensions ----------------------------------------------------------------------------------------------
    def _comp(self, op: anf.Comp, let: Let, frame: _Frame) -> list[Any]:
        if self._interrupted:
            raise KeyboardInterrupt
        axes = op.axes
        names = {axis.var: k for k, axis in enumerate(axes)}
        free = self._free(op)
        box = box_of(axes, frame.env)
        if frame.n is not None:
            low, end = 0, frame.n
        elif axes:
            low = max(size_of(s, frame.env) for s in axes[0].lows)
            end = min(size_of(s, frame.env) for s in axes[0].highs)
        else:
            low, end = 0, 1
        sinks = [self._sink(d, value, names, frame) for d, value in zip(op.destinations, op.body.results, strict=True)]
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
                self._fill(op, batch, _Frame(env, batch.n), sinks, whole or frame.n is not None)
            low = stop
        self.counts["Comp"] += sum(s.written for s in sinks)
        return [s.result() for s in sinks]

    def _fill(self, op: anf.Comp, batch: Batch, frame: _Frame, sinks: list[Sink], whole: bool) -> None:
        try:
            results = self._first_failing(op.body, frame)
        except _Failed as failed:
            if batch.parent is None:
                raise failed.error from failed.error.__cause__
            raise _Failed(int(batch.parent[failed.lane]), failed.error) from None
        for sink, destination, value in zip(sinks, op.destinations, results, strict=True):
            kept_apart = whole or bool(op.axes and 0 not in sink.reduced and not sink.by_data and not sink.scatter)
            sink.accumulate(batch, value, [size_of(i, frame.env) for i in destination.index], kept_apart)

    def _first_failing(self, block: Block, frame: _Frame) -> list[Any]:
        """The body at all points; of several failing points the first one's refusal."""
        start = dict(frame.env)
        try:
            return self._block(block, frame)
        except _Failed as error:
            failed = error
        while failed.lane:  # an earlier point may fail at a later operation
            before = slice(0, failed.lane)
            try:
                self._block(block, _Frame({v: select(value, before) for v, value in start.items()}, failed.lane))
                break
            except _Failed as error:
                failed = error
        raise failed

    def _sink(self, destination: anf.Destination, value: Atom, names: Mapping[Var, int], frame: _Frame) -> Sink:
        mentioned = {v for entry in destination.index for v in entry.atoms()}
        return Sink(
            destination,
            value.type.dtype,  # type: ignore[union-attr]
            [size_of(s, frame.env) for s in destination.shape],
            frame.n,
            None if destination.into is None else frame.env[destination.into],
            len(names),
            [names[v] for v in mentioned if v in names],
            any(v not in names and v not in frame.env for v in mentioned),
        )

    # ---- control -----------------------------------------------------------------------------------------------------
    def _if(self, op: anf.If, let: Let, frame: _Frame) -> list[Any]:
        condition = self._atom(op.condition, frame.env)
        if type(condition) is not Lanes:
            return self._block(op.then if condition else op.otherwise, frame)
        if not condition.data.any():
            return self._block(op.otherwise, frame)
        if condition.data.all():
            return self._block(op.then, frame)
        arms = []
        for block, taken in ((op.then, condition.data), (op.otherwise, ~condition.data)):
            lanes = np.flatnonzero(taken)
            env = {v: select(frame.env[v], lanes) for v in self._free(block)}
            try:
                arms.append((lanes, self._block(block, _Frame(env, len(lanes)))))
            except _Failed as failed:
                raise _Failed(int(lanes[failed.lane]), failed.error) from None
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

    def _for(self, op: anf.For, let: Let, frame: _Frame) -> list[Any]:
        env, params, body = frame.env, op.params, op.body
        state = [self._atom(a, env) for a in op.init]
        for i in range(size_of(op.low, env), size_of(op.high, env)):
            if self._interrupted:
                raise KeyboardInterrupt
            env[op.index] = np.int64(i)
            for param, value in zip(params, state, strict=True):
                env[param] = value
            state = self._block(body, frame)
            if op.early and not state.pop(0):
                break
        return state

    def _while(self, op: anf.While, let: Let, frame: _Frame) -> list[Any]:
        env, params = frame.env, op.params
        state = [self._atom(a, env) for a in op.init]
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

    def _call(self, op: anf.Call, let: Let, frame: _Frame) -> list[Any]:
        if frame.n is not None and op.function in self._recursive:
            return self._each_point(let, frame, Interpreter._call)
        function = self.program.functions[op.function]
        if self._interrupted:
            raise KeyboardInterrupt
        if self._calls >= self.depth or (self._calls % _CALLS_BETWEEN == 0 and self._calls and self.spare() < 0):
            message = f"the stack is exhausted: `{function.label or function.name}` is {self._calls} calls deep"
            raise _at_point(RunError(STACK_EXHAUSTED, message, let.span), frame)
        env = {p: self._atom(a, frame.env) for p, a in zip(function.params, op.args, strict=True)}
        self._calls += 1
        try:
            return self._block(function.body, _Frame(env, frame.n))
        except RunError as error:
            error.called(function.label or function.name, let.span)
            raise
        except _Failed as failed:
            failed.error.called(function.label or function.name, let.span)
            raise
        finally:
            self._calls -= 1

    def _foreign(self, op: anf.Foreign, let: Let, frame: _Frame) -> list[Any]:
        args = [release(self._atom(a, frame.env)) for a in op.args]
        return self._outside(op.target, args, op.args, let.vars, let, frame)

    def _outside(
        self, target: str, args: list[Any], atoms: Sequence[Atom], vars: Sequence[Var], let: Let, frame: _Frame
    ) -> list[Any]:
        """The results of a function outside of the language."""
        try:
            if target.startswith("c:"):
                wanted = [
                    (v.type.dtype, [size_of(s, frame.env) for s in v.type.shape] if isinstance(v.type, Array) else None)
                    for v in vars
                    if not isinstance(v.type, Token)
                ]
                results = call_c(target, args, [a.type for a in atoms], wanted)
            else:
                results = call_python(self.program.python[target], args)
        except RunError as error:
            error.at(let.span)
            raise
        return [accept(r, v.type) for r, v in zip(results, vars, strict=True)]

    def _effect(self, op: anf.Effect, let: Let, frame: _Frame) -> list[Any]:
        args = [release(self._atom(a, frame.env)) for a in op.args]
        if op.name == "foreign":
            return [None, *self._outside(op.static[0], args, op.args, let.vars[1:], let, frame)]
        try:
            if op.name == "print":
                self.host.print(args[0])
                return [None]
            results = self.host.effect(op.name, op.static, args)
        except RunError as error:
            error.at(let.span)
            raise
        return [None, *(accept(r, v.type) for r, v in zip(results, let.vars[1:], strict=True))]

    def _derivative(self, op: anf.Derivative, let: Let, frame: _Frame) -> list[Any]:
        raise IRError(f"{type(op).__name__} of {op.function} reached the interpreter before it was expanded")


def _at_point(error: RunError, frame: _Frame) -> Exception:
    return error if frame.n is None else _Failed(0, error)


def recursive_functions(program: Program) -> set[str]:
    """The functions that may call themselves, through others or directly."""
    calls = {
        name: {let.op.function for let in walk(function.body) if isinstance(let.op, anf.Call)}
        for name, function in program.functions.items()
    }

    def reaches_itself(name: str) -> bool:
        seen: set[str] = set()
        open = list(calls[name])
        while open:
            callee = open.pop()
            if callee == name:
                return True
            if callee not in seen:
                seen.add(callee)
                open += calls.get(callee, ())
        return False

    return {name for name in calls if reaches_itself(name)}


_ONE: dict[type, Callable[..., Any]] = {
    anf.Prim: Interpreter._prim,
    anf.Cast: Interpreter._cast,
    anf.SizeOf: Interpreter._size_of,
    anf.Format: Interpreter._format,
    anf.Stop: Interpreter._stop,
    anf.Read: Interpreter._read,
    anf.Update: Interpreter._update,
    anf.Copy: Interpreter._copy,
    anf.View: Interpreter._view,
    anf.Reshape: Interpreter._reshape,
    anf.Concat: Interpreter._concat,
    anf.Scan: Interpreter._scan,
    anf.Contract: Interpreter._contract,
    anf.Construct: Interpreter._construct,
    anf.Tag: Interpreter._tag,
}
_MANY: dict[type, Callable[..., list[Any]]] = {
    anf.Check: Interpreter._check,
    anf.Comp: Interpreter._comp,
    anf.If: Interpreter._if,
    anf.For: Interpreter._for,
    anf.While: Interpreter._while,
    anf.Call: Interpreter._call,
    anf.Compact: Interpreter._compact,
    anf.Library: Interpreter._library,
    anf.Foreign: Interpreter._foreign,
    anf.Effect: Interpreter._effect,
    anf.Fields: Interpreter._fields,
    anf.Vjp: Interpreter._derivative,
    anf.Jvp: Interpreter._derivative,
    anf.Record: Interpreter._derivative,
    anf.Pull: Interpreter._derivative,
}
# Inside a comprehension these are evaluated for one point at a time.
_BY_POINT = {
    anf.Format, anf.Update, anf.Copy, anf.Concat, anf.Scan, anf.Contract, anf.For, anf.While, anf.Compact,
    anf.Library, anf.Foreign, anf.Effect, anf.Construct, anf.Tag, anf.Fields,
}  # fmt: skip
