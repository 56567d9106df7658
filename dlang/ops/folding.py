"""How primitives are computed of literals, as the program would compute them, bit for bit.

Only what IEEE 754 rounds correctly is computed here, so a number never depends on whether it was folded: `exp(1.0)`
stays a call, `exp(0.0)` is 1. In a dtype below f64 the f64 result, rounded, is the result: 53 bits are more than twice
24 and two.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

Value = int | float | bool | str
Rule = Callable[..., Value | None]


@dataclass(frozen=True, slots=True)
class Fold:
    """The functions of numbers of floats, integers and the rest; None, or giving None, where only the program computes.

    widest: of floats only f64.
    """

    real: Rule | None = None
    whole: Rule | None = None
    truth: Rule | None = None
    widest: bool = False


NOT_FOLDED = Fold()


def comparison(name: str) -> Fold:
    """A comparison of values of any dtype."""
    rule: Rule = getattr(operator, name)
    return Fold(rule, rule, rule)


def divide(x: float, y: float) -> float | None:
    if y == 0:
        return math.nan if x != x or x == 0 else math.copysign(math.inf, x) * math.copysign(1.0, y)
    return x / y


def finite(rule: Callable[[float, float], float]) -> Rule:
    """A division that is folded where it is one of finite numbers."""
    return lambda x, y: rule(x, y) if y != 0 and math.isfinite(x) and math.isfinite(y) else None


def extremum(choose: Callable[[float, float], float]) -> Rule:
    """The larger or smaller of two floats, unless they are zeros of different signs."""

    def rule(x: float, y: float) -> float | None:
        if x != x or y != y:
            return math.nan
        return choose(x, y) if x != y else x if math.copysign(1.0, x) == math.copysign(1.0, y) else None

    return rule


def whole(rule: Callable[[float], float]) -> Fold:
    """A rounding to whole numbers."""
    return Fold(lambda x: x if not math.isfinite(x) else math.copysign(float(rule(x)), x))


def sign(x: float) -> float:
    return x if x != x else math.copysign(1.0, x) if x else 0.0


def root(x: float) -> float:
    return x if x == 0 else math.sqrt(x) if x >= 0 else math.nan


def whole_power(x: int, y: int) -> int | None:
    return pow(x, y, 1 << 64) if y >= 0 else None


def at(point: float, value: float) -> Fold:
    """A function that is exact at one point."""
    return Fold(lambda x: value if x == point and math.copysign(1.0, x) == math.copysign(1.0, point) else None)
