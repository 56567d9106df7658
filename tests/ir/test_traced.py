"""The reference for derivatives: its table against differences, and derivatives inside of derivatives."""

import numpy as np
import pytest

from dlang.interpret.traced import SLOPES, Dual, Tape, apply, f64, widened
from dlang.ir.values import FUNCTIONS
from dlang.ops.primitives import PRIMITIVES

POINTS = {
    "asin": (0.3,),
    "acos": (0.3,),
    "mod": (2.9, 0.7),
    "powi": (1.3, 3),
    "zero_safe_mul": (0.4, 2.5),
    "digamma": (-0.6,),
}


@pytest.mark.parametrize("name", sorted(SLOPES))
def test_the_slope_of_a_primitive_is_that_of_differences(name):
    point = POINTS.get(name, (1.3, 0.7)[: PRIMITIVES[name].arity])
    result = FUNCTIONS[name](*map(np.float64, point))
    for k, slope in enumerate(SLOPES[name]):
        if slope is None:
            continue
        ends = []
        for sign in (1, -1):
            moved = [np.float64(x) for x in point]
            moved[k] += sign * 1e-6
            ends.append(FUNCTIONS[name](*moved))
        found = slope(*map(np.float64, point), result)
        found = 0.0 if found is None else found
        np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-6, rtol=1e-7, atol=1e-8)


def test_every_primitive_with_a_derivative_has_a_slope():
    wanted = {n for n, p in PRIMITIVES.items() if any(text is not None for text in p.derivative)}
    assert wanted == {*SLOPES, "select"}


def test_tags_keep_perturbations_apart():
    """d/dx (x · d/dy (x + y)) is 1."""
    x = Dual(1, np.float64(3.0), np.float64(1.0))
    inner = f64("add", x, Dual(2, np.float64(2.0), np.float64(1.0)))
    assert isinstance(inner, Dual) and inner.tag == 2
    assert f64("mul", x, inner.tangent).tangent == 1.0


def test_a_tape_can_be_differentiated():
    """The second derivative of x³ at 2 is 12: a tangent through the cotangents of a tape."""
    tape = Tape(2, [])
    x = tape.record(Dual(1, np.float64(2.0), np.float64(1.0)), [])
    y = apply("mul", (apply("mul", (x, x), "f64"), x), "f64")
    slope = tape.cotangents([(y, np.float64(1.0))])[x.place]
    assert (slope.value, slope.tangent) == (12.0, 12.0)


def test_derivatives_are_f64_whatever_the_value():
    x = Dual(1, np.float32(1.5), np.float64(0.1))
    y = apply("mul", (x, x), "f32")
    assert type(y.value) is np.float32 and y.tangent == 3.0 * np.float64(0.1)
    assert type(widened(y).value) is np.float64
