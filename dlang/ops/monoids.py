"""The monoids: how the points of a comprehension that meet in an element are combined there.

`argmax` and `argmin` give the position of the first extremum, an i64: its row-major rank within the box of the reduced
axes (for one axis from 0: its index). `set` keeps the value itself and needs an index that misses no axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from dlang.ops.dtypes import DTYPES


@dataclass(frozen=True, slots=True)
class Monoid:
    """A way to combine values.

    combine: the primitive that combines two of them; empty where a position is found, or a value is kept.
    stays: of a position, the comparison of the next value with that so far by which the position stays.
    """

    name: str
    combine: str = ""
    stays: str = ""


_ROWS = (
    Monoid("sum", "add"),
    Monoid("prod", "mul"),
    Monoid("max", "maximum"),
    Monoid("min", "minimum"),
    Monoid("any", "or"),
    Monoid("all", "and"),
    Monoid("argmax", stays="le"),
    Monoid("argmin", stays="ge"),
    Monoid("set"),
)

MONOIDS: dict[str, Monoid] = {m.name: m for m in _ROWS}
COMBINE = {m.name: m.combine for m in _ROWS if m.combine}
"""For each monoid the primitive that combines two values."""
STAYS = {m.name: m.stays for m in _ROWS if m.stays}
"""For each monoid that finds a position the comparison by which it stays."""
COMBINED_BY = {primitive: monoid for monoid, primitive in COMBINE.items()}
"""For each of these primitives the monoid."""


def identity(monoid: str, dtype: str) -> float | int | bool | str:
    """The value that a monoid leaves others alone with; 0 for monoids, and for handles, that have none."""
    record = DTYPES.get(dtype)
    match monoid:
        case "any" | "all":
            return monoid == "all"
        case "max" | "min" if record is not None:
            if record.is_float:
                return -inf if monoid == "max" else inf
            if record.kind == "truth":
                return monoid == "min"
            return record.smallest if monoid == "max" else record.largest
        case _ if record is None:
            return 0
        case _ if record.kind == "text":
            return ""
        case _:
            one = monoid == "prod"
            return float(one) if record.is_float else one if record.kind == "truth" else int(one)
