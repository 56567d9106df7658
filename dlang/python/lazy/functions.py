"""NumPy's functions that can be recorded. What takes more parameters than a function here is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from string import ascii_letters
from typing import Any

import numpy as np

from dlang.ops.functions import FUNCTIONS as WORDS, POSITIONS
from dlang.ops.primitives import BOOL, FLOAT, NUM, ORD, PRIMITIVES, Primitive, Ufunc
from dlang.python.lazy.arrays import Lazy, applied, lazy, unknown

# ---- elementwise -----------------------------------------------------------------------------------------------------
# NumPy's elementwise functions, in terms of the language.


def common(args: Sequence[Any]) -> np.dtype[Any]:
    """The dtype to which NumPy promotes operands; numbers of Python's own take that of the arrays."""
    return np.result_type(*[x.dtype if isinstance(x, Lazy) else x for x in args])


def converted(args: Sequence[Any], dtypes: Sequence[np.dtype[Any]]) -> list[Lazy]:
    """Operands of dtypes."""
    pairs = zip(args, dtypes, strict=True)
    return [x.astype(d) if isinstance(x, Lazy) else lazy(np.asarray(x, d)) for x, d in pairs]


def shape_of(operands: Sequence[Lazy]) -> tuple[int, ...]:
    return np.broadcast_shapes(*[x.shape for x in operands])


def _loop(ufunc: np.ufunc, args: Sequence[Any]) -> tuple[np.dtype[Any], ...]:
    """The dtypes in which NumPy computes a function: of the operands, then of the result. Raises TypeError."""
    return ufunc.resolve_dtypes((*map(_plainly, args), None))


def _plainly(x: Any) -> Any:
    """The dtype of an operand; of a number of Python's its class, as NumPy wants it."""
    if isinstance(x, Lazy):
        return x.dtype
    return type(x) if type(x) in (int, float) else np.asarray(x).dtype


def _of(ufunc: np.ufunc, expression: str, bools: str | None = None) -> Callable[..., Lazy]:
    """An expression of operands that have one dtype. bools: the same of truth values, None where they have none."""

    def apply(*args: Any) -> Lazy:
        *given, result = _loop(ufunc, args)
        if len(set(given)) > 1:
            raise unknown(f"`numpy.{ufunc.__name__}` of {' and '.join(map(str, given))}")
        if given[0].kind == "b" and bools is None:
            raise unknown("arithmetic with truth values alone")
        operands = converted(args, given)
        text = bools if given[0].kind == "b" and bools is not None else expression
        return applied(text, operands, shape_of(operands), result)

    return apply


def _whole(ufunc: np.ufunc, expression: str) -> Callable[..., Lazy]:
    """A function that leaves whole numbers as they are."""
    plain = _of(ufunc, expression)

    def apply(x: Any) -> Lazy:
        return lazy(x) if lazy(x).dtype.kind in "biu" else plain(x)

    return apply


def _tested(ufunc: np.ufunc, expression: str) -> Callable[..., Lazy]:
    """Makes a test of floats, which converts integers to floats first."""

    def apply(x: Any) -> Lazy:
        given = lazy(x)
        given = given.astype(np.float64) if given.dtype.kind in "biu" else given
        return applied(expression, (given,), given.shape, np.bool_)

    return apply


def _logical(expression: str) -> Callable[..., Lazy]:
    def apply(*args: Any) -> Lazy:
        operands: list[Lazy] = [x if x.dtype.kind == "b" else UFUNCS[np.not_equal](x, 0) for x in map(lazy, args)]
        return applied(expression, operands, shape_of(operands), np.bool_)

    return apply


def _power(x: Any, y: Any) -> Lazy:
    """A whole number as an exponent is part of the expression: powers of it are products."""
    if type(y) is int and isinstance(x, Lazy) and x.dtype.kind != "b" and (y >= 0 or x.dtype.kind == "f"):
        return applied(f"{{0}} ** {y}", (x,), x.shape, x.dtype)
    return _of(np.power, "{0} ** {1}")(x, y)


def _scaled(ufunc: np.ufunc, expression: str, factor: float) -> Callable[[Any], Lazy]:
    """A function of one argument, times a number."""

    def apply(x: Any) -> Lazy:
        applied_once = _of(ufunc, expression)(x)
        scaled: Lazy = UFUNCS[np.multiply](applied_once, factor)
        return scaled

    return apply


def _logaddexp(x: Any, y: Any) -> Lazy:
    """The larger of the two is taken out, without a part in the derivative."""
    top = _of(np.logaddexp, "stop_gradient(maximum({0}, {1}))")(x, y)
    a, b = converted((x, y), (top.dtype, top.dtype))
    text = "where(isfinite({2}), {2} + log(exp({0} - {2}) + exp({1} - {2})), {2})"
    return applied(text, (a, b, top), top.shape, top.dtype)


# Beside an infinite side the other does not matter.
_LONGEST = "where(abs({{0}}) > {0!r}, abs({{0}}), where(abs({{1}}) > {0!r}, abs({{1}}), abs({{0}}) + abs({{1}})))"


def _hypot(x: Any, y: Any) -> Lazy:
    """The larger of the two is taken out, so that squares neither overflow nor vanish."""
    top = _of(np.hypot, "stop_gradient(maximum(abs({0}), abs({1})))")(x, y)
    a, b = converted((x, y), (top.dtype, top.dtype))
    least = float(np.finfo(top.dtype).tiny)  # the inverse of a smaller number would overflow
    scale = f"where(isfinite({{2}}), maximum({{2}}, {least!r}), 1.0)"
    length = f"{scale} * sqrt(({{0}} / {scale}) ** 2 + ({{1}} / {scale}) ** 2)"
    text = f"where(bit_and({{2}} > 0.0, isfinite({{2}})), {length}, {_LONGEST.format(float(np.finfo(top.dtype).max))})"
    return applied(text, (a, b, top), top.shape, top.dtype)


def where(condition: Any, x: Any, y: Any) -> Lazy:
    dtype = common((x, y))
    operands = [*converted((condition,), (np.dtype(np.bool_),)), *converted((x, y), (dtype, dtype))]
    return applied("where({0}, {1}, {2})", operands, shape_of(operands), dtype)


def _as(p: Primitive, u: Ufunc) -> Callable[..., Lazy]:
    """NumPy's function that a primitive does."""
    ufunc, text = getattr(np, u.name), u.text or p.expression
    match u.takes:
        case "whole":
            return _whole(ufunc, text)
        case "tested":
            return _tested(ufunc, text)
        case "logical":
            return _logical(text)
        case _:
            return _of(ufunc, text, u.bools or None)


UFUNCS: dict[Any, Callable[..., Any]] = {
    **{getattr(np, p.ufunc.name): _as(p, p.ufunc) for p in PRIMITIVES.values() if p.ufunc is not None},
    np.float_power: _of(np.float_power, "{0} ** {1}"),
    np.logical_xor: _logical("bit_xor({0}, {1})"),
    np.power: _power,
    np.positive: _of(np.positive, "{0}"),
    np.absolute: _of(np.absolute, "abs({0})", "{0}"),
    np.square: _of(np.square, "{0} ** 2"),
    np.reciprocal: _of(np.reciprocal, "1.0 / {0}"),
    np.exp2: _of(np.exp2, "2.0 ** {0}"),
    np.cbrt: _of(np.cbrt, "sign({0}) * abs({0}) ** (1.0 / 3.0)"),
    np.log2: _scaled(np.log2, "log({0})", 1.0 / float(np.log(2.0))),
    np.log10: _scaled(np.log10, "log({0})", 1.0 / float(np.log(10.0))),
    np.deg2rad: _scaled(np.deg2rad, "{0}", np.pi / 180.0),
    np.rad2deg: _scaled(np.rad2deg, "{0}", 180.0 / np.pi),
    np.radians: _scaled(np.radians, "{0}", np.pi / 180.0),
    np.degrees: _scaled(np.degrees, "{0}", 180.0 / np.pi),
    np.trunc: _whole(np.trunc, "where({0} < 0.0, ceil({0}), floor({0}))"),
    np.divmod: lambda x, y: (UFUNCS[np.floor_divide](x, y), UFUNCS[np.remainder](x, y)),
    np.hypot: _hypot,
    np.logaddexp: _logaddexp,
    np.isinf: _tested(np.isinf, "bit_not(bit_or(isfinite({0}), isnan({0})))"),
}


# ---- products --------------------------------------------------------------------------------------------------------
# Products of arrays: what NumPy has of these, as sums in the notation of Einstein.


def matmul(x: Any, y: Any) -> Lazy:
    a, b = _operands((x, y))
    shape = np.matmul(np.broadcast_to(np.int8(0), a.shape), np.broadcast_to(np.int8(0), b.shape)).shape
    return applied("{0} @ {1}", (a, b), shape, a.dtype)


def _operands(args: Sequence[Any]) -> list[Lazy]:
    dtype = common([x if isinstance(x, Lazy) else np.asarray(x) for x in args])
    if dtype.kind == "b":
        raise unknown("a product of truth values")
    return converted(args, [dtype] * len(args))


def einsum(subscripts: str, *operands: Any, **settings: Any) -> Lazy:
    """As `numpy.einsum`, without `...`. More than two operands are multiplied one after another."""
    if not isinstance(subscripts, str) or "." in subscripts or settings.keys() - {"optimize"}:
        raise unknown("`einsum` of this form")
    left, _, result = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    np.einsum(subscripts, *[np.broadcast_to(np.int8(0), lazy(x).shape) for x in operands])  # raises ValueError
    if "->" not in subscripts:
        result = "".join(sorted(c for c in set(left) - {","} if left.count(c) == 1))
    arrays = _operands(operands)
    while len(arrays) > 2:
        later = set(result).union(*terms[2:])
        kept = "".join(sorted(set(terms[0] + terms[1]) & later))
        arrays[:2] = [_contracted(terms[:2], arrays[:2], kept)]
        terms[:2] = [kept]
    return _contracted(terms, arrays, result)


def _contracted(terms: Sequence[str], arrays: Sequence[Lazy], result: str) -> Lazy:
    sizes: dict[str, int] = {}
    for term, x in zip(terms, arrays, strict=True):
        for c, n in zip(term, x.shape, strict=True):
            sizes[c] = n if sizes.get(c, 1) == 1 else sizes[c]
    names = {c: f"i{ascii_letters.index(c)}" for c in sizes}
    factors: list[str] = []
    for k, (term, x) in enumerate(zip(terms, arrays, strict=True)):
        index = ["0" if n == 1 else names[c] for c, n in zip(term, x.shape, strict=True)]
        factors.append(f"{{{k}}}[{', '.join(index)}]" if index else f"{{{k}}}")
    text = " * ".join(factors)
    shape = [sizes[c] for c in result]
    if 0 in sizes.values():
        return lazy(np.zeros(shape, arrays[0].dtype))
    if summed := [c for c in sizes if c not in result]:
        text = f"sum({text} for {', '.join(f'{names[c]} < {sizes[c]}' for c in summed)})"
    if result:
        text = f"[{text} for {', '.join(f'{names[c]} < {sizes[c]}' for c in result)}]"
    return applied(text, arrays, shape, arrays[0].dtype)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Lazy:
    x, y = lazy(a), lazy(b)
    if isinstance(axes, int):
        of_x, of_y = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        of_x, of_y = ([k] if isinstance(k, int) else list(k) for k in axes)
    first, second = ascii_letters[: x.ndim], list(ascii_letters[x.ndim : x.ndim + y.ndim])
    for p, q in zip(of_x, of_y, strict=True):
        p, q = axis_of(p, x.ndim), axis_of(q, y.ndim)
        if x.shape[p] != y.shape[q]:  # which `einsum` would repeat, were it 1
            raise ValueError(f"shape-mismatch for sum: {x.shape} along axis {p}, {y.shape} along axis {q}")
        second[q] = first[p]
    shared = set(first) & set(second)
    result = "".join(c for c in (*first, *second) if c not in shared)
    return einsum(f"{first},{''.join(second)}->{result}", x, y)


def dot(a: Any, b: Any) -> Any:
    x, y = lazy(a), lazy(b)
    if not x.ndim or not y.ndim:
        return UFUNCS[np.multiply](x, y)
    if max(x.ndim, y.ndim) <= 2:
        return matmul(x, y)
    return tensordot(x, y, (x.ndim - 1, max(y.ndim - 2, 0)))


def inner(a: Any, b: Any) -> Any:
    x, y = lazy(a), lazy(b)
    return UFUNCS[np.multiply](x, y) if not x.ndim or not y.ndim else tensordot(x, y, (-1, -1))


def outer(a: Any, b: Any) -> Lazy:
    return einsum("i,j->ij", lazy(a).reshape(-1), lazy(b).reshape(-1))


def vdot(a: Any, b: Any) -> Lazy:
    return einsum("i,i->", lazy(a).reshape(-1), lazy(b).reshape(-1))


# ---- along axes ------------------------------------------------------------------------------------------------------
# NumPy's functions along axes, in terms of the language.


def reduced(name: str, x: Lazy, axis: Any = None, keepdims: bool = False) -> Lazy:
    """A reduction with the dtype and the shape that NumPy gives it."""
    if WORDS[name].elements == ORD and x.dtype.kind == "b":  # truth values have no order in the language
        of_bytes = reduced(name, x.astype(np.uint8), axis, keepdims)
        return of_bytes if name in POSITIONS else of_bytes.astype(np.bool_)
    x, result = _prepared(name, x)
    if axis is None:
        shape: tuple[int, ...] = (1,) * x.ndim if keepdims else ()
        axes = tuple(range(x.ndim))
        text = f"{name}({{0}}, axis = {_axes(axes)}, keepdims = true)" if keepdims and axes else f"{name}({{0}})"
        reduction = WORDS[name].reduction
        if not x.ndim and reduction is not None and reduction.plain:
            return applied("0" if name in POSITIONS else "{0}", (x,), (), result)
        return applied(text, (x,), shape, result)
    axes = tuple(sorted(axis_of(a, x.ndim) for a in (axis if isinstance(axis, tuple) else (axis,))))
    shape = tuple([1 if k in axes else n for k, n in enumerate(x.shape) if keepdims or k not in axes])
    more = ", keepdims = true" if keepdims else ""
    return applied(f"{name}({{0}}, axis = {_axes(axes)}{more})", (x,), shape, result)


def _prepared(name: str, x: Lazy) -> tuple[Lazy, np.dtype[Any]]:
    """Returns the operand of a reduction, and the dtype of the result."""
    elements, dtype = WORDS[name].elements, x.dtype
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
    if WORDS[name].elements == ORD and x.dtype.kind == "b":
        of_bytes = along(name, x.astype(np.uint8), axis)
        return of_bytes if name in POSITIONS else of_bytes.astype(np.bool_)
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


# ---- shapes and positions --------------------------------------------------------------------------------------------
# NumPy's functions of shapes and positions, in terms of the language.


def _stand_in(x: Lazy) -> Any:
    """An array of NumPy of the same shape, which takes next to no memory: NumPy says what becomes of the shape."""
    return np.broadcast_to(np.int8(0), x.shape)


def picked(x: Lazy, shape: Sequence[int], index: Sequence[str]) -> Lazy:
    """The array whose element at `k0, k1…` is that of x at an index which these give."""
    if 0 in shape:
        return lazy(np.zeros(shape, x.dtype))
    binders = ", ".join(f"k{k} < {n}" for k, n in enumerate(shape))
    element = f"{{0}}[{', '.join(index)}]" if index else "{0}"
    return applied(f"[{element} for {binders}]" if shape else element, (x,), shape, x.dtype)


def _reordered(x: Lazy, axis: int, size: int, index: str) -> Lazy:
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
    sizes = _stand_in(x).reshape(given).shape
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
    shape = _stand_in(x).transpose(order).shape
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
    return reshape(x, np.squeeze(_stand_in(x), axis).shape)


def expanded(a: Any, axis: Any) -> Lazy:
    x = lazy(a)
    return reshape(x, np.expand_dims(_stand_in(x), axis).shape)


def broadcast(array: Any, shape: Any) -> Lazy:
    """As `numpy.broadcast_to`."""
    x = lazy(array)
    sizes = np.broadcast_to(_stand_in(x), shape).shape
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
    shape = np.concatenate([_stand_in(p) for p in parts], axis=k).shape
    if len(parts) == 1:
        return parts[0]
    names = ", ".join(f"{{{i}}}" for i in range(len(parts)))
    return applied(f"concat({names}, axis = {k})" if len(shape) > 1 else f"concat({names})", parts, shape, dtype)


def stacked(arrays: Sequence[Any], axis: Any = 0) -> Lazy:
    """As `numpy.stack`."""
    parts = [lazy(a) for a in arrays]
    k = axis_of(axis, np.stack([_stand_in(p) for p in parts], axis=axis).ndim)
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
        missing = x.ndim - sum(p is not None and p is not Ellipsis for p in parts)
        parts[k : k + 1] = [slice(None)] * missing
    new = _stand_in(x)[tuple(parts)].shape  # raises IndexError
    texts: list[str] = []
    kept: list[int] = []
    for p in [p for p in parts if p is not None]:
        axis = len(texts)
        n = x.shape[axis]
        if isinstance(p, slice):
            low, high, step = p.indices(n)
            count = len(range(low, high, step))
            if step < 0:
                x = _reordered(x, axis, count, f"{low} - {-step} * {{k}}")
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
    result = x if same else applied(f"{{0}}[{', '.join(texts)}]", (x,), kept, x.dtype)
    return reshape(result, new) if result.shape != new else result


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
    gathered = _gathered(moved(x, k, 0), index)
    return moved(gathered, list(range(index.ndim)), list(range(k, k + index.ndim)))


def flipped(m: Any, axis: Any = None) -> Lazy:
    x = lazy(m)
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    for k in [axis_of(a, x.ndim) for a in axes]:
        x = _reordered(x, k, x.shape[k], f"{x.shape[k] - 1} - {{k}}")
    return x


def rolled(a: Any, shift: int, axis: Any = None) -> Lazy:
    x = lazy(a)
    if axis is None:
        return reshape(rolled(reshape(x, -1), shift, 0), x.shape)
    k = axis_of(axis, x.ndim)
    n = max(x.shape[k], 1)
    return _reordered(x, k, x.shape[k], f"({{k}} + {-shift % n}) % {n}")


def repeated(a: Any, repeats: int, axis: Any = None) -> Lazy:
    x = lazy(a)
    if not isinstance(repeats, int | np.integer):
        raise unknown("`repeat` with a number of its own for each element")
    x, k = (reshape(x, -1), 0) if axis is None else (x, axis_of(axis, x.ndim))
    return _reordered(x, k, x.shape[k] * int(repeats), f"{{k}} // {max(int(repeats), 1)}")


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


# ---- the table -------------------------------------------------------------------------------------------------------


def _reducing(name: str) -> Callable[..., Lazy]:
    def reduce(a: Any, axis: Any = None, keepdims: bool = False) -> Lazy:
        return reduced(name, lazy(a), axis, keepdims)

    return reduce


def _along(name: str, usual: int | None) -> Callable[..., Lazy]:
    return lambda a, axis=usual: along(name, a, axis)


def _like(value: float) -> Callable[[Lazy], Any]:
    return lambda a: np.full(a.shape, value, a.dtype)


def _full_like(a: Any, fill_value: Any) -> Lazy:
    x = lazy(a)
    return broadcast(lazy(fill_value).astype(x.dtype), x.shape)


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
    np.var: variance,
    np.std: deviation,
    np.ptp: spread,
    np.count_nonzero: count_nonzero,
    np.linalg.norm: norm,
    np.diff: difference,
    np.reshape: reshape,
    np.ravel: lambda a: reshape(a, -1),
    np.transpose: transpose,
    np.moveaxis: moved,
    np.swapaxes: swapped,
    np.squeeze: squeezed,
    np.expand_dims: expanded,
    np.broadcast_to: broadcast,
    np.concatenate: joined,
    np.stack: stacked,
    np.vstack: rows,
    np.hstack: beside,
    np.take: taken,
    np.flip: flipped,
    np.roll: rolled,
    np.repeat: repeated,
    np.tile: tiled,
    np.diagonal: diagonal,
    np.trace: lambda a, offset=0: reduced("sum", diagonal(a, offset), -1),
    np.tril: triangle,
    np.triu: partial(triangle, upper=True),
    np.clip: clipped,
    np.where: where,
    np.round: _rounded,
    np.dot: dot,
    np.einsum: einsum,
    np.tensordot: tensordot,
    np.inner: inner,
    np.outer: outer,
    np.vdot: vdot,
    np.zeros_like: _like(0.0),
    np.ones_like: _like(1.0),
    np.full_like: _full_like,
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a: a.size,
}
