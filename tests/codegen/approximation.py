"""How the polynomials in `dlang/codegen/llvm/coefficients.py` were made: needs mpmath, which the compiler does not.

`python tests/codegen/approximation.py` prints that file's table; a test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np

from dlang.codegen.llvm.coefficients import ERF_CENTRES, ERF_STEP

BITS = 250


@dataclass(frozen=True, slots=True)
class Fit:
    """A function, its value at 0 if its formula is 0/0 there, the interval, how many coefficients for each dtype."""

    function: Callable[[mpmath.mpf], mpmath.mpf]
    at_zero: tuple[int, int] | None
    interval: tuple[str, str]
    terms: dict[str, int]

    def __call__(self, t: mpmath.mpf) -> mpmath.mpf:
        if self.at_zero is not None and abs(t) < mpmath.mpf(10) ** -30:
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


def _cosine_tail(z: mpmath.mpf) -> mpmath.mpf:
    return (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2


def _erfc(q: mpmath.mpf) -> mpmath.mpf:
    x = 4 * (1 + q) / (1 - q)
    return (1 + 2 * x) * mpmath.exp(x * x) * mpmath.erfc(x)


def _stirling(z: mpmath.mpf) -> mpmath.mpf:
    x = 1 / mpmath.sqrt(z)
    main = (x - mpmath.mpf(1) / 2) * (mpmath.log(x) - 1) + (mpmath.log(2 * mpmath.pi) - 1) / 2
    return (mpmath.loggamma(x) - main) * x


def _digamma_tail(z: mpmath.mpf) -> mpmath.mpf:
    x = 1 / mpmath.sqrt(z)
    return (mpmath.log(x) - 1 / (2 * x) - mpmath.digamma(x)) / z


def digamma_root() -> mpmath.mpf:
    """Where the derivative of gamma is 0."""
    return mpmath.findroot(mpmath.digamma, (mpmath.mpf("1.46"), mpmath.mpf("1.47")), solver="anderson")


def _digamma(t: mpmath.mpf) -> mpmath.mpf:
    y = t + mpmath.mpf(7) / 4
    return mpmath.digamma(y) / (y - digamma_root())


FITS = {
    "EXP": Fit(lambda r: (mpmath.expm1(r) - r) / r**2, (1, 2), ("-0.34675", "0.34675"), {"f64": 10, "f32": 5}),
    "ATANH": Fit(_atanh_tail, (2, 3), ("0", "0.02945"), {"f64": 7}),
    "ATANH_TAIL": Fit(lambda z: (_atanh_tail(z) - mpmath.mpf(2) / 3) / z, (2, 5), ("0", "0.02945"), {"f64": 7}),
    "LOG1P": Fit(lambda f: (mpmath.log1p(f) - f + f * f / 2) / f**3, (1, 3), ("-0.2929", "0.4143"), {"f32": 9}),
    "LOG1P_POW": Fit(lambda f: (mpmath.log1p(f) - f) / f**2, (-1, 2), ("-0.2929", "0.4143"), {"f64": 14}),
    "EXP_POW": Fit(lambda r: (mpmath.expm1(r) - r) / r**2, (1, 2), ("-0.34675", "0.34675"), {"f64": 6}),
    "SIN": Fit(_odd_tail(mpmath.sin), (-1, 6), ("0", "2.4675"), {"f64": 8}),
    "SIN_SHORT": Fit(_odd_tail(mpmath.sin), (-1, 6), ("0", "0.6171"), {"f64": 6, "f32": 3}),
    "COS_SHORT": Fit(_cosine_tail, (1, 24), ("0", "0.6171"), {"f64": 6, "f32": 3}),
    "TAN": Fit(_odd_tail(mpmath.tan), (1, 3), ("0", "0.6171"), {"f64": 15, "f32": 7}),
    "ASIN": Fit(_odd_tail(mpmath.asin), (1, 6), ("0", "0.25"), {"f64": 13, "f32": 6}),
    "ATAN": Fit(_odd_tail(mpmath.atan), (-1, 3), ("0", "0.1716"), {"f64": 11, "f32": 5}),
    "ERF": Fit(lambda z: mpmath.erf(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1, None, ("0", "0.25"), {"f64": 9}),
    "ERF_WIDE": Fit(lambda z: mpmath.erf(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1, None, ("0", "0.88"), {"f32": 6}),
    "ERF_TAIL": Fit(lambda t: mpmath.log(mpmath.erfc(t)) / t + 1, None, ("0.9", "3.95"), {"f32": 7}),
    "ERFC": Fit(_erfc, None, ("-0.7778", "0.75"), {"f64": 24, "f32": 15}),
    "LGAMMA": Fit(lambda t: mpmath.loggamma(2 + t) / t, None, ("-0.625", "0.5"), {"f64": 22}),
    "STIRLING": Fit(_stirling, None, ("0", "0.0494"), {"f64": 9}),
    "DIGAMMA": Fit(_digamma, None, ("-0.75", "0.75"), {"f64": 28}),
    "DIGAMMA_TAIL": Fit(_digamma_tail, None, ("0", "0.04"), {"f64": 9}),
}


ERF_TERMS = {"f64": 14, "f32": 7}
_FARTHEST = 2.0**-10  # from a multiple of the step to the centre that is near it


def erf_pieces(dtype: str) -> tuple[tuple[float, ...], ...]:
    """For each power of t, the coefficients of erf(c + t) at each centre c, at c = 0 of erf t - t.

    That of the first interval is odd, so that its error is small in units of erf.
    """
    pieces = []
    with mpmath.workprec(BITS):
        half, terms = mpmath.mpf(ERF_STEP[dtype]) / 2, ERF_TERMS[dtype]
        odd = mpmath.chebyfit(FITS["ERF"], [mpmath.mpf(10) ** -40, half**2], terms // 2, asc=True)
        pieces.append([odd[n // 2] if n % 2 and n // 2 < len(odd) else mpmath.mpf(0) for n in range(terms)])
        ends = [-half - _FARTHEST, half + _FARTHEST]
        for centre in ERF_CENTRES[dtype][1:]:
            pieces.append(mpmath.chebyfit(lambda t, c=centre: mpmath.erf(c + t), ends, terms, asc=True))
    rounded = float if dtype == "f64" else lambda c: float(np.float32(float(c)))
    return tuple(tuple(rounded(piece[n]) for piece in pieces) for n in range(terms))


def lgamma_rest() -> float:
    """What the first coefficient of LGAMMA lacks."""
    with mpmath.workprec(BITS):
        first = _fitted("LGAMMA", "f64")[0]
        return float(first - mpmath.mpf(float(first)))


def _fitted(name: str, dtype: str) -> list[mpmath.mpf]:
    fit = FITS[name]
    found: list[mpmath.mpf] = mpmath.chebyfit(
        fit, [mpmath.mpf(end) for end in fit.interval], fit.terms[dtype], asc=True
    )
    return found


def coefficients(name: str, dtype: str) -> tuple[float, ...]:
    """Lowest power first, rounded to the dtype."""
    with mpmath.workprec(BITS):
        exact = [float(c) for c in _fitted(name, dtype)]
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
    lines += [f"DIGAMMA_ROOT = {parts(digamma_root, 'f64', 2)!r}", f"LGAMMA_REST = {lgamma_rest()!r}", ""]
    lines.append("POLYNOMIALS: dict[tuple[str, str], tuple[float, ...]] = {")
    for name, fit in FITS.items():
        for dtype in fit.terms:
            lines.append(f'    ("{name}", "{dtype}"): (')
            lines.extend(f"        {c!r}," for c in coefficients(name, dtype))
            lines.append("    ),")
    return "\n".join([*lines, "}"])


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
