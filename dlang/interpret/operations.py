"""The operations of the interpreter that hold no code: scalars, nodes of datatypes, arrays, checks.

Each is a function of the run, the operation and the variables of the call, which may stand for many points at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dlang.host.errors import RunError
from dlang.host.text import format_parts
from dlang.identity import ByIdentity
from dlang.interpret.algebra import Algebra
from dlang.interpret.points import view_rows
from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Block, Let, Lit, Op, Scalar, Size, Var
from dlang.ir.errors import IRError
from dlang.ir.libraries import library_cost
from dlang.ir.node import Node
from dlang.ir.terms import WIDTHS
from dlang.ir.traverse import free_vars
from dlang.ir.values import (
    Lanes,
    Rows,
    Version,
    array_of,
    at,
    concatenated,
    count_of,
    extent_of,
    flat_index,
    literal,
    never_written,
    release,
    rows_of,
    size_of,
)


class Failed(Exception):
    """A refusal at one of the points under evaluation."""

    def __init__(self, lane: int, error: RunError) -> None:
        super().__init__(error)
        self.lane = lane
        self.error = error


class Frame:
    """The variables of a call. n: how many points are under evaluation, None outside of comprehensions."""

    __slots__ = ("env", "n", "times")

    def __init__(self, env: dict[Var, Any], n: int | None) -> None:
        self.env = env
        self.n = n
        self.times = 1 if n is None else n


class Run:
    """What a run of the interpreter computes with, and what it counts.

    counts: operations by the name of the op that they belong to. copies: how many `Copy` ran. passes: over arrays: how
    many comprehensions, products and the like ran, not counting those at the points of a comprehension. allocated:
    bytes of the arrays that were made, whether they were alive at once or not. counted: checks whose messages begin so
    always hold; how many points have come to each.
    """

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.counts: Counter[str] = Counter()
        self.copies = 0
        self.passes = 0
        self.allocated = 0
        self.counted: dict[str, int] = {}
        self._free_of: ByIdentity[Op | Block, list[Var]] = ByIdentity()

    @property
    def operations(self) -> int:
        """The operations of all runs so far."""
        return sum(self.counts.values())

    def count(self, let: Let, operations: int, moved: int = 0) -> None:
        """Counts what one operation took. moved: bytes that it read and wrote."""
        self.counts[type(let.op).__name__] += operations

    def plain(self, atoms: Sequence[Atom], frame: Frame, lane: int = 0) -> list[Any]:
        """What atoms are at one point, for the world outside."""
        values = [release(at(value_of(a, frame.env), lane)) for a in atoms]
        return [self.algebra.plain(v, dtype_of(a)) for v, a in zip(values, atoms, strict=True)]

    def free(self, x: Op | Block) -> list[Var]:
        known = self._free_of.get(x)
        if known is None:
            known = self._free_of[x] = free_vars(x)
        return known

    def passed(self, frame: Frame, *made: Any) -> None:
        """Counts a pass over arrays that makes others."""
        self.passes += frame.n is None
        self.made(frame, *made)

    def made(self, frame: Frame, *made: Any) -> None:
        """Counts the memory of arrays."""
        self.allocated += sum(a.nbytes for a in made if isinstance(a, np.ndarray))

    def replaced(self, old: Any, new: np.ndarray[Any, Any]) -> None:
        """Is told that an array goes on as a copy, because it is updated in place from now on."""

    def made_so_far(self) -> int:
        """A mark in the list of all arrays that were made."""
        return 0

    def forget(self, mark: int) -> None:
        """Is told that the arrays made after a mark are those of one point, and that the next point comes."""


def value_of(atom: Atom, env: Mapping[Var, Any]) -> Any:
    return env[atom] if isinstance(atom, Var) else literal(atom)


def dtype_of(atom: Atom) -> str:
    """The dtype of a scalar, or of the elements of an array."""
    type = atom.type
    assert isinstance(type, Scalar | Array)
    return type.dtype


def width_of(atom: Atom) -> int:
    """How many bytes a scalar takes, or an element of an array."""
    return WIDTHS.get(dtype_of(atom), 8)


# ---- the operations --------------------------------------------------------------------------------------------------
def prim(run: Run, op: anf.Prim, let: Let, frame: Frame) -> Any:
    run.count(let, frame.times)
    env = frame.env
    args = [env[a] if isinstance(a, Var) else literal(a) for a in op.args]
    dtype = dtype_of(let.vars[0])
    if frame.n is not None:
        lanes = False
        for k, arg in enumerate(args):
            if type(arg) is Lanes:
                args[k] = arg.data
                lanes = True
        if lanes:
            result = run.algebra.primitive(op.name, args, dtype)
            return Lanes(result) if np.ndim(result) else result  # `select` may have chosen what is no lanes
    return run.algebra.primitive(op.name, args, dtype)


def cast(run: Run, op: anf.Cast, let: Let, frame: Frame) -> Any:
    run.count(let, frame.times)
    value = value_of(op.arg, frame.env)
    source = dtype_of(op.arg)
    if type(value) is Lanes:
        return Lanes(run.algebra.convert(value.data, source, op.dtype))
    return run.algebra.convert(value, source, op.dtype)


def size_value(run: Run, op: anf.IndexExpr, let: Let, frame: Frame) -> Any:
    return number(op.size, frame)


def number(size: Size, frame: Frame) -> Any:
    value = size_of(size, frame.env)
    return Lanes(value) if isinstance(value, np.ndarray) else np.int64(value)


def formatted(run: Run, op: anf.Format, let: Let, frame: Frame) -> Any:
    return format_parts(op.parts, run.plain(op.args, frame))


def stop(run: Run, op: anf.StopGradient, let: Let, frame: Frame) -> Any:
    value = value_of(op.arg, frame.env)
    if type(value) is Lanes:
        return Lanes(run.algebra.plain(value.data, dtype_of(op.arg)))
    if type(value) is Rows:
        return Rows(run.algebra.plain(value.data, dtype_of(op.arg)), value.base, value.shape)
    return run.algebra.plain(value, dtype_of(op.arg))


def check(run: Run, op: anf.Assert, let: Let, frame: Frame) -> list[Any]:
    """The guarded values of a check that holds; where coverage is counted, a mark that never ends a run.

    Raises RunError where it fails, or Failed with the first lane that does.
    """
    if op.parts[0] in run.counted:
        run.counted[op.parts[0]] += frame.times
        return []
    if isinstance(op.condition, Lit) and op.condition.value:
        return [value_of(s, frame.env) for s in op.guarded]
    condition = value_of(op.condition, frame.env)
    lane: int | None = None
    if type(condition) is Lanes:
        wrong = np.flatnonzero(~condition.data)
        lane = int(wrong[0]) if len(wrong) else None
    elif not condition:
        lane = 0
    if lane is not None:
        values = run.plain(op.values, frame, lane)
        error = RunError(op.code, format_parts(op.parts, values), let.span)
        raise error if frame.n is None else Failed(lane, error)
    return [value_of(s, frame.env) for s in op.guarded]


def construct(run: Run, op: anf.Construct, let: Let, frame: Frame) -> Any:
    run.count(let, len(op.args), 8 * len(op.args))
    return Node(op.variant.tag, tuple([release(value_of(a, frame.env)) for a in op.args]))


def tag(run: Run, op: anf.Tag, let: Let, frame: Frame) -> Any:
    run.count(let, 1, 8)
    return np.int64(node_of(op.node, frame).tag)


def fields(run: Run, op: anf.Fields, let: Let, frame: Frame) -> list[Any]:
    node = node_of(op.node, frame)
    if node.tag != op.variant.tag:
        raise IRError(f"{op.node} is of the variant {node.tag}, not {op.variant.tag} ({let.span})")
    run.count(let, len(node.fields), 8 * len(node.fields))
    return list(node.fields)


def node_of(atom: Atom, frame: Frame) -> Node:
    node = value_of(atom, frame.env)
    if node is None:
        raise IRError(f"{atom} is null")
    assert isinstance(node, Node)
    return node


def read(run: Run, op: anf.Read, let: Let, frame: Frame) -> Any:
    run.count(let, frame.times, frame.times * width_of(let.vars[0]))
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


def update(run: Run, op: anf.Update, let: Let, frame: Frame) -> Any:
    run.count(let, 1, width_of(op.value))
    array = frame.env[op.array]
    if type(array) is not Version:
        fresh = array.copy()
        run.replaced(array, fresh)
        array = Version(fresh)
    position = flat_index(array.read().shape, [size_of(i, frame.env) for i in op.index])
    return array.updated(position, value_of(op.value, frame.env))


def copy(run: Run, op: anf.Copy, let: Let, frame: Frame) -> Any:
    run.copies += 1
    array = array_of(frame.env[op.array])
    run.count(let, 2 * array.size, 2 * array.size * width_of(op.array))
    fresh = array.copy()
    run.passed(frame, fresh)
    return Version(fresh)


def empty(run: Run, op: anf.Empty, let: Let, frame: Frame) -> Any:
    array = never_written(op.dtype, [extent_of(s, frame.env) for s in op.shape])
    run.made(frame, array)
    return array


def view(run: Run, op: anf.View, let: Let, frame: Frame) -> Any:
    env = dict(frame.env)
    array = env[op.array]
    shape = [extent_of(s, env) for s in op.shape]
    if frame.n is not None and (type(array) is Rows or any(isinstance(s, np.ndarray) for s in shape)):
        return view_rows(op, frame.env, run.free(op), frame.times, shape)
    if any(type(env[v]) is Lanes for v in run.free(op)):
        return view_rows(op, frame.env, run.free(op), frame.times, shape)
    array = array_of(array)
    for k, (var, size) in enumerate(zip(op.axes, shape, strict=True)):
        env[var] = Lanes(np.arange(size).reshape([-1 if j == k else 1 for j in range(len(shape))]))
    if 0 in shape:
        return np.empty(shape, array.dtype)
    position = flat_index(array.shape, [size_of(i, env) for i in op.index])
    return array.reshape(-1)[np.broadcast_to(position, shape)]


def reshape(run: Run, op: anf.Reshape, let: Let, frame: Frame) -> Any:
    array = frame.env[op.array]
    shape = tuple([extent_of(s, frame.env) for s in op.shape])
    if type(array) is Rows or any(isinstance(s, np.ndarray) for s in shape):
        rows = rows_of(array, frame.times)
        return Rows(rows.data, rows.base, shape)
    array = release(array)
    if count_of(shape) != array.size:
        raise IRError(f"{op.array} of shape {array.shape} is reshaped to {shape}")
    return array.reshape(shape)


def concat(run: Run, op: anf.Concat, let: Let, frame: Frame) -> Any:
    out = concatenated([array_of(frame.env[a]) for a in op.arrays])
    run.count(let, 2 * out.size, 2 * out.size * width_of(let.vars[0]))
    run.passed(frame, out)
    return out


def compact(run: Run, op: anf.Compact, let: Let, frame: Frame) -> list[Any]:
    mask = array_of(frame.env[op.mask])
    positions = np.flatnonzero(mask)
    run.count(let, mask.size + len(positions), mask.size + 8 * len(positions))
    run.passed(frame, positions)
    return [np.int64(len(positions)), positions]


def scan(run: Run, op: anf.Scan, let: Let, frame: Frame) -> Any:
    array = array_of(frame.env[op.array])
    run.count(let, 3 * array.size, 2 * array.size * width_of(op.array))
    out = run.algebra.running(op.monoid, array, dtype_of(op.array))
    run.passed(frame, out)
    return out


def contract(run: Run, op: anf.Contract, let: Let, frame: Frame) -> Any:
    a, b = array_of(frame.env[op.a]), array_of(frame.env[op.b])
    sizes = dict(zip((*op.left, *op.right), (*a.shape, *b.shape), strict=True))
    out = run.algebra.contracted(op, a, b, dtype_of(let.vars[0]))
    operations = 4 * count_of(tuple(sizes.values())) + (out.size if op.out else 0)
    run.count(let, operations, (a.size + b.size + (out.size if op.out else 0)) * width_of(let.vars[0]))
    run.passed(frame, out)
    return out


def library(run: Run, op: anf.LinalgOp, let: Let, frame: Frame) -> list[Any]:
    args = [release(value_of(a, frame.env)) for a in op.args]
    results = run.algebra.library(op.name, args, [dtype_of(a) for a in op.args])
    moved = sum(a.nbytes for a in (*args, *results) if isinstance(a, np.ndarray))
    run.count(let, library_cost(op.name, args, args[0].shape), moved)
    run.passed(frame, *results)
    return results


ONE: dict[type, Callable[..., Any]] = {
    anf.Prim: prim, anf.Cast: cast, anf.IndexExpr: size_value, anf.Format: formatted, anf.StopGradient: stop,
    anf.Read: read,
    anf.Update: update, anf.Copy: copy, anf.Empty: empty, anf.View: view, anf.Reshape: reshape, anf.Concat: concat,
    anf.Scan: scan, anf.Contract: contract, anf.Construct: construct, anf.Tag: tag,
}  # fmt: skip
SEVERAL: dict[type, Callable[..., list[Any]]] = {
    anf.Assert: check, anf.Compact: compact, anf.LinalgOp: library, anf.Fields: fields,
}  # fmt: skip
