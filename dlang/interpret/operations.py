"""The steps of arrays, of nodes of datatypes, and of the world outside; those of scalars are in `scalars.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dlang.host.errors import RunError
from dlang.host.foreign import call_c, call_python
from dlang.host.text import format_parts
from dlang.interpret.code import Code, Failed, Frame, PointStep, Step
from dlang.interpret.points import view_rows
from dlang.interpret.scalars import width_of
from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Token, Var
from dlang.ir.crossing import Node
from dlang.ir.errors import IRError
from dlang.ir.kernels import is_kernel, no_device
from dlang.ir.rules import library_cost
from dlang.ir.types import dtype_of
from dlang.ir.values import (
    Entry,
    Rows,
    Version,
    accept,
    array_of,
    concatenated,
    count_of,
    extent_of,
    flat_index,
    merged,
    never_written,
    position,
    release,
    rows_of,
    select,
    size_of,
    value_of,
)

if TYPE_CHECKING:
    from dlang.interpret.interpreter import Interpreter


# ---- views -----------------------------------------------------------------------------------------------------------
@dataclass(eq=False)
class View(Step):
    """A view. first: the entries of its index, if the view is all that the array has behind these."""

    op: anf.View
    first: Sequence[Entry] | None

    def run(self, run: Interpreter, frame: Frame) -> None:
        env = frame.env
        if self.first is not None and frame.n is None:
            data = array_of(env[self.op.array])
            at = [position(i, env) for i in self.first]
            flat_index(data.shape[: len(at)], at)
            env[self.let.vars[0]] = np.array(data[tuple(at)])
        else:
            env[self.let.vars[0]] = self._elements(frame)

    def _elements(self, frame: Frame) -> Any:
        op, env = self.op, dict(frame.env)
        array = env[op.array]
        shape = [extent_of(s, env) for s in op.shape]
        others = any(type(env[v]) is np.ndarray for v in self.free if v is not op.array)
        if others or type(array) is Rows or any(isinstance(s, np.ndarray) for s in shape):
            return view_rows(op, frame.env, self.free, frame.times, shape)
        array = array_of(array)
        for k, (var, size) in enumerate(zip(op.axes, shape, strict=True)):
            env[var] = np.arange(size).reshape([-1 if j == k else 1 for j in range(len(shape))])
        if 0 in shape:
            return np.empty(shape, array.dtype)
        at = flat_index(array.shape, [size_of(i, env) for i in op.index])
        return array.reshape(-1)[np.broadcast_to(at, shape)]


def first_of(op: anf.View) -> Sequence[anf.Size] | None:
    """The index of a view of all that an array has behind it; None if it is another one."""
    count = len(op.index) - len(op.axes)
    if count < 0 or [e.atom for e in op.index[count:]] != list(op.axes):
        return None
    assert isinstance(op.array.type, Array)
    if op.array.type.shape[count:] != op.shape or any(e.mentions(op.axes) for e in op.index[:count]):
        return None
    return op.index[:count]


@dataclass(eq=False)
class Reshape(Step):
    op: anf.Reshape

    def run(self, run: Interpreter, frame: Frame) -> None:
        op, env = self.op, frame.env
        array = env[op.array]
        shape = tuple([extent_of(s, env) for s in op.shape])
        if type(array) is Rows or any(isinstance(s, np.ndarray) for s in shape):
            rows = rows_of(array, frame.times)
            env[self.let.vars[0]] = Rows(rows.data, rows.base, shape)
            return
        array = release(array)
        if count_of(shape) != array.size:
            raise IRError(f"{op.array} of shape {array.shape} is reshaped to {shape}")
        env[self.let.vars[0]] = array.reshape(shape)


# ---- what is done for one point at a time ----------------------------------------------------------------------------
@dataclass(eq=False)
class Update(PointStep):
    op: anf.Update
    index: Sequence[Entry]

    def values(self, run: Interpreter, frame: Frame) -> list[Any]:
        op, env = self.op, frame.env
        run.count(self.let, 1, width_of(op.value))
        array = env[op.array]
        if type(array) is not Version:
            fresh = array.copy()
            run.replaced(array, fresh)
            array = Version(fresh)
        at = flat_index(array.read().shape, [position(i, env) for i in self.index])
        return [array.updated(at, value_of(op.value, env))]


@dataclass(eq=False)
class Construct(PointStep):
    op: anf.Construct

    def values(self, run: Interpreter, frame: Frame) -> list[Any]:
        op = self.op
        run.count(self.let, len(op.args), 8 * len(op.args))
        return [Node(op.variant.tag, tuple([release(value_of(a, frame.env)) for a in op.args]))]


@dataclass(eq=False)
class Tag(PointStep):
    op: anf.Tag

    def values(self, run: Interpreter, frame: Frame) -> list[Any]:
        run.count(self.let, 1, 8)
        return [np.int64(node_of(self.op.node, frame).tag)]


@dataclass(eq=False)
class Fields(PointStep):
    op: anf.Fields

    def values(self, run: Interpreter, frame: Frame) -> list[Any]:
        op = self.op
        node = node_of(op.node, frame)
        if node.tag != op.variant.tag:
            raise IRError(f"{op.node} is of the variant {node.tag}, not {op.variant.tag} ({self.let.span})")
        run.count(self.let, len(node.fields), 8 * len(node.fields))
        return list(node.fields)


def node_of(atom: Atom, frame: Frame) -> Node:
    node = value_of(atom, frame.env)
    if node is None:
        raise IRError(f"{atom} is null")
    assert isinstance(node, Node)
    return node


@dataclass(eq=False)
class Whole(PointStep):
    """An operation on whole arrays, or on texts."""

    op: anf.Format | anf.Copy | anf.Empty | anf.Concat | anf.Compact | anf.Scan | anf.Contract | anf.LinalgOp

    def values(self, run: Interpreter, frame: Frame) -> list[Any]:
        let, env = self.let, frame.env
        match self.op:
            case anf.Format(parts, args):
                return [format_parts(parts, run.plain(args, frame))]
            case anf.Copy(source):
                run.copies += 1
                array = array_of(env[source])
                run.count(let, 2 * array.size, 2 * array.size * width_of(source))
                fresh = array.copy()
                run.passed(frame, [fresh])
                return [Version(fresh)]
            case anf.Empty(dtype, shape):
                array = never_written(dtype, [extent_of(s, env) for s in shape])
                run.made(frame, [array])
                return [array]
            case anf.Concat(arrays):
                array = concatenated([array_of(env[a]) for a in arrays])
                run.count(let, 2 * array.size, 2 * array.size * width_of(let.vars[0]))
                run.passed(frame, [array])
                return [array]
            case anf.Compact(source):
                mask = array_of(env[source])
                positions = np.flatnonzero(mask)
                run.count(let, mask.size + len(positions), mask.size + 8 * len(positions))
                run.passed(frame, [positions])
                return [np.int64(len(positions)), positions]
            case anf.Scan() as op:
                array = array_of(env[op.array])
                run.count(let, 3 * array.size, 2 * array.size * width_of(op.array))
                out = run.algebra.running(op.monoid, array, dtype_of(op.array))
                run.passed(frame, [out])
                return [out]
            case anf.Contract() as op:
                return [self._contract(run, op, frame)]
            case anf.LinalgOp(name=name, args=atoms):
                given = [release(value_of(a, env)) for a in atoms]
                results = run.algebra.library(name, given, [dtype_of(a) for a in atoms])
                moved = sum(a.nbytes for a in (*given, *results) if isinstance(a, np.ndarray))
                run.count(let, library_cost(name, given, given[0].shape), moved)
                run.passed(frame, results)
                return results

    def _contract(self, run: Interpreter, op: anf.Contract, frame: Frame) -> Any:
        a, b = array_of(frame.env[op.a]), array_of(frame.env[op.b])
        sizes = dict(zip((*op.left, *op.right), (*a.shape, *b.shape), strict=True))
        out = run.algebra.contracted(op, a, b, dtype_of(self.let.vars[0]))
        elements_made = out.size if op.out else 0
        moved = (a.size + b.size + elements_made) * width_of(self.let.vars[0])
        run.count(self.let, 4 * count_of(tuple(sizes.values())) + elements_made, moved)
        run.passed(frame, [out])
        return out


# ---- the world outside -----------------------------------------------------------------------------------------------
@dataclass(eq=False)
class Foreign(PointStep):
    op: anf.Foreign

    def values(self, run: Interpreter, frame: Frame) -> list[Any]:
        return _outside(self, run, self.op.target, self.op.args, self.let.vars, frame)


@dataclass(eq=False)
class Effect(PointStep):
    op: anf.Effect

    def values(self, run: Interpreter, frame: Frame) -> list[Any]:
        op, outputs = self.op, self.let.vars[1:]
        if op.name == "foreign":
            return [None, *_outside(self, run, op.static[0], op.args, outputs, frame)]
        args = run.plain(op.args, frame)
        try:
            if op.name == "print":
                run.host.print(args[0])
                return [None]
            results = run.host.effect(op.name, op.static, args)
        except RunError as error:
            error.at(self.let.span)
            raise
        return [None, *(accept(r, v.type) for r, v in zip(results, outputs, strict=True))]


def _outside(
    step: Step, run: Interpreter, target: str, atoms: Sequence[Atom], vars: Sequence[Var], frame: Frame
) -> list[Any]:
    """The results of a function of Python or C. Raises RunError where it fails, and E0901 for a kernel of a GPU."""
    span = step.let.span
    if is_kernel(target):
        raise no_device(target, span)
    values = [release(value_of(a, frame.env)) for a in atoms]
    args = [run.algebra.outgoing(v, dtype_of(a), target) for v, a in zip(values, atoms, strict=True)]
    try:
        if target.startswith("c:"):
            wanted = [
                (v.type.dtype, [extent_of(s, frame.env) for s in v.type.shape] if isinstance(v.type, Array) else None)
                for v in vars
                if not isinstance(v.type, Token)
            ]
            results = call_c(target, args, [a.type for a in atoms], wanted)
        else:
            results = call_python(run.program.python[target], args)
    except RunError as error:
        error.at(span)
        raise
    return [accept(r, v.type) for r, v in zip(results, vars, strict=True)]


@dataclass(eq=False)
class Derivative(PointStep):
    op: anf.Derivative

    def values(self, run: Interpreter, frame: Frame) -> list[Any]:
        return run.algebra.derivative(run, self.op, self.let, frame)


# ---- branches, loops and calls ---------------------------------------------------------------------------------------
# The steps of branches, loops and calls.


@dataclass(eq=False)
class If(Step):
    """A branch: where points differ, each arm runs for those that take it."""

    op: anf.If
    then: Code
    otherwise: Code

    def run(self, run: Interpreter, frame: Frame) -> None:
        condition = value_of(self.op.condition, frame.env)
        run.turns += frame.times
        if type(condition) is not np.ndarray:
            results = run.block(self.then if condition else self.otherwise, frame)
        elif not condition.any():
            results = run.block(self.otherwise, frame)
        elif condition.all():
            results = run.block(self.then, frame)
        else:
            results = self._both(run, condition, frame)
        for var, value in zip(self.let.vars, results, strict=True):
            frame.env[var] = value

    def _both(self, run: Interpreter, condition: Any, frame: Frame) -> list[Any]:
        arms = []
        for code, taken in ((self.then, condition), (self.otherwise, ~condition)):
            lanes = np.flatnonzero(taken)
            env = {v: select(v, frame.env[v], lanes) for v in code.free}
            try:
                arms.append((lanes, run.block(code, Frame(env, len(lanes)))))
            except Failed as failed:
                raise Failed(int(lanes[failed.lane]), failed.error) from None
        return [
            merged([(lanes, values[k]) for lanes, values in arms], frame.times, var.type)
            for k, var in enumerate(self.let.vars)
        ]


def bounds(op: anf.For, env: dict[anf.Var, Any]) -> tuple[int, int]:
    """The first value of a loop's index, and the end. Raises OverflowError beyond an i64: refused, not run."""
    low, high = np.int64(size_of(op.low, env)), np.int64(size_of(op.high, env))
    return int(low), int(high)


def goes_on(op: anf.For | anf.While, results: list[Any]) -> bool:
    """Tells whether a loop goes on after its body gave results, which then are the state alone."""
    return not op.early or bool(results.pop(0))


@dataclass(eq=False)
class For(PointStep):
    op: anf.For
    body: Code

    def values(self, run: Interpreter, frame: Frame) -> list[Any]:
        op, env = self.op, frame.env
        state = [value_of(a, env) for a in op.init]
        for i in range(*bounds(op, env)):
            run.poll()
            run.turns += frame.times
            env[op.index] = np.int64(i)
            _bind(op.params, state, env)
            state = run.block(self.body, frame)
            if not goes_on(op, state):
                break
        return state


@dataclass(eq=False)
class While(PointStep):
    op: anf.While
    condition: Code
    body: Code

    def values(self, run: Interpreter, frame: Frame) -> list[Any]:
        op, env = self.op, frame.env
        state = [value_of(a, env) for a in op.init]
        while True:
            run.poll()
            run.turns += frame.times
            _bind(op.params, state, env)
            if not run.block(self.condition, frame)[0]:
                return state
            state = run.block(self.body, frame)
            if not goes_on(op, state):
                return state


def _bind(vars: Sequence[anf.Var], values: Sequence[Any], env: dict[anf.Var, Any]) -> None:
    for var, value in zip(vars, values, strict=True):
        env[var] = value


@dataclass(eq=False)
class Call(PointStep):
    op: anf.Call

    def run(self, run: Interpreter, frame: Frame) -> None:
        if frame.n is not None and self.op.function in run.recursive:
            results = run.each_point(self, frame)
        else:
            results = self.values(run, frame)
        for var, value in zip(self.let.vars, results, strict=True):
            frame.env[var] = value

    def values(self, run: Interpreter, frame: Frame) -> list[Any]:
        return run.called(self.op.function, [value_of(a, frame.env) for a in self.op.args], self.let, frame.n)
