"""What NumPy's functions are in the language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlang.python.lazy.arrays import Lazy, applied, lazy, unknown


# ---- element by element ----------------------------------------------------------------------------------------------
def _common(args: Sequence[Any]) -> np.dtype[Any]:
    """The dtype to which NumPy promotes operands; numbers of Python's own take that of the arrays."""
    return np.result_type(*[x.dtype if isinstance(x, Lazy) else x for x in args])


def _operands(args: Sequence[Any], dtype: np.dtype[Any]) -> list[Lazy]:
    return [x.astype(dtype) if isinstance(x, Lazy) else lazy(np.asarray(x, dtype)) for x in args]


def _shape(operands: Sequence[Lazy]) -> tuple[int, ...]:
    return np.broadcast_shapes(*[x.shape for x in operands])


def _elementwise(expression: str, *, floats: bool = False, result: Any = None) -> Callable[..., Lazy]:
    """floats: integers become floats first. result: its dtype, if not that of the operands."""

    def apply(*args: Any) -> Lazy:
        dtype = _common(args)
        if floats and dtype.kind in "biu":
            dtype = np.dtype(np.float64)
        operands = _operands(args, dtype)
        return applied(expression, operands, _shape(operands), result or dtype)

    return apply


def _arithmetic(expression: str) -> Callable[..., Lazy]:
    """Of numbers: what NumPy does with truth values there is no arithmetic."""
    plain = _elementwise(expression)

    def apply(*args: Any) -> Lazy:
        if _common(args).kind == "b":
            raise unknown("arithmetic with truth values alone")
        return plain(*args)

    return apply


def _power(x: Any, y: Any) -> Lazy:
    """A whole number as an exponent is part of the expression: powers of it are products."""
    if isinstance(y, int) and not isinstance(y, bool) and isinstance(x, Lazy) and (y >= 0 or x.dtype.kind == "f"):
        return applied(f"{{0}} ** {y}", (x,), x.shape, x.dtype)
    return _elementwise("{0} ** {1}")(x, y)


def _scaled(expression: str, factor: float) -> Callable[[Any], Lazy]:
    """A function of one argument, times a number."""
    plain = _elementwise(expression, floats=True)
    return lambda x: plain(x) * factor


def _matmul(x: Any, y: Any) -> Lazy:
    dtype = _common((x, y))
    a, b = _operands((x, y), dtype)
    shape = np.matmul(np.broadcast_to(np.int8(0), a.shape), np.broadcast_to(np.int8(0), b.shape)).shape
    return applied("{0} @ {1}", (a, b), shape, dtype)


_LANGUAGE = {
    np.exp: "exp", np.expm1: "expm1", np.log: "log", np.log1p: "log1p", np.sqrt: "sqrt",
    np.sin: "sin", np.cos: "cos", np.tan: "tan", np.sinh: "sinh", np.cosh: "cosh", np.tanh: "tanh",
    np.arcsin: "asin", np.arccos: "acos", np.arctan: "atan", np.floor: "floor", np.ceil: "ceil", np.rint: "round",
}  # fmt: skip
_OPERATORS = {
    np.add: "+", np.subtract: "-", np.multiply: "*", np.floor_divide: "//", np.remainder: "%",
}  # fmt: skip
_COMPARISONS = {
    np.equal: "==", np.not_equal: "!=", np.less: "<", np.less_equal: "<=", np.greater: ">", np.greater_equal: ">=",
}  # fmt: skip

UFUNCS: dict[Any, Callable[..., Lazy]] = {
    **{u: _elementwise(f"{name}({{0}})", floats=True) for u, name in _LANGUAGE.items()},
    **{u: _arithmetic(f"{{0}} {operator} {{1}}") for u, operator in _OPERATORS.items()},
    **{u: _elementwise(f"{{0}} {operator} {{1}}", result=np.bool_) for u, operator in _COMPARISONS.items()},
    np.true_divide: _elementwise("{0} / {1}", floats=True),
    np.power: _power,
    np.float_power: _elementwise("{0} ** {1}", floats=True),
    np.matmul: _matmul,
    np.negative: _arithmetic("-{0}"),
    np.positive: _elementwise("{0}"),
    np.absolute: _arithmetic("abs({0})"),
    np.fabs: _elementwise("abs({0})", floats=True),
    np.sign: _arithmetic("sign({0})"),
    np.square: _arithmetic("{0} ** 2"),
    np.reciprocal: _elementwise("1.0 / {0}", floats=True),
    np.log2: _scaled("log({0})", 1.0 / float(np.log(2.0))),
    np.log10: _scaled("log({0})", 1.0 / float(np.log(10.0))),
    np.maximum: _elementwise("maximum({0}, {1})"),
    np.minimum: _elementwise("minimum({0}, {1})"),
    np.arctan2: _elementwise("atan2({0}, {1})", floats=True),
    np.hypot: _elementwise("sqrt({0} ** 2 + {1} ** 2)", floats=True),
    np.isnan: _elementwise("isnan({0})", floats=True, result=np.bool_),
    np.isfinite: _elementwise("isfinite({0})", floats=True, result=np.bool_),
    np.bitwise_and: _elementwise("bit_and({0}, {1})"),
    np.bitwise_or: _elementwise("bit_or({0}, {1})"),
    np.bitwise_xor: _elementwise("bit_xor({0}, {1})"),
    np.invert: _elementwise("bit_not({0})"),
}


# ---- along axes ------------------------------------------------------------------------------------------------------
def reduction(name: str, x: Lazy, axis: Any, keepdims: bool) -> Lazy:
    """`sum`, `prod`, `mean`, `max`, `min`, `argmax` or `argmin`, with the dtype and the shape that NumPy gives it."""
    dtype = x.dtype
    if name in ("sum", "prod") and dtype.kind in "bi":
        dtype = np.dtype(np.int64)
    elif name in ("sum", "prod") and dtype.kind == "u":
        dtype = np.dtype(np.uint64)
    elif name == "mean" and dtype.kind in "biu":
        dtype = np.dtype(np.float64)
    x = x.astype(dtype)
    result = np.dtype(np.int64) if name.startswith("arg") else dtype
    if axis is None:
        shape: tuple[int, ...] = (1,) * x.ndim if keepdims else ()
        axes = tuple(range(x.ndim))
        text = f"{name}({{0}}, axis = {_axes(axes)}, keepdims = true)" if keepdims and axes else f"{name}({{0}})"
        return applied(text if x.ndim else "{0}", (x,), shape, result)
    axes = tuple(sorted(_axis(a, x.ndim) for a in (axis if isinstance(axis, tuple) else (axis,))))
    shape = tuple([1 if k in axes else n for k, n in enumerate(x.shape) if keepdims or k not in axes])
    more = ", keepdims = true" if keepdims else ""
    return applied(f"{name}({{0}}, axis = {_axes(axes)}{more})", (x,), shape, result)


def _axes(axes: Sequence[int]) -> str:
    return str(axes[0]) if len(axes) == 1 else f"({', '.join(map(str, axes))})"


def _axis(axis: Any, rank: int) -> int:
    k = int(axis)
    if not -rank <= k < rank:
        raise np.exceptions.AxisError(k, rank)
    return k % rank


def _reducing(name: str) -> Callable[..., Lazy]:
    def reduce(a: Any, axis: Any = None, keepdims: bool = False) -> Lazy:
        return reduction(name, lazy(a), axis, keepdims)

    return reduce


def _rearranging(name: str, default: int, *, result: Any = None) -> Callable[..., Lazy]:
    """`sort`, `argsort` and `cumsum`: the shape stays."""

    def apply(a: Any, axis: Any = default) -> Lazy:
        x = lazy(a)
        if axis is None:
            raise unknown(f"`{name}` of a whole array")
        where = f", axis = {_axis(axis, x.ndim)}" if x.ndim > 1 else ""
        return applied(f"{name}({{0}}{where})", (x,), x.shape, result or x.dtype)

    return apply


# ---- shapes ----------------------------------------------------------------------------------------------------------
def reshape(a: Any, shape: Any) -> Lazy:
    """As `numpy.reshape`, in row-major order."""
    x = lazy(a)
    given = (shape,) if isinstance(shape, int) else tuple(shape)
    sizes = np.broadcast_to(np.int8(0), x.shape).reshape(given).shape
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
    order = tuple(range(x.ndim))[::-1] if axes is None else tuple([_axis(k, x.ndim) for k in axes])
    if order == tuple(range(x.ndim)):
        return x
    if order == (1, 0):
        return applied("transpose({0})", (x,), x.shape[::-1], x.dtype)
    names = [f"k{k}" for k in range(x.ndim)]
    binders = ", ".join(f"{names[k]} < {x.shape[k]}" for k in order)
    return applied(f"[{{0}}[{', '.join(names)}] for {binders}]", (x,), [x.shape[k] for k in order], x.dtype)


def item(x: Lazy, index: Any) -> Lazy:
    """`x[…]`: numbers, slices, `…`, new axes, and one array of integers in front."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if len(parts) == 1 and (isinstance(parts[0], Lazy | np.ndarray | list)):
        return _gathered(x, lazy(parts[0]))
    if any(p is Ellipsis for p in parts):
        k = parts.index(Ellipsis)
        rest = x.ndim - sum(p is not None and p is not Ellipsis for p in parts)
        parts[k : k + 1] = [slice(None)] * rest
    new = np.broadcast_to(np.int8(0), x.shape)[tuple(parts)].shape  # raises IndexError
    texts: list[str] = []
    kept: list[int] = []
    for p in [p for p in parts if p is not None]:
        n = x.shape[len(texts)]
        if isinstance(p, slice):
            low, high, step = p.indices(n)
            if step < 0:
                raise unknown("a slice that goes backwards")
            kept.append(len(range(low, high, step)))
            whole = (low, high, step) == (0, n, 1)
            texts.append(".." if whole else f"{low}..{max(high, low)}" + (f" by {step}" if step != 1 else ""))
        elif isinstance(p, int | np.integer):
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


def _joined(arrays: Sequence[Any], axis: Any = 0) -> Lazy:
    dtype = _common([a if isinstance(a, Lazy) else np.asarray(a) for a in arrays])
    parts = _operands(arrays, dtype)
    k = _axis(axis, parts[0].ndim)
    shape = np.concatenate([np.broadcast_to(np.int8(0), p.shape) for p in parts], axis=k).shape
    if len(parts) == 1:
        return parts[0]
    names = ", ".join(f"{{{i}}}" for i in range(len(parts)))
    return applied(f"concat({names}, axis = {k})" if len(shape) > 1 else f"concat({names})", parts, shape, dtype)


def _stacked(arrays: Sequence[Any], axis: Any = 0) -> Lazy:
    parts = [lazy(a) for a in arrays]
    shape = np.stack([np.broadcast_to(np.int8(0), p.shape) for p in parts], axis=axis).shape
    k = _axis(axis, len(shape))
    return _joined([reshape(p, (*p.shape[:k], 1, *p.shape[k:])) for p in parts], k)


def _where(condition: Any, x: Any, y: Any) -> Lazy:
    dtype = _common((x, y))
    operands = [lazy(condition).astype(np.bool_), *_operands((x, y), dtype)]
    return applied("where({0}, {1}, {2})", operands, _shape(operands), dtype)


def _clip(a: Any, low: Any = None, high: Any = None) -> Lazy:
    x = lazy(a)
    if low is not None:
        x = UFUNCS[np.maximum](x, low)
    return x if high is None else UFUNCS[np.minimum](x, high)


def _like(value: float) -> Callable[[Lazy], Any]:
    return lambda a: np.full(a.shape, value, a.dtype)


def _dot(x: Any, y: Any) -> Lazy:
    a, b = lazy(x), lazy(y)
    if a.ndim and b.ndim and max(a.ndim, b.ndim) <= 2:
        return _matmul(a, b)
    if not a.ndim or not b.ndim:
        return UFUNCS[np.multiply](a, b)
    raise unknown("`dot` of more than two axes")


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{f: _reducing(f.__name__) for f in (np.sum, np.prod, np.mean, np.argmax, np.argmin)},
    np.max: _reducing("max"),
    np.min: _reducing("min"),
    np.sort: _rearranging("sort", -1),
    np.argsort: _rearranging("argsort", -1, result=np.int64),
    np.reshape: reshape,
    np.ravel: lambda a: reshape(a, -1),
    np.transpose: transpose,
    np.concatenate: _joined,
    np.stack: _stacked,
    np.where: _where,
    np.clip: _clip,
    np.dot: _dot,
    np.zeros_like: _like(0.0),
    np.ones_like: _like(1.0),
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a: a.size,
}
