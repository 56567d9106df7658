"""Algebra of primitives: what simpler thing each is of some operands, if any. Units and equal operands are in its row.

Only laws that hold for every value of the dtype: x * 0 is 0 for integers, not for floats; x + (-0.0) is x, x + 0.0 is
not. One exception: `zero_safe_mul(g, d)` for a finite d is g * d, whose zero may have another sign.
"""

from __future__ import annotations

import math
from typing import Protocol

from dlang.ir.anf import FLOATS, INTEGERS, Atom, Cast, Lit, Op, Prim, Var
from dlang.ir.rounding import rounded
from dlang.ir.types import dtype_of
from dlang.ops.primitives import OPPOSITE, PRIMITIVES, SWAPPED, Primitive
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
    if len(args) == 2:
        known = _from_row(PRIMITIVES[name], *args)
        if known is not None:
            return known
    match name, args:
        case "add", (x, y):
            return _add(ctx, x, y)
        case "sub", (x, y):
            return _sub(ctx, x, y)
        case "mul", (x, y):
            return _mul(ctx, x, y)
        case "div", (x, y):
            return _div(ctx, x, y)
        case "zero_safe_mul", (g, d):
            return _guard(ctx, g, d)
        case "zero_safe_mul_both", (x, y):
            return _guard_both(ctx, x, y)
        case "floordiv", (x, y):
            return x if is_number(y, 1) and not _is_float(x) else None
        case "mod", (x, y):
            return literal(0, dtype_of(x)) if is_number(y, 1) and not _is_float(x) else None
        case "neg", (x,):
            return _neg(ctx, x)
        case "abs", (x,):
            return _abs(ctx, x)
        case "pow", (x, y):
            return _pow(ctx, x, y)
        case "powi", (x, k):
            return _powi(ctx, x, k)
        case "select", (c, a, b):
            return _select(ctx, c, a, b)
        case "and" | "or", (x, y):
            return next((a for a in args if _truth(a) is (name == "or")), None)
        case "eq" | "ne", (x, y):
            return _opposite(name == "ne", x, y)
        case "not", (x,):
            return _not(ctx, x)
        case _:
            return None


def _from_row(p: Primitive, x: Atom, y: Atom) -> Simpler:
    """Simplifies by a primitive's row where one of two operands is its unit, or both are one variable."""
    if p.unit is not None:
        if _is_unit(y, p.unit):
            return x
        if p.commutative and _is_unit(x, p.unit):
            return y
    if p.alike is None or x is not y:
        return None
    if p.alike == "operand":
        return x
    if _is_float(x):
        return None
    return Lit(p.alike, "bool") if isinstance(p.alike, bool) else literal(p.alike, dtype_of(x))


def _is_unit(x: Atom, unit: float | bool) -> bool:
    return _truth(x) is unit if isinstance(unit, bool) else is_number(x, unit)


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
    if (n := _negated(ctx, y)) is not None:
        return Prim("sub", (x, n))
    if (n := _negated(ctx, x)) is not None:
        return Prim("sub", (y, n))
    return None


def _sub(ctx: Context, x: Atom, y: Atom) -> Simpler:
    if is_number(x, -0.0 if _is_float(x) else 0):
        return Prim("neg", (y,))
    if (n := _negated(ctx, y)) is not None:
        return Prim("add", (x, n))
    return None


def _mul(ctx: Context, x: Atom, y: Atom) -> Simpler:
    for a, b in ((x, y), (y, x)):
        if is_number(b, -1):
            return Prim("neg", (a,))
        if is_number(b, 0) and not _is_float(b):
            return b
    left, right = _negated(ctx, x), _negated(ctx, y)
    if left is not None and right is not None:
        return Prim("mul", (left, right))
    return None


def _div(ctx: Context, x: Atom, y: Atom) -> Simpler:
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


def _opposite(equal: bool, x: Atom, y: Atom) -> Simpler:
    """A comparison with the truth value that makes it the opposite of the other operand."""
    for a, b in ((x, y), (y, x)):
        if _truth(b) is equal:
            return Prim("not", (a,))
    return None
