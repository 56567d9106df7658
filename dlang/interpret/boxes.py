"""Comprehensions of scalars over a box, evaluated quickly: what depends on the program alone is decided once for each.

The results are those of `comprehensions.py`. It is left all others, and what is unusual: no points, or very many, and a
check that fails at one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dlang.interpret.algebra import Algebra
from dlang.interpret.code import Code, Failed, Frame
from dlang.interpret.points import Batch
from dlang.interpret.scalars import Line, width_of
from dlang.ir import anf
from dlang.ir.anf import HALF, Atom, Comp, Destination, Let, Size, Token, Var
from dlang.ir.types import dtype_of
from dlang.ir.values import (
    Entry,
    NDArray,
    Version,
    array_of,
    count_of,
    entry_of,
    flat_index,
    lanes_of,
    numpy_dtype,
    position,
    put,
    size_of,
)
from dlang.ops.monoids import ROUNDED, STAYS, identity

if TYPE_CHECKING:
    from dlang.interpret import comprehensions
    from dlang.interpret.interpreter import Interpreter

Plan = tuple[tuple[int, ...], tuple[int, ...]]
Env = dict[Var, Any]
_SCALARS = (anf.Prim, anf.Cast, anf.IndexExpr, anf.StopGradient, anf.Read)
KEPT = 1 << 12  # points of a box that are kept for the next time
BOXES = 32  # that are kept of a comprehension


@dataclass(frozen=True, slots=True)
class Out:
    """A destination. kept: the axes that its index is, in order; None if it is not so simple.

    apart: whether each point has an element for itself. plan: how it is filled, if the sizes are known.

    fresh: whether it is a new array. written, moved: the operations for each point, as a `Sink` counts them, and the
    elements that these move. width: bytes of one.
    """

    destination: Destination
    value: Atom
    monoid: str
    dtype: str
    index: tuple[Entry, ...]
    kept: tuple[int, ...] | None
    apart: bool
    plan: Plan | None
    fresh: bool
    written: int
    moved: int
    width: int


@dataclass(frozen=True, slots=True)
class Box:
    """The points where the bounds are known: lows and extents of the axes, and the values of each at all points."""

    lows: tuple[int, ...]
    extents: tuple[int, ...]
    n: int
    values: tuple[NDArray, ...]


@dataclass(slots=True)
class Boxed:
    """A comprehension. names: the axes, with their numbers. body: compiled for all points of a box. box: its points, if
    they are known.
    """

    op: Comp
    names: Mapping[Var, int]
    body: Code
    outs: list[Out]
    box: Box | None
    boxes: dict[object, Box] = field(default_factory=dict)

    def results(self, comp: comprehensions.Comp, run: Interpreter, frame: Frame) -> list[Any] | None:
        """The results; None where they are left to the usual way."""
        env = frame.env
        box = self.box or self._box(env)
        if box is None or box.n > run.algebra.most:
            return None
        env_of_box = {v: env[v] for v in comp.free}
        env_of_box.update(zip(self.names, box.values, strict=True))
        try:
            columns = run.block(self.body, Frame(env_of_box, box.n))
        except Failed:
            return None
        n = box.n
        results, arrays, written, moved = [], [], 0, 0
        for out, value in zip(self.outs, columns, strict=True):
            values = lanes_of(value, n, out.dtype)
            result = None if out.kept is None else self._simple(run, env, out, values, box)
            if result is None and out.apart:
                result = self._apart(run, env, out, values, [position(i, env_of_box) for i in out.index])
            if result is None:
                sink = comp.sink(out.destination, out.value, run, frame)
                if out.destination.into is not None and sink.copied:
                    run.replaced(env[out.destination.into], sink.data)
                batch = Batch(n, None, (1, *box.extents))
                sink.accumulate(batch, values, [position(i, env_of_box) for i in out.index], True)
                result = sink.result()
                written, moved = written + sink.written, moved + sink.moved
            else:
                size = result.size if out.fresh else 0
                written, moved = written + size + out.written * n, moved + (size + out.moved * n) * out.width
            if out.fresh:
                arrays.append(result)
            results.append(result)
        run.count(comp.let, written, moved)
        run.passed(frame, arrays)
        return results

    def _box(self, env: Env) -> Box | None:
        """The points; None if there are none, or very many."""
        ends = [(max([size_of(s, env) for s in a.lows]), min([size_of(s, env) for s in a.highs])) for a in self.op.axes]
        key = tuple(ends)
        box = self.boxes.get(key)
        if box is None:
            box = box_between(ends)
            if box is None or box.n > KEPT:
                return box
            if len(self.boxes) >= BOXES:
                self.boxes.clear()
            self.boxes[key] = box
        return box

    def _simple(self, run: Interpreter, env: Env, out: Out, values: NDArray, box: Box) -> Any:
        """Computes a new array, or a number, with just the kept axes; None if the destination is another."""
        assert out.kept is not None
        plan = out.plan or _plan([size_of(s, env) for s in out.destination.shape], out.kept, box)
        if plan is None:
            return None
        shape, reduced = plan
        if not reduced:
            return np.array(values).reshape(shape) if shape else values[0]
        if out.monoid in STAYS:
            values = run.algebra.plain(values, out.dtype)
        data = run.algebra.reduced(out.monoid, values.reshape((1, *box.extents)), reduced, out.dtype)
        return data.reshape(shape) if shape else data[0]

    def _apart(self, run: Interpreter, env: Env, out: Out, values: NDArray, index: Sequence[Any]) -> Any:
        """Stores each value in an element of its own."""
        into = out.destination.into
        shape = [size_of(s, env) for s in out.destination.shape]
        slots = flat_index(shape, index)
        if into is None:
            nothing = None if anf.is_handle(out.dtype) else identity(out.monoid, out.dtype)
            return put(np.full(count_of(shape), nothing, numpy_dtype(out.dtype)), slots, values).reshape(shape)
        version = env[into]
        if type(version) is not Version:
            version = Version(array_of(version).copy())
            run.replaced(env[into], version.read())
        if out.monoid != "set":
            values = run.algebra.combined(out.monoid, version.read().reshape(-1)[slots], values, out.dtype)
        return version.updated(slots, values)


def box_between(ends: Sequence[tuple[int, int]]) -> Box | None:
    """The points between some ends, in lexicographic order; None if there are none, or very many."""
    lows, extents = tuple([low for low, _ in ends]), tuple([max(high - low, 0) for low, high in ends])
    n = prod(extents)
    if not 0 < n <= Algebra.most:
        return None
    values = []
    for k, (low, extent) in enumerate(zip(lows, extents, strict=True)):
        spread = np.empty(extents, np.int64)
        spread[...] = np.arange(low, low + extent).reshape([-1 if j == k else 1 for j in range(len(extents))])
        values.append(spread.reshape(-1))
    return Box(lows, extents, n, tuple(values))


def _plan(shape: Sequence[int], kept: Sequence[int], box: Box) -> Plan | None:
    """The shape, and the axes behind a first one that are reduced; None if the axes that are kept are not all of it."""
    if any(box.lows[k] for k in kept) or list(shape) != [box.extents[k] for k in kept]:
        return None
    return tuple(shape), tuple([k + 1 for k in range(len(box.extents)) if k not in kept])


def is_simple(op: Comp) -> bool:
    """Tells whether a comprehension is one over a box that computes scalars alone."""
    inner = [axis.var for axis in op.axes]
    return (
        all(_is_scalar(let) for let in op.body.lets)
        and not any(s.mentions(inner) for axis in op.axes for s in (*axis.lows, *axis.highs))
        and not any(isinstance(r.type, anf.Array | Token) for r in op.body.results)
        and not any(isinstance(d, anf.Reduce) and d.after is not None for d in op.destinations)
    )


def _is_scalar(let: Let) -> bool:
    """Tells whether an operation computes a scalar, or checks something."""
    if isinstance(let.op, _SCALARS):
        return isinstance(let.vars[0].type, anf.Scalar)
    return isinstance(let.op, anf.Assert)


def known_box(op: Comp) -> Box | None:
    """The points of a box whose bounds are literals, if they are so."""
    bounds = [[s.constant for s in (*a.lows, *a.highs)] for a in op.axes]
    if any(type(c) is not int for ends in bounds for c in ends):
        return None
    return box_between([(max(_ints(a.lows)), min(_ints(a.highs))) for a in op.axes])


def lines_of(op: Comp, box: Box | None) -> dict[Var, Line | None]:
    """The axes of a box, in order, with what is known of them."""
    if box is None:
        return dict.fromkeys([a.var for a in op.axes])
    lines = zip(box.lows, box.extents, box.values, strict=True)
    return {a.var: Line(*line) for a, line in zip(op.axes, lines, strict=True)}


def boxed(op: Comp, names: Mapping[Var, int], body: Code, box: Box | None) -> Boxed:
    """The quicker way for a simple comprehension, whose body is compiled."""
    outs = [_out(d, r, names, box) for d, r in zip(op.destinations, op.body.results, strict=True)]
    return Boxed(op, names, body, outs, box)


def _ints(sizes: Sequence[Size]) -> list[int]:
    return [c for s in sizes if type(c := s.constant) is int]


def _out(d: Destination, value: Atom, names: Mapping[Var, int], box: Box | None) -> Out:
    axes = [names.get(e.atom) if e.atom is not None else None for e in d.index]
    kept = tuple([k for k in axes if k is not None])
    dtype = dtype_of(value)
    monoid = d.monoid if isinstance(d, anf.Reduce) else "sum"
    rounded = monoid in ROUNDED and dtype in HALF
    whole = len(kept) == len(names)
    in_order = len(kept) == len(axes) and list(kept) == sorted(set(kept))
    simple = isinstance(d, anf.Reduce) and d.into is None and in_order and not rounded
    simple = simple and (monoid not in STAYS if whole else monoid != "set")
    others = [e for e in d.index if e.atom is None or e.atom not in names]
    apart = (
        bool(names)
        and sorted(kept) == list(range(len(names)))
        and not any(e.mentions(names) for e in others)
        and monoid not in STAYS
        and not rounded
    )
    plan = None
    if simple and box is not None and len(sizes := _ints(d.shape)) == len(d.shape):
        plan = _plan(sizes, kept, box)
    index = tuple([entry_of(e) for e in d.index])
    written, moved = (3, 2) if isinstance(d, anf.ScatterAdd) else (0, 0) if whole else (1, 0)
    if isinstance(d, anf.Reduce) and d.into is not None:
        written, moved = (1, 1) if monoid == "set" else (3, 2)
    width = 8 if monoid in STAYS else width_of(value)
    fresh = d.into is None and bool(d.shape)
    only = kept if simple else None
    return Out(d, value, monoid, dtype, index, only, apart, plan, fresh, written, moved, width)
