"""Scalar operations as expressions of CUDA C: what each primitive, conversion and monoid becomes.

A number of half precision is an f32 that is a number of its type, as in `codegen/llvm/half.py`. Operands are names and
literals, so an expression needs no parentheses around them.
"""

from __future__ import annotations

import math

from dlang.codegen.nests import identity
from dlang.ir.anf import FLOATS, HALF, Lit
from dlang.ir.terms import WIDTHS
from dlang.ops.dtypes import register_dtype, rounded
from dlang.ops.monoids import COMBINE, EXTREMA, MONOIDS
from dlang.ops.primitives import EXACT, PRIMITIVES, result_dtype

UNROLLED = range(-32, 65)
"""Exponents whose powers are products."""


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
    if exponent is not None and exponent in UNROLLED and (exponent >= 0 or dtype in FLOATS):
        return f"dl_power<{exponent}>({args[0]})"
    text = PRIMITIVES[name].cuda.of(dtype)
    return text.format(**dict(zip("xyzw", args, strict=False)), t=dtype, f="f" if dtype == "f32" else "")


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
    """Prints a test whether a value beats another as extremum: larger (NaN counts as largest), or equal and first."""
    return f"{MONOIDS[monoid].first}({new}, {rank}, {best}, {best_rank})"


def first(monoid: str, dtype: str) -> str:
    """Returns the initial value of a reduction."""
    return literal(identity(EXTREMA.get(monoid, monoid), dtype))
