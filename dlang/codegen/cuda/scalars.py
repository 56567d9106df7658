"""Scalar operations as expressions of CUDA C: what each primitive, conversion and monoid becomes.

A number of half precision is an f32 that is a number of its type, as in `codegen/llvm/half.py`. Operands are names and
literals, so an expression needs no parentheses around them.
"""

from __future__ import annotations

import math

from dlang.codegen.half import EXACT
from dlang.codegen.nests import identity
from dlang.ir.anf import FLOATS, HALF, UNSIGNED, Lit
from dlang.ir.rounding import rounded
from dlang.ir.terms import WIDTHS
from dlang.ops.dtypes import DTYPES
from dlang.ops.monoids import COMBINE
from dlang.ops.primitives import result_dtype

OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "and": "&&", "or": "||",
}  # fmt: skip
BITS = {"bit_and": "&", "bit_or": "|", "bit_xor": "^"}
COMPARISONS = frozenset("eq ne lt le gt ge".split())
SHARED = frozenset(
    "zero_safe_mul zero_safe_mul_both sign maximum minimum floordiv mod shift_left shift_right digamma".split()
)
"""Primitives that are functions of `device.cuh`, for all dtypes."""
MATHEMATICS = {"abs": "fabs", "round": "rint"} | {
    name: name
    for name in (
        "exp expm1 log log1p sin cos tan asin acos atan atan2 sinh cosh tanh erf erfc lgamma pow floor ceil sqrt"
    ).split()
}
"""Primitives of floats that CUDA's library has, and so has that of C; those of f32 have an `f` behind their names."""
UNROLLED = range(-32, 65)
"""Exponents whose powers are products."""


def register_dtype(dtype: str) -> str:
    """The dtype that holds a value in a variable."""
    return DTYPES[dtype].register if dtype in DTYPES else dtype


def memory_type(dtype: str) -> str:
    """The type of an element in memory. A truth value is a byte, of which another library may have made any number."""
    return "u16" if dtype in HALF else "u8" if dtype == "bool" else dtype


def literal(lit: Lit) -> str:
    """A constant with its type; exact."""
    value, dtype = lit.value, lit.dtype
    assert not isinstance(value, str)
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in FLOATS:
        x = rounded(float(value), dtype)
        single = register_dtype(dtype) == "f32"
        if math.isnan(x):
            return "dl_nan_f32()" if single else "dl_nan_f64()"
        if math.isinf(x):
            text = "dl_infinity_f32()" if single else "dl_infinity_f64()"
            return text if x > 0 else f"(-{text})"
        text = repr(x) + ("f" if single else "")
        return f"({text})" if text.startswith("-") else text
    number = int(value)
    if number == -(2**63):
        return "(-9223372036854775807ll - 1)"
    text = f"{number}ull" if dtype == "u64" else f"{number}ll" if dtype == "i64" else f"{dtype}({number})"
    return f"({text})" if text.startswith("-") else text


def primitive(name: str, dtypes: tuple[str, ...], args: list[str], exponent: int | None = None) -> str:
    """A primitive of the table; `exponent` is that of a power if it is a whole constant."""
    dtype = dtypes[-1] if name == "select" else dtypes[0]
    if dtype in HALF and name != "select":
        wide = primitive(name, tuple([register_dtype(d) for d in dtypes]), args, exponent)
        exact = name in EXACT or result_dtype(name, dtypes) != dtype
        return wide if exact else f"dl_round_{dtype}({wide})"
    real = dtype in FLOATS
    match name:
        case "select":
            return f"{args[0]} ? {args[1]} : {args[2]}"
        case "add" | "sub" | "mul" if not real:
            return f"dl_{name}({', '.join(args)})"
        case _ if name in OPERATORS:
            return f"{args[0]} {OPERATORS[name]} {args[1]}"
        case _ if name in BITS:
            return f"{dtype}({args[0]} {BITS[name]} {args[1]})"
        case "not":
            return f"!{args[0]}"
        case "bit_not":
            return f"!{args[0]}" if dtype == "bool" else f"{dtype}(~{args[0]})"
        case "neg":
            return f"-{args[0]}" if real else f"dl_neg({args[0]})"
        case "abs" if not real:
            return args[0] if dtype in UNSIGNED else f"dl_abs({args[0]})"
        case "isnan":
            return f"{args[0]} != {args[0]}"
        case "isfinite":
            return f"{_function('fabs', dtype)}({args[0]}) < dl_infinity_{dtype}()"
        case "rsqrt":
            return f"{literal(Lit(1.0, dtype))} / {_function('sqrt', dtype)}({args[0]})"
        case "pow" | "powi":
            return _power(dtypes, args, exponent)
        case "threefry":
            return f"dl_threefry({', '.join(args)}).x"
        case "threefry_second":
            return f"dl_threefry({', '.join(args)}).y"
        case _ if name in SHARED:
            return f"dl_{name}({', '.join(args)})"
        case _:
            return f"{_function(MATHEMATICS[name], dtype)}({', '.join(args)})"


def _function(name: str, dtype: str) -> str:
    """A function of CUDA's library for a dtype."""
    return name + ("f" if dtype == "f32" else "")


def _power(dtypes: tuple[str, ...], args: list[str], exponent: int | None) -> str:
    dtype = dtypes[0]
    real = dtype in FLOATS
    if exponent is not None and exponent in UNROLLED and (exponent >= 0 or real):
        return f"dl_power<{exponent}>({args[0]})"
    if real:
        power = f"{_function('pow', dtype)}({args[0]}, {convert(args[1], dtypes[1], dtype)})"
        return power if dtypes[1] in FLOATS else f"dl_signed_power({power}, {', '.join(args)})"
    return f"dl_powi({', '.join(args)})"


def convert(x: str, source: str, target: str) -> str:
    """A conversion between dtypes: floats truncate and saturate (NaN gives 0), integers wrap."""
    if source == target:
        return x
    if target in HALF:
        return f"dl_round_{target}({_before_rounding(x, source)})"
    source = register_dtype(source)
    if source == target:
        return x
    if target == "bool":
        return f"{x} != 0"
    if source in FLOATS and target not in FLOATS:
        return f"dl_integer<{target}>({x})"
    return f"{target}({x})"


def _before_rounding(x: str, source: str) -> str:
    """A number as an f32 that can be rounded to half precision."""
    if register_dtype(source) == "f32":
        return x
    if source == "f64" or WIDTHS[source] >= 4:
        return f"dl_to_odd(f64({x}))"
    return f"f32({x})"


def decode(x: str, dtype: str) -> str:
    """An element of memory as a value."""
    if dtype == "bool":
        return f"({x} != 0)"
    return f"dl_decode_{dtype}({x})" if dtype in HALF else x


def encode(x: str, dtype: str) -> str:
    """A value as an element of memory."""
    if dtype == "bool":
        return f"u8({x})"
    return f"dl_encode_{dtype}({x})" if dtype in HALF else x


# ---- monoids ---------------------------------------------------------------------------------------------------------
def combine(monoid: str, dtype: str, x: str, y: str) -> str:
    """Two values of a reduction as one."""
    return primitive(COMBINE[monoid], (dtype, dtype), [x, y])


def better(monoid: str, new: str, rank: str, best: str, best_rank: str) -> str:
    """Whether a value is the extremum before another one: larger (or NaN, which counts as largest), or first."""
    function = "dl_larger" if monoid == "argmax" else "dl_smaller"
    return f"{function}({new}, {rank}, {best}, {best_rank})"


def first(monoid: str, dtype: str) -> str:
    """What a reduction begins with."""
    return literal(identity(monoid.removeprefix("arg"), dtype))
