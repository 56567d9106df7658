"""Half precision as LLVM text, for any processor: in memory 16 bits, in registers an f32 that is a number of the type.

Arithmetic is done in f32, which has more than twice as many bits and two, and then rounded, so the result is that of
the type's own arithmetic. All is branch-free integer code on lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlang.ops.dtypes import DTYPES, HALF, TRUNCATED

if TYPE_CHECKING:
    from dlang.codegen.llvm.scalars import Scalars

SIGN, MAGNITUDE, INFINITY, QUIET = 0x8000_0000, 0x7FFF_FFFF, 0x7F80_0000, 0x0040_0000
LEAST_NORMAL = 0x3880_0000  # 2^-14, the least normal number of f16, in f32
LARGEST = 0x477F_E000  # 65504, the largest
DROPPED = {name: DTYPES["f32"].digits - DTYPES[name].digits for name in HALF}
"""The bits of a fraction of f32 that a type does not have."""


def _bits(ops: Scalars, x: str) -> str:
    return ops.emit(f"bitcast {ops.type('f32')} {x} to {ops.type('u32')}")


def _float(ops: Scalars, bits: str) -> str:
    return ops.emit(f"bitcast {ops.type('u32')} {bits} to {ops.type('f32')}")


def _number(ops: Scalars, value: int) -> str:
    return ops.constant(value - (1 << 32) if value >> 31 else value, "u32")


def decode(ops: Scalars, dtype: str, stored: str) -> str:
    """The f32 that 16 bits stand for."""
    wide = ops.emit(f"zext {ops.type('u16')} {stored} to {ops.type('u32')}")
    if dtype in TRUNCATED:
        return _float(ops, ops.binary("shl", "u32", wide, _number(ops, 16)))
    sign = ops.binary("shl", "u32", ops.binary("and", "u32", wide, _number(ops, 0x8000)), _number(ops, 16))
    size = ops.binary("shl", "u32", ops.binary("and", "u32", wide, _number(ops, 0x7FFF)), _number(ops, 13))
    scaled = _bits(ops, ops.binary("fmul", "f32", _float(ops, size), ops.constant(2.0**112, "f32")))
    special = ops.compare("uge", "u32", size, _number(ops, 0x7C00 << 13))
    magnitude = ops.select(special, "u32", ops.binary("or", "u32", size, _number(ops, INFINITY)), scaled)
    return _float(ops, ops.binary("or", "u32", magnitude, sign))


def encode(ops: Scalars, dtype: str, x: str) -> str:
    """The 16 bits of an f32 that is a number of the type."""
    bits = _bits(ops, x)
    if dtype in TRUNCATED:
        upper = ops.binary("lshr", "u32", bits, _number(ops, 16))
        return ops.emit(f"trunc {ops.type('u32')} {upper} to {ops.type('u16')}")
    sign = ops.binary("and", "u32", ops.binary("lshr", "u32", bits, _number(ops, 16)), _number(ops, 0x8000))
    size = ops.binary("and", "u32", bits, _number(ops, MAGNITUDE))
    scaled = _bits(ops, ops.binary("fmul", "f32", _float(ops, size), ops.constant(2.0**-112, "f32")))
    number = ops.binary("lshr", "u32", scaled, _number(ops, 13))
    infinite = ops.compare("eq", "u32", size, _number(ops, INFINITY))
    number = ops.select(infinite, "u32", _number(ops, 0x7C00), number)
    nan = ops.compare("ugt", "u32", size, _number(ops, INFINITY))
    number = ops.select(nan, "u32", _number(ops, 0x7E00), number)
    return ops.emit(f"trunc {ops.type('u32')} {ops.binary('or', 'u32', number, sign)} to {ops.type('u16')}")


def rounded(ops: Scalars, dtype: str, x: str) -> str:
    """The number of the type nearest to an f32, ties to even; in an f32."""
    bits = _bits(ops, x)
    sign = ops.binary("and", "u32", bits, _number(ops, SIGN))
    size = ops.binary("and", "u32", bits, _number(ops, MAGNITUDE))
    shift = DROPPED[dtype]
    odd = ops.binary("and", "u32", ops.binary("lshr", "u32", size, _number(ops, shift)), _number(ops, 1))
    half = ops.binary("add", "u32", odd, _number(ops, (1 << shift - 1) - 1))
    mask = _number(ops, 0xFFFF_FFFF >> shift << shift)
    magnitude = ops.binary("and", "u32", ops.binary("add", "u32", size, half), mask)
    if dtype == "f16":
        # below the normal numbers the spacing is 2^-24, as that of f32 is between 1/2 and 1
        middle = ops.constant(0.5, "f32")
        moved = ops.binary("fadd", "f32", _float(ops, size), middle)
        small = _bits(ops, ops.binary("fsub", "f32", moved, middle))
        magnitude = ops.select(ops.compare("ult", "u32", size, _number(ops, LEAST_NORMAL)), "u32", small, magnitude)
        over = ops.compare("ugt", "u32", magnitude, _number(ops, LARGEST))
        magnitude = ops.select(over, "u32", _number(ops, INFINITY), magnitude)
    nan = ops.compare("ugt", "u32", size, _number(ops, INFINITY))
    magnitude = ops.select(nan, "u32", ops.binary("or", "u32", size, _number(ops, QUIET)), magnitude)
    return _float(ops, ops.binary("or", "u32", magnitude, sign))


def to_odd(ops: Scalars, x: str) -> str:
    """An f64 as an f32 that is rounded to the same number of half precision: where it is not exact its last bit is set.

    Boldo and Melquiond, Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd, 2008.
    """
    near = ops.emit(f"fptrunc {ops.type('f64')} {x} to {ops.type('f32')}")
    back = ops.emit(f"fpext {ops.type('f32')} {near} to {ops.type('f64')}")
    bits = _bits(ops, near)
    far = ops.compare("ogt", "f64", ops.intrinsic("fabs", "f64", back), ops.intrinsic("fabs", "f64", x))
    down = ops.binary("sub", "u32", bits, _number(ops, 1))
    odd = ops.binary("or", "u32", ops.select(far, "u32", down, bits), _number(ops, 1))
    differs = ops.compare("one", "f64", back, x)
    return _float(ops, ops.select(differs, "u32", odd, bits))
