"""The dtypes: the types of scalars, with every fact that a stage asks for; and rounding to those of floats, without
NumPy.

A dtype is added here. What follows from its kind and its width is derived (`_integer`); elsewhere nobody keeps a list
of dtypes. The rows go from the dtype that holds most to the one that holds least.
"""

from __future__ import annotations

import math
import struct
import sys
from dataclasses import dataclass
from typing import Literal

Kind = Literal["float", "signed", "unsigned", "truth", "text"]


@dataclass(frozen=True, slots=True)
class DType:
    """A type of scalars.

    width: bytes of an element in memory.
    largest: the largest finite number.
    numpy: NumPy's dtype of values outside of compiled code. NumPy has no bf16, so its values are in float32.
    memory: NumPy's dtype of the bits that an element has in memory; of a text its address.
    elsewhere: the name in other libraries of arrays; empty where these have no such dtype.
    python: Python's class of such values, where one follows from the other.
    llvm: LLVM's type in a register. In memory a truth value has 8 bits, and half precision has 16.
    c, c_element: C's type of a parameter, and of an element of an array. C has no name for floats of 16 bits that all
    compilers know, so a parameter is a `float` and an element its bits.
    digits: the bits of a float's significand, its leading one included.
    computed: the dtype in which sums and products are done, where that is another one.
    cublas: the numbers by which cuBLAS knows the type of elements, and that in which it computes.
    scattered: whether a GPU adds to an element in one step.
    partial: whether pieces of a loop may add to arrays of their own, which are added up afterwards.
    step, tolerance: of the differences that a derivative is compared with, for values near 1.
    suffixes: what other languages write behind such a literal.
    preference: the place among the dtypes that stand for a variable of a type in Python's hints; 0 for none.
    """

    name: str
    kind: Kind
    width: int
    largest: float | int = 0
    numpy: str = ""
    memory: str = ""
    elsewhere: str = ""
    python: str = ""
    llvm: str = ""
    c: str = ""
    c_element: str = ""
    digits: int = 0
    computed: str = ""
    cublas: tuple[int, int] | None = None
    scattered: bool = False
    partial: bool = False
    step: float = 0.0
    tolerance: float = 0.0
    suffixes: tuple[str, ...] = ()
    preference: int = 0

    @property
    def bits(self) -> int:
        """The size of an element in memory."""
        return 8 * self.width

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed", "unsigned")

    @property
    def smallest(self) -> int:
        """The least integer."""
        return -self.largest - 1 if self.kind == "signed" and isinstance(self.largest, int) else 0

    @property
    def is_half(self) -> bool:
        """Tells whether elements are narrower than the registers that hold their numbers."""
        return bool(self.computed)

    @property
    def is_truncated(self) -> bool:
        """Tells whether its bits in memory are the upper ones of an f32, in which NumPy, that does not have it, keeps
        its numbers."""
        return self.is_float and not self.in_numpy

    @property
    def register(self) -> str:
        """The dtype of its numbers in registers."""
        return self.computed or self.name

    @property
    def about(self) -> str:
        """A description in the words of the manual and of editors."""
        match self.kind:
            case "truth":
                return "Truth values: `true` and `false`."
            case "text":
                return "Text, to print, to compare and for messages."
            case kind:
                number = {"float": "float", "signed": "integer", "unsigned": "unsigned integer"}[kind]
                return f"The {number} of {self.bits} bits; as a function, the conversion to it."

    @property
    def in_numpy(self) -> bool:
        """Tells whether NumPy has this very dtype."""
        return self.elsewhere == self.numpy


def _integer(
    name: str,
    preference: int,
    python: str = "",
    scattered: bool = False,
    partial: bool = False,
    suffixes: tuple[str, ...] = (),
) -> DType:
    bits, signed = int(name[1:]), name[0] == "i"
    numpy = f"{'int' if signed else 'uint'}{bits}"
    return DType(
        name,
        "signed" if signed else "unsigned",
        bits // 8,
        2 ** (bits - signed) - 1,
        numpy,
        numpy,
        numpy,
        python,
        f"i{bits}",
        f"{numpy}_t",
        f"{numpy}_t",
        scattered=scattered,
        partial=partial,
        suffixes=suffixes,
        preference=preference,
    )


_ROWS = (
    DType(
        "f64", "float", 8, sys.float_info.max, "float64", "float64", "float64", "float", "double", "double", "double",
        digits=53, cublas=(1, 70), scattered=True, partial=True, step=1e-5, tolerance=1e-6,
        suffixes=("d",), preference=3,
    ),
    DType(
        "f32", "float", 4, 3.4028235e38, "float32", "float32", "float32", "", "float", "float", "float",
        digits=24, cublas=(0, 68), scattered=True, partial=True, step=1e-2, tolerance=1e-3,
        suffixes=("f",), preference=4,
    ),
    DType(
        "f16", "float", 2, 65504.0, "float16", "float16", "float16", "", "float", "float", "uint16_t",
        digits=11, computed="f32", cublas=(2, 68), step=0.1, tolerance=3e-2, suffixes=("h",), preference=6,
    ),
    DType(
        "bf16", "float", 2, 3.3895314e38, "float32", "uint16", "bfloat16", "", "float", "float", "uint16_t",
        digits=8, computed="f32", cublas=(14, 68), step=0.2, tolerance=0.2,
    ),
    _integer("i64", 2, python="int", scattered=True, partial=True, suffixes=("l", "ll")),
    _integer("u64", 9, suffixes=("u", "ul", "ull")),
    _integer("i32", 5, scattered=True),
    _integer("u32", 10),
    _integer("i16", 7),
    _integer("u16", 11),
    _integer("i8", 8),
    _integer("u8", 12),
    DType("bool", "truth", 1, True, "bool", "bool", "bool", "bool", "i1", "bool", "bool", preference=1),
    DType("str", "text", 8, numpy="object", memory="int64", python="str", llvm="i64"),
)  # fmt: skip

DTYPES: dict[str, DType] = {d.name: d for d in _ROWS}


def _names(*kinds: Kind) -> tuple[str, ...]:
    return tuple(d.name for d in _ROWS if d.kind in kinds)


FLOATS = _names("float")
HALF = tuple(d.name for d in _ROWS if d.is_half)
"""The floats whose sums and products are done in a wider dtype."""
PRECISE = tuple(d.name for d in _ROWS if d.is_float and not d.is_half)
"""The other floats, of which the matrices of linear algebra are."""
TRUNCATED = tuple(d.name for d in _ROWS if d.is_truncated)
"""The floats that are the upper half of an f32."""
SIGNED = _names("signed")
UNSIGNED = _names("unsigned")
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
NAMES = (*FLOATS, *INTEGERS, *_names("truth", "text"))
WHOLE = tuple(d.name for d in _ROWS if d.kind != "text" and not d.is_half)
"""The dtypes whose numbers are in registers as they are in memory, but for a truth value's width."""
SCATTERED = tuple(d.name for d in _ROWS if d.scattered)
"""The dtypes of arrays to whose elements a GPU adds in one step."""
PARTIAL = tuple(d.name for d in _ROWS if d.partial)
"""The dtypes of arrays that pieces of a loop may add to, each to one of its own."""
ELSEWHERE = {d.name: d.elsewhere for d in _ROWS if d.elsewhere}
"""The names of dtypes in other libraries of arrays."""
WIDTHS = {d.name: d.width for d in _ROWS}
"""Bytes of an element of each dtype."""


def register_dtype(dtype: str) -> str:
    """The dtype that holds a value in a register, or in a variable."""
    return DTYPES[dtype].register if dtype in DTYPES else dtype


# ---- rounding --------------------------------------------------------------------------------------------------------
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
