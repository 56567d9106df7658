"""Derivatives asked for from Python."""

import numpy as np
import pytest

import dlang

MODULE = """
struct Line { slope: f64, offset: f64, tag: i64 }

fn cube(x: f64) -> f64 = x ** 3
fn area(x: f64, y: f64) -> f64 = x * y
fn norm(x: f64[n]) -> f64 = sum(x ** 2)
fn loss(line: Line, x: f64[n], y: f64[n]) -> f64 = mean((line.slope * x + line.offset - y) ** 2)
fn scaled(x: f64, factor: f64 = 3.0) -> f64 = factor * x * x
fn vector(x: f64[n]) -> f64[n] = x
fn counted(n: i64) -> f64 = f64(n)
"""


@pytest.fixture(scope="module", params=["interp", "cpu"])
def m(request):
    return dlang.compile(MODULE, backend=request.param)


def test_the_gradient_of_a_scalar(m):
    assert dlang.grad(m.cube)(2.0) == 12.0


def test_the_gradient_of_an_array_is_an_array_of_any_size(m):
    slope = dlang.grad(m.norm)
    slope(np.ones(2))
    before = dlang.compilations()
    for n in (1, 5, 100):
        x = np.arange(float(n))
        assert np.array_equal(slope(x), 2 * x)
    assert dlang.compilations() == before


def test_parameters_are_chosen_by_name(m):
    assert dlang.grad(m.area, wrt="y")(2.0, 3.0) == 2.0
    assert dlang.grad(m.area, wrt=("x", "y"))(2.0, 3.0) == (3.0, 2.0)
    assert dlang.grad(m.area, wrt=1)(2.0, y=3.0) == 2.0


def test_the_gradient_of_a_struct_is_a_struct(m):
    line = m.Line(slope=2.0, offset=0.0, tag=7)
    x = np.array([0.0, 1.0, 2.0])
    value, slope = dlang.value_and_grad(m.loss, wrt="line")(line, x, np.zeros(3))
    assert value == pytest.approx(np.mean((2 * x) ** 2))
    assert type(slope) is m.Line and slope.tag == 7
    assert slope.slope == pytest.approx(np.mean(2 * 2 * x * x)) and slope.offset == pytest.approx(4.0)


def test_defaults_keep_working(m):
    assert dlang.grad(m.scaled)(2.0) == 12.0
    assert dlang.grad(m.scaled)(2.0, factor=1.0) == 4.0


def test_derivatives_nest(m):
    assert dlang.grad(dlang.grad(m.cube))(2.0) == pytest.approx(12.0)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda m: dlang.grad(m.vector), ["`vector`", "one float"]),
        (lambda m: dlang.grad(m.counted), ["`counted`", "`n` has no float"]),
        (lambda m: dlang.grad(m.area, wrt="z"), ["no parameter `z`", "`x`, `y`"]),
        (lambda m: dlang.grad(m.area, wrt=5), ["no parameter 5"]),
        (lambda m: dlang.grad(abs), ["functions of the language"]),
    ],
)
def test_what_cannot_be_differentiated_is_refused(m, call, words):
    with pytest.raises(dlang.DlangError) as caught:
        call(m)
    assert all(word in str(caught.value) for word in words)
