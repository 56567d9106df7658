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


# Up to here x / pi is right to within 1/100 and a whole number of half its bits, so the reduction holds.
_FAR = {"f64": 2.0**40, "f32": 2.0**17}


def _circle(e: Emitter, x: str) -> tuple[str, str, str]:
    """sin r, cos r and the low bits of n, where x = n pi/2 + r and |r| is at most pi/4 and a little.

    sin: r + (r^3 P(r^2) + error (1 - r^2/2)), with an error of the reduction of at most u |r|. cos: 1 - r^2/2 with the
    rounding error of that, and r^4 Q(r^2) - r error. What is added to the larger term is at most a fifth of it: 0.5 ulp
    of the last sum, 0.4 u of the rest.
    """
    n, bits = e.round_to_integer(x, 2.0 / math.pi)
    r, error = _reduced_angle(e, x, e.mul(n, 0.5))
    z = e.mul(r, r)
    cubic = e.mul(e.mul(z, r), e.polynomial(z, POLYNOMIALS["SIN_SHORT", e.dtype]))
    sine = e.add(r, e.add(cubic, e.mul(error, e.fma(z, -0.5, 1.0))))
    one_less = e.fma(z, -0.5, 1.0)
    missing = e.fma(z, -0.5, e.sub(1.0, one_less))
    quartic = e.fma(e.mul(z, z), e.polynomial(z, POLYNOMIALS["COS_SHORT", e.dtype]), missing)
    cosine = e.add(one_less, e.fnma(r, error, quartic))
    return sine, cosine, bits


def _turned(e: Emitter, even: str, odd: str, quarter: str) -> str:
    """One of two values by the lowest bit of a number of quarter turns, negated where the next bit is 1."""
    is_odd = e.instruction(f"icmp ne {e.int_type} {e.integer('and', quarter, 1)}, zeroinitializer")
    sign = e.integer("shl", e.integer("lshr", quarter, 1), e.format.bits - 1)
    return e.float_of_bits(e.integer("xor", e.bits(e.select(is_odd, odd, even)), sign))


def sin(e: Emitter, x: str) -> str:
    """sin r, cos r, -sin r, -cos r for n = 0, 1, 2, 3. Error < 1.5 ulp; for |x| < 2^-27 (2^-12.5) the result is x."""
    return _libm_where(e, x, {"sin": _sine(e, x, _circle(e, x))})["sin"]


def cos(e: Emitter, x: str) -> str:
    """cos r, -sin r, -cos r, sin r for n = 0, 1, 2, 3: the sine of a quarter turn more. Error < 1.5 ulp."""
    return _libm_where(e, x, {"cos": _cosine(e, _circle(e, x))})["cos"]


def sine_and_cosine(e: Emitter, x: str) -> tuple[str, str]:
    """Both, the same bits as each alone, for little more than one."""
    circle = _circle(e, x)
    both = _libm_where(e, x, {"sin": _sine(e, x, circle), "cos": _cosine(e, circle)})
    return both["sin"], both["cos"]


def _sine(e: Emitter, x: str, circle: tuple[str, str, str]) -> str:
    return e.identity_below(2.0**-27 if e.format.bits == 64 else 2.0**-13, x, _turned(e, *circle))


def _cosine(e: Emitter, circle: tuple[str, str, str]) -> str:
    sine, cosine, n = circle
    return _turned(e, sine, cosine, e.integer("add", n, 1))


def _libm_where(e: Emitter, x: str, values: dict[str, str]) -> dict[str, str]:
    """libm's functions where the angle is huge, else the values: one branch that is almost never taken."""
    mask = e.compare("ogt", e.abs(x), _FAR[e.dtype])
    scalar, suffix = e.format.llvm, "" if e.format.bits == 64 else "f"
    if e.width == 1:
        e.lines.extend((f"  br i1 {mask}, label %far, label %done", "far:"))
        far = {name: e.call(scalar, f"{name}{suffix}", (scalar, x)) for name in values}
        e.lines.extend(("  br label %done", "done:"))
        return {n: e.instruction(f"phi {scalar} [ {v}, %entry ], [ {far[n]}, %far ]") for n, v in values.items()}
    any_far = e.call("i1", f"llvm.vector.reduce.or.v{e.width}i1", (e.lanes("i1"), mask))
    e.lines.extend((f"  br i1 {any_far}, label %far, label %done", "far:"))
    lane = e.instruction("phi i64 [ 0, %entry ], [ %next, %far ]")
    gathered = {n: e.instruction(f"phi {e.type} [ {v}, %entry ], [ %with.{n}, %far ]") for n, v in values.items()}
    argument = e.instruction(f"extractelement {e.type} {x}, i64 {lane}")
    for name in values:
        result = e.call(scalar, f"{name}{suffix}", (scalar, argument))
        e.lines.append(f"  %with.{name} = insertelement {e.type} {gathered[name]}, {scalar} {result}, i64 {lane}")
    e.lines.extend(
        (
            f"  %next = add nuw nsw i64 {lane}, 1",
            f"  %more = icmp ult i64 %next, {e.width}",
            "  br i1 %more, label %far, label %merge",
            "merge:",
        )
    )
    merged = {n: e.select(mask, f"%with.{n}", v) for n, v in values.items()}
    e.lines.extend(("  br label %done", "done:"))
    return {n: e.instruction(f"phi {e.type} [ {v}, %entry ], [ {merged[n]}, %merge ]") for n, v in values.items()}


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
    return _libm_where(e, x, {"tan": value})["tan"]


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
    base_error = e.select(upper, second / 2.0, e.select(middle, second / 4.0, 0.0))
    tail = _odd(e, "ATAN", t, e.mul(t, t))
    return e.add(base, e.add(t, e.add(tail, base_error)))


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
