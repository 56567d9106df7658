"""NumPy's functions along axes, in terms of the language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlang.ops.functions import FUNCTIONS, POSITIONS
from dlang.ops.primitives import BOOL, FLOAT, NUM, ORD
from dlang.python.lazy.arrays import Lazy, applied, lazy, unknown
from dlang.python.lazy.elementwise import UFUNCS


def reduced(name: str, x: Lazy, axis: Any = None, keepdims: bool = False) -> Lazy:
    """A reduction with the dtype and the shape that NumPy gives it."""
    if FUNCTIONS[name].elements == ORD and x.dtype.kind == "b":  # truth values have no order in the language
        made = reduced(name, x.astype(np.uint8), axis, keepdims)
        return made if name in POSITIONS else made.astype(np.bool_)
    x, result = _prepared(name, x)
    if axis is None:
        shape: tuple[int, ...] = (1,) * x.ndim if keepdims else ()
        axes = tuple(range(x.ndim))
        text = f"{name}({{0}}, axis = {_axes(axes)}, keepdims = true)" if keepdims and axes else f"{name}({{0}})"
        reduction = FUNCTIONS[name].reduction
        if not x.ndim and reduction is not None and reduction.plain:
            return applied("0" if name in POSITIONS else "{0}", (x,), (), result)
        return applied(text, (x,), shape, result)
    axes = tuple(sorted(axis_of(a, x.ndim) for a in (axis if isinstance(axis, tuple) else (axis,))))
    shape = tuple([1 if k in axes else n for k, n in enumerate(x.shape) if keepdims or k not in axes])
    more = ", keepdims = true" if keepdims else ""
    return applied(f"{name}({{0}}, axis = {_axes(axes)}{more})", (x,), shape, result)


def _prepared(name: str, x: Lazy) -> tuple[Lazy, np.dtype[Any]]:
    """Returns the operand of a reduction, and the dtype of the result."""
    elements, dtype = FUNCTIONS[name].elements, x.dtype
    if elements == BOOL:
        return (x if dtype.kind == "b" else x != 0), np.dtype(np.bool_)
    if elements == NUM:
        dtype = summed(dtype)
    elif elements == FLOAT and dtype.kind in "biu":
        dtype = np.dtype(np.float64)
    return x.astype(dtype), np.dtype(np.int64) if name in POSITIONS else dtype


def summed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of sums."""
    return np.dtype({"b": np.int64, "i": np.int64, "u": np.uint64}.get(dtype.kind, dtype))


def _axes(axes: Sequence[int]) -> str:
    return str(axes[0]) if len(axes) == 1 else f"({', '.join(map(str, axes))})"


def axis_of(axis: Any, rank: int) -> int:
    k = int(axis)
    if not -rank <= k < rank:
        raise np.exceptions.AxisError(k, rank)
    return k % rank


def along(name: str, a: Any, axis: Any = -1) -> Lazy:
    """`sort`, `argsort` and `cumsum`, which keep the shape; without an axis, of all elements in a row."""
    x = lazy(a)
    if axis is None:
        x, axis = x.reshape(-1), 0
    if FUNCTIONS[name].elements == ORD and x.dtype.kind == "b":
        made = along(name, x.astype(np.uint8), axis)
        return made if name in POSITIONS else made.astype(np.bool_)
    x, result = _prepared(name, x)
    where = f", axis = {axis_of(axis, x.ndim)}" if x.ndim > 1 else ""
    return applied(f"{name}({{0}}{where})", (x,), x.shape, result)


# ---- what is made of these -------------------------------------------------------------------------------------------
def variance(a: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
    x = lazy(a)
    mean = reduced("mean", x, axis, keepdims=True)
    squares = UFUNCS[np.square](x - mean)
    count = x.size // max(mean.size, 1) - ddof
    if count <= 0:
        raise unknown(f"the variance of {count + ddof} with `ddof = {ddof}`")
    return reduced("sum", squares, axis, keepdims) / float(count)


def deviation(a: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
    return UFUNCS[np.sqrt](variance(a, axis, ddof, keepdims))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """As `numpy.linalg.norm` without `ord`: the root of the sum of squares."""
    if ord is not None and not (ord == 2 and (lazy(x).ndim == 1 or isinstance(axis, int))):
        raise unknown(f"a norm with `ord = {ord!r}`")
    given = lazy(x)
    if given.dtype.kind in "biu":  # as NumPy does: squares of small integers would wrap
        given = given.astype(np.float64)
    return UFUNCS[np.sqrt](reduced("sum", UFUNCS[np.square](given), axis, keepdims))


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Lazy:
    return reduced("sum", UFUNCS[np.not_equal](a, 0), axis, keepdims)


def spread(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """As `numpy.ptp`."""
    x = lazy(a)
    return reduced("max", x, axis, keepdims) - reduced("min", x, axis, keepdims)


def difference(a: Any, n: int = 1, axis: int = -1) -> Any:
    """As `numpy.diff`."""
    x: Any = lazy(a)
    before = (slice(None),) * axis_of(axis, x.ndim)
    for _ in range(n):
        later, earlier = x[(*before, slice(1, None))], x[(*before, slice(None, -1))]
        x = UFUNCS[np.not_equal](later, earlier) if x.dtype.kind == "b" else later - earlier
    return x
