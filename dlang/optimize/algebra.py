"""Algebra of scalars: what simpler thing an operation is of some operands, if any. The row of a primitive has what it
is of units and of equal operands.

Only laws that hold for every value of the dtype: x * 0 is 0 for integers, not for floats; x + (-0.0) is x, x + 0.0 is
not. One exception: `zero_safe_mul(g, d)` for a finite d is g * d, whose zero may have another sign.

Primitives and conversions of literals are computed as the program would, bit for bit (`ops/folding.py`).
"""

from __future__ import annotations

import math

from dlang.inequalities import SUM
from dlang.ir.anf import FLOATS, INTEGERS, UNSIGNED, Atom, Cast, IndexExpr, Lit, Op, Prim
from dlang.ir.rewriting import Rewriter
from dlang.ir.types import BOOL, dtype_of
from dlang.ops.dtypes import DTYPES, rounded
from dlang.ops.folding import Rule, Value
from dlang.ops.primitives import OPPOSITE, PRIMITIVES, SWAPPED, Primitive, result_dtype


# ---- literals --------------------------------------------------------------------------------------------------------
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


Simpler = Atom | Prim | None


def simpler(walk: Rewriter, op: Op) -> Simpler:
    """Returns what a scalar operation equals; None if there is nothing simpler."""
    known = evaluated(op)
    if known is not None:
        return known
    match op:
        case Prim(name, args):
            return _simpler(walk, name, args)
        case Cast(dtype, arg):
            return arg if dtype_of(arg) == dtype else None
        case IndexExpr(size):
            return size.atom
        case _:
            return None


def _simpler(walk: Rewriter, name: str, args: tuple[Atom, ...]) -> Simpler:
    if len(args) == 2:
        known = _from_row(PRIMITIVES[name], *args)
        if known is not None:
            return known
    match name, args:
        case "add", (x, y):
            return _add(walk, x, y)
        case "sub", (x, y):
            return _sub(walk, x, y)
        case "mul", (x, y):
            return _mul(walk, x, y)
        case "div", (x, y):
            return _div(walk, x, y)
        case "zero_safe_mul", (g, d):
            return _guard(walk, g, d)
        case "zero_safe_mul_both", (x, y):
            return _guard_both(walk, x, y)
        case "floordiv", (x, y):
            return x if is_number(y, 1) and not _is_float(x) else None
        case "mod", (x, y):
            return literal(0, dtype_of(x)) if is_number(y, 1) and not _is_float(x) else None
        case "neg", (x,):
            return _neg(walk, x)
        case "abs", (x,):
            return _abs(walk, x)
        case "pow", (x, y):
            return _pow(walk, x, y)
        case "powi", (x, k):
            return _powi(walk, x, k)
        case "select", (c, a, b):
            return _select(walk, c, a, b)
        case "and" | "or", (x, y):
            return next((a for a in args if _truth(a) is (name == "or")), None)
        case "eq" | "ne", (x, y):
            return _opposite(name == "ne", x, y)
        case "lt" | "gt", (x, y) if same(x, y):  # of NaN, too
            return Lit(False, "bool")
        case "not", (x,):
            return _not(walk, x)
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


def _negated(walk: Rewriter, x: Atom) -> Atom | None:
    """y where x is -y."""
    match walk.definition(x):
        case Prim("neg", (y,)):
            return y
        case _:
            return None


def _truth(x: Atom) -> bool | None:
    return bool(x.value) if isinstance(x, Lit) and x.dtype == "bool" else None


def _add(walk: Rewriter, x: Atom, y: Atom) -> Simpler:
    if (n := _negated(walk, y)) is not None:
        return Prim("sub", (x, n))
    if (n := _negated(walk, x)) is not None:
        return Prim("sub", (y, n))
    return None


def _sub(walk: Rewriter, x: Atom, y: Atom) -> Simpler:
    if is_number(x, -0.0 if _is_float(x) else 0):
        return Prim("neg", (y,))
    if (n := _negated(walk, y)) is not None:
        return Prim("add", (x, n))
    return None


def _mul(walk: Rewriter, x: Atom, y: Atom) -> Simpler:
    for a, b in ((x, y), (y, x)):
        if is_number(b, -1):
            return Prim("neg", (a,))
        if is_number(b, 0) and not _is_float(b):
            return b
    left, right = _negated(walk, x), _negated(walk, y)
    if left is not None and right is not None:
        return Prim("mul", (left, right))
    return None


def _div(walk: Rewriter, x: Atom, y: Atom) -> Simpler:
    if is_number(y, -1):
        return Prim("neg", (x,))
    if isinstance(y, Lit):
        reciprocal = _exact_reciprocal(float(y.value), y.dtype)
        if reciprocal is not None:
            return Prim("mul", (x, Lit(reciprocal, y.dtype)))
    match walk.definition(y):
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


def _guard(walk: Rewriter, g: Atom, d: Atom) -> Simpler:
    if _finite(walk, d):
        return Prim("mul", (g, d))
    if isinstance(g, Lit) and not isinstance(g.value, str):
        return g if g.value == 0 else Prim("mul", (g, d))
    return None


def _guard_both(walk: Rewriter, x: Atom, y: Atom) -> Simpler:
    for g, d in ((x, y), (y, x)):
        if _finite(walk, d):
            return Prim("zero_safe_mul", (d, g))
    return None


def _finite(walk: Rewriter, d: Atom) -> bool:
    if isinstance(d, Lit):
        return isinstance(d.value, float) and math.isfinite(d.value)
    match walk.definition(d):
        case Cast(dtype="f64" | "f32", arg=arg):
            return dtype_of(arg) in INTEGERS
        case Prim("select", (_, a, b)):
            return _finite(walk, a) and _finite(walk, b)
        case Prim("neg", (a,)):
            return _finite(walk, a)
        case _:
            return False


def _neg(walk: Rewriter, x: Atom) -> Simpler:
    match walk.definition(x):
        case Prim("neg", (y,)):
            return y
        case Prim("sub", (a, b)) if not _is_float(x):
            return Prim("sub", (b, a))
        case _:
            return None


def _abs(walk: Rewriter, x: Atom) -> Simpler:
    match walk.definition(x):
        case Prim("abs"):
            return x
        case Prim("neg", (y,)):
            return Prim("abs", (y,))
        case _:
            return None


def _pow(walk: Rewriter, x: Atom, y: Atom) -> Simpler:
    if not isinstance(y, Lit):
        return None
    dtype = y.dtype
    if dtype in INTEGERS:
        exponent = int(y.value)
        return _power(walk, x, exponent, dtype) if 0 <= exponent <= 8 else None
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
            root = walk.emit(Prim("sqrt", (walk.emit(Prim("add", (x, literal(0.0, dtype))), x.type),)), x.type)
            low = walk.emit(Prim("eq", (x, literal(-math.inf, dtype))), BOOL)
            return Prim("select", (low, literal(math.inf, dtype), root))
        case _:
            return None


def _powi(walk: Rewriter, x: Atom, k: Atom) -> Simpler:
    if not isinstance(k, Lit) or isinstance(k.value, str):
        return None
    n, dtype = int(k.value), dtype_of(x)
    if 0 <= n <= 8:
        return _power(walk, x, n, dtype)
    if -2 <= n < 0 and dtype in FLOATS:
        reciprocal = Prim("div", (literal(1.0, dtype), x))
        if n == -1:
            return reciprocal
        one = walk.emit(reciprocal, x.type)  # the slope of 1.0 / (x * x) is not right at 0 and at infinity
        return Prim("mul", (one, one))
    return None


def _power(walk: Rewriter, x: Atom, n: int, dtype: str) -> Simpler:
    """x to the n >= 0 by squaring."""
    if n == 0:
        return literal(1, dtype)
    if n == 1:
        return x
    half = _power(walk, x, n // 2, dtype)
    square = half if not isinstance(half, Prim) else walk.emit(half, x.type)
    assert square is not None
    if n % 2 == 0:
        return Prim("mul", (square, square))
    return Prim("mul", (walk.emit(Prim("mul", (square, square)), x.type), x))


def _select(walk: Rewriter, c: Atom, a: Atom, b: Atom) -> Simpler:
    known = _truth(c)
    if known is not None:
        return a if known else b
    if same(a, b):
        return a
    if _truth(a) is True and _truth(b) is False:
        return c
    if _truth(a) is False and _truth(b) is True:
        return Prim("not", (c,))
    match walk.definition(c):
        case Prim("not", (d,)):
            return Prim("select", (d, b, a))
        case _:
            return None


def _not(walk: Rewriter, x: Atom) -> Simpler:
    match walk.definition(x):
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
