"""The steps of scalars: what an interpreter does most, so what follows from the program alone is decided before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dlang.host.errors import RunError
from dlang.host.text import format_parts
from dlang.interpret.algebra import Primitive, primitive_of
from dlang.interpret.code import Failed, Frame, Step
from dlang.ir import anf
from dlang.ir.anf import Array, Let, Lit, Var
from dlang.ir.errors import IRError
from dlang.ir.terms import WIDTHS
from dlang.ir.types import dtype_of
from dlang.ir.values import Entry, NDArray, Rows, Version, array_of, entry_of, flat_index, literal, position, value_of

if TYPE_CHECKING:
    from dlang.interpret.interpreter import Interpreter


@dataclass(frozen=True, slots=True)
class Line:
    """An axis whose bounds are known, with its value at each point."""

    low: int
    extent: int
    values: NDArray


Axes = Mapping[Var, Line | None]  # in order; None where the bounds are known only when the program runs


def width_of(atom: anf.Atom) -> int:
    """The bytes of a scalar, or of an element of an array."""
    return WIDTHS.get(dtype_of(atom), 8)


@dataclass(eq=False)
class Prim(Step):
    """A primitive. given: its arguments, where they are literals; the others are variables."""

    operations: ClassVar[int] = 1
    var: Var
    primitive: Primitive
    given: list[Any]
    variables: list[tuple[int, Var]]

    def run(self, run: Interpreter, frame: Frame) -> None:
        env, args = frame.env, self.given.copy()
        for k, var in self.variables:
            args[k] = env[var]
        env[self.var] = run.algebra.primitive(self.primitive, args)


@dataclass(eq=False)
class Binary(Step):
    """A primitive of two variables."""

    operations: ClassVar[int] = 1
    var: Var
    primitive: Primitive
    x: Var
    y: Var

    def run(self, run: Interpreter, frame: Frame) -> None:
        env = frame.env
        env[self.var] = run.algebra.primitive(self.primitive, (env[self.x], env[self.y]))


def prim(let: Let, op: anf.Prim) -> Step:
    (var,) = let.vars
    primitive = primitive_of(op.name, dtype_of(var))
    match op.args:
        case (Var() as x, Var() as y):
            return Binary(let, var, primitive, x, y)
    given = [literal(a) if isinstance(a, Lit) else None for a in op.args]
    return Prim(let, var, primitive, given, [(k, a) for k, a in enumerate(op.args) if isinstance(a, Var)])


@dataclass(eq=False)
class Cast(Step):
    operations: ClassVar[int] = 1
    op: anf.Cast

    def run(self, run: Interpreter, frame: Frame) -> None:
        op = self.op
        value = value_of(op.arg, frame.env)
        frame.env[self.let.vars[0]] = run.algebra.convert(value, dtype_of(op.arg), op.dtype)


@dataclass(eq=False)
class IndexExpr(Step):
    size: Entry

    def run(self, run: Interpreter, frame: Frame) -> None:
        value = position(self.size, frame.env)
        frame.env[self.let.vars[0]] = value if type(value) is np.ndarray else np.int64(value)


@dataclass(eq=False)
class StopGradient(Step):
    op: anf.StopGradient

    def run(self, run: Interpreter, frame: Frame) -> None:
        value, dtype = value_of(self.op.arg, frame.env), dtype_of(self.op.arg)
        if type(value) is Rows:
            frame.env[self.let.vars[0]] = Rows(run.algebra.stopped(value.data, dtype), value.base, value.shape)
        else:
            frame.env[self.let.vars[0]] = run.algebra.stopped(value, dtype)


@dataclass(eq=False)
class Assert(Step):
    """The guarded values of a check that holds; where coverage is counted, a mark that never ends a run.

    Raises RunError where it fails, or Failed with the first lane that does.
    """

    op: anf.Assert

    def run(self, run: Interpreter, frame: Frame) -> None:
        op, env = self.op, frame.env
        if run.counted and op.parts[0] in run.counted:
            run.counted[op.parts[0]] += frame.times
            return
        condition = value_of(op.condition, env)
        if type(condition) is np.ndarray:
            if not condition.all():
                self._fail(run, frame, int(np.flatnonzero(~condition)[0]))
        elif not condition:
            self._fail(run, frame, 0)
        for var, guarded in zip(self.let.vars, op.guarded, strict=True):
            env[var] = value_of(guarded, env)

    def _fail(self, run: Interpreter, frame: Frame, lane: int) -> None:
        op = self.op
        error = RunError(op.code, format_parts(op.parts, run.plain(op.values, frame, lane)), self.let.span)
        raise error if frame.n is None else Failed(lane, error)


# ---- elements of arrays ----------------------------------------------------------------------------------------------
@dataclass(eq=False)
class OneElement(Step):
    """A read of one element of an array."""

    operations: ClassVar[int] = 1
    array: Var

    @property
    def moved(self) -> int:
        return width_of(self.let.vars[0])


@dataclass(eq=False)
class Read(OneElement):
    """A read from an array whose shape only the run knows."""

    index: Sequence[Entry]

    def run(self, run: Interpreter, frame: Frame) -> None:
        env = frame.env
        held = env[self.array]
        index = [position(i, env) for i in self.index]
        try:
            if type(held) is Rows:
                env[self.let.vars[0]] = held.data[held.base + flat_index(held.shape, index)]
                return
            array = array_of(held)
            at = flat_index(array.shape, index)
        except IRError as error:
            raise IRError(f"{self.array}: {error} ({self.let.span})") from None
        flat = array.reshape(-1)
        env[self.let.vars[0]] = flat[at] if type(at) is int else flat.take(at)


@dataclass(eq=False)
class KnownRead(OneElement):
    """A read from an array whose shape is known: fixed is what is known of the position.

    open: the other entries of the index, each with its size and its stride. everything: whether all elements are read,
    in order.
    """

    fixed: Any
    open: list[tuple[Entry, int, int]]
    everything: bool

    def run(self, run: Interpreter, frame: Frame) -> None:
        env = frame.env
        held = env[self.array]
        at = self.fixed
        for entry, size, stride in self.open:
            i = position(entry, env)
            if not (0 <= i < size if type(i) is int else i.min() >= 0 and i.max() < size):
                flat_index((size,), [i])  # raises
            at = at + i * stride
        if type(held) is Rows:
            env[self.let.vars[0]] = held.data[held.base + at]
            return
        flat = array_of(held).reshape(-1)
        whole = self.everything and not self.open and type(held) is not Version
        env[self.let.vars[0]] = flat[at] if type(at) is int else flat if whole else flat.take(at)


def read(let: Let, op: anf.Read, axes: Axes | None) -> Step:
    """The step of a read. axes: those of a box, where it runs at all of its points at once."""
    assert isinstance(op.array.type, Array)
    dims = [s.constant for s in op.array.type.shape]
    if any(type(d) is not int for d in dims):
        return Read(let, op.array, [entry_of(e) for e in op.index])
    fixed: Any = 0
    open: list[tuple[Entry, int, int]] = []
    stride = 1
    for size, index in reversed(list(zip(dims, op.index, strict=True))):
        assert type(size) is int
        line = axes.get(index.atom) if axes is not None and index.atom is not None else None
        entry = entry_of(index)
        if line is not None and line.low >= 0 and line.low + line.extent <= size:
            fixed = fixed + line.values * stride
        elif type(entry) is int and 0 <= entry < size:
            fixed = fixed + entry * stride
        else:
            open.append((entry, size, stride))
        stride *= size
    everything = type(fixed) is np.ndarray and len(fixed) == stride and bool((fixed == np.arange(stride)).all())
    return KnownRead(let, op.array, fixed, open, everything)
