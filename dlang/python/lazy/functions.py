"""NumPy's functions that can be recorded. What takes more parameters than a function here is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dlang.ops.functions import FUNCTIONS as WORDS
from dlang.python.lazy import elementwise, products, reductions, shapes
from dlang.python.lazy.arrays import Lazy, lazy, unknown
from dlang.python.lazy.elementwise import UFUNCS


def _reducing(name: str) -> Callable[..., Lazy]:
    def reduce(a: Any, axis: Any = None, keepdims: bool = False) -> Lazy:
        return reductions.reduced(name, lazy(a), axis, keepdims)

    return reduce


def _along(name: str, usual: int | None) -> Callable[..., Lazy]:
    return lambda a, axis=usual: reductions.along(name, a, axis)


def _like(value: float) -> Callable[[Lazy], Any]:
    return lambda a: np.full(a.shape, value, a.dtype)


def _full_like(a: Any, fill_value: Any) -> Lazy:
    x = lazy(a)
    return shapes.broadcast(lazy(fill_value).astype(x.dtype), x.shape)


def _rounded(a: Any, decimals: int = 0) -> Any:
    x = lazy(a)
    if x.dtype.kind in "iu" and decimals >= 0:
        return x
    if decimals == 0:
        return UFUNCS[np.rint](x)
    if x.dtype.kind != "f" or decimals < 0:
        raise unknown(f"`round` of {x.dtype} to {decimals} decimals")
    return UFUNCS[np.rint](x * 10.0**decimals) / 10.0**decimals


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{getattr(np, f.numpy): _reducing(f.name) for f in WORDS.values() if f.numpy and f.axis == "reduced"},
    **{
        getattr(np, f.numpy): _along(f.name, -1 if f.rearranges or f.positions else None)
        for f in WORDS.values()
        if f.numpy and f.axis == "kept"
    },
    np.var: reductions.variance,
    np.std: reductions.deviation,
    np.ptp: reductions.spread,
    np.count_nonzero: reductions.count_nonzero,
    np.linalg.norm: reductions.norm,
    np.diff: reductions.difference,
    np.reshape: shapes.reshape,
    np.ravel: lambda a: shapes.reshape(a, -1),
    np.transpose: shapes.transpose,
    np.moveaxis: shapes.moved,
    np.swapaxes: shapes.swapped,
    np.squeeze: shapes.squeezed,
    np.expand_dims: shapes.expanded,
    np.broadcast_to: shapes.broadcast,
    np.concatenate: shapes.joined,
    np.stack: shapes.stacked,
    np.vstack: shapes.rows,
    np.hstack: shapes.beside,
    np.take: shapes.taken,
    np.flip: shapes.flipped,
    np.roll: shapes.rolled,
    np.repeat: shapes.repeated,
    np.tile: shapes.tiled,
    np.diagonal: shapes.diagonal,
    np.trace: lambda a, offset=0: reductions.reduced("sum", shapes.diagonal(a, offset), -1),
    np.tril: shapes.triangle,
    np.triu: partial(shapes.triangle, upper=True),
    np.clip: shapes.clipped,
    np.where: elementwise.where,
    np.round: _rounded,
    np.dot: products.dot,
    np.einsum: products.einsum,
    np.tensordot: products.tensordot,
    np.inner: products.inner,
    np.outer: products.outer,
    np.vdot: products.vdot,
    np.zeros_like: _like(0.0),
    np.ones_like: _like(1.0),
    np.full_like: _full_like,
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a: a.size,
}
