"""Primitives and conversions of literals, as the program would compute them, bit for bit.

Only what IEEE 754 rounds correctly is computed here, so a number never depends on whether it was folded: `exp(1.0)`
stays a call, `exp(0.0)` is 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dlang.ir.anf import FLOATS, INTEGERS, UNSIGNED, Lit
from dlang.ir.rounding import rounded
from dlang.ops.primitives import result_dtype

Value = int | float | bool | str


def bits(dtype: str) -> int:
    """The width of a number's dtype."""
    return 16 if dtype == "bf16" else int(dtype[1:])


def wrapped(value: int, dtype: str) -> int:
    """An integer modulo 2 to the width, in the range of the dtype."""
    width = bits(dtype)
    value &= (1 << width) - 1
    return value - (1 << width) if dtype not in UNSIGNED and value >> (width - 1) else value


def literal(value: Value, dtype: str) -> Lit:
    """A literal of the dtype: an integer wrapped, a float rounded to it."""
    if dtype in FLOATS:
        return Lit(rounded(float(value), dtype), dtype)
    if dtype in INTEGERS:
        return Lit(wrapped(int(value), dtype), dtype)
    return Lit(bool(value) if dtype == "bool" else value, dtype)


def same_literal(a: Lit, b: Lit) -> bool:
    """Equality of values as bits: -0.0 is not 0.0, a NaN is itself."""
    if a.dtype != b.dtype:
        return False
    if isinstance(a.value, float) and isinstance(b.value, float):
        if a.value != a.value or b.value != b.value:
            return a.value != a.value and b.value != b.value
        return a.value == b.value and math.copysign(1.0, a.value) == math.copysign(1.0, b.value)
    return a.value == b.value


def is_number(atom: object, value: float) -> bool:
    """Whether an atom is the literal number `value`, with the sign of a zero."""
    if not isinstance(atom, Lit) or isinstance(atom.value, bool | str) or atom.value != value:
        return False
    return isinstance(atom.value, int) or math.copysign(1.0, atom.value) == math.copysign(1.0, value)


def fold(name: str, args: tuple[Lit, ...]) -> Lit | None:
    """The value of a primitive of literals, or None where only the running program computes it."""
    dtypes = tuple(a.dtype for a in args)
    values = [a.value for a in args]
    if name == "select":
        return args[1] if values[0] else args[2]
    dtype = dtypes[0]
    result = result_dtype(name, dtypes)
    rules = _FLOAT if dtype in FLOATS else _INTEGER if dtype in INTEGERS else _OTHER
    rule = rules.get(name) or _COMPARISON.get(name)
    if rule is None:
        return None
    found = rule(*values) if rules is not _FLOAT else _with_ieee(rule, values)
    if found is None or (name in _F64_ONLY and dtype != "f64"):
        return None
    return literal(found, result)


def convert(arg: Lit, dtype: str) -> Lit | None:
    """The value of `Cast`: floats truncate and saturate, integers wrap."""
    value = arg.value
    if isinstance(value, str) or dtype == "str":
        return arg if arg.dtype == dtype else None
    if dtype == "bool":
        return Lit(bool(value), "bool")
    if dtype in FLOATS:
        if isinstance(value, int) and abs(value) >> 53 and dtype != "f64":
            return None  # an int of more than 53 bits would be rounded twice
        return literal(float(value), dtype)
    if isinstance(value, float):
        low, high = (
            (0, (1 << bits(dtype)) - 1) if dtype in UNSIGNED else (-(1 << bits(dtype) - 1), (1 << bits(dtype) - 1) - 1)
        )
        if value != value:
            return Lit(0, dtype)
        return Lit(high if value >= high else low if value <= low else int(value), dtype)
    return literal(int(value), dtype)


def _with_ieee(rule: Callable[..., Value | None], values: list[Value]) -> Value | None:
    try:
        return rule(*values)
    except (OverflowError, ZeroDivisionError, ValueError):
        return None


def _divide(x: float, y: float) -> float | None:
    if y == 0:
        return math.nan if x != x or x == 0 else math.copysign(math.inf, x) * math.copysign(1.0, y)
    return x / y


def _finite(rule: Callable[[float, float], float]) -> Callable[[float, float], float | None]:
    return lambda x, y: rule(x, y) if y != 0 and math.isfinite(x) and math.isfinite(y) else None


def _extremum(choose: Callable[[float, float], float]) -> Callable[[float, float], float | None]:
    def rule(x: float, y: float) -> float | None:
        if x != x or y != y:
            return math.nan
        return choose(x, y) if x != y else x if math.copysign(1.0, x) == math.copysign(1.0, y) else None

    return rule


def _whole(rule: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: x if not math.isfinite(x) else math.copysign(float(rule(x)), x)


def _sign(x: float) -> float:
    return x if x != x else math.copysign(1.0, x) if x else 0.0


def _at(point: float, value: float) -> Callable[[float], float | None]:
    return lambda x: value if x == point and math.copysign(1.0, x) == math.copysign(1.0, point) else None


_COMPARISON: dict[str, Callable[..., Value | None]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}

# In a dtype below f64 the f64 result, rounded, is the result: 53 bits are more than twice 24 and two.
_FLOAT: dict[str, Callable[..., Value | None]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": _divide,
    "zero_safe_mul": lambda x, y: x if x == 0 else x * y,
    "zero_safe_mul_both": lambda x, y: x if x == 0 else y if y == 0 else x * y,
    "neg": lambda x: -x,
    "abs": abs,
    "sign": _sign,
    "maximum": _extremum(max),
    "minimum": _extremum(min),
    "mod": _finite(lambda x, y: x % y),
    "floordiv": _finite(lambda x, y: x // y),
    "sqrt": lambda x: x if x == 0 else math.sqrt(x) if x >= 0 else math.nan,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "round": _whole(round),
    "isnan": lambda x: x != x,
    "isfinite": math.isfinite,
    "exp": _at(0.0, 1.0),
    "expm1": _at(0.0, 0.0),
    "log": _at(1.0, 0.0),
    "log1p": _at(0.0, 0.0),
    "sin": _at(0.0, 0.0),
    "cos": _at(0.0, 1.0),
    "tanh": _at(0.0, 0.0),
    "pow": lambda x, y: 1.0 if y == 0 else x if y == 1 else None,
    "powi": lambda x, k: 1.0 if k == 0 else x if k == 1 else None,
}

_F64_ONLY = ("floordiv",)

_INTEGER: dict[str, Callable[..., Value | None]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "neg": lambda x: -x,
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "floordiv": lambda x, y: x // y if y else None,
    "mod": lambda x, y: x % y if y else None,
    "pow": lambda x, y: pow(x, y, 1 << 64) if y >= 0 else None,
    "powi": lambda x, y: pow(x, y, 1 << 64) if y >= 0 else None,
    "maximum": max,
    "minimum": min,
    "bit_and": lambda x, y: x & y,
    "bit_or": lambda x, y: x | y,
    "bit_xor": lambda x, y: x ^ y,
    "bit_not": lambda x: ~x,
    "shift_left": lambda x, y: x << y if 0 <= y < 8 else None,
    "shift_right": lambda x, y: x >> y if 0 <= y < 8 else None,
}

_OTHER: dict[str, Callable[..., Value | None]] = {
    "and": lambda x, y: x and y,
    "or": lambda x, y: x or y,
    "not": lambda x: not x,
    "bit_and": lambda x, y: x and y,
    "bit_or": lambda x, y: x or y,
    "bit_xor": lambda x, y: x != y,
    "bit_not": lambda x: not x,
}
