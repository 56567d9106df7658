"""Straight-line LLVM text for scalars or explicit vectors of one float dtype: named operations that return names.

An operand is the name of a value or a Python number, which becomes a constant (splatted over a vector).

Of the instructions of AVX-512 for which LLVM's language has no name, which work on any number of lanes, most take
floats apart, or scale them, without a look at zeros, infinities and denormal numbers. All are exact but `rough_rsqrt`.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dlang.ops.dtypes import DTYPES

Operand = str | float
ATTRIBUTES = "nounwind willreturn memory(none)"
_FEW_TERMS = 5  # of a polynomial, that are added one after another


@dataclass(frozen=True, slots=True)
class Format:
    """A binary interchange format of IEEE 754. `fraction`: bits stored after the leading one."""

    name: str
    llvm: str
    integer: str
    bits: int
    fraction: int
    bias: int

    @property
    def one(self) -> int:
        """The bits of 1.0, which are also the exponent's bias in place."""
        return self.bias << self.fraction

    @property
    def spacing_one(self) -> float:
        """The least power of two whose neighbours are whole numbers one apart."""
        return math.ldexp(1.0, self.fraction)

    @property
    def rounder(self) -> float:
        """Adding this rounds to a whole number, which the low bits of the sum hold in two's complement."""
        return math.ldexp(1.5, self.fraction)

    @property
    def least_normal(self) -> float:
        return math.ldexp(1.0, 1 - self.bias)

    def pattern(self, value: float) -> int:
        """The bits of a number of this format, as an integer."""
        code, whole = ("<d", "<Q") if self.bits == 64 else ("<f", "<I")
        return int(struct.unpack(whole, struct.pack(code, value))[0])

    def nearest(self, value: float) -> float:
        """The number of this format nearest to a float."""
        return value if self.bits == 64 else float(struct.unpack("<f", struct.pack("<f", value))[0])


FORMATS = {
    d.name: Format(d.name, d.llvm, f"i{d.bits}", d.bits, d.digits - 1, 2 ** (d.bits - d.digits - 1) - 1)
    for d in DTYPES.values()
    if d.is_float and not d.is_half
}


@dataclass(slots=True)
class Emitter:
    """Collects instructions on `width` lanes of `dtype`; width 1 is a plain scalar.

    avx512: whether the processor has the instructions of AVX-512. declared: what is called, by name. counts: of
    operations of floating-point numbers, those that are fused as two.
    """

    dtype: str
    width: int
    lines: list[str] = field(default_factory=list)
    avx512: bool = False
    declared: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def format(self) -> Format:
        return FORMATS[self.dtype]

    def widened(self) -> Emitter:
        """Collects instructions on as many lanes of f64, behind those that there are."""
        return replace(self, dtype="f64")

    # ---- types and constants -----------------------------------------------------------------------------------------
    def lanes(self, scalar: str) -> str:
        """The type of `width` lanes of a scalar type."""
        return scalar if self.width == 1 else f"<{self.width} x {scalar}>"

    @property
    def type(self) -> str:
        return self.lanes(self.format.llvm)

    @property
    def int_type(self) -> str:
        return self.lanes(self.format.integer)

    def _splat(self, scalar: str, constant: str) -> str:
        return constant if self.width == 1 else f"splat ({scalar} {constant})"

    def real(self, value: Operand) -> str:
        """An operand as text."""
        return value if isinstance(value, str) else self._splat(self.format.llvm, self.constant(value))

    def constant(self, value: float) -> str:
        """A number as text, without its type; exact: LLVM's hexadecimal form is that of f64, whatever the dtype."""
        return f"0x{FORMATS['f64'].pattern(self.format.nearest(value)):016X}"

    def whole(self, value: str | int) -> str:
        """An integer operand as text; a constant is taken modulo the width of the integer."""
        if isinstance(value, str):
            return value
        return self._splat(self.format.integer, str(value & (2**self.format.bits - 1)))

    def instruction(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def call(self, result: str, name: str, *args: tuple[str, str]) -> str:
        """A call of an intrinsic or of a function of the C library; args: types and values."""
        if name not in self.declared:
            # A call that may not return is never taken out of its branch; the intrinsics may be.
            attributes = ATTRIBUTES if name.startswith("llvm.") else "nounwind memory(none)"
            self.declared[name] = f"declare {result} @{name}({', '.join(type for type, _ in args)}) {attributes}"
        return self.instruction(f"call {result} @{name}({', '.join(f'{type} {value}' for type, value in args)})")

    def intrinsic(self, name: str, *args: Operand) -> str:
        suffix = self.dtype if self.width == 1 else f"v{self.width}{self.dtype}"
        return self.call(self.type, f"llvm.{name}.{suffix}", *[(self.type, self.real(a)) for a in args])

    # ---- arithmetic --------------------------------------------------------------------------------------------------
    def _binary(self, op: str, a: Operand, b: Operand) -> str:
        self.counts[op] += 1
        return self.instruction(f"{op} {self.type} {self.real(a)}, {self.real(b)}")

    def add(self, a: Operand, b: Operand) -> str:
        return self._binary("fadd", a, b)

    def sub(self, a: Operand, b: Operand) -> str:
        return self._binary("fsub", a, b)

    def mul(self, a: Operand, b: Operand) -> str:
        return self._binary("fmul", a, b)

    def div(self, a: Operand, b: Operand) -> str:
        return self._binary("fdiv", a, b)

    def neg(self, a: str) -> str:
        return self.instruction(f"fneg {self.type} {a}")

    def fma(self, a: Operand, b: Operand, c: Operand) -> str:
        """a * b + c, rounded once."""
        self.counts["fma"] += 2
        return self.intrinsic("fma", a, b, c)

    def fnma(self, a: str, b: Operand, c: Operand) -> str:
        """c - a * b, rounded once."""
        return self.fma(a, -b, c) if isinstance(b, float) else self.fma(self.neg(a), b, c)

    def abs(self, a: str) -> str:
        return self.intrinsic("fabs", a)

    def copysign(self, magnitude: Operand, sign: str) -> str:
        return self.intrinsic("copysign", magnitude, sign)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """Lowest power first, by Estrin's scheme until few terms are left, then by Horner's.

        So the chain is short, and of the powers that this needs there are few.
        """
        terms: list[Operand] = list(coefficients)
        power = x
        while len(terms) > 1:
            pairs: list[Operand] = [self.fma(terms[k + 1], power, terms[k]) for k in range(0, len(terms) - 1, 2)]
            terms = pairs + terms[len(pairs) * 2 :]
            if len(terms) > 1:
                power = self.mul(power, power)
            if len(terms) <= _FEW_TERMS:
                break
        total = terms[-1]
        for term in terms[-2::-1]:
            total = self.fma(total, power, term)
        return self.real(total)

    # ---- sums and products with their rounding errors ----------------------------------------------------------------
    def two_sum(self, a: Operand, b: Operand) -> tuple[str, str]:
        """Knuth: s + e = a + b exactly."""
        s = self.add(a, b)
        b_part = self.sub(s, a)
        return s, self.add(self.sub(a, self.sub(s, b_part)), self.sub(b, b_part))

    def fast_two_sum(self, a: Operand, b: Operand) -> tuple[str, str]:
        """Dekker: s + e = a + b exactly, for |a| >= |b| or a = 0."""
        s = self.add(a, b)
        return s, self.sub(b, self.sub(s, a))

    def two_product(self, a: str, b: Operand) -> tuple[str, str]:
        """p + e = a * b exactly."""
        p = self.mul(a, b)
        return p, self.fma(a, b, self.neg(p))

    # ---- comparison and choice ---------------------------------------------------------------------------------------
    def compare(self, predicate: str, a: Operand, b: Operand) -> str:
        """A mask, by one of LLVM's predicates: `olt`, `uno`…"""
        return self.instruction(f"fcmp {predicate} {self.type} {self.real(a)}, {self.real(b)}")

    def select(self, mask: str, a: Operand, b: Operand) -> str:
        return self.instruction(
            f"select {self.lanes('i1')} {mask}, {self.type} {self.real(a)}, {self.type} {self.real(b)}"
        )

    def both(self, p: str, q: str) -> str:
        return self.instruction(f"and {self.lanes('i1')} {p}, {q}")

    def clamp(self, x: str, low: float, high: float) -> str:
        """x between two bounds; NaN stays."""
        x = self.select(self.compare("ogt", x, high), high, x)
        return self.select(self.compare("olt", x, low), low, x)

    def identity_below(self, bound: float, x: str, result: str) -> str:
        """x where |x| is below the bound, else the result."""
        return self.select(self.compare("olt", self.abs(x), bound), x, result)

    # ---- bits --------------------------------------------------------------------------------------------------------
    def bits(self, a: str) -> str:
        return self.instruction(f"bitcast {self.type} {a} to {self.int_type}")

    def float_of_bits(self, a: str) -> str:
        return self.instruction(f"bitcast {self.int_type} {a} to {self.type}")

    def integer(self, op: str, a: str, b: str | int) -> str:
        """An instruction on integers: `add`, `lshr`, `xor`…"""
        return self.instruction(f"{op} {self.int_type} {a}, {self.whole(b)}")

    def round_to_integer(self, x: str, factor: float) -> tuple[str, str]:
        """x * factor rounded to a whole number: as a float, and as the bits of `rounder` plus that number.

        The number's magnitude must be below 2^(fraction - 1); its low bits are those of the result.
        """
        shifted = self.fma(x, factor, self.format.rounder)
        return self.sub(shifted, self.format.rounder), self.bits(shifted)

    def power_of_two(self, k: str) -> str:
        """2^k for an integer k with a normal result."""
        biased = self.integer("add", k, self.format.bias)
        return self.float_of_bits(self.integer("shl", biased, self.format.fraction))


# ---- instructions of AVX-512 -----------------------------------------------------------------------------------------
TABLE = 16  # entries
_AS_SET = 4  # rounds as the control register says


def floor_log2(e: Emitter, x: str) -> str:
    """The exponent of |x| as a float, also of a denormal number; -inf for a zero, inf for an infinity."""
    return _by_register(e, "mask.getexp", [x])


def mantissa(e: Emitter, x: str) -> str:
    """x / 2^floor_log2(x), from 1 up to 2; 1 for a zero and for inf, NaN for a negative number."""
    return _by_register(e, "mask.getmant", [x], [("i32", "8")])


def scaled(e: Emitter, x: str, k: str) -> str:
    """x 2^k for a whole number k, rounded once, whatever of it can't be represented."""
    return _by_register(e, "mask.scalef", [x, k])


def rough_rsqrt(e: Emitter, x: str) -> str:
    """1 / sqrt(x) within 2^-14 of the whole; inf for a zero, with its sign, and 0 for inf."""
    return _by_register(e, "rsqrt14", [x])


def looked_up(e: Emitter, index: str, table: Sequence[float]) -> str:
    """The entries of a table of 16 that the lowest four bits of integers say."""
    lanes = 512 // e.format.bits
    type, numbers = f"<{lanes} x {e.format.llvm}>", f"<{lanes} x {e.format.integer}>"
    entries = [e.constant(x) for x in table]
    halves = [
        (type, f"<{', '.join(f'{e.format.llvm} {x}' for x in entries[start : start + lanes])}>")
        for start in range(0, TABLE, lanes)
    ]
    name = "permvar.sf.512" if len(halves) == 1 else "vpermi2var.pd.512"
    looked = []
    for part in _registers(e, e.format.integer, index, lanes):
        looked.append(e.call(type, f"llvm.x86.avx512.{name}", halves[0], (numbers, part), *halves[1:]))
    return _whole(e, looked, lanes)


def _by_register(e: Emitter, name: str, operands: Sequence[str], selector: Sequence[tuple[str, str]] = ()) -> str:
    """A call for each of the registers that the lanes are in.

    selector: what comes between the operands and what the result is in lanes that are masked out, of which none is.
    """
    register = min(max(e.width * e.format.bits, 128), 512)
    lanes = register // e.format.bits
    type = f"<{lanes} x {e.format.llvm}>"
    rounding = [("i32", str(_AS_SET))] if register == 512 and name.startswith("mask.") else []
    full = f"llvm.x86.avx512.{name}.p{'d' if e.format.bits == 64 else 's'}.{register}"
    other_operands = [*selector, (type, "zeroinitializer"), (f"i{max(lanes, 8)}", "-1"), *rounding]
    registers = []
    for parts in zip(*(_registers(e, e.format.llvm, x, lanes) for x in operands), strict=True):
        registers.append(e.call(type, full, *[(type, part) for part in parts], *other_operands))
    return _whole(e, registers, lanes)


def _registers(e: Emitter, scalar: str, x: str, lanes: int) -> list[str]:
    """The registers, of so many lanes of a type, that hold those of a value; fewer are the first ones in one."""
    if e.width == 1:
        return [e.instruction(f"insertelement <{lanes} x {scalar}> poison, {scalar} {x}, i64 0")]
    if e.width == lanes:
        return [x]
    type = f"<{e.width} x {scalar}>"
    if e.width < lanes:
        return [_shuffled(e, type, x, "poison", [k % e.width for k in range(lanes)])]
    return [_shuffled(e, type, x, "poison", range(k, k + lanes)) for k in range(0, e.width, lanes)]


def _whole(e: Emitter, parts: list[str], lanes: int) -> str:
    """The value whose lanes are in registers."""
    type = f"<{lanes} x {e.format.llvm}>"
    if e.width == 1:
        return e.instruction(f"extractelement {type} {parts[0]}, i64 0")
    if e.width < lanes:
        return _shuffled(e, type, parts[0], "poison", range(e.width))
    while len(parts) > 1:
        type = f"<{lanes} x {e.format.llvm}>"
        lanes *= 2
        parts = [_shuffled(e, type, parts[k], parts[k + 1], range(lanes)) for k in range(0, len(parts), 2)]
    return parts[0]


def _shuffled(e: Emitter, type: str, first: str, second: str, order: Sequence[int]) -> str:
    """Lanes of two vectors side by side, in an order."""
    numbers = ", ".join(f"i32 {k}" for k in order)
    return e.instruction(f"shufflevector {type} {first}, {type} {second}, <{len(order)} x i32> <{numbers}>")
