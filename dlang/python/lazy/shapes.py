"""NumPy's functions of shapes and positions, in terms of the language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlang.python.lazy.arrays import Lazy, applied, lazy, unknown
from dlang.python.lazy.elementwise import UFUNCS, common, converted, where
from dlang.python.lazy.reductions import axis_of


def _like(x: Lazy) -> Any:
    """An array of NumPy of the same shape, which takes next to no memory: NumPy says what becomes of the shape."""
    return np.broadcast_to(np.int8(0), x.shape)


def picked(x: Lazy, shape: Sequence[int], index: Sequence[str]) -> Lazy:
    """The array whose element at `k0, k1…` is that of x at an index which these give."""
    if 0 in shape:
        return lazy(np.zeros(shape, x.dtype))
    binders = ", ".join(f"k{k} < {n}" for k, n in enumerate(shape))
    element = f"{{0}}[{', '.join(index)}]" if index else "{0}"
    return applied(f"[{element} for {binders}]" if shape else element, (x,), shape, x.dtype)


def _along(x: Lazy, axis: int, size: int, index: str) -> Lazy:
    """Another order of the elements along an axis, which gets another size. index: of its `{k}`."""
    shape = [size if k == axis else n for k, n in enumerate(x.shape)]
    return picked(x, shape, [index.format(k=f"k{k}") if k == axis else f"k{k}" for k in range(x.ndim)])


# ---- shapes ----------------------------------------------------------------------------------------------------------
def reshape(a: Any, /, shape: Any, order: str = "C") -> Lazy:
    """As `numpy.reshape`, in row-major order."""
    x = lazy(a)
    if order != "C":
        raise unknown(f"a reshape in the order `{order}`")
    given = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    sizes = _like(x).reshape(given).shape
    if sizes == x.shape:
        return x
    if not sizes:
        return applied(f"{{0}}[{', '.join('0' * x.ndim)}]", (x,), (), x.dtype)
    if not x.shape:
        return applied(f"full({{0}}, {', '.join(map(str, sizes))})", (x,), sizes, x.dtype)
    return applied(f"reshape({{0}}, {', '.join(map(str, sizes))})", (x,), sizes, x.dtype)


def transpose(a: Any, axes: Any = None) -> Lazy:
    """As `numpy.transpose`."""
    x = lazy(a)
    order = tuple(range(x.ndim))[::-1] if axes is None else tuple([axis_of(k, x.ndim) for k in axes])
    shape = _like(x).transpose(order).shape
    if order == tuple(range(x.ndim)):
        return x
    if order == (1, 0):
        return applied("transpose({0})", (x,), shape, x.dtype)
    return picked(x, shape, [f"k{order.index(k)}" for k in range(x.ndim)])


def moved(a: Any, source: Any, destination: Any) -> Lazy:
    """As `numpy.moveaxis`."""
    x = lazy(a)
    there = np.moveaxis(np.empty([k + 2 for k in range(x.ndim)], np.void), source, destination).shape
    return transpose(x, [n - 2 for n in there])


def swapped(a: Any, axis1: int, axis2: int) -> Lazy:
    x = lazy(a)
    one, two = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    return transpose(x, [two if k == one else one if k == two else k for k in range(x.ndim)])


def squeezed(a: Any, axis: Any = None) -> Lazy:
    x = lazy(a)
    return reshape(x, np.squeeze(_like(x), axis).shape)


def expanded(a: Any, axis: Any) -> Lazy:
    x = lazy(a)
    return reshape(x, np.expand_dims(_like(x), axis).shape)


def broadcast(array: Any, shape: Any) -> Lazy:
    """As `numpy.broadcast_to`."""
    x = lazy(array)
    sizes = np.broadcast_to(_like(x), shape).shape
    front = len(sizes) - x.ndim
    index = ["0" if n == 1 else f"k{front + k}" for k, n in enumerate(x.shape)]
    return x if sizes == x.shape else picked(x, sizes, index)


def joined(arrays: Sequence[Any], axis: Any = 0) -> Lazy:
    """As `numpy.concatenate`."""
    dtype = common([a if isinstance(a, Lazy) else np.asarray(a) for a in arrays])
    parts = converted(arrays, [dtype] * len(arrays))
    if axis is None:
        parts, axis = [reshape(p, -1) for p in parts], 0
    k = axis_of(axis, parts[0].ndim)
    shape = np.concatenate([_like(p) for p in parts], axis=k).shape
    if len(parts) == 1:
        return parts[0]
    names = ", ".join(f"{{{i}}}" for i in range(len(parts)))
    return applied(f"concat({names}, axis = {k})" if len(shape) > 1 else f"concat({names})", parts, shape, dtype)


def stacked(arrays: Sequence[Any], axis: Any = 0) -> Lazy:
    """As `numpy.stack`."""
    parts = [lazy(a) for a in arrays]
    k = axis_of(axis, np.stack([_like(p) for p in parts], axis=axis).ndim)
    return joined([reshape(p, (*p.shape[:k], 1, *p.shape[k:])) for p in parts], k)


def rows(arrays: Sequence[Any]) -> Lazy:
    """As `numpy.vstack`."""
    return joined([reshape(p, (1, -1)) if p.ndim < 2 else p for p in map(lazy, arrays)], 0)


def beside(arrays: Sequence[Any]) -> Lazy:
    """As `numpy.hstack`."""
    parts = [reshape(p, -1) if p.ndim < 1 else p for p in map(lazy, arrays)]
    return joined(parts, 0 if parts[0].ndim == 1 else 1)


# ---- positions -------------------------------------------------------------------------------------------------------
def item(x: Lazy, index: Any) -> Lazy:
    """`x[…]`: numbers, slices, `…`, new axes, and one array of integers in front."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if len(parts) == 1 and (isinstance(parts[0], Lazy | np.ndarray | list)):
        return _gathered(x, lazy(parts[0]))
    if any(p is Ellipsis for p in parts):
        k = parts.index(Ellipsis)
        rest = x.ndim - sum(p is not None and p is not Ellipsis for p in parts)
        parts[k : k + 1] = [slice(None)] * rest
    new = _like(x)[tuple(parts)].shape  # raises IndexError
    texts: list[str] = []
    kept: list[int] = []
    for p in [p for p in parts if p is not None]:
        axis = len(texts)
        n = x.shape[axis]
        if isinstance(p, slice):
            low, high, step = p.indices(n)
            count = len(range(low, high, step))
            if step < 0:
                x = _along(x, axis, count, f"{low} - {-step} * {{k}}")
                low, high, step, n = 0, count, 1, count
            kept.append(count)
            whole = (low, high, step) == (0, n, 1)
            texts.append(".." if whole else f"{low}..{max(high, low)}" + (f" by {step}" if step != 1 else ""))
        elif isinstance(p, int | np.integer) and not isinstance(p, bool):
            texts.append(str(int(p) % n))
        else:
            raise unknown(f"an index of {type(p).__name__}")
    kept += x.shape[len(texts) :]
    same = all(t == ".." for t in texts)
    found = x if same else applied(f"{{0}}[{', '.join(texts)}]", (x,), kept, x.dtype)
    return reshape(found, new) if found.shape != new else found


def _gathered(x: Lazy, index: Lazy) -> Lazy:
    if index.dtype.kind not in "iu":
        raise unknown("an index that is no integer")
    whole = index.astype(np.int64)
    wrapped = applied("where({0} < 0, {0} + {1}, {0})", (whole, lazy(np.int64(len(x)))), whole.shape, np.int64)
    return applied("{0}[{1}]", (x, wrapped), (*index.shape, *x.shape[1:]), x.dtype)


def taken(a: Any, indices: Any, axis: Any = None) -> Lazy:
    """As `numpy.take`."""
    x, index = lazy(a), lazy(indices)
    if axis is None:
        return _gathered(reshape(x, -1), index)
    k = axis_of(axis, x.ndim)
    found = _gathered(moved(x, k, 0), index)
    return moved(found, list(range(index.ndim)), list(range(k, k + index.ndim)))


def flipped(m: Any, axis: Any = None) -> Lazy:
    x = lazy(m)
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    for k in [axis_of(a, x.ndim) for a in axes]:
        x = _along(x, k, x.shape[k], f"{x.shape[k] - 1} - {{k}}")
    return x


def rolled(a: Any, shift: int, axis: Any = None) -> Lazy:
    x = lazy(a)
    if axis is None:
        return reshape(rolled(reshape(x, -1), shift, 0), x.shape)
    k = axis_of(axis, x.ndim)
    n = max(x.shape[k], 1)
    return _along(x, k, x.shape[k], f"({{k}} + {-shift % n}) % {n}")


def repeated(a: Any, repeats: int, axis: Any = None) -> Lazy:
    x = lazy(a)
    if not isinstance(repeats, int | np.integer):
        raise unknown("`repeat` with a number of its own for each element")
    x, k = (reshape(x, -1), 0) if axis is None else (x, axis_of(axis, x.ndim))
    return _along(x, k, x.shape[k] * int(repeats), f"{{k}} // {max(int(repeats), 1)}")


def tiled(array: Any, /, reps: Any) -> Lazy:
    """As `numpy.tile`."""
    x = lazy(array)
    times = (reps,) if isinstance(reps, int | np.integer) else tuple(reps)
    rank = max(x.ndim, len(times))
    x = reshape(x, (*(1,) * (rank - x.ndim), *x.shape))
    sizes = [n * r for n, r in zip(x.shape, (*(1,) * (rank - len(times)), *times), strict=True)]
    return picked(x, sizes, [f"k{k} % {max(n, 1)}" for k, n in enumerate(x.shape)])


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Lazy:
    x = moved(lazy(a), (axis1, axis2), (-2, -1))
    size = np.diagonal(np.empty(x.shape[-2:], np.void), offset).shape[0]
    last = x.ndim - 2
    index = [*[f"k{k}" for k in range(last)], f"k{last} + {max(-offset, 0)}", f"k{last} + {max(offset, 0)}"]
    return picked(x, (*x.shape[:-2], size), index)


def triangle(m: Any, k: int = 0, *, upper: bool = False) -> Lazy:
    """As `numpy.tril` and `numpy.triu`."""
    x = lazy(m)
    rows = x.shape[max(-2, -x.ndim)]  # a vector becomes a matrix of such rows
    mask = np.tri(rows, x.shape[-1], k - 1 if upper else k, dtype=np.bool_)
    return where(~mask if upper else mask, x, np.zeros((), x.dtype))


def clipped(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """As `numpy.clip`, with both pairs of names that it has."""
    x: Any = lazy(a)
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    if x.dtype.kind in "iu":  # beyond the ends of the type a number of Python's clips nothing
        ends = np.iinfo(x.dtype)
        low = None if type(low) is int and low <= ends.min else low
        high = None if type(high) is int and high >= ends.max else high
    if low is not None:
        x = UFUNCS[np.maximum](x, low)
    return x if high is None else UFUNCS[np.minimum](x, high)
