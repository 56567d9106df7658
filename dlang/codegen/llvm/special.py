"""The error function, the logarithm of the gamma function and its derivative, for `mathematics.py`: notation as there.

`lgamma` and `digamma` have zeros at negative arguments, near which a float determines them badly. For negative x their
errors are within 3 units in the last place of what is subtracted there, or of 1 if that is less: log gamma |x|, and
psi(1 - x) or pi cot(pi x). In f32 both are computed in f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dlang.codegen.llvm.coefficients import (
    DIGAMMA_ROOT,
    ERF_CENTRES,
    ERF_PIECES,
    ERF_STEP,
    LGAMMA_REST,
    PI,
    POLYNOMIALS,
)
from dlang.codegen.llvm.emitter import TABLE, Emitter, looked_up
from dlang.codegen.llvm.exponentials import exp, exp_of_negative, log, log_double

Function = Callable[[Emitter, str], str]

_INFINITY = math.inf
_NAN = math.nan


# ---- error functions -------------------------------------------------------------------------------------------------
def erf(e: Emitter, x: str) -> str:
    """Near zero x + x E(x^2), beyond 1 - erfc |x| with the sign of x, of an |x| up to where that is 1. Error < 2 ulp.

    f64: see `_complement`, from 1/2 on. f32: erfc |x| = e^(x (T(x) - 1)) from 0.9277 on, where an error of the exponent
    counts for less than a quarter. With AVX-512: see `_erf_by_pieces`.
    """
    if e.avx512:
        return _erf_by_pieces(e, x)
    magnitude = e.abs(x)
    if e.format.bits == 64:
        bounded = e.select(e.compare("ogt", magnitude, 6.0), 6.0, magnitude)
        large = e.copysign(e.sub(1.0, _complement(e, bounded)), x)
        return e.select(e.compare("olt", magnitude, 0.5), _near_zero(e, x, "ERF"), large)
    bounded = e.select(e.compare("ogt", magnitude, 3.95), 3.95, magnitude)
    exponent = e.fma(bounded, e.polynomial(bounded, POLYNOMIALS["ERF_TAIL", "f32"]), e.neg(bounded))
    large = e.copysign(e.sub(1.0, exp_of_negative(e, exponent)), x)
    return e.select(e.compare("olt", magnitude, 0.927734375), _near_zero(e, x, "ERF_WIDE"), large)


def _erf_by_pieces(e: Emitter, x: str) -> str:
    """A polynomial in t for each of 16 intervals, |x| = c + t, with centres c and coefficients from registers.

    Beyond the last it is 1. In the first it is t + t E(t²), in the others erf c is right to within a fraction of a unit
    and t exact; so most errors are those of the last two operations. Error < 1.5 ulp.
    """
    step = ERF_STEP[e.dtype]
    magnitude = e.abs(x)
    last = (TABLE - 0.51) * step
    bounded = e.select(e.compare("ogt", magnitude, last), last, magnitude)
    _, number = e.round_to_integer(bounded, 1.0 / step)
    t = e.sub(bounded, looked_up(e, number, ERF_CENTRES[e.dtype]))
    constant, *lower, highest = ERF_PIECES[e.dtype]
    total = looked_up(e, number, highest)
    for coefficients in reversed(lower):
        total = e.fma(total, t, looked_up(e, number, coefficients))
    first = e.instruction(f"icmp eq {e.int_type} {number}, {e.whole(e.format.pattern(e.format.rounder))}")
    return e.copysign(e.fma(total, t, e.select(first, t, looked_up(e, number, constant))), x)


def erfc(e: Emitter, x: str) -> str:
    """1 - erf x for x < 1/2, where it is at least 0.47; beyond see `_complement`. Error < 3 ulp."""
    magnitude = e.abs(x)
    tail = _complement(e, magnitude)
    large = e.select(e.compare("olt", x, 0.0), e.sub(2.0, tail), tail)
    near = _near_zero(e, x, "ERF" if e.format.bits == 64 else "ERF_WIDE")
    return e.select(e.compare("olt", magnitude, 0.5), e.sub(1.0, near), large)


def _near_zero(e: Emitter, x: str, name: str) -> str:
    """erf x = x + x E(x^2) near zero; E is at most 0.13, so its error hardly counts."""
    return e.fma(x, e.polynomial(e.mul(x, x), POLYNOMIALS[name, e.dtype]), x)


def _complement(e: Emitter, x: str) -> str:
    """erfc x = e^(-x^2) W(q) / (1 + 2 x) for x >= 1/2, q = (x - 4) / (x + 4): W is smooth, from 1.13 to 1.28.

    Beyond the bound the result is 0. x^2 is carried with its rounding error, which would be one of e^(-x^2) many times
    as large, and so are W, 1 + 2 x and their quotient: error < 2.5 ulp, most of it that of the exponential. After
    Shepherd and Laframboise, Chebyshev approximation of (1 + 2 x) exp(x^2) erfc x; 1981.
    """
    bound = 28.0 if e.format.bits == 64 else 11.0
    x = e.select(e.compare("ogt", x, bound), bound, x)
    first, *others = POLYNOMIALS["ERFC", e.dtype]
    q = e.div(e.sub(x, 4.0), e.add(x, 4.0))
    w, w_error = e.fast_two_sum(first, e.mul(q, e.polynomial(q, others)))
    divisor, divisor_error = e.two_sum(e.add(x, x), 1.0)
    inverse = e.div(1.0, divisor)
    quotient = e.mul(w, inverse)
    remainder = e.fnma(quotient, divisor_error, e.add(e.fnma(quotient, divisor, w), w_error))
    square, error = e.two_product(x, x)
    power = exp(e, e.neg(square), e.neg(error))
    return e.fma(power, quotient, e.mul(power, e.mul(remainder, inverse)))


# ---- gamma functions -------------------------------------------------------------------------------------------------
def lgamma(e: Emitter, x: str) -> str:
    """log |gamma x|: from 4.5 on by `_stirling`, below by `_shifted`, of |x|; for negative x by reflection.

    log |gamma(-a)| = log(pi / (a |sin(pi a)|)) - log gamma(a). For a < 1/2 the factors a cancel and are left out.
    """
    return _widened(e, x, _lgamma)


def _lgamma(e: Emitter, x: str) -> str:
    a = e.abs(x)
    negative = e.compare("olt", x, 0.0)
    is_large = e.compare("oge", a, 4.5)
    tiny = e.compare("olt", a, 0.5)
    reflected_tiny = e.both(negative, tiny)
    product, error = _shift_product(e, a, tiny, reflected_tiny)
    high, low = log_double(e, e.select(is_large, a, product))
    value = e.select(is_large, _stirling(e, a, high, low), _shifted(e, a, product, error, high, low))
    value = e.select(e.compare("oeq", a, 0.0), _INFINITY, value)

    scale = e.mul(e.select(reflected_tiny, 1.0, a), _sine(e, e.abs(_to_integer(e, a))))
    reflected = e.sub(e.neg(log(e, e.mul(scale, 1.0 / math.pi))), value)
    reflected = e.select(e.compare("oeq", scale, 0.0), _INFINITY, reflected)  # a pole
    value = e.select(negative, reflected, value)
    return e.select(e.compare("oeq", a, _INFINITY), _INFINITY, value)


def _stirling(e: Emitter, a: str, high: str, low: str) -> str:
    """(a - 1/2) (log a - 1) + (log(2 pi) - 1) / 2 + S(1 / a^2) / a, log a given as a sum. Error < 1 ulp."""
    less, error = e.two_sum(high, -1.0)
    factor = e.sub(a, 0.5)
    product, product_error = e.two_product(factor, less)
    inverse = e.div(1.0, a)
    series = e.mul(e.polynomial(e.mul(inverse, inverse), POLYNOMIALS["STIRLING", "f64"]), inverse)
    tail = e.add(e.fma(factor, e.add(error, low), product_error), e.add(series, (math.log(2 * math.pi) - 1) / 2))
    return e.select(e.compare("oeq", product, _INFINITY), _INFINITY, e.add(product, tail))


def _shift_product(e: Emitter, a: str, tiny: str, reflected: str) -> tuple[str, str]:
    """Emits a product of numbers one apart that relates gamma(a) to gamma(2 + t), t from -5/8 to 1/2, as a sum.

    a (1 + a) for a < 1/2 (1 + a alone where it is reflected), a for a < 11/8, 1, a - 1 from 5/2 on, (a - 2) (a - 1)
    from 7/2 on.
    """
    above, above_error = e.two_sum(1.0, a)
    both, both_error = e.two_product(above, a)
    both_error = e.fma(above_error, a, both_error)
    low = e.select(reflected, above, e.select(tiny, both, a))
    low_error = e.select(reflected, above_error, e.select(tiny, both_error, 0.0))
    below = e.sub(a, 1.0)
    two, two_error = e.two_product(below, e.sub(a, 2.0))
    far = e.compare("oge", a, 3.5)
    high = e.select(far, two, e.select(e.compare("oge", a, 2.5), below, 1.0))
    is_low = e.compare("olt", a, 1.375)
    return e.select(is_low, low, high), e.select(is_low, low_error, e.select(far, two_error, 0.0))


def _shifted(e: Emitter, a: str, product: str, error: str, high: str, low: str) -> str:
    """log gamma(2 + t) = t P(t), plus or minus the logarithm of the product, which is high + low + error / product.

    Below 11/8 the two cancel, from 1 and 0.42 of |t| to 0.58 and at worst 0.31, so P is carried with the rounding
    errors of its last two sums: error < 2.5 ulp.
    """
    shift = e.select(e.compare("oge", a, 3.5), 4.0, e.select(e.compare("oge", a, 2.5), 3.0, 2.0))
    is_low = e.compare("olt", a, 1.375)
    shift = e.select(is_low, e.select(e.compare("olt", a, 0.5), 0.0, 1.0), shift)
    t = e.sub(a, shift)
    first, second, *others = POLYNOMIALS["LGAMMA", "f64"]
    slope, slope_error = e.fast_two_sum(second, e.mul(t, e.polynomial(t, others)))
    rise, rise_error = e.two_product(t, slope)
    p, p_error = e.fast_two_sum(first, rise)
    p_error = e.add(p_error, e.fma(t, slope_error, rise_error))
    smooth, smooth_error = e.two_product(t, p)
    smooth_error = e.fma(t, e.add(p_error, LGAMMA_REST), smooth_error)
    low = e.add(low, e.div(error, product))
    high, low = (e.select(is_low, e.neg(part), part) for part in (high, low))
    total, total_error = e.two_sum(high, smooth)
    return e.add(total, e.add(total_error, e.add(smooth_error, low)))


def digamma(e: Emitter, x: str) -> str:
    """The derivative of log gamma: from 5 on by its asymptotic series, below from that on [1, 5/2]; for negative x by
    reflection, psi(-a) = psi(1 + a) + pi cot(pi a). NaN at the negative whole numbers: poles of both signs.
    """
    return _widened(e, x, _digamma)


def _digamma(e: Emitter, x: str) -> str:
    a = e.abs(x)
    negative = e.compare("olt", x, 0.0)
    below_one = e.compare("olt", a, 1.0)
    smooth, ratio = _near_root(e, a, below_one)
    value = e.add(smooth, ratio)

    inverse = e.div(1.0, a)
    square = e.mul(inverse, inverse)
    series = e.mul(square, e.polynomial(square, POLYNOMIALS["DIGAMMA_TAIL", "f64"]))
    asymptotic = e.sub(log(e, a), e.fma(inverse, 0.5, series))
    value = e.select(e.compare("oge", a, 5.0), asymptotic, value)

    above = e.select(below_one, smooth, e.add(value, inverse))  # psi(1 + a)
    r = _to_integer(e, a)
    distance = e.abs(r)
    cotangent = e.copysign(e.div(_sine(e, e.sub(0.5, distance)), _sine(e, distance)), r)
    value = e.select(negative, e.fma(cotangent, math.pi, above), value)
    pole = e.both(negative, e.compare("oeq", distance, 0.0))
    value = e.select(pole, _NAN, value)
    return e.select(e.compare("oeq", x, 0.0), e.copysign(_INFINITY, e.neg(x)), value)


def _near_root(e: Emitter, a: str, below_one: str) -> tuple[str, str]:
    """psi(y), y from 1 to 5/2, and a rational number, whose sum is psi(a); for a < 5.

    psi(y) = (y - root) G(y - 7/4), with the root as a sum of two numbers, so nothing cancels near it. y is a less a
    whole number: a + 1 for a < 1, where the rational number is -1 / a, else, y being at least 3/2, the sum of the
    1 / (y + i) < 1 / a, positive as psi(y).
    """
    root, root_error = DIGAMMA_ROOT
    bounded = e.select(e.compare("oge", a, 5.0), 4.0, a)
    shift = e.select(e.compare("olt", a, 2.5), 0.0, e.intrinsic("floor", e.sub(bounded, 1.5)))
    y = e.sub(bounded, shift)  # y - 1 for a < 1, where a + 1 would be rounded
    difference = e.sub(y, e.select(below_one, root - 1.0, root))
    g = e.polynomial(e.sub(y, e.select(below_one, 0.75, 1.75)), POLYNOMIALS["DIGAMMA", "f64"])
    smooth = e.fma(difference, g, e.mul(g, -root_error))
    numerator, denominator = e.select(below_one, -1.0, 0.0), e.select(below_one, bounded, 1.0)
    for i in range(3):
        wanted = e.compare("ogt", shift, float(i))
        factor = e.add(y, float(i))
        numerator = e.select(wanted, e.fma(numerator, factor, denominator), numerator)
        denominator = e.select(wanted, e.mul(denominator, factor), denominator)
    return smooth, e.div(numerator, denominator)


# ---- inner parts -----------------------------------------------------------------------------------------------------
def _to_integer(e: Emitter, a: str) -> str:
    """a less the nearest whole number, exactly."""
    return e.sub(a, e.intrinsic("roundeven", a))


def _sine(e: Emitter, w: str) -> str:
    """sin(pi w) for w from 0 to 1/2, pi as a sum of two numbers. Error < 1.5 ulp."""
    first, second, _ = PI["f64"]
    angle, error = e.two_product(w, first)
    error = e.fma(w, second, error)
    z = e.mul(angle, angle)
    cubic = e.mul(e.mul(angle, z), e.polynomial(z, POLYNOMIALS["SIN", "f64"]))
    return e.add(angle, e.add(cubic, e.mul(error, e.fma(z, -0.5, 1.0))))


def _widened(e: Emitter, x: str, function: Function) -> str:
    """A function of f64, of which the arguments and results may be f32."""
    if e.format.bits == 64:
        return function(e, x)
    wide = e.widened()
    result = function(wide, e.instruction(f"fpext {e.type} {x} to {wide.type}"))
    return e.instruction(f"fptrunc {wide.type} {result} to {e.type}")
