"""The step of a comprehension: its body is evaluated for many points at once, an operation for all of them.

A failed check is that of the first failing point in lexicographic order. `boxes.py` evaluates what is simple in a
quicker way.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dlang.interpret import boxes
from dlang.interpret.algebra import Algebra
from dlang.interpret.code import Code, Failed, Frame, Step
from dlang.interpret.points import Batch, box_of, elements, points_of
from dlang.ir import anf
from dlang.ir.anf import HALF, Array, Atom, Destination, ScatterAdd, Var, is_handle
from dlang.ir.terms import WIDTHS
from dlang.ir.types import dtype_of
from dlang.ir.values import (
    NDArray,
    Rows,
    Version,
    array_of,
    bound_of,
    count_of,
    extent_of,
    flat_index,
    lanes_of,
    numpy_dtype,
    put,
    select,
    size_of,
)
from dlang.ops.monoids import ROUNDED, STAYS, identity

if TYPE_CHECKING:
    from dlang.interpret.interpreter import Interpreter


_POINTS_OF_BLOCKS = 1 << 16  # in a body with nested blocks or calls


@dataclass(eq=False)
class Comp(Step):
    """names: the axes, with their numbers. crowded: whether the body has nested blocks or calls. boxed: the quicker
    way, if it is simple.
    """

    op: anf.Comp
    body: Code
    names: Mapping[Var, int]
    crowded: bool
    boxed: boxes.Boxed | None

    def run(self, run: Interpreter, frame: Frame) -> None:
        run.poll()
        results = None
        if self.boxed is not None and frame.n is None:
            results = self.boxed.results(self, run, frame)
        if results is None:
            results = self._results(run, frame)
        for var, value in zip(self.let.vars, results, strict=True):
            frame.env[var] = value

    def _results(self, run: Interpreter, frame: Frame) -> list[Any]:
        op, env = self.op, frame.env
        axes = op.axes
        box = box_of(axes, env)
        if frame.n is not None:
            low, end = 0, frame.n
        elif axes:
            low = max(bound_of(s, env) for s in axes[0].lows)
            end = min(bound_of(s, env) for s in axes[0].highs)
        else:
            low, end = 0, 1
        sinks: list[Sink] = []
        for d, value in zip(op.destinations, op.body.results, strict=True):
            sinks.append(self.sink(d, value, run, frame))
            if d.into is not None and sinks[-1].copied:
                run.replaced(env[d.into], sinks[-1].data)
            if isinstance(d, anf.Reduce) and d.after is not None:
                sinks[-1].goes_on(sinks[d.after])
        limit = min(run.algebra.most, _POINTS_OF_BLOCKS) if self.crowded else run.algebra.most
        if frame.n is None and any(s.arg and 0 in s.reduced for s in sinks):
            limit = sys.maxsize  # positions from different batches do not combine
        step = max(end - low, 1)
        whole = True
        while low < end:
            run.poll()
            stop = min(low + step, end)
            points = points_of(axes, env, frame.n is None, low, stop, box, limit)
            if points is None:
                step = (step + 1) // 2
                whole = False
                continue
            batch, values = points
            if batch.n:
                inner = {v: env[v] for v in self.free}
                if batch.parent is not None:
                    inner = {v: select(v, value, batch.parent) for v, value in inner.items()}
                inner.update(values)
                self._fill(run, batch, Frame(inner, batch.n), sinks, whole or frame.n is not None)
            low = stop
        run.count(self.let, sum(s.written for s in sinks), sum(s.moved for s in sinks))
        run.passed(frame, [s.data for s in sinks if s.fresh and s.shape])
        return [s.result() for s in sinks]

    def _fill(self, run: Interpreter, batch: Batch, frame: Frame, sinks: Sequence[Sink], whole: bool) -> None:
        try:
            results = self._first_failing(run, frame)
        except Failed as failed:
            if batch.parent is None:
                raise failed.error from failed.error.__cause__
            raise Failed(int(batch.parent[failed.lane]), failed.error) from None
        for sink, destination, value in zip(sinks, self.op.destinations, results, strict=True):
            apart = bool(self.names and 0 not in sink.reduced and not sink.by_data and not sink.scatter)
            index = [size_of(i, frame.env) for i in destination.index]
            if sink.row:
                sink.accumulate(*elements(batch, value, index, len(sink.shape)), whole or apart)
            else:
                sink.accumulate(batch, value, index, whole or apart)

    def _first_failing(self, run: Interpreter, frame: Frame) -> list[Any]:
        """The body at all points; of several failing points the first one's refusal."""
        start = dict(frame.env)
        try:
            return run.block(self.body, frame)
        except Failed as error:
            failed = error
        while failed.lane:  # an earlier point may fail at a later operation
            before = slice(0, failed.lane)
            try:
                run.block(self.body, Frame({v: select(v, x, before) for v, x in start.items()}, failed.lane))
                break
            except Failed as error:
                failed = error
        raise failed

    def sink(self, destination: anf.Destination, value: Atom, run: Interpreter, frame: Frame) -> Sink:
        """A destination, before the first point."""
        names, env = self.names, frame.env
        mentioned = {v for entry in destination.index for v in entry.atoms()}
        row = len(value.type.shape) if isinstance(value.type, Array) else 0
        return Sink(
            destination,
            dtype_of(value),
            [extent_of(s, env) for s in destination.shape],
            frame.n,
            None if destination.into is None else env[destination.into],
            len(names) + row,
            [*(names[v] for v in mentioned if v in names), *range(len(names), len(names) + row)],
            any(v not in names and v not in env for v in mentioned),
            row,
            run.algebra,
        )


# ---- reductions ------------------------------------------------------------------------------------------------------
# Reduces the values of a comprehension in the reference interpreter: one `Sink` for each destination.
#
# Values arrive for a batch of points at a time. A batch is a box if every axis has the same bounds at all its points;
# then a reduction is one over axes of an array. Otherwise points are grouped by the element that they go to.


class Sink:
    """A destination being filled.

    kept: the axes that its index mentions. by_data: its index mentions values of the body other than axes. row: how
    many axes the values have, which are the last of `rank` and kept; what makes a row has counted its elements.
    """

    def __init__(
        self,
        destination: Destination,
        dtype: str,
        shape: Sequence[Any],
        outer: int | None,
        into: Any,
        rank: int,
        kept: Sequence[int],
        by_data: bool,
        row: int,
        algebra: Algebra,
    ) -> None:
        self.algebra = algebra
        self.scatter = isinstance(destination, ScatterAdd)
        self.monoid = "sum" if isinstance(destination, ScatterAdd) else destination.monoid
        self.dtype = dtype  # of the values; that of the result is i64 for a position
        self.arg = self.monoid in STAYS
        self.shape = tuple(shape)
        self.outer = outer
        self.reduced = [k for k in range(rank) if k not in kept]
        self.by_data = by_data
        self.row = row
        self.fresh = into is None
        self.written = 0  # operations: elements read and written, values combined
        self.moved = 0  # bytes of the elements among these
        self.width = WIDTHS.get("i64" if self.arg else dtype, 8)
        # sums and products of half precision are done in f32, and rounded at the end
        self.wide = dtype in HALF and self.monoid in ROUNDED
        kind = "i64" if self.arg else "f32" if self.wide else dtype
        self.base: NDArray | None = None
        if outer is None:
            size = count_of(self.shape)
        else:
            sizes = np.ones(outer, np.int64)
            for s in self.shape:
                sizes = sizes * s
            self.base = np.cumsum(sizes) - sizes
            size = int(sizes.sum())
        self.kind = kind  # of what is combined
        self.earlier: Sink | None = None  # whose array it fills, if that is not one of its own
        self.version: Version | None = None  # of `into`, where it is one array: updated in place
        self.copied = False  # for that
        if into is None:
            nothing = None if is_handle(kind) else identity(self.monoid, kind)
            self.data = np.full(size, nothing, numpy_dtype(kind))
            self.written += size if self.shape and not (row and self.monoid == "set") else 0
            self.moved = self.written * self.width
        elif outer is None and self.wide:
            self.data = algebra.convert(array_of(into).reshape(-1), dtype, kind)
        elif outer is None:
            self.version = into if type(into) is Version else Version(array_of(into).copy())
            self.copied = self.version is not into
            self.data = self.version.read().reshape(-1)
        else:
            self.data = _spread(into, outer, sizes)
            self.data = algebra.convert(self.data, dtype, kind) if self.wide else self.data

    def goes_on(self, earlier: Sink) -> None:
        """Fills other elements of the array that another is filling."""
        if self.fresh and self.shape:
            self.written = self.moved = 0
        if earlier.version is not None:
            earlier.data, earlier.version = earlier.version.read().reshape(-1).copy(), None
        self.earlier, self.fresh = earlier.filled, False

    @property
    def filled(self) -> Sink:
        """The destination whose array this one fills: not in a field, as an array would outlive a circle."""
        return self if self.earlier is None else self.earlier

    def accumulate(self, batch: Batch, value: Any, index: Sequence[Any], whole: bool) -> None:
        """Takes the values of a batch. whole: no other batch has points that go to the same elements."""
        if not batch.n:
            return
        if not self.row and (self.arg or (not self.scatter and self.monoid != "set" and self.reduced)):
            self.written += batch.n
        values = lanes_of(value, batch.n, self.dtype)
        if self.arg:
            values = self.algebra.plain(values, self.dtype)
        elif self.wide:
            values = self.algebra.convert(values, self.dtype, "f32")
        shape = self.shape
        if batch.parent is not None:
            shape = tuple([s if isinstance(s, int) else s[batch.parent] for s in shape])
        slots = flat_index(shape, index)
        if np.shape(slots) != (batch.n,):
            slots = np.broadcast_to(slots, (batch.n,))
        if self.base is not None:
            slots = slots + self.base[batch.parent]
        if self.scatter or (self.reduced and (batch.box is None or self.by_data)):
            slots, values = self._grouped(slots, values)
        elif self.reduced:
            slots, values = self._boxed(batch, slots, values)
        if self.scatter:
            self.written += 3 * batch.n
            self.moved += 2 * batch.n * self.width
        elif not self.fresh and not self.row:
            self.written += len(slots) if self.monoid == "set" else 3 * len(slots)
            self.moved += (1 if self.monoid == "set" else 2) * len(slots) * self.width
        first = self.filled
        data = first.data if self.version is None else self.version.read().reshape(-1)
        if self.monoid != "set" and not (self.fresh and whole):
            values = self.algebra.combined(self.monoid, data[slots], values, self.kind)
        if self.version is None:
            first.data = put(data, slots, values)
        else:
            self.version = self.version.updated(slots, values)

    def _boxed(self, batch: Batch, slots: NDArray, values: NDArray) -> tuple[NDArray, NDArray]:
        assert batch.box is not None
        reduced = tuple(k + 1 for k in self.reduced)
        first = tuple(0 if k in reduced else slice(None) for k in range(len(batch.box)))
        slots = slots.reshape(batch.box)[first].reshape(-1)
        combined = self.algebra.reduced(self.monoid, values.reshape(batch.box), reduced, self.kind)
        return slots, combined.reshape(-1)

    def _grouped(self, slots: NDArray, values: NDArray) -> tuple[NDArray, NDArray]:
        if (slots[1:] < slots[:-1]).any():
            order = np.argsort(slots, kind="stable")
            slots, values = slots[order], values[order]
        starts = np.flatnonzero(np.concatenate(([True], slots[1:] != slots[:-1])))
        groups = slots[starts]
        if self.monoid == "set":
            return slots, values
        best = self.algebra.grouped(self.monoid, values, starts, self.kind)
        if not self.arg:
            return groups, best
        counts = np.diff(np.append(starts, len(slots)))
        best = np.repeat(best, counts)
        rank = np.arange(len(slots)) - np.repeat(starts, counts)
        hit = (values == best) | (values != values)
        return groups, np.minimum.reduceat(np.where(hit, rank, len(slots)), starts)

    def result(self) -> Any:
        """The array, or scalar, at each outer point."""
        if self.version is not None:
            return self.version
        data = self.filled.data
        data = self.algebra.convert(data, self.kind, self.dtype) if self.wide else data
        if self.outer is None:
            return data.reshape(self.shape) if self.shape else data[0]
        return Rows(data, self.base, self.shape) if self.base is not None and self.shape else data


def _spread(into: Any, outer: int, sizes: NDArray) -> NDArray:
    """A copy of an array's elements at every outer point, one point after another."""
    if type(into) is not Rows:
        return np.tile(array_of(into).reshape(-1), outer)
    start = np.repeat(into.base - (np.cumsum(sizes) - sizes), sizes)
    out: NDArray = into.data[start + np.arange(int(sizes.sum()))]
    return out
