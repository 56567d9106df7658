"""Comprehensions, evaluated quickly: what depends on the program alone is decided once for each.

One of scalars alone is evaluated at all points at once, another one at one point after another if they are few. The
results are those of the interpreter. It is left all others, and what is unusual: no points, or very many, and a check
that fails at one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlang.interpret.algebra import UFUNCS, reduced_box
from dlang.interpret.operations import Frame, dtype_of
from dlang.interpret.points import Batch
from dlang.interpret.reduction import Sink
from dlang.ir import anf
from dlang.ir.anf import HALF, Atom, Block, Comp, Destination, Let, Size, Token, Var
from dlang.ir.marks import is_mark
from dlang.ir.values import Lanes, NDArray, Version, array_of, count_of, flat_index, numpy_dtype, size_of
from dlang.ops.monoids import ROUNDED, STAYS, identity
from dlang.tools.debugger.steps import Env, Line, Step, Unusual, Value, index_of, step_of, value_of

Sinks = Callable[[Destination, Atom, dict[Var, int], Frame], Sink]  # make one that is out of the ordinary
Blocks = Callable[[Block, Frame], list[Any]]  # evaluate one
Plan = tuple[tuple[int, ...], tuple[int, ...]]
FEW = 32  # points, one after another, of a body that holds more than scalars
MOST = 1 << 20  # points
KEPT = 1 << 12  # points of a box that are kept for the next time
BOXES = 32  # that are kept of a comprehension


@dataclass(frozen=True, slots=True)
class Out:
    """A destination. kept: the axes that its index is, in order; None if it is not so simple.

    apart: whether each point has an element for itself. plan: how it is filled, if the sizes are known.
    """

    destination: Destination
    atom: Atom
    value: Value
    dtype: Any
    kind: str
    index: tuple[Value, ...]
    kept: tuple[int, ...] | None
    apart: bool
    plan: Plan | None


@dataclass(frozen=True, slots=True)
class Box:
    """The points where the bounds are known: lows and extents of the axes, and the values of each at all points."""

    lows: tuple[int, ...]
    extents: tuple[int, ...]
    n: int
    values: tuple[NDArray, ...]


@dataclass(slots=True)
class Flat:
    """A comprehension. names: the axes, with their numbers. steps: of its body, if that holds scalars alone.

    inner: the variables of the body that the destinations mention. box: its points, if they are known.
    """

    op: Comp
    free: list[Var]
    names: dict[Var, int]
    steps: list[Step] | None
    outs: list[Out]
    inner: list[Var]
    box: Box | None
    boxes: dict[object, Box] = field(default_factory=dict)

    def evaluate(self, run: Blocks, sink: Sinks, frame: Frame) -> list[Any] | None:
        """The results; None where they are left to the interpreter."""
        env = frame.env
        box = self.box or self._box(env)
        if box is None or (self.steps is None and box.n > FEW):
            return None
        own = {v: env[v] for v in self.free}
        if self.steps is None:
            columns = self._one_by_one(run, own, box)
        else:
            own.update(zip(self.names, box.values, strict=True))
            try:
                for step in self.steps:
                    step(own)
            except Unusual:
                return None
            columns = [out.value(own) for out in self.outs]
        results = []
        for out, values in zip(self.outs, columns, strict=True):
            if type(values) is not np.ndarray:
                values = np.full(box.n, values, out.dtype)
            result = None if out.kept is None else _simple(env, out, values, box)
            if result is None and out.apart:
                result = _apart(env, out, values, [i(own) for i in out.index])
            if result is None:
                filled = sink(out.destination, out.atom, self.names, frame)
                batch = Batch(box.n, None, (1, *box.extents))
                filled.accumulate(batch, Lanes(values), [i(own) for i in out.index], True)
                result = filled.result()
            results.append(result)
        return results

    def _one_by_one(self, run: Blocks, own: Env, box: Box) -> list[NDArray]:
        """The values at all points, and in `own` those of what the destinations mention."""
        columns: list[list[Any]] = [[] for _ in self.outs]
        mentioned: dict[Var, list[Any]] = {v: [] for v in self.inner}
        for k in range(box.n):
            env = own.copy()
            for var, line in zip(self.names, box.values, strict=True):
                env[var] = line[k]
            for column, value in zip(columns, run(self.op.body, Frame(env, None)), strict=True):
                column.append(value)
            for var, found in mentioned.items():
                found.append(env[var])
        own.update(zip(self.names, box.values, strict=True))
        own.update({v: np.array(found) for v, found in mentioned.items()})
        return [_column(values, out.dtype) for values, out in zip(columns, self.outs, strict=True)]

    def _box(self, env: Env) -> Box | None:
        """The points; None if there are none, or very many."""
        ends = [(max([size_of(s, env) for s in a.lows]), min([size_of(s, env) for s in a.highs])) for a in self.op.axes]
        key = tuple(ends)
        found = self.boxes.get(key)
        if found is None:
            found = box_of(ends)
            if found is None or found.n > KEPT:
                return found
            if len(self.boxes) >= BOXES:
                self.boxes.clear()
            self.boxes[key] = found
        return found


def box_of(ends: Sequence[tuple[int, int]]) -> Box | None:
    """The points between some ends, in lexicographic order; None if there are none, or very many."""
    lows, extents = tuple([low for low, _ in ends]), tuple([max(high - low, 0) for low, high in ends])
    n = count_of(extents)
    if not 0 < n <= MOST:
        return None
    values = []
    for k, (low, extent) in enumerate(zip(lows, extents, strict=True)):
        spread = np.empty(extents, np.int64)
        spread[...] = np.arange(low, low + extent).reshape([-1 if j == k else 1 for j in range(len(extents))])
        values.append(spread.reshape(-1))
    return Box(lows, extents, n, tuple(values))


def _simple(env: Env, out: Out, values: NDArray, box: Box) -> Any:
    """Computes a new array, or a number, with just the kept axes; None if the destination is another."""
    d, kept = out.destination, out.kept
    assert isinstance(d, anf.Reduce) and kept is not None
    plan = out.plan or _plan([size_of(s, env) for s in d.shape], kept, box)
    if plan is None:
        return None
    shape, reduced = plan
    if not reduced:
        return np.array(values).reshape(shape) if shape else values[0]
    data = reduced_box(d.monoid, values.reshape((1, *box.extents)), reduced)
    return data.reshape(shape) if shape else data[0]


def _plan(shape: Sequence[int], kept: Sequence[int], box: Box) -> Plan | None:
    """The shape, and the axes behind a first one that are reduced; None if the axes that are kept are not all of it."""
    if any(box.lows[k] for k in kept) or list(shape) != [box.extents[k] for k in kept]:
        return None
    return tuple(shape), tuple([k + 1 for k in range(len(box.extents)) if k not in kept])


def _apart(env: Env, out: Out, values: NDArray, index: Sequence[Any]) -> Any:
    """Stores each value in an element of its own."""
    d = out.destination
    monoid = d.monoid if isinstance(d, anf.Reduce) else "sum"
    shape = [size_of(s, env) for s in d.shape]
    slots = flat_index(shape, index)
    if d.into is None:
        data = np.full(count_of(shape), identity(monoid, out.kind), out.dtype)
        data[slots] = values
        return data.reshape(shape)
    into = env[d.into]
    version = into if type(into) is Version else Version(array_of(into).copy())
    if monoid != "set":
        values = UFUNCS[monoid](version.read().reshape(-1)[slots], values)
    return version.updated(slots, values)


def flat_of(op: Comp, free: list[Var]) -> Flat | None:
    """A comprehension as it is evaluated quickly; None if it gives arrays, or is no box."""
    names = {axis.var: k for k, axis in enumerate(op.axes)}
    if any(s.mentions(names) for axis in op.axes for s in (*axis.lows, *axis.highs)):
        return None
    if any(isinstance(r.type, anf.Array | Token) for r in op.body.results):
        return None
    if any(isinstance(d, anf.Reduce) and d.after is not None for d in op.destinations):
        return None
    known = [[s.constant for s in (*a.lows, *a.highs)] for a in op.axes]
    box = None
    if all(type(c) is int for ends in known for c in ends):
        box = box_of([(max(_ints(a.lows)), min(_ints(a.highs))) for a in op.axes])
    axes: dict[Var, Line | None] = dict.fromkeys(names)
    if box is not None:
        lines = zip(box.lows, box.extents, box.values, strict=True)
        axes = {a.var: Line(*line) for a, line in zip(op.axes, lines, strict=True)}
    steps = [step_of(let, axes) for let in op.body.lets if not is_silent(let)]
    outs = [_out(d, r, names, box) for d, r in zip(op.destinations, op.body.results, strict=True)]
    own = {v for let in op.body.lets for v in let.vars}
    inner = list({v for d in op.destinations for e in d.index for v in e.atoms() if v in own})
    alone = None if None in steps else [s for s in steps if s is not None]
    return Flat(op, free, names, alone, outs, inner, box)


def _column(values: list[Any], dtype: Any) -> NDArray:
    column = np.empty(len(values), dtype)
    for k, value in enumerate(values):
        column[k] = value
    return column


def _ints(sizes: Sequence[Size]) -> list[int]:
    return [c for s in sizes if type(c := s.constant) is int]


def is_silent(let: Let) -> bool:
    return is_mark(let.op) and not let.vars


def _out(d: Destination, value: Atom, names: dict[Var, int], box: Box | None) -> Out:
    axes = [names.get(e.atom) if e.atom is not None else None for e in d.index]
    kept = tuple([k for k in axes if k is not None])
    dtype = dtype_of(value)
    simple = isinstance(d, anf.Reduce) and d.into is None and len(kept) == len(axes) and list(kept) == sorted(set(kept))
    if simple:
        assert isinstance(d, anf.Reduce)
        whole = len(kept) == len(names)
        simple = not (d.monoid in ROUNDED and dtype in HALF)
        simple = simple and (d.monoid not in STAYS if whole else d.monoid != "set")
    index = tuple([index_of(e) for e in d.index])
    others = [e for e in d.index if e.atom is None or e.atom not in names]
    monoid = d.monoid if isinstance(d, anf.Reduce) else "sum"
    apart = (
        bool(names)
        and sorted(kept) == list(range(len(names)))
        and not any(e.mentions(names) for e in others)
        and monoid not in STAYS
        and not (monoid in ROUNDED and dtype in HALF)
    )
    plan = None
    if simple and box is not None and len(sizes := _ints(d.shape)) == len(d.shape):
        plan = _plan(sizes, kept, box)
    return Out(d, value, value_of(value), numpy_dtype(dtype), dtype, index, kept if simple else None, apart, plan)
