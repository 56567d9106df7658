"""Exponentials, hyperbolic functions, logarithms, powers, for `mathematics.py`: the same promises, u and notation."""

from __future__ import annotations

import math

from dlang.codegen.llvm import emitter
from dlang.codegen.llvm.coefficients import LN2, POLYNOMIALS
from dlang.codegen.llvm.emitter import Emitter, Operand

_INFINITY = math.inf
_NAN = math.nan


# ---- exponentials ----------------------------------------------------------------------------------------------------
def _reduced_exp(e: Emitter, x: str, low: Operand = 0.0) -> tuple[str, str]:
    """p and k with e^(x + low) = 2^k (1 + p), k given as in `round_to_integer`; x bounded, |low| a rounding error of x.

    k = round(x / ln 2), so r = x - k ln 2 is at most 0.3467. ln 2 is a sum of two numbers; x - k LN2[0] is exact, as
    both are multiples of the last bit of LN2[0] and the difference is less than 1/2. p = r + r^2 P(r) = e^r - 1.
    Error of p: u of |r|, and 2^-53 r^2 (2^-24 r^2) from P.
    """
    high, low_part = LN2[e.dtype]
    k, bits = e.round_to_integer(x, 1.0 / math.log(2.0))
    r = e.fnma(k, low_part, e.fnma(k, high, x))
    if low != 0.0:
        r = e.add(r, low)
    return e.fma(e.mul(r, r), e.polynomial(r, POLYNOMIALS["EXP", e.dtype]), r), bits


def _exponent(e: Emitter, bits: str, offset: int = 0) -> str:
    """k + offset as an integer, from what `_reduced_exp` gives for k."""
    return e.integer("sub", bits, e.format.pattern(e.format.rounder) - offset)


def exp(e: Emitter, x: str, low: Operand = 0.0) -> str:
    """2^k (1 + p), as 2^k1 (1 + p) 2^k2 with k1 and k2 about k / 2: k reaches from -1076 to 1024 (-151 to 128).

    Arguments beyond those that give infinity or zero are moved to where they still do. Error < 1 ulp: p counts for at
    most 0.42 u, the sum for 0.5 ulp, and a denormal result is rounded a second time.
    """
    f = e.format
    clamped = e.clamp(x, *((-746.0, 709.9) if f.bits == 64 else (-104.5, 89.0)))
    p, bits = _reduced_exp(e, clamped, low)
    if e.avx512:
        return emitter.scaled(e, e.add(p, 1.0), e.sub(e.float_of_bits(bits), f.rounder))
    k = _exponent(e, bits)
    bias = 2 * (f.bias + 1)  # makes k positive for the shift: AVX2 has no arithmetic shift of i64
    half = e.integer("sub", e.integer("lshr", e.integer("add", k, bias), 1), bias // 2)
    first, second = e.power_of_two(half), e.power_of_two(e.integer("sub", k, half))
    return e.mul(e.fma(first, p, first), second)


def exp_of_negative(e: Emitter, x: str) -> str:
    """2^k (1 + p) for an x so little below zero, or NaN, that the result is a normal number. Error < 1 ulp."""
    p, bits = _reduced_exp(e, x)
    scale = e.power_of_two(bits)  # the rounder's bits are shifted out
    return e.fma(scale, p, scale)


def expm1(e: Emitter, x: str) -> str:
    """2 (2^(k-1) p + (2^(k-1) - 1/2)): the factor 2 keeps 2^(k-1) finite at the largest k.

    Where k = -1 or 1 the two terms can cancel, to no less than 0.29 and 0.41, where p counts for 2.4 ulp; error
    < 3 ulp. For |x| < u / 2 the result is x, which also keeps -0 and denormals.
    """
    wide = e.format.bits == 64
    clamped = e.clamp(x, *((-40.0, 709.9) if wide else (-20.0, 89.0)))
    p, bits = _reduced_exp(e, clamped)
    scale = e.power_of_two(_exponent(e, bits, -1))
    half = e.fma(scale, p, e.sub(scale, 0.5))
    return e.identity_below(2.0**-54 if wide else 2.0**-25, x, e.add(half, half))


def _quarter_exp(e: Emitter, x: str) -> tuple[str, str]:
    """p and s with e^|x| / 4 = s (1 + p), for the hyperbolic functions; s is finite up to where they overflow."""
    bound = 710.6 if e.format.bits == 64 else 89.5
    magnitude = e.abs(x)
    clamped = e.select(e.compare("ogt", magnitude, bound), bound, magnitude)
    p, bits = _reduced_exp(e, clamped)
    return p, e.power_of_two(_exponent(e, bits, -2))


def sinh(e: Emitter, x: str) -> str:
    """With t = e^|x| - 1: sinh |x| = (t + t / (t + 1)) / 2 = 2 (q + q / (4 q + 1)), q = t / 4, which can't overflow.

    Error < 3 ulp: that of t, the quotient and the sum. For |x| < 2^-27 (2^-12.5) the cubic term is below u / 2.
    """
    p, s = _quarter_exp(e, x)
    q = e.fma(s, p, e.sub(s, 0.25))
    half = e.add(q, e.div(q, e.fma(q, 4.0, 1.0)))
    small = 2.0**-27 if e.format.bits == 64 else 2.0**-13
    return e.identity_below(small, x, e.copysign(e.add(half, half), x))


def cosh(e: Emitter, x: str) -> str:
    """(E + 1 / E) / 2 with E = e^|x|; from q = E / 4: 2 q + 1 / (8 q). Error < 2 ulp."""
    p, s = _quarter_exp(e, x)
    q = e.fma(s, p, s)
    return e.fma(q, 2.0, e.div(1.0, e.mul(q, 8.0)))


def tanh(e: Emitter, x: str) -> str:
    """t / (t + 2) with t = e^(2 |x|) - 1, and the sign of x; beyond the bound the result is 1.

    The error of t, as in `expm1`, shrinks by 2 / (t + 2); the sum and the quotient add theirs: < 3 ulp.
    """
    bound = 20.0 if e.format.bits == 64 else 9.5
    magnitude = e.abs(x)
    clamped = e.select(e.compare("ogt", magnitude, bound), bound, magnitude)
    p, bits = _reduced_exp(e, e.add(clamped, clamped))
    scale = e.power_of_two(bits)  # the rounder's bits are shifted out
    t = e.fma(scale, p, e.sub(scale, 1.0))
    return e.copysign(e.div(t, e.add(t, 2.0)), x)


# ---- logarithms ------------------------------------------------------------------------------------------------------
def _split(e: Emitter, x: str, denormals: bool = True) -> tuple[str, str]:
    """k and f with x = 2^k (1 + f), 1 + f from sqrt(1/2) to sqrt(2), both exact; x > 0 and finite.

    x's bits less those of sqrt(1/2) hold k in the exponent's place and the fraction of 1 + f below it. k comes out as a
    float by putting k + bias, which is positive, into the low bits of 2^fraction. With AVX-512 k is infinite and f = 0
    for x = 0 and inf, and f is NaN for a negative x.
    """
    f = e.format
    if e.avx512:
        k, m = emitter.floor_log2(e, x), emitter.mantissa(e, x)
        above = e.compare("oge", m, 2.0 * f.nearest(math.sqrt(0.5)))
        return e.select(above, e.add(k, 1.0), k), e.sub(e.select(above, e.mul(m, 0.5), m), 1.0)
    scaled = x
    if denormals:
        is_denormal = e.compare("olt", x, f.least_normal)
        scaled = e.select(is_denormal, e.mul(x, 2.0 ** (f.fraction + 2)), x)
    root_half = f.pattern(f.nearest(math.sqrt(0.5)))
    offset = e.integer("sub", e.bits(scaled), root_half)
    biased = e.integer("lshr", e.integer("add", offset, f.one), f.fraction)
    in_low_bits = e.float_of_bits(e.integer("or", biased, f.pattern(f.spacing_one)))
    k = e.sub(in_low_bits, f.spacing_one + f.bias)
    if denormals:
        k = e.select(is_denormal, e.sub(k, f.fraction + 2.0), k)
    mantissa = e.integer("add", e.integer("and", offset, 2**f.fraction - 1), root_half)
    return k, e.sub(e.float_of_bits(mantissa), 1.0)


def _log_of_parts(e: Emitter, k: str, f: str, correction: Operand = 0.0) -> str:
    """k ln 2 + log(1 + f) + correction, the last a rounding error of the second.

    f64: with s = f / (2 + f), log(1 + f) = 2 atanh(s) = f - f^2/2 + s (f^2/2 + s^2 R(s^2)), as in FreeBSD's msun.
    f32: f - f^2/2 + f^3 P(f), a longer polynomial without a division. What is small is added first, so the error is
    0.5 ulp of the last sum, 0.5 u of f^2/2 < |f| / 4.9, and less from the rest: < 1.5 ulp.
    """
    high, low_part = LN2[e.dtype]
    if low_part < 0.0:  # of one sign, so that an infinite k gives no NaN
        high, low_part = high - 2.0**-24, low_part + 2.0**-24
    small = e.fma(k, low_part, correction)
    if e.format.bits == 64:
        s = e.div(f, e.add(f, 2.0))
        z = e.mul(s, s)
        half_square = e.mul(e.mul(f, 0.5), f)
        tail = e.fma(z, e.polynomial(z, POLYNOMIALS["ATANH", "f64"]), half_square)
        return e.fma(k, high, e.sub(f, e.sub(half_square, e.fma(s, tail, small))))
    square = e.mul(f, f)
    tail = e.fma(e.mul(square, f), e.polynomial(f, POLYNOMIALS["LOG1P", "f32"]), small)
    return e.fma(k, high, e.add(f, e.fma(square, -0.5, tail)))


def log_limits(e: Emitter, x: str, result: str) -> str:
    """The logarithm of x where it is 0, infinite, negative or NaN, else the result."""
    result = e.select(e.compare("oeq", x, _INFINITY), _INFINITY, result)
    result = e.select(e.compare("oeq", x, 0.0), -_INFINITY, result)
    return e.select(e.compare("ult", x, 0.0), _NAN, result)


def log(e: Emitter, x: str) -> str:
    """x = 2^k (1 + f): see `_split` and `_log_of_parts`. Error < 1.5 ulp; near 1, k is 0 and nothing cancels."""
    k, f = _split(e, x)
    result = _log_of_parts(e, k, f)
    return result if e.avx512 else log_limits(e, x, result)


def log1p(e: Emitter, x: str) -> str:
    """log(u) + c / u, where u = 1 + x rounded and c its rounding error. Error < 2 ulp. The sign is that of x.

    u is never denormal. The correction is within u of log(u)'s last bits, so its own rounding doesn't count; where |x|
    is below the spacing at 1, u = 1 and the result is c = x.
    """
    u, c = e.two_sum(1.0, x)
    k, f = _split(e, u, denormals=False)
    return e.copysign(log_limits(e, u, _log_of_parts(e, k, f, e.div(c, u))), x)


# ---- powers ----------------------------------------------------------------------------------------------------------
def log_double(e: Emitter, x: str) -> tuple[str, str]:
    """log(x) as a sum of two f64 with a relative error < 2^-64, for positive finite x.

    2 atanh(s) = 2 s + 2/3 s^3 + s^5 T(s^2), s = f / (2 + f): s and its cube are carried with their rounding errors. The
    last term is at most 2^-12.5 of the whole, so the few u of its own error are below 2^-64.
    """
    k, f = _split(e, x)
    divisor, divisor_error = e.fast_two_sum(2.0, f)
    s = e.div(f, divisor)
    remainder = e.fnma(s, divisor_error, e.fnma(s, divisor, f))
    s_error = e.div(remainder, divisor)
    z, z_error = e.two_product(s, s)
    z_error = e.fma(e.add(s, s), s_error, z_error)
    cube, cube_error = e.two_product(z, s)
    cube_error = e.fma(z_error, s, e.fma(z, s_error, cube_error))
    third = 2.0 / 3.0
    term, term_error = e.two_product(cube, third)
    term_error = e.fma(cube, _TWO_THIRDS_REST, e.fma(cube_error, third, term_error))

    high, low_part = _LN2_SHORT
    whole, e1 = e.fast_two_sum(e.mul(k, high), e.add(s, s))
    whole, e2 = e.fast_two_sum(whole, term)
    tail = e.fma(e.mul(cube, z), e.polynomial(z, POLYNOMIALS["ATANH_TAIL", "f64"]), term_error)
    tail = e.add(e.fma(s_error, 2.0, tail), e.add(e1, e2))
    return e.fast_two_sum(whole, e.fma(k, low_part, tail))


# The bits of ln 2 that leave room for an exponent's 11, and the rest; what 2/3 lacks.
_LN2_SHORT = (0.6931471805598903, 5.497923018708371e-14)
_TWO_THIRDS_REST = 3.700743415417188e-17


def _pow_in_f64(e: Emitter, x: str, y: str) -> str:
    """x^y to within 2^-28, for what were f32 numbers, x >= 0: each finite one and each result is a normal number here.

    log x = k ln 2 + f + f^2 P(f), to 2^-36 relative for the k and f of an x away from 1, and beside it as well, as f
    is then exact and the rest small. It is at most 104 where it counts, so e^(y log x) is right to 2^-29.
    """
    k, f = _split(e, x, denormals=False)
    series = e.fma(e.mul(f, f), e.polynomial(f, POLYNOMIALS["LOG1P_POW", "f64"]), f)
    logarithm = log_limits(e, x, e.fma(k, math.log(2.0), series))
    product = e.clamp(e.mul(logarithm, y), -200.0, 200.0)
    r_k, bits = e.round_to_integer(product, 1.0 / math.log(2.0))
    r = e.fnma(r_k, math.log(2.0), product)
    p = e.fma(e.mul(r, r), e.polynomial(r, POLYNOMIALS["EXP_POW", "f64"]), r)
    scale = e.power_of_two(bits)
    return e.fma(scale, p, scale)


def pow(e: Emitter, x: str, y: str) -> str:
    """|x|^y = e^(y log |x|), then the sign and the special cases of IEEE 754's pow. Error < 2 ulp.

    f64: y log |x| reaches 745, so it needs 2^-64 relative to be within u / 2: twice the precision. f32: in f64, where
    polynomials good for 2^-35 are enough.
    """
    magnitude = e.abs(x)
    if e.format.bits == 64:
        high, low = log_double(e, magnitude)
        high = log_limits(e, magnitude, high)
        product, error = e.two_product(high, y)
        error = e.fma(low, y, error)
        bounded = e.compare("olt", e.abs(product), 1000.0)
        power = exp(e, product, e.select(bounded, error, 0.0))
    else:
        wide = e.widened()
        base, exponent = (e.instruction(f"fpext {e.type} {a} to {wide.type}") for a in (magnitude, y))
        power = _pow_in_f64(wide, base, exponent)
        power = e.instruction(f"fptrunc {wide.type} {power} to {e.type}")
    power = e.select(e.compare("oeq", magnitude, 1.0), 1.0, power)

    half = e.mul(y, 0.5)
    is_whole = e.compare("oeq", e.intrinsic("roundeven", y), y)
    is_odd = e.both(is_whole, e.compare("one", e.intrinsic("roundeven", half), half))
    finite_negative = e.both(e.compare("olt", x, 0.0), e.compare("ogt", x, -_INFINITY))
    not_whole = e.select(is_whole, power, _NAN)
    power = e.select(finite_negative, not_whole, power)
    power = e.select(is_odd, e.copysign(power, x), power)
    power = e.select(e.compare("oeq", y, 0.0), 1.0, power)
    return e.select(e.compare("oeq", x, 1.0), 1.0, power)
