"""Algebra of primitives, as a table: for each primitive what simpler thing it is, if any.

Only laws that hold for every value of the dtype: x * 0 is 0 for integers, not for floats; x + (-0.0) is x, x + 0.0 is
not. One exception: `zero_safe_mul(g, d)` for a finite d is g * d, whose zero may have another sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from dlang.ir.anf import FLOATS, INTEGERS, Atom, Cast, Lit, Op, Prim, Var
from dlang.ir.rounding import rounded
from dlang.ir.types import dtype_of
from dlang.ops.primitives import OPPOSITE, SWAPPED
from dlang.optimize.constants import fold, is_number, literal, same_literal

Simpler = Atom | Prim | None


class Context(Protocol):
    """Answers a rule's questions: how a variable is defined; and defines a variable before the primitive."""

    def definition(self, atom: Atom) -> Op | None: ...

    def emit(self, op: Prim, dtype: str) -> Var: ...


def simpler(ctx: Context, name: str, args: tuple[Atom, ...]) -> Simpler:
    """Returns what a primitive of these arguments equals; None if there is nothing simpler."""
    literals = tuple([a for a in args if isinstance(a, Lit)])
    if len(literals) == len(args):
        folded = fold(name, literals)
        if folded is not None:
            return folded
    rule = RULES.get(name)
    return None if rule is None else rule(ctx, *args)


def same(a: Atom, b: Atom) -> bool:
    """Tells whether two atoms are surely one value, bit for bit."""
    if isinstance(a, Lit) and isinstance(b, Lit):
        return same_literal(a, b)
    return a is b


def _is_float(x: Atom) -> bool:
    return dtype_of(x) in FLOATS


def _negated(ctx: Context, x: Atom) -> Atom | None:
    """y where x is -y."""
    match ctx.definition(x):
        case Prim("neg", (y,)):
            return y
        case _:
            return None


def _truth(x: Atom) -> bool | None:
    return bool(x.value) if isinstance(x, Lit) and x.dtype == "bool" else None


def _add(ctx: Context, x: Atom, y: Atom) -> Simpler:
    zero = -0.0 if _is_float(x) else 0
    if is_number(y, zero):
        return x
    if is_number(x, zero):
        return y
    if (n := _negated(ctx, y)) is not None:
        return Prim("sub", (x, n))
    if (n := _negated(ctx, x)) is not None:
        return Prim("sub", (y, n))
    return None


def _sub(ctx: Context, x: Atom, y: Atom) -> Simpler:
    if is_number(y, 0.0):
        return x
    if is_number(x, -0.0 if _is_float(x) else 0):
        return Prim("neg", (y,))
    if same(x, y) and not _is_float(x):
        return literal(0, dtype_of(x))
    if (n := _negated(ctx, y)) is not None:
        return Prim("add", (x, n))
    return None


def _mul(ctx: Context, x: Atom, y: Atom) -> Simpler:
    for a, b in ((x, y), (y, x)):
        if is_number(b, 1):
            return a
        if is_number(b, -1):
            return Prim("neg", (a,))
        if is_number(b, 0) and not _is_float(b):
            return b
    left, right = _negated(ctx, x), _negated(ctx, y)
    if left is not None and right is not None:
        return Prim("mul", (left, right))
    return None


def _div(ctx: Context, x: Atom, y: Atom) -> Simpler:
    if is_number(y, 1):
        return x
    if is_number(y, -1):
        return Prim("neg", (x,))
    if isinstance(y, Lit):
        reciprocal = _exact_reciprocal(float(y.value), y.dtype)
        if reciprocal is not None:
            return Prim("mul", (x, Lit(reciprocal, y.dtype)))
    match ctx.definition(y):
        case Prim("sqrt", (z,)) if is_number(x, 1) and dtype_of(z) in ("f64", "f32"):
            return Prim("rsqrt", (z,))
        case _:
            return None


def _exact_reciprocal(y: float, dtype: str) -> float | None:
    """1/y where y is a power of two and neither number is subnormal or infinite."""
    if not math.isfinite(y) or abs(math.frexp(y)[0]) != 0.5:
        return None
    smallest = {"f64": 2.0**-1022, "f16": 2.0**-14}.get(dtype, 2.0**-126)
    r = 1.0 / y
    return r if abs(r) >= smallest and abs(y) >= smallest and math.isfinite(rounded(r, dtype)) else None


def _guard(ctx: Context, g: Atom, d: Atom) -> Simpler:
    if _finite(ctx, d):
        return Prim("mul", (g, d))
    if isinstance(g, Lit) and not isinstance(g.value, str):
        return g if g.value == 0 else Prim("mul", (g, d))
    return None


def _guard_both(ctx: Context, x: Atom, y: Atom) -> Simpler:
    for g, d in ((x, y), (y, x)):
        if _finite(ctx, d):
            return Prim("zero_safe_mul", (d, g))
    return None


def _finite(ctx: Context, d: Atom) -> bool:
    if isinstance(d, Lit):
        return isinstance(d.value, float) and math.isfinite(d.value)
    match ctx.definition(d):
        case Cast(dtype="f64" | "f32", arg=arg):
            return dtype_of(arg) in INTEGERS
        case Prim("select", (_, a, b)):
            return _finite(ctx, a) and _finite(ctx, b)
        case Prim("neg", (a,)):
            return _finite(ctx, a)
        case _:
            return False


def _neg(ctx: Context, x: Atom) -> Simpler:
    match ctx.definition(x):
        case Prim("neg", (y,)):
            return y
        case Prim("sub", (a, b)) if not _is_float(x):
            return Prim("sub", (b, a))
        case _:
            return None


def _abs(ctx: Context, x: Atom) -> Simpler:
    match ctx.definition(x):
        case Prim("abs"):
            return x
        case Prim("neg", (y,)):
            return Prim("abs", (y,))
        case _:
            return None


def _pow(ctx: Context, x: Atom, y: Atom) -> Simpler:
    if not isinstance(y, Lit):
        return None
    dtype = y.dtype
    if dtype in INTEGERS:
        exponent = int(y.value)
        return _power(ctx, x, exponent, dtype) if 0 <= exponent <= 8 else None
    match y.value:
        case 0.0:
            return literal(1.0, dtype)
        case 1.0:
            return x
        case 2.0:
            return Prim("mul", (x, x))
        case -1.0:
            return Prim("div", (literal(1.0, dtype), x))
        case 0.5:
            # pow(-0.0, 0.5) is 0.0 and pow(-inf, 0.5) is inf; sqrt gives -0.0 and NaN.
            root = ctx.emit(Prim("sqrt", (ctx.emit(Prim("add", (x, literal(0.0, dtype))), dtype),)), dtype)
            low = ctx.emit(Prim("eq", (x, literal(-math.inf, dtype))), "bool")
            return Prim("select", (low, literal(math.inf, dtype), root))
        case _:
            return None


def _powi(ctx: Context, x: Atom, k: Atom) -> Simpler:
    if not isinstance(k, Lit) or isinstance(k.value, str):
        return None
    n, dtype = int(k.value), dtype_of(x)
    if 0 <= n <= 8:
        return _power(ctx, x, n, dtype)
    if -2 <= n < 0 and dtype in FLOATS:
        below = x if n == -1 else ctx.emit(Prim("mul", (x, x)), dtype)
        return Prim("div", (literal(1.0, dtype), below))
    return None


def _power(ctx: Context, x: Atom, n: int, dtype: str) -> Simpler:
    """x to the n >= 0 by squaring."""
    if n == 0:
        return literal(1, dtype)
    if n == 1:
        return x
    half = _power(ctx, x, n // 2, dtype)
    square = half if not isinstance(half, Prim) else ctx.emit(half, dtype)
    assert square is not None
    if n % 2 == 0:
        return Prim("mul", (square, square))
    return Prim("mul", (ctx.emit(Prim("mul", (square, square)), dtype), x))


def _select(ctx: Context, c: Atom, a: Atom, b: Atom) -> Simpler:
    known = _truth(c)
    if known is not None:
        return a if known else b
    if same(a, b):
        return a
    if _truth(a) is True and _truth(b) is False:
        return c
    if _truth(a) is False and _truth(b) is True:
        return Prim("not", (c,))
    match ctx.definition(c):
        case Prim("not", (d,)):
            return Prim("select", (d, b, a))
        case _:
            return None


def _and(ctx: Context, x: Atom, y: Atom) -> Simpler:
    for a, b in ((x, y), (y, x)):
        known = _truth(b)
        if known is not None:
            return a if known else Lit(False, "bool")
    return x if x is y else None


def _or(ctx: Context, x: Atom, y: Atom) -> Simpler:
    for a, b in ((x, y), (y, x)):
        known = _truth(b)
        if known is not None:
            return Lit(True, "bool") if known else a
    return x if x is y else None


def _not(ctx: Context, x: Atom) -> Simpler:
    match ctx.definition(x):
        case Prim("not", (y,)):
            return y
        case Prim("eq" | "ne" as name, args):
            return Prim(OPPOSITE[name], args)
        case Prim(name, args) if name in SWAPPED and dtype_of(args[0]) in INTEGERS:
            return Prim(OPPOSITE[name], args)
        case _:
            return None


def _compare(equal: bool) -> Callable[..., Simpler]:
    def rule(ctx: Context, x: Atom, y: Atom) -> Simpler:
        return Lit(equal, "bool") if x is y and not _is_float(x) else None

    return rule


def _eq(ctx: Context, x: Atom, y: Atom) -> Simpler:
    for a, b in ((x, y), (y, x)):
        known = _truth(b)
        if known is not None:
            return a if known else Prim("not", (a,))
    return _compare(True)(ctx, x, y)


def _ne(ctx: Context, x: Atom, y: Atom) -> Simpler:
    for a, b in ((x, y), (y, x)):
        known = _truth(b)
        if known is not None:
            return Prim("not", (a,)) if known else a
    return _compare(False)(ctx, x, y)


def _idempotent(ctx: Context, x: Atom, y: Atom) -> Simpler:
    return x if x is y else None


def _shift(ctx: Context, x: Atom, y: Atom) -> Simpler:
    return x if is_number(y, 0) else None


def _floordiv(ctx: Context, x: Atom, y: Atom) -> Simpler:
    return x if is_number(y, 1) and not _is_float(x) else None


def _mod(ctx: Context, x: Atom, y: Atom) -> Simpler:
    return literal(0, dtype_of(x)) if is_number(y, 1) and not _is_float(x) else None


RULES: dict[str, Callable[..., Simpler]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "zero_safe_mul": _guard,
    "zero_safe_mul_both": _guard_both,
    "floordiv": _floordiv,
    "mod": _mod,
    "neg": _neg,
    "abs": _abs,
    "pow": _pow,
    "powi": _powi,
    "maximum": _idempotent,
    "minimum": _idempotent,
    "eq": _eq,
    "ne": _ne,
    "lt": _compare(False),
    "le": _compare(True),
    "gt": _compare(False),
    "ge": _compare(True),
    "select": _select,
    "and": _and,
    "or": _or,
    "not": _not,
    "bit_and": _idempotent,
    "bit_or": _idempotent,
    "shift_left": _shift,
    "shift_right": _shift,
}
