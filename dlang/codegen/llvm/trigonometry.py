"""Trigonometric functions and their inverses, for `mathematics.py`: the same promises, u and notation as there."""

from __future__ import annotations

import math

from dlang.codegen.llvm.coefficients import PI, POLYNOMIALS
from dlang.codegen.llvm.emitter import Emitter


def _reduced_angle(e: Emitter, x: str, multiple: str) -> tuple[str, str]:
    """x - multiple * pi as a number of at most pi/2 (and a little) and its rounding error.

    `multiple` is an integer or a half-integer near x / pi. x - multiple * PI[0] is exact: both are multiples of the
    last bit of PI[0] / 2 and the difference is < 2 (but for cos of |x| < 1, where the derivative shrinks the error).
    The next product is carried with its error; the three parts of pi leave 2^-161 (2^-73) of |multiple|, and no number
    of the range is nearer than 2^-61 (2^-30) to a multiple of pi/2.
    """
    first, second, third = PI[e.dtype]
    exact = e.fnma(multiple, first, x)
    product, product_error = e.two_product(multiple, second)
    r = e.sub(exact, product)
    error = e.sub(e.sub(e.sub(exact, r), product), e.fma(multiple, third, product_error))
    return r, error


def _sine_of_reduced(e: Emitter, r: str, error: str, sign: str) -> str:
    """sin(r + error), negated where the lowest bit of `sign` is 1.

    r + (r^3 P(r^2) + error cos r), with 1 - r^2/2 for the cosine: enough, as |error| <= u |r|. At r near pi/2 the cubic
    term is 0.57 beside a result of 1, so r^3 is carried with its rounding error. That leaves 0.5 ulp of the last sum,
    1.3 u of the polynomial and its product, and 0.3 u of the error term: < 2.5 ulp.
    """
    z, z_error = e.two_product(r, r)
    cube, cube_error = e.two_product(z, r)
    cube_error = e.fma(z_error, r, cube_error)
    p = e.polynomial(z, POLYNOMIALS["SIN", e.dtype])
    correction = e.fma(cube_error, p, e.mul(error, e.fma(z, -0.5, 1.0)))
    value = e.add(r, e.fma(cube, p, correction))
    return e.float_of_bits(e.integer("xor", e.bits(value), e.integer("shl", sign, e.format.bits - 1)))


# Up to here x / pi is right to within 1/100 and a whole number of half its bits, so the reduction holds.
_FAR = {"f64": 2.0**40, "f32": 2.0**17}


def sin(e: Emitter, x: str) -> str:
    """(-1)^n sin(x - n pi), n = round(x / pi). Error < 2.5 ulp; for |x| < 2^-27 (2^-12.5) the result is x."""
    multiple, bits = e.round_to_integer(x, 1.0 / math.pi)
    value = _sine_of_reduced(e, *_reduced_angle(e, x, multiple), bits)
    value = e.identity_below(2.0**-27 if e.format.bits == 64 else 2.0**-13, x, value)
    return _libm_where(e, "sin", e.compare("ogt", e.abs(x), _FAR[e.dtype]), x, value)


def cos(e: Emitter, x: str) -> str:
    """(-1)^(n+1) sin(x - (n + 1/2) pi), n = round(x / pi - 1/2). Error < 2.5 ulp."""
    shifted = e.add(e.fma(x, 1.0 / math.pi, -0.5), e.format.rounder)
    multiple = e.add(e.sub(shifted, e.format.rounder), 0.5)
    sign = e.integer("xor", e.bits(shifted), 1)
    value = _sine_of_reduced(e, *_reduced_angle(e, x, multiple), sign)
    return _libm_where(e, "cos", e.compare("ogt", e.abs(x), _FAR[e.dtype]), x, value)


def _libm_where(e: Emitter, name: str, mask: str, x: str, value: str) -> str:
    """libm's function in the lanes of the mask, else the value: one branch that is almost never taken."""
    scalar, symbol = e.format.llvm, name if e.format.bits == 64 else name + "f"
    if e.width == 1:
        e.lines.extend((f"  br i1 {mask}, label %far, label %done", "far:"))
        far = e.instruction(f"call {scalar} @{symbol}({scalar} {x})")
        e.lines.extend(("  br label %done", "done:"))
        return e.instruction(f"phi {scalar} [ {value}, %entry ], [ {far}, %far ]")
    any_far = e.instruction(f"call i1 @llvm.vector.reduce.or.v{e.width}i1({e.lanes('i1')} {mask})")
    e.lines.extend((f"  br i1 {any_far}, label %far, label %done", "far:"))
    lane = e.instruction("phi i64 [ 0, %entry ], [ %next, %far ]")
    gathered = e.instruction(f"phi {e.type} [ {value}, %entry ], [ %with, %far ]")
    argument = e.instruction(f"extractelement {e.type} {x}, i64 {lane}")
    result = e.instruction(f"call {scalar} @{symbol}({scalar} {argument})")
    e.lines.extend(
        (
            f"  %with = insertelement {e.type} {gathered}, {scalar} {result}, i64 {lane}",
            f"  %next = add nuw nsw i64 {lane}, 1",
            f"  %more = icmp ult i64 %next, {e.width}",
            "  br i1 %more, label %far, label %merge",
            "merge:",
        )
    )
    merged = e.select(mask, "%with", value)
    e.lines.extend(("  br label %done", "done:"))
    return e.instruction(f"phi {e.type} [ {value}, %entry ], [ {merged}, %merge ]")


def tan(e: Emitter, x: str) -> str:
    """t = tan(x - n pi/2), n = round(x / (pi/2)), or -1 / t where n is odd. Error < 3 ulp; for small |x| it is x.

    |r| < pi/4 and a little, t = r + (r^3 P(r^2) + error (1 + r^2)): 0.5 ulp of the sum, 1 u of the cubic term, which is
    at most a quarter of t; the quotient adds 0.5 ulp.
    """
    f = e.format
    n, bits = e.round_to_integer(x, 2.0 / math.pi)
    r, error = _reduced_angle(e, x, e.mul(n, 0.5))
    z = e.mul(r, r)
    correction = e.fma(error, z, error)
    t = e.add(r, e.fma(e.mul(z, r), e.polynomial(z, POLYNOMIALS["TAN", e.dtype]), correction))
    is_odd = e.instruction(f"icmp ne {e.int_type} {e.integer('and', bits, 1)}, zeroinitializer")
    value = e.select(is_odd, e.div(-1.0, t), t)
    value = e.identity_below(2.0**-27 if f.bits == 64 else 2.0**-13, x, value)
    return _libm_where(e, "tan", e.compare("ogt", e.abs(x), _FAR[e.dtype]), x, value)


# ---- inverses --------------------------------------------------------------------------------------------------------
def _odd(e: Emitter, name: str, t: str, z: str) -> str:
    """f(t) - t = t z P(z) for an odd function with slope 1 at 0, z = t^2."""
    return e.mul(e.mul(t, z), e.polynomial(z, POLYNOMIALS[name, e.dtype]))


def _atan_of_quotient(e: Emitter, y: str, x: str) -> str:
    """atan(y / x) for y, x >= 0, of which at most one is zero or infinite, and y / x is not NaN.

    Below tan(pi/8), atan(q) is q + q^3 P(q^2). Above, up to tan(3 pi/8), it is pi/4 + atan((y - x) / (y + x)), beyond
    pi/2 - atan(x / y). Error < 2 ulp: u of the quotient and of its terms, half of it beside pi/4, and the last sum.
    """
    low, high = math.tan(math.pi / 8.0), math.tan(3.0 * math.pi / 8.0)
    middle = e.compare("ogt", y, e.mul(x, low))
    upper = e.compare("ogt", y, e.mul(x, high))
    numerator = e.select(upper, e.neg(x), e.select(middle, e.sub(y, x), y))
    denominator = e.select(upper, y, e.select(middle, e.add(y, x), x))
    t = e.div(numerator, denominator)
    first, second, _ = PI[e.dtype]
    base = e.select(upper, first / 2.0, e.select(middle, first / 4.0, 0.0))
    rest = e.select(upper, second / 2.0, e.select(middle, second / 4.0, 0.0))
    tail = _odd(e, "ATAN", t, e.mul(t, t))
    return e.add(base, e.add(t, e.add(tail, rest)))


def atan(e: Emitter, x: str) -> str:
    """See `_atan_of_quotient`; odd. Error < 2 ulp."""
    one = e.select(e.compare("uno", x, 0.0), x, 1.0)  # NaN stays NaN
    return e.copysign(_atan_of_quotient(e, e.abs(x), one), x)


def atan2(e: Emitter, y: str, x: str) -> str:
    """The angle of the point (x, y), from -pi to pi: atan |y / x|, for negative x taken from pi, with the sign of y.

    Both are scaled so that neither their sum overflows nor a quotient loses bits: by 1/4 where one is large, by a power
    of two where both are small. Two infinities count as equal; (±0, x) is ±0 or, where x has a minus sign, ±pi.
    Error < 3 ulp.
    """
    f = e.format
    across, up = e.abs(x), e.abs(y)
    limit = math.ldexp(1.0, f.bias - 2)
    large = e.select(e.compare("ogt", across, limit), 0.25, 1.0)
    scale = e.select(e.compare("ogt", up, limit), 0.25, large)
    small = math.ldexp(1.0, f.fraction + 2 - f.bias)
    both_small = e.both(e.compare("olt", across, small), e.compare("olt", up, small))
    scale = e.select(both_small, math.ldexp(1.0, f.fraction + 2), scale)
    both_infinite = e.both(e.compare("oeq", across, math.inf), e.compare("oeq", up, math.inf))
    across_scaled = e.select(both_infinite, 1.0, e.mul(across, scale))
    up_scaled = e.select(both_infinite, 1.0, e.mul(up, scale))
    at_origin = e.both(e.compare("oeq", x, 0.0), e.compare("oeq", y, 0.0))
    angle = _atan_of_quotient(e, up_scaled, e.select(at_origin, 1.0, across_scaled))

    first, second, _ = PI[e.dtype]
    is_left = e.compare("olt", e.copysign(1.0, x), 0.0)
    angle = e.select(is_left, e.sub(first, e.sub(angle, second)), angle)
    angle = e.select(e.compare("uno", x, y), math.nan, angle)
    return e.copysign(angle, y)


def _half_angle(e: Emitter, x: str) -> tuple[str, str, str]:
    """(m, s, asin(s) - s): s = |x|, or where the mask m (|x| > 1/2) holds sqrt((1 - |x|) / 2), so s <= 1/2.

    acos |x| = 2 asin(sqrt((1 - |x|) / 2)). The rounding error of the square root, (z - s^2) / 2s, is part of the last
    number. 1 - |x| is exact where it counts; |x| > 1 gives NaN.
    """
    magnitude = e.abs(x)
    upper = e.compare("ogt", magnitude, 0.5)
    z = e.select(upper, e.mul(e.sub(1.0, magnitude), 0.5), e.mul(magnitude, magnitude))
    root = e.intrinsic("sqrt", z)
    missing = e.div(e.fnma(root, root, z), e.add(e.add(root, root), e.format.least_normal))
    s = e.select(upper, root, magnitude)
    return upper, s, e.add(_odd(e, "ASIN", s, z), e.select(upper, missing, 0.0))


def asin(e: Emitter, x: str) -> str:
    """s + tail, or pi/2 - 2 (s + tail); odd. Error < 3 ulp: above 1/2 the parts are at most twice the result."""
    upper, s, tail = _half_angle(e, x)
    first, second, _ = PI[e.dtype]
    high, low = e.fast_two_sum(first / 2.0, e.mul(s, -2.0))
    turned = e.add(high, e.add(low, e.fma(tail, -2.0, second / 2.0)))
    return e.copysign(e.select(upper, turned, e.add(s, tail)), x)


def acos(e: Emitter, x: str) -> str:
    """pi/2 - asin(x) up to 1/2; beyond, 2 (s + tail), for negative x taken from pi. Error < 2 ulp."""
    upper, s, tail = _half_angle(e, x)
    first, second, _ = PI[e.dtype]
    is_negative = e.compare("olt", x, 0.0)
    signed_s, signed_tail = e.copysign(s, x), e.select(is_negative, e.neg(tail), tail)
    high, low = e.fast_two_sum(first / 2.0, e.neg(signed_s))
    middle = e.add(high, e.add(low, e.sub(second / 2.0, signed_tail)))
    double = e.mul(e.add(s, tail), 2.0)
    outer = e.select(is_negative, e.sub(first, e.sub(double, second)), double)
    return e.select(upper, outer, middle)
