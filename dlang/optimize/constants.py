"""Primitives and conversions of literals, as the program would compute them, bit for bit (`ops/folding.py`)."""

from __future__ import annotations

import math

from dlang.inequalities import SUM
from dlang.ir.anf import FLOATS, INTEGERS, UNSIGNED, Atom, Cast, IndexExpr, Lit, Op, Prim
from dlang.ops.dtypes import DTYPES, rounded
from dlang.ops.folding import Rule, Value
from dlang.ops.primitives import PRIMITIVES, result_dtype


def bits(dtype: str) -> int:
    """The width of a number's dtype."""
    return DTYPES[dtype].bits


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
    """Tells whether an atom is the literal number `value`, with the sign of a zero."""
    if not isinstance(atom, Lit) or isinstance(atom.value, bool | str) or atom.value != value:
        return False
    return isinstance(atom.value, int) or math.copysign(1.0, atom.value) == math.copysign(1.0, value)


def evaluated(op: Op) -> Atom | None:
    """The literal, or the operand, that a scalar operation surely is, if its operands say so by themselves."""
    match op:
        case Prim("select", (Lit(value), a, b)):
            return a if value else b
        case Prim(name, args):
            literals = tuple([a for a in args if isinstance(a, Lit)])
            return fold(name, literals) if len(literals) == len(args) else None
        case Cast(dtype, Lit() as arg):
            return convert(arg, dtype)
        case IndexExpr(size) if (number := size.constant) is not None and -SUM < number < SUM:
            return Lit(int(number), "i64")
        case _:
            return None


def fold(name: str, args: tuple[Lit, ...]) -> Lit | None:
    """The value of a primitive of literals, or None where only the running program computes it."""
    dtypes = tuple(a.dtype for a in args)
    values = [a.value for a in args]
    if name == "select":
        return args[1] if values[0] else args[2]
    dtype = dtypes[0]
    result = result_dtype(name, dtypes)
    rules = PRIMITIVES[name].fold
    real = dtype in FLOATS
    rule = rules.real if real else rules.whole if dtype in INTEGERS else rules.truth
    if rule is None or (real and rules.widest and dtype != "f64"):
        return None
    value = _with_ieee(rule, values) if real else rule(*values)
    if value is None:
        return None
    return literal(value, result)


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


def _with_ieee(rule: Rule, values: list[Value]) -> Value | None:
    try:
        return rule(*values)
    except (OverflowError, ZeroDivisionError, ValueError):
        return None
