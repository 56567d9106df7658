"""Scalars that carry derivatives: tagged dual numbers, and values recorded on a tape.

This is the reference for derivatives. It shares nothing with `ad/`: every derivative in progress has a tag of its own,
and a scalar under it is a `Dual` (forward) or `Recorded` (reverse) of that tag, whose value may belong to a derivative
further out. An operation looks at the innermost tag among its arguments, does itself on the values below, and adds the
rule for that tag; the rule is arithmetic on such scalars again, so derivatives nest to any order and can't be confused.

Tangents and cotangents are f64 whatever the dtype of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import pi, sqrt
from typing import Any

import numpy as np

from dlang.ir.anf import FLOATS
from dlang.ir.values import FUNCTIONS, convert, exact
from dlang.ops.primitives import PRIMITIVES

ZERO, ONE = np.float64(0.0), np.float64(1.0)


class NoDerivative(Exception):
    """A derivative would pass through something that the reference can't differentiate."""


class Traced:
    """A scalar under a derivative. Operators are those of f64."""

    __slots__ = ("tag", "value")
    __array_ufunc__ = None  # so that a NumPy scalar on the left leaves the operation to this class

    def __init__(self, tag: int, value: Any) -> None:
        self.tag = tag
        self.value = value

    def __add__(self, other: Any) -> Any:
        return f64("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return f64("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return f64("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return f64("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return f64("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return f64("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return f64("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return f64("div", other, self)

    def __neg__(self) -> Any:
        return f64("neg", self)


class Dual(Traced):
    """A value and its tangent."""

    __slots__ = ("tangent",)

    def __init__(self, tag: int, value: Any, tangent: Any) -> None:
        super().__init__(tag, value)
        self.tangent = tangent


class Recorded(Traced):
    """A value and its place on a tape."""

    __slots__ = ("place", "tape")

    def __init__(self, tag: int, value: Any, tape: Tape, place: int) -> None:
        super().__init__(tag, value)
        self.tape = tape
        self.place = place


@dataclass(slots=True)
class Tape:
    """For each recorded value, where its arguments are, the local derivative in each, and what a product with it is."""

    tag: int
    entries: list[list[tuple[int, Any, str]]]

    def record(self, value: Any, sources: list[tuple[int, Any, str]]) -> Recorded:
        self.entries.append(sources)
        return Recorded(self.tag, value, self, len(self.entries) - 1)

    def cotangents(self, seeds: Sequence[tuple[Any, Any]]) -> dict[int, Any]:
        """The cotangent at each place, from (value, cotangent) of the results. What has none is not in it."""
        bars: dict[int, Any] = {}
        for value, bar in seeds:
            if isinstance(value, Recorded) and value.tag == self.tag:
                bars[value.place] = bars.get(value.place, ZERO) + bar
        for place in range(len(self.entries) - 1, -1, -1):
            bar = bars.get(place)
            if bar is not None:
                for source, slope, times in self.entries[place]:
                    bars[source] = bars.get(source, ZERO) + f64(times, bar, slope)
        return bars


@dataclass(frozen=True, slots=True)
class Recording:
    """The value that `VjpForward` binds as the tape: the tape, and the traced arguments and results of the call."""

    tape: Tape
    args: tuple[Any, ...]
    results: tuple[Any, ...]


# ---- operations ------------------------------------------------------------------------------------------------------
def apply(name: str, args: Sequence[Any], dtype: str) -> Any:
    """A primitive on scalars, traced or not, with a result of a dtype."""
    tag = 0
    for a in args:
        if isinstance(a, Traced) and a.tag > tag:
            tag = a.tag
    if not tag:
        return exact(FUNCTIONS[name](*args), dtype)
    if name == "select":
        return args[1] if args[0] else args[2]
    below = [a.value if isinstance(a, Traced) and a.tag == tag else a for a in args]
    result = apply(name, below, dtype)
    slopes = SLOPES.get(name)
    if slopes is None or dtype not in FLOATS:
        return result
    wide = [*map(widened, below), widened(result)]
    known = [
        (a, slope(*wide), product_with(name, k))
        for k, (a, slope) in enumerate(zip(args, slopes, strict=True))
        if slope is not None and isinstance(a, Traced) and a.tag == tag
    ]
    return followed(result, [(a, d, times) for a, d, times in known if d is not None])


def product_with(name: str, position: int) -> str:
    """The product of a cotangent with the local derivative of a primitive in the argument at a position."""
    second = name == "zero_safe_mul" and position == 1
    return "zero_safe_mul_both" if second or name == "zero_safe_mul_both" else "zero_safe_mul"


def followed(result: Any, terms: Sequence[tuple[Any, Any, str]]) -> Any:
    """A result that depends on traced scalars of one tag with these local derivatives, and what a product with each is.

    It is `zero_safe_mul`, 0 where the cotangent is; or `zero_safe_mul_both`, where the local derivative is a cotangent
    too.
    """
    if not terms:
        return result
    first = terms[0][0]
    if isinstance(first, Recorded):
        return first.tape.record(result, [(a.place, slope, times) for a, slope, times in terms])
    tangent: Any = ZERO
    for a, slope, times in terms:
        tangent = tangent + f64(times, a.tangent, slope)
    return Dual(first.tag, result, tangent)


def f64(name: str, *args: Any) -> Any:
    """A primitive of f64."""
    return apply(name, args, "f64")


def cast(x: Any, source: str, target: str) -> Any:
    """Conversion of a scalar: between floats the derivative passes, through anything else it ends."""
    if not isinstance(x, Traced):
        return convert(x, source, target)
    if source in FLOATS and target in FLOATS:
        return over(x, cast(x.value, source, target))
    return cast(x.value, source, target)


def over(x: Traced, value: Any) -> Traced:
    """Another value with the derivative of x."""
    if isinstance(x, Dual):
        return Dual(x.tag, value, x.tangent)
    assert isinstance(x, Recorded)
    return Recorded(x.tag, value, x.tape, x.place)


def widened(x: Any) -> Any:
    """A number as f64."""
    return over(x, widened(x.value)) if isinstance(x, Traced) else np.float64(x)


def primal(x: Any) -> Any:
    """The number itself, without derivatives of any tag."""
    while isinstance(x, Traced):
        x = x.value
    return x


def is_float(x: Any) -> bool:
    if isinstance(x, Recording):
        raise NoDerivative("a function that a `vjp` gave")
    return isinstance(primal(x), np.floating)


def below(x: Any, tag: int) -> Any:
    """A scalar without the derivatives of a tag."""
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


# ---- the derivatives of primitives, in f64 ---------------------------------------------------------------------------
def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    total: Any = ZERO
    for c in reversed(coefficients):
        total = total * x + np.float64(c)
    return total


def trigamma(x: Any) -> Any:
    """The second derivative of log Γ: by reflection and recurrence to arguments above 15, there asymptotically."""
    if primal(x) < 0.5:
        s = f64("sin", np.float64(pi) * x)
        return np.float64(pi * pi) / (s * s) - trigamma(ONE - x)
    total: Any = ZERO
    while primal(x) < 15.0:
        total = total + ONE / (x * x)
        x = x + ONE
    inverse = ONE / x
    tail = _polynomial([1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66], inverse * inverse)
    return total + inverse + inverse * inverse / np.float64(2.0) + tail * inverse * inverse * inverse


def _bell(x: Any) -> Any:
    return np.float64(2 / sqrt(pi)) * f64("exp", -(x * x))


Slope = Callable[..., Any]


def _slope(text: str, arity: int) -> Slope:
    """A text of the table as a function of the arguments and the result."""
    function: Slope = eval(f"lambda {', '.join('xyz'[:arity])}, r: {text}", _NAMES)
    return function


_NAMES = {
    **{name: partial(f64, name) for name in PRIMITIVES},
    "ZERO": ZERO, "HALF": np.float64(0.5), "ONE": ONE, "primal": primal, "bell": _bell, "trigamma": trigamma,
}  # fmt: skip
SLOPES: Mapping[str, tuple[Slope | None, ...]] = {
    p.name: tuple(None if text is None else _slope(text, p.arity) for text in p.slope)
    for p in PRIMITIVES.values()
    if any(p.slope)
}
