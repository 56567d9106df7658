"""The monoids: how the points of a comprehension that meet in an element are combined there.

A monoid is added here, as one row. `argmax` and `argmin` give the position of the first extremum, an i64: its row-major
rank within the box of the reduced axes (for one axis from 0: its index). `set` keeps the value itself and needs an
index that misses no axis.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from math import inf
from typing import Literal

from dlang.ops.dtypes import DTYPES
from dlang.ops.primitives import ANY, BOOL, NUM, Texts


@dataclass(frozen=True, slots=True)
class Monoid:
    """A way to combine values.

    domain: the class of dtypes of the values.
    combine: the primitive that combines two of them; empty where a position is found, or a value is kept.
    ufunc: NumPy's function that does so; of a position that of its values.
    unit: the value that leaves others alone, which is that of a reduction of nothing.
    derivative: how the result depends on the values: linearly, as a product, as one of them, or not at all.
    reduce: the end of the name of LLVM's intrinsic that combines the lanes of a vector; empty for floats whose lanes
    are combined in an order of our own.
    commutative: whether values may come in any order, and `exact`: whether of floats that then changes no bit.
    idempotent: whether a value that comes twice counts once.
    has_empty: whether the language knows a reduction of nothing, and so one with an `if`.
    running: whether there are running totals of it (`Scan`).
    extremum: of an extremum, or of its position, the monoid of the values.
    stays: of a position, the comparison of the next value with that so far by which the position stays.
    first: of a position, the function of CUDA that tells whether a value is the extremum before another.
    """

    name: str
    domain: str
    combine: str
    ufunc: str
    unit: Literal["zero", "one", "least", "greatest"]
    derivative: Literal["", "linear", "product", "choice"]
    reduce: Texts
    _: KW_ONLY
    commutative: bool = True
    exact: bool = True
    idempotent: bool = True
    has_empty: bool = False
    running: bool = False
    extremum: Literal["", "max", "min"] = ""
    stays: str = ""
    first: str = ""


_ROWS = (
    Monoid(
        "sum", NUM, "add", "add", "zero", "linear", Texts("", "add", "add"),
        exact=False, idempotent=False, has_empty=True, running=True,
    ),
    Monoid(
        "prod", NUM, "mul", "multiply", "one", "product", Texts("", "mul", "mul"),
        exact=False, idempotent=False, has_empty=True, running=True,
    ),
    Monoid("max", NUM, "maximum", "maximum", "least", "choice", Texts("fmaximum", "smax", "umax"), extremum="max"),
    Monoid("min", NUM, "minimum", "minimum", "greatest", "choice", Texts("fminimum", "smin", "umin"), extremum="min"),
    Monoid("any", BOOL, "or", "logical_or", "zero", "", Texts(truth="or"), has_empty=True),
    Monoid("all", BOOL, "and", "logical_and", "one", "", Texts(truth="and"), has_empty=True),
    Monoid("argmax", NUM, "", "maximum", "zero", "", Texts(), extremum="max", stays="le", first="dl_larger"),
    Monoid("argmin", NUM, "", "minimum", "zero", "", Texts(), extremum="min", stays="ge", first="dl_smaller"),
    Monoid("set", ANY, "", "", "zero", "linear", Texts(), commutative=False),
)  # fmt: skip

MONOIDS: dict[str, Monoid] = {m.name: m for m in _ROWS}
COMBINE = {m.name: m.combine for m in _ROWS if m.combine}
"""For each monoid the primitive that combines two values."""
STAYS = {m.name: m.stays for m in _ROWS if m.stays}
"""For each monoid that finds a position the comparison by which it stays."""
COMBINED_BY = {primitive: monoid for monoid, primitive in COMBINE.items()}
"""For each of these primitives the monoid."""
UFUNCS = {m.name: m.ufunc for m in _ROWS if m.ufunc}
"""For each monoid NumPy's function that combines two values."""
EXTREMA = {m.name: m.extremum for m in _ROWS if m.extremum}
"""For each extremum, and each position of one, the monoid of the values."""
ROUNDED = frozenset(m.name for m in _ROWS if not m.exact)
"""The monoids whose results are rounded, of floats: in half precision they are computed in f32."""
ARITHMETIC = frozenset(m.name for m in _ROWS if m.domain == NUM)
"""The monoids of numbers, each step of which counts as an operation of floats."""
RUNNING = frozenset(m.name for m in _ROWS if m.running)
"""The monoids of which there are running totals."""
DIFFERENTIABLE = frozenset(m.name for m in _ROWS if m.derivative)
"""The monoids whose results have derivatives."""
CHOOSING = frozenset(m.name for m in _ROWS if m.derivative == "choice")
"""The monoids whose result is one of the values."""


def result_dtype(monoid: str, dtype: str) -> str:
    """The dtype of the result of values of a dtype."""
    return "i64" if monoid in STAYS else dtype


def identity(monoid: str, dtype: str) -> float | int | bool | str:
    """The value that a monoid leaves others alone with; 0 for monoids, and for handles, that have none."""
    record = DTYPES.get(dtype)
    if record is None:
        return 0
    if record.kind == "text":
        return ""
    match MONOIDS[monoid].unit:
        case "least" | "greatest" as unit:
            if record.is_float:
                return -inf if unit == "least" else inf
            if record.kind == "truth":
                return unit == "greatest"
            return record.smallest if unit == "least" else record.largest
        case unit:
            one = unit == "one"
            return float(one) if record.is_float else one if record.kind == "truth" else int(one)
