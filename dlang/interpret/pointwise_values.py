"""Values of the pointwise evaluator: scalars, nodes of them, and arrays of them (NumPy arrays of objects)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlang.interpret.traced import ZERO, Dual, Tape, Traced, cast, primal
from dlang.ir import anf
from dlang.ir.anf import Array, Scalar, Token, Type
from dlang.ir.node import Node
from dlang.ir.values import NDArray, numpy_dtype


class NoDerivative(Exception):
    """A derivative would pass through something that this evaluator can't differentiate."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The value that `VjpForward` binds as the tape: the tape, and the traced arguments and results of the call."""

    tape: Tape
    args: tuple[Any, ...]
    results: tuple[Any, ...]


def inside(value: Any, type: Type) -> Any:
    """An array as an array of scalars."""
    if not isinstance(type, Array):
        return value
    return array(list(value.reshape(-1)), value.shape)


def outside(value: Any, type: Type) -> Any:
    """A value as NumPy has it, without derivatives."""
    if isinstance(type, Token):
        return None
    if isinstance(type, Array):
        out = np.empty(value.shape, numpy_dtype(type.dtype))
        for at in np.ndindex(value.shape):
            out[at] = primal(value[at])
        return out
    return mapped(primal, value)


def like(value: Any) -> Type:
    shape = np.shape(value)
    return Array("f64", tuple(map(anf.poly, shape))) if shape else Scalar("f64")


def array(items: Sequence[Any], shape: tuple[int, ...]) -> NDArray:
    out = np.empty(len(items), object)
    for k, x in enumerate(items):
        out[k] = x
    return out.reshape(shape)


def full(shape: tuple[int, ...], value: Any) -> NDArray:
    out = np.empty(shape, object)
    for at in np.ndindex(shape):
        out[at] = value
    return out


def each(function: Callable[[Any], Any], values: NDArray) -> NDArray:
    return array([function(x) for x in values.reshape(-1)], values.shape)


def scalars(value: Any) -> Iterator[Any]:
    """The scalars of a value, those in nodes included."""
    if isinstance(value, np.ndarray):
        for x in value.reshape(-1):
            yield from scalars(x)
    elif isinstance(value, Node):
        for x in value.fields:
            yield from scalars(x)
    else:
        yield value


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """A value of the same structure of other scalars."""
    if isinstance(value, np.ndarray):
        return each(lambda x: mapped(function, x), value)
    if isinstance(value, Node):
        return Node(value.tag, tuple([mapped(function, x) for x in value.fields]))
    return function(value)


def joined(function: Callable[[Any, Any], Any], value: Any, other: Any) -> Any:
    """As `_mapped`, with the floats of a value and of its tangent; other scalars stay."""
    if isinstance(value, np.ndarray):
        pairs = zip(value.reshape(-1), other.reshape(-1), strict=True)
        return array([joined(function, x, y) for x, y in pairs], value.shape)
    if isinstance(value, Node):
        pairs = zip(value.fields, other.fields, strict=True)
        return Node(value.tag, tuple([joined(function, x, y) for x, y in pairs]))
    return function(value, other) if is_float(value) else value


def is_float(x: Any) -> bool:
    if isinstance(x, Recording):
        raise NoDerivative("a function that a `vjp` gave")
    return isinstance(primal(x), np.floating)


def below(x: Any, tag: int) -> Any:
    return x.value if isinstance(x, Traced) and x.tag == tag else x


def tangent(x: Any, tag: int) -> Any:
    """The tangent of a scalar; what carries none is itself."""
    if isinstance(x, Dual) and x.tag == tag:
        return rounded(x.tangent, primal(x))
    return rounded(ZERO, x) if is_float(x) else x


def rounded(bar: Any, like: Any) -> Any:
    """A tangent in the dtype of its value."""
    kind = {np.float64: "f64", np.float32: "f32", np.float16: "f16"}[type(primal(like))]
    return bar if kind == "f64" else cast(bar, "f64", kind)
