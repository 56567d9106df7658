"""Operations on scalars as functions of the variables: what depends on the program alone is decided once for each.

They give what the interpreter's do, for one point or for many at once: a scalar is a NumPy scalar, or an array with one
for each point. Nothing is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlang.interpret.algebra import Numbers
from dlang.interpret.operations import Frame, Run, check, dtype_of
from dlang.ir import anf
from dlang.ir.anf import Atom, Let, Lit, Scalar, Size, Var
from dlang.ir.values import (
    FUNCTIONS,
    NUMPY,
    Lanes,
    NDArray,
    Version,
    array_of,
    convert,
    exact,
    flat_index,
    literal,
    size_of,
)
from dlang.ops.dtypes import DTYPES

Env = dict[Var, Any]
Step = Callable[[Env], None]
Value = Callable[[Env], Any]


@dataclass(frozen=True, slots=True)
class Line:
    """An axis whose bounds are known, with its value at each point."""

    low: int
    extent: int
    values: NDArray


Axes = Mapping[Var, Line | None]  # in order; None where the bounds are known only when the program runs


class Unusual(Exception):
    """A check has failed at one of many points."""


def step_of(let: Let, axes: Axes | None = None) -> Step | None:
    """Makes the step of an operation; None if it has none. axes: of the points; None outside of comprehensions."""
    op = let.op
    match op:
        case anf.Prim() | anf.Cast() | anf.IndexExpr() | anf.StopGradient() | anf.Read():
            (var,) = let.vars
            if not isinstance(var.type, Scalar):
                return None
            return _binding(var, _scalar(op, var, axes or {}))
        case anf.Assert():
            return _check(let, op, axes is None)
        case anf.View() if axes is None:
            part = _part(op)
            return None if part is None else _binding(let.vars[0], part)
        case anf.Update() if axes is None:
            return _binding(let.vars[0], _update(op))
        case _:
            return None


def _binding(var: Var, function: Value) -> Step:
    def step(env: Env) -> None:
        env[var] = function(env)

    return step


def _scalar(op: anf.Op, var: Var, axes: Axes) -> Value:
    match op:
        case anf.Prim(name, args):
            return _prim(FUNCTIONS[name], args, dtype_of(var))
        case anf.Cast(dtype, arg):
            given, source = value_of(arg), dtype_of(arg)
            return lambda env: convert(given(env), source, dtype)
        case anf.IndexExpr(size):
            number = index_of(size)
            return lambda env: x if type(x := number(env)) is np.ndarray else np.int64(x)
        case anf.StopGradient(arg):
            return value_of(arg)
        case anf.Read():
            dims = _dims(op.array)
            return _read(op, axes) if dims is None else _read_of_known(op, dims, axes)
    raise AssertionError("no operation on scalars")


def _prim(function: Callable[..., Any], args: Sequence[Atom], dtype: str) -> Value:
    kind = NUMPY[dtype] if DTYPES[dtype].in_numpy else None
    match args:
        case [Var() as x, Var() as y]:

            def two(env: Env) -> Any:
                result = function(env[x], env[y])
                return result if type(result) is kind else exact(result, dtype)

            return two
        case [Var() as x]:

            def one(env: Env) -> Any:
                result = function(env[x])
                return result if type(result) is kind else exact(result, dtype)

            return one
        case _:
            values = [value_of(a) for a in args]

            def several(env: Env) -> Any:
                result = function(*[v(env) for v in values])
                return result if type(result) is kind else exact(result, dtype)

            return several


def _check(let: Let, op: anf.Assert, alone: bool) -> Step:
    pairs = [(v, value_of(a)) for v, a in zip(let.vars, op.guarded, strict=True)]
    condition = None if isinstance(op.condition, Lit) and op.condition.value else value_of(op.condition)

    def step(env: Env) -> None:
        if condition is not None:
            holds = condition(env)
            if not (holds.all() if type(holds) is np.ndarray else holds):
                if alone:
                    check(Run(Numbers()), op, let, Frame(env, None))  # raises
                raise Unusual
        for var, value in pairs:
            env[var] = value(env)

    return step


# ---- arrays ----------------------------------------------------------------------------------------------------------
def _dims(array: Var) -> tuple[int, ...] | None:
    """The shape of an array if it is known."""
    assert isinstance(array.type, anf.Array)
    dims = tuple([s.constant for s in array.type.shape])
    return tuple([d for d in dims if type(d) is int]) if all(type(d) is int for d in dims) else None


def _read(op: anf.Read, axes: Axes) -> Value:
    array, index = op.array, [index_of(e) for e in op.index]
    in_order = [e.atom is not None and e.atom in axes for e in op.index]
    whole = [e.atom for e in op.index] == list(axes)

    def read(env: Env) -> Any:
        data = array_of(env[array])
        shape = data.shape
        at = [i(env) for i in index]
        inside: Any = True
        position: Any = 0
        for size, i, axis in zip(shape, at, in_order, strict=True):
            if type(i) is int:
                inside = inside and 0 <= i < size
            elif axis:
                inside = inside and i[0] >= 0 and i[-1] < size
            else:
                inside = inside and i.min() >= 0 and i.max() < size
            position = position * size + i
        if not inside:
            flat_index(shape, at)  # raises
        flat = data.reshape(-1)
        if type(position) is int:
            return flat[position]
        if whole and len(flat) == position.size and type(env[array]) is not Version:
            return flat
        return flat.take(position)

    return read


def _read_of_known(op: anf.Read, dims: tuple[int, ...], axes: Axes) -> Value:
    """An element of an array whose shape is known: what is known of the position is computed once."""
    array = op.array
    fixed: Any = 0
    open: list[tuple[Value, int, int]] = []
    stride = 1
    for size, entry in reversed(list(zip(dims, op.index, strict=True))):
        line = axes.get(entry.atom) if entry.atom is not None else None
        constant = entry.constant
        if line is not None and line.low >= 0 and line.low + line.extent <= size:
            fixed = fixed + line.values * stride
        elif type(constant) is int and 0 <= constant < size:
            fixed = fixed + constant * stride
        else:
            open.append((index_of(entry), size, stride))
        stride *= size
    everything = type(fixed) is np.ndarray and len(fixed) == stride and bool((fixed == np.arange(stride)).all())

    def read(env: Env) -> Any:
        held = env[array]
        flat = array_of(held).reshape(-1)
        position = fixed
        for index, size, stride in open:
            i = index(env)
            if not (0 <= i < size if type(i) is int else i.min() >= 0 and i.max() < size):
                flat_index((size,), [i])  # raises
            position = position + i * stride
        if type(position) is int:
            return flat[position]
        return flat if everything and not open and type(held) is not Version else flat.take(position)

    return read


def _part(op: anf.View) -> Value | None:
    """A view of all that an array has behind some indices; None if it is another one."""
    count = len(op.index) - len(op.axes)
    rest = [e.atom for e in op.index[count:]]
    if count < 0 or rest != list(op.axes) or any(e.mentions(op.axes) for e in op.index[:count]):
        return None
    assert isinstance(op.array.type, anf.Array)
    if tuple(op.array.type.shape[count:]) != tuple(op.shape):
        return None
    array, first = op.array, [index_of(e) for e in op.index[:count]]

    def part(env: Env) -> Any:
        data = array_of(env[array])
        at = [i(env) for i in first]
        flat_index(data.shape[:count], at)
        return np.array(data[tuple(at)])

    return part


def _update(op: anf.Update) -> Value:
    array, index, value = op.array, [index_of(e) for e in op.index], value_of(op.value)

    def update(env: Env) -> Any:
        held = env[array]
        version = held if type(held) is Version else Version(held.copy())
        position = flat_index(version.read().shape, [i(env) for i in index])
        return version.updated(position, value(env))

    return update


# ---- operands ------------------------------------------------------------------------------------------------------
def value_of(a: Atom) -> Value:
    if isinstance(a, Var):
        return lambda env: env[a]
    constant = literal(a)
    return lambda env: constant


def index_of(size: Size) -> Value:
    """The value of a polynomial: an int, or an array with one for each point."""
    constant, atom = size.constant, size.atom
    if type(constant) is int:
        return lambda env: constant
    if atom is not None:
        return lambda env: x if type(x := env[atom]) is np.ndarray else int(x)
    own = set(size.atoms())
    return lambda env: size_of(size, {v: Lanes(x) if type(x := env[v]) is np.ndarray else x for v in own})
