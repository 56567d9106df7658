"""What a derivative may not pass through in silence: `nodiff` parameters, custom rules, discrete values."""

import numpy as np
import pytest

import dlang

RULED = """
fn clipped(x: f64) -> f64 = x
pullback clipped(x) -> y = |dy| clip(dy, -1.0, 1.0)
fn outer(x: f64) -> f64 = 100.0 * clipped(x)
fn f(x: f64) -> f64 = grad(outer)(x)
fn g(x: f64) -> f64 = grad(|v: f64| v * v)(x) + clipped(x)
"""


def test_a_function_with_a_rule_of_its_own_is_not_differentiated_by_its_body():
    with pytest.raises(dlang.DlangError, match="custom rule of `clipped`"):
        dlang.compile(RULED).f(1.0)


def test_a_rule_that_no_derivative_needs_is_no_matter():
    assert dlang.compile(RULED).g(3.0) == 9.0


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_a_nodiff_parameter_carries_no_derivative(backend):
    module = dlang.compile(
        "fn scaled(x: f64, nodiff k: f64) -> f64 = k * x\nfn f(x: f64) -> f64 = grad(|v: f64| scaled(v, v))(x)",
        backend=backend,
    )
    assert module.f(3.0) == 3.0


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_other_leaves_of_a_gradient_are_those_of_the_argument(backend):
    module = dlang.compile(
        """
        struct S { w: f64[3], n: i64, on: bool }
        fn loss(s: S) -> f64 = if s.on { f64(s.n) * sum(s.w ** 2) } else { 0.0 }
        fn f(w: f64[3]) -> S = grad(loss)(S(w = w, n = 2, on = true))
        """,
        backend=backend,
    )
    slope = module.f(np.array([1.0, 2.0, 3.0]))
    assert slope.w.tolist() == [4.0, 8.0, 12.0] and slope.n == 2 and slope.on is True


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_a_conversion_to_an_integer_stops_the_derivative(backend):
    module = dlang.compile("fn f(x: f64) -> f64 = grad(|v: f64| v * f64(i64(v)))(x)", backend=backend)
    assert module.f(2.5) == 2.0
