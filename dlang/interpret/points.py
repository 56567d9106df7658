"""The points of a comprehension, in the reference interpreter, and the elements of a view at many points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from dlang.ir.anf import Axis, Var, View
from dlang.ir.values import NDArray, Rows, count_of, flat_index, rows_of, select, size_of

Env = Mapping[Var, Any]
Box = Sequence[tuple[int, int]]  # the low end and the extent of each axis, where they are the same at every point


@dataclass(slots=True)
class Batch:
    """Points in lexicographic order; `parent[p]` is the outer point of point p, None if there is just one.

    box: the number of outer points, then the extent of each axis, if the batch is a box.
    """

    n: int
    parent: NDArray | None
    box: tuple[int, ...] | None


def elements(batch: Batch, value: Any, index: Sequence[Any], rank: int) -> tuple[Batch, NDArray, list[Any]]:
    """The elements of an array at each point as points of their own, and the indices at which they go.

    index: where the array of each point goes; its own axes come after that. Where that makes more than `rank`, its
    first axis runs on from the last entry.
    """
    rows = rows_of(value, batch.n)
    sizes = np.ones(batch.n, np.int64)
    for size in rows.shape:
        sizes = sizes * size
    point = np.repeat(np.arange(batch.n), sizes)
    position = np.arange(len(point)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    data = rows.data[rows.base[point] + position]
    within: list[Any] = []
    for size in reversed(rows.shape):
        extent = size if isinstance(size, int) else size[point]
        within.insert(0, position % extent)
        position = position // extent
    at = [i[point] if isinstance(i, np.ndarray) else i for i in index]
    uniform = [s for s in rows.shape if isinstance(s, int)]
    box = None if batch.box is None or len(uniform) < len(rows.shape) else (*batch.box, *uniform)
    parent = None if batch.parent is None else batch.parent[point]
    if len(at) + len(within) > rank:
        at[-1:], within = [at[-1] + within[0]], within[1:]
    return Batch(len(point), parent, box), data, [*at, *within]


def box_of(axes: Sequence[Axis], env: Env) -> Box | None:
    """The box of all points, or None if a bound differs from point to point."""
    inner = {axis.var for axis in axes}
    out = []
    for axis in axes:
        if any(s.mentions(inner) for s in (*axis.lows, *axis.highs)):
            return None
        lows = [size_of(s, env) for s in axis.lows]
        highs = [size_of(s, env) for s in axis.highs]
        if any(isinstance(s, np.ndarray) for s in (*lows, *highs)):
            return None
        out.append((max(lows), max(min(highs) - max(lows), 0)))
    return out


def points_of(
    axes: Sequence[Axis], env: Env, outside: bool, low: int, end: int, box: Box | None, limit: int
) -> tuple[Batch, dict[Var, Any]] | None:
    """The points of the outer points low to end, or None if they are more than `limit` and can be split.

    outside: there is one outer point, and low to end are the values of the first axis instead.
    """
    if box is None:
        return _ragged(axes, env, outside, low, end, limit)
    if outside and box:
        box = [(low, end - low), *box[1:]]
    extents = (1 if outside else end - low, *(size for _, size in box))
    if prod(extents) > limit and end - low > 1:
        return None
    n = count_of(extents)
    values: dict[Var, Any] = {}
    for k, (axis, (start, size)) in enumerate(zip(axes, box, strict=True)):
        line = np.arange(start, start + size).reshape([-1 if j == k + 1 else 1 for j in range(len(extents))])
        spread = np.empty(extents, np.int64)
        spread[...] = line
        values[axis.var] = spread.reshape(-1)
    parent = None if outside else np.repeat(np.arange(low, end), count_of(extents[1:]))
    return Batch(n, parent, extents), values


def _ragged(
    axes: Sequence[Axis], env: Env, outside: bool, low: int, end: int, limit: int
) -> tuple[Batch, dict[Var, Any]] | None:
    inner = {axis.var for axis in axes}
    bounds = {v for axis in axes for s in (*axis.lows, *axis.highs) for v in s.atoms() if v not in inner}
    n = 1 if outside else end - low
    at = {v: env[v] if outside else select(v, env[v], slice(low, end)) for v in bounds}
    parent = np.arange(n) + (0 if outside else low)
    for k, axis in enumerate(axes):
        given = outside and k == 0
        first = _extreme(np.maximum, [low] if given else [size_of(s, at) for s in axis.lows], n)
        last = _extreme(np.minimum, [end] if given else [size_of(s, at) for s in axis.highs], n)
        sizes = np.maximum(last - first, 0)
        total = int(sizes.sum())
        if total > limit and end - low > 1:
            return None
        repeat = np.repeat(np.arange(n), sizes)
        at = {v: select(v, value, repeat) for v, value in at.items()}
        at[axis.var] = first[repeat] + counted(sizes, repeat)
        parent, n = parent[repeat], total
    values = {axis.var: at[axis.var] for axis in axes}
    return Batch(n, None if outside else parent, None), values


def counted(sizes: NDArray, repeat: NDArray) -> NDArray:
    """0, 1, … for each of the runs of the given sizes; `repeat` says for each element which run it is in."""
    out: NDArray = np.arange(len(repeat)) - (np.cumsum(sizes) - sizes)[repeat]
    return out


def _extreme(pick: Any, bounds: list[Any], n: int) -> NDArray:
    out: Any = bounds[0]
    for bound in bounds[1:]:
        out = pick(out, bound)
    return np.broadcast_to(out, (n,))


def view_rows(op: View, env: Env, free: Sequence[Var], n: int, shape: Sequence[Any]) -> Rows:
    """The elements of a view at each of n points."""
    rows = rows_of(env[op.array], n)
    parent = np.arange(n)
    at = {v: env[v] for v in free if v is not op.array}
    for var, size in zip(op.axes, shape, strict=True):
        sizes = np.broadcast_to(size, (n,))[parent]
        repeat = np.repeat(np.arange(len(parent)), sizes)
        at = {v: select(v, value, repeat) for v, value in at.items()}
        at[var] = counted(sizes, repeat)
        parent = parent[repeat]
    total = np.ones(n, np.int64)
    for size in shape:
        total = total * size
    inner = [s if isinstance(s, int) else s[parent] for s in rows.shape]
    position = flat_index(inner, [size_of(i, at) for i in op.index])
    return Rows(rows.data[rows.base[parent] + position], np.cumsum(total) - total, tuple(shape))
