"""Reduces the values of a comprehension in the reference interpreter: one `Sink` for each destination.

Values arrive for a batch of points at a time. A batch is a box if every axis has the same bounds at all its points;
then a reduction is one over axes of an array. Otherwise points are grouped by the element that they go to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlang.interpret.algebra import Algebra
from dlang.interpret.points import Batch
from dlang.ir.anf import HALF, Destination, ScatterAdd, is_handle
from dlang.ir.terms import WIDTHS
from dlang.ir.values import (
    NDArray,
    Rows,
    Version,
    array_of,
    count_of,
    flat_index,
    lanes_of,
    numpy_dtype,
    put,
)
from dlang.ops.monoids import ROUNDED, STAYS, identity


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
        self.first = self  # whose array it fills
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
        self.first, self.fresh = earlier.first, False

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
        first = self.first
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
        data = self.first.data
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
