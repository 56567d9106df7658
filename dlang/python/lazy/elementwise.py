"""NumPy's elementwise functions, in terms of the language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlang.ops.primitives import PRIMITIVES, Primitive, Ufunc
from dlang.python.lazy.arrays import Lazy, applied, lazy, unknown


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
        made = _of(ufunc, expression)(x)
        scaled: Lazy = UFUNCS[np.multiply](made, factor)
        return scaled

    return apply


def _logaddexp(x: Any, y: Any) -> Lazy:
    """The larger of the two is taken out, without a part in the derivative."""
    top = _of(np.logaddexp, "stop_gradient(maximum({0}, {1}))")(x, y)
    a, b = converted((x, y), (top.dtype, top.dtype))
    text = "where(isfinite({2}), {2} + log(exp({0} - {2}) + exp({1} - {2})), {2})"
    return applied(text, (a, b, top), top.shape, top.dtype)


def _hypot(x: Any, y: Any) -> Lazy:
    """The larger of the two is taken out, so that squares neither overflow nor vanish."""
    top = _of(np.hypot, "stop_gradient(maximum(abs({0}), abs({1})))")(x, y)
    a, b = converted((x, y), (top.dtype, top.dtype))
    scale = "where(bit_and({2} > 0.0, isfinite({2})), {2}, 1.0)"
    return applied(
        f"{scale} * sqrt(({{0}} / {scale}) ** 2 + ({{1}} / {scale}) ** 2)", (a, b, top), top.shape, top.dtype
    )


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
