"""Rounding of numbers to the dtypes of floats, without NumPy."""

from __future__ import annotations

import math
import struct

from dlang.ops.dtypes import DTYPES, TRUNCATED


def rounded(value: float, dtype: str) -> float:
    """The nearest number of the dtype, ties to even."""
    if dtype == "f64" or value != value or math.isinf(value):
        return value
    if dtype in TRUNCATED:
        # Rounding to f32 first could meet a tie that the value isn't.
        digits, least = DTYPES[dtype].digits, DTYPES[dtype].digits + 125
        mantissa, exponent = math.frexp(value)
        if exponent < -125:
            return math.copysign(math.ldexp(round(math.ldexp(value, least)), -least), value)
        shortened = math.copysign(math.ldexp(round(mantissa * 2**digits), exponent - digits), value)
        return math.copysign(math.inf, value) if abs(shortened) >= 2.0**128 else shortened
    code = "<f" if dtype == "f32" else "<e"
    try:
        (result,) = struct.unpack(code, struct.pack(code, value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(result)
