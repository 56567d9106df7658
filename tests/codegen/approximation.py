"""How the polynomials in `dlang/codegen/llvm/coefficients.py` were made: needs mpmath, which the compiler does not.

`python tests/codegen/approximation.py` prints that file's table; a test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np

BITS = 250


@dataclass(frozen=True, slots=True)
class Fit:
    """A function, its value where its formula is 0/0, the interval, and how many coefficients for each dtype."""

    function: Callable[[mpmath.mpf], mpmath.mpf]
    at_zero: tuple[int, int]
    interval: tuple[str, str]
    terms: dict[str, int]

    def __call__(self, t: mpmath.mpf) -> mpmath.mpf:
        if abs(t) < mpmath.mpf(10) ** -30:
            return mpmath.mpf(self.at_zero[0]) / self.at_zero[1]
        return self.function(t)


def _atanh_tail(z: mpmath.mpf) -> mpmath.mpf:
    root = mpmath.sqrt(z)
    return (2 * mpmath.atanh(root) / root - 2) / z


def _odd_tail(function: Callable[[mpmath.mpf], mpmath.mpf]) -> Callable[[mpmath.mpf], mpmath.mpf]:
    """(f(t) / t - 1) / z for an odd f with slope 1 at 0, as a function of z = t^2."""

    def tail(z: mpmath.mpf) -> mpmath.mpf:
        root = mpmath.sqrt(z)
        return (function(root) / root - 1) / z

    return tail


FITS = {
    "EXP": Fit(lambda r: (mpmath.expm1(r) - r) / r**2, (1, 2), ("-0.34675", "0.34675"), {"f64": 10, "f32": 5}),
    "ATANH": Fit(_atanh_tail, (2, 3), ("0", "0.02945"), {"f64": 7}),
    "ATANH_TAIL": Fit(lambda z: (_atanh_tail(z) - mpmath.mpf(2) / 3) / z, (2, 5), ("0", "0.02945"), {"f64": 7}),
    "LOG1P": Fit(lambda f: (mpmath.log1p(f) - f + f * f / 2) / f**3, (1, 3), ("-0.2929", "0.4143"), {"f32": 9}),
    "SIN": Fit(_odd_tail(mpmath.sin), (-1, 6), ("0", "2.4675"), {"f64": 8, "f32": 5}),
    "TAN": Fit(_odd_tail(mpmath.tan), (1, 3), ("0", "0.6171"), {"f64": 15, "f32": 7}),
    "ASIN": Fit(_odd_tail(mpmath.asin), (1, 6), ("0", "0.25"), {"f64": 13, "f32": 6}),
    "ATAN": Fit(_odd_tail(mpmath.atan), (-1, 3), ("0", "0.1716"), {"f64": 11, "f32": 5}),
}


def coefficients(name: str, dtype: str) -> tuple[float, ...]:
    """Lowest power first, rounded to the dtype."""
    fit = FITS[name]
    with mpmath.workprec(BITS):
        found = mpmath.chebyfit(fit, [mpmath.mpf(end) for end in fit.interval], fit.terms[dtype], asc=True)
        exact = [float(c) for c in found]
    return tuple(exact) if dtype == "f64" else tuple(float(np.float32(c)) for c in exact)


def parts(value: Callable[[], mpmath.mpf], dtype: str, count: int) -> tuple[float, ...]:
    """A constant as a sum of numbers of the dtype, each the nearest to what is left."""
    found = []
    with mpmath.workprec(BITS):
        rest = value()
        for _ in range(count):
            found.append(float(rest) if dtype == "f64" else float(np.float32(float(rest))))
            rest -= found[-1]
    return tuple(found)


CONSTANTS: dict[str, tuple[Callable[[], mpmath.mpf], int]] = {
    "LN2": (lambda: mpmath.log(2), 2),
    "PI": (lambda: +mpmath.pi, 3),
}


def table() -> str:
    """The dictionaries as they stand in the source."""
    lines = []
    for name, (value, count) in CONSTANTS.items():
        lines.append(f"{name}: dict[str, tuple[float, ...]] = {{")
        lines.extend(f'    "{dtype}": {parts(value, dtype, count)!r},' for dtype in ("f64", "f32"))
        lines.extend(["}", ""])
    lines.append("POLYNOMIALS: dict[tuple[str, str], tuple[float, ...]] = {")
    for name, fit in FITS.items():
        for dtype in fit.terms:
            lines.append(f'    ("{name}", "{dtype}"): (')
            lines.extend(f"        {c!r}," for c in coefficients(name, dtype))
            lines.append("    ),")
    return "\n".join([*lines, "}"])


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
