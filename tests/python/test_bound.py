"""Functions with some arguments given once and for all."""

import copy
import inspect

import numpy as np
import pytest

import dlang
from dlang.host.platform.objects import can_call
from dlang.python.function import Function

MODULE = """
import random { normal }
struct Model { w: f64[3], scale: f64 }
fn fit(x: f64[n, k], y: f64[n], w: f64[k]) -> f64 {
  let g = exp(x) / sum(exp(x))
  sum((g @ w - log(1.0 + y * y)) ** 2)
}
fn line(x: f64[n], m: Model) -> f64 = sum((exp(x) * m.scale + sum(m.w)) ** 2)
fn normed<a: Float>(x: a[n], t: a) -> a[n] = t * (x / sqrt(sum(x * x)))
fn at(x: f64[n], i: i64, w: f64) -> f64 = x[i] * w
fn both(x: f64[n], i: i64, y: f64[k], j: i64) -> f64 = y[j] + x[i]
fn noise(x: f64[n], w: f64) -> f64 ! random = w * sum(exp(x)) + normal()
fn named(x: f64, label: str, factor: f64 = 2.0) -> str = "{label}: {x * factor}"
fn ramp(n: size, x: f64[n]) -> f64[n] = [exp(f64(i)) for i < n] + x
fn positive(x: f64[n], w: f64) -> f64 = w * sum([exp(v) for v in x if v > 0.0])
fn applied(f: f64 -> f64, x: f64) -> f64 = f(x)
fn open(x, y) = exp(x) * y
fn marked(x: f64[n], w: f64) -> f64 {
  let names = [if x[i] > 0.0 { "a" } else { "b{i}" } for i < n]
  sum(if names[i] == "a" and w > 0.0 { x[i] } else { w } for i < n)
}
fn shown(x: f64[n], w: f64) -> str[n] {
  let names = ["{v:.1f}" for v in x]
  if w > 0.0 { names } else { ["{s} {w}" for s in names] }
}
"""

random = np.random.default_rng(7)
X, Y, W = random.normal(size=(20, 3)), random.normal(size=20), random.normal(size=3)


@pytest.fixture(scope="module", params=["interp", "cpu"])
def m(request):
    return dlang.compile(MODULE, backend=request.param)


def assert_same(found, expected):
    """The same but for rounding: what was computed once is no longer fused with the rest."""
    if isinstance(expected, str):
        assert found == expected
    else:
        assert type(found) is type(expected) and np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6 if np.asarray(expected).dtype == np.float32 else 1e-13)


def test_a_bound_function_gives_what_the_function_gives(m):
    model = m.Model(W, 0.5)
    for f, args in [
        (m.fit, (X, Y, W)), (m.line, (Y, model)), (m.normed, (Y, 2.0)), (m.normed, (Y.astype(np.float32), 2.0)),
        (m.at, (Y, 3, 2.0)), (m.noise, (Y, 2.0)), (m.named, (2.0, "two")), (m.named, (2.0, "two", 3.0)),
        (m.ramp, (20, Y)), (m.positive, (Y, 2.0)), (m.open, (Y, 3.0)), (m.open, (Y, Y)),
        (dlang.grad(m.fit), (X, Y, W)), (dlang.grad(m.fit, wrt="w"), (X, Y, W)),
    ]:  # fmt: skip
        expected = f(*args)
        names = [p.local.name for p in f.decl.params][: len(args)]
        for chosen in range(2 ** len(args)):
            given = {n: a for k, (n, a) in enumerate(zip(names, args, strict=True)) if chosen >> k & 1}
            left = [a for k, a in enumerate(args) if not chosen >> k & 1]
            bound = f.bind(**given)
            for _ in range(3):
                assert_same(bound(*left), expected)


def test_texts_that_are_made_early(m):
    x = np.array([1.0, -1.0, 2.0])
    for f, args in [(m.marked, (x, 2.0)), (m.shown, (x, -2.0)), (m.shown, (x, 2.0)), (m.shown, (x[:0], 2.0))]:
        expected, bound = f(*args), f.bind(args[0])
        for _ in range(3):
            assert np.array_equal(bound(args[1]), expected)


def test_what_depends_on_bound_arguments_alone_runs_once(m):
    bound = m.fit.bind(X, Y)
    for k in range(5):
        assert_same(bound(W + k), m.fit(X, Y, W + k))
    assert bound.early_runs == 1


def test_the_rest_has_none_of_it():
    m = dlang.compile(MODULE)
    rest, early = m.fit.bind(x=X, y=Y).ir().split(".early")
    assert "exp" not in rest and "log" not in rest and "contract" in rest
    assert "exp" in early and "log" in early and "contract" not in early
    rest, early = m.fit.bind(w=W).ir().split(".early")
    assert "exp" in rest and "comp" not in early


def test_operations_are_counted_once():
    m = dlang.compile(MODULE, backend="interp")
    bound = m.fit.bind(X, Y)
    bound(W), m.fit(X, Y, W)
    split, whole = [i.runner for i in m.fit.program._instances.values()]
    before = split.counts["Prim"], whole.counts["Prim"]
    bound(W), m.fit(X, Y, W)
    assert split.counts["Prim"] - before[0] <= 4 * len(Y) < (whole.counts["Prim"] - before[1]) / 2


def test_derivatives_of_bound_functions_are_bound(m):
    expected = dlang.grad(m.fit, wrt="w")(X, Y, W)
    for g in (
        dlang.grad(m.fit.bind(X, Y)), dlang.grad(m.fit.bind(X, Y), wrt=0), dlang.grad(m.fit.bind(x=X, y=Y), wrt="w"),
        dlang.grad(m.fit, wrt="w").bind(X, Y), dlang.grad(m.fit, wrt="w").bind(X).bind(Y),
    ):  # fmt: skip
        for _ in range(3):
            assert_same(g(W), expected)
        assert g.early_runs == 1
    value, slope = dlang.value_and_grad(m.fit.bind(X, Y))(W)
    assert_same(value, m.fit(X, Y, W))
    assert_same(slope, expected)
    np.testing.assert_allclose(dlang.hessian(m.fit.bind(X, Y))(W), dlang.hessian(m.fit, wrt="w")(X, Y, W))
    with pytest.raises(dlang.DlangError, match="all its parameters are bound"):
        dlang.grad(m.fit.bind(X, Y, W))
    with pytest.raises(dlang.DlangError, match="no parameter 1 is left"):
        dlang.grad(m.fit.bind(X, Y), wrt=1)


def test_bound_arrays_are_copies(m):
    x = Y.copy()
    bound = m.normed.bind(x)
    expected = m.normed(x, 2.0)
    np.testing.assert_array_equal(bound(2.0), expected)
    x[:] = 1.0
    np.testing.assert_array_equal(bound(2.0), expected)
    np.testing.assert_array_equal(bound(np.float64(2.0)), expected)


def test_results_that_are_computed_once_are_not_handed_out_twice(m):
    bound = m.ramp.bind(20, Y)
    first = bound()
    expected = first.copy()
    first[:] = 0.0
    np.testing.assert_array_equal(bound(), expected)
    once = m.open.bind(Y)
    a = once(1.0)
    a[:] = 0.0
    np.testing.assert_array_equal(once(1.0), m.open(Y, 1.0))


def test_what_fails_first_is_what_fails_first_without_binding(m):
    def message(call):
        with pytest.raises(dlang.DlangError) as caught:
            call()
        return str(caught.value)

    for bound, args in [
        (m.at.bind(Y, 20), (2.0,)), (m.at.bind(w=2.0), (Y, 20)), (m.both.bind(Y, 20), (Y, 21)),
        (m.both.bind(y=Y, j=21), (Y, 20)), (m.both.bind(y=Y, j=21), (Y, 2)),
    ]:  # fmt: skip
        given = {p.local.name: v for p, v in bound.values.items()}
        for _ in range(3):
            left = {p.local.name: v for p, v in zip(bound.left, args, strict=True)}
            assert message(lambda b=bound, a=args: b(*a)) == message(
                lambda b=bound, g=given, w=left: b.function(**g, **w)
            )


def test_misuse_of_bind_is_refused(m):
    for call, words in [
        (lambda: m.fit.bind(1, 2, 3, 4), "takes 3 arguments, got 4"),
        (lambda: m.fit.bind(z=1), "has no parameter `z`"),
        (lambda: m.fit.bind(X, x=X), "is given `x` twice"),
        (lambda: m.fit.bind(X)(Y, W, W), "has `y`, `w` left to be given, got 3"),
        (lambda: m.fit.bind(X)(Y), "needs `w`"),
        (lambda: m.fit.bind(X)(Y, W, x=X), "is given `x` twice"),
        (lambda: m.fit.bind(X)(Y, y=Y), "is given `y` twice"),
        (lambda: m.fit.bind(X[0])(Y, W), "argument `x`"),
        (lambda: m.fit.bind(X)(Y[:3], W), "argument `x`"),
        (lambda: m.applied.bind(x=1.0), "takes a function"),
    ]:
        with pytest.raises(dlang.DlangError) as caught:
            call()
        assert words in str(caught.value)


def test_a_bound_function_says_what_it_is(m):
    bound = m.fit.bind(X)
    assert list(inspect.signature(bound).parameters) == ["y", "w"]
    assert list(inspect.signature(m.noise.bind(Y)).parameters) == ["w", "seed"]
    assert "`x` bound" in repr(bound) and copy.deepcopy(bound) is bound
    assert m.noise.bind(Y)(2.0, seed=5) == m.noise(Y, 2.0, seed=5) != m.noise(Y, 2.0)


def test_a_bound_function_can_be_bound_further(m):
    assert_same(m.fit.bind(X).bind(w=W)(Y), m.fit(X, Y, W))
    assert_same(m.fit.bind(X, Y, W)(), m.fit(X, Y, W))


@pytest.mark.skipif(not can_call(), reason="calls go through Python here")
def test_calls_of_bound_functions_are_direct():
    m = dlang.compile(MODULE)
    for bound, args in [
        (m.fit.bind(X, Y), (W,)),
        (dlang.grad(m.fit.bind(X, Y)), (W,)),
        (m.named.bind(label="x"), (1.0,)),
    ]:
        for _ in range(3):
            bound(*args)
        left = bound.left[0].local.name
        function, bound.function = bound.function, None  # what goes through Python fails now
        try:
            bound(*args)
        finally:
            bound.function = function
        bound(**{left: args[0]})
        function, bound.function = bound.function, None
        try:
            bound(**{left: args[0]})
        finally:
            bound.function = function
    other = m.fit.bind(2.0 * X, Y)
    for _ in range(3):
        assert_same(other(W), Function.__call__(m.fit, 2.0 * X, Y, W))
        assert other(W) != m.fit.bind(X, Y)(W)


def test_tangents_and_cotangents_are_those_of_the_parameters_that_are_left(m):
    dw = np.array([1.0, -2.0, 0.5])
    bound = m.fit.bind(X, Y)
    value, tangent = dlang.jvp(bound, W, dw)
    expected = dlang.jvp(m.fit, (X, Y, W), (np.zeros_like(X), np.zeros_like(Y), dw))
    assert_same(value, expected[0])
    assert_same(tangent, expected[1])
    value, pull = dlang.vjp(bound, W)
    assert_same(value, m.fit(X, Y, W))
    assert_same(pull(2.0), 2.0 * dlang.grad(m.fit, wrt="w")(X, Y, W))
    middle = m.fit.bind(y=Y)
    for found, wanted in zip(dlang.vjp(middle, X, W)[1](1.0), dlang.grad(m.fit, wrt=["x", "w"])(X, Y, W), strict=True):
        assert_same(found, wanted)
    assert_same(dlang.jvp(middle, (X, W), (np.zeros_like(X), dw))[1], tangent)
    with pytest.raises(dlang.DlangError, match="has 2 parameters left"):
        dlang.vjp(middle, X)


def test_products_of_a_bound_function_whose_types_or_sizes_are_open(m):
    assert_same(dlang.jvp(m.open.bind(y=Y), X[:, 0], Y)[1], np.exp(X[:, 0]) * Y * Y)
    assert_same(dlang.vjp(m.open.bind(y=Y), X[:, 0])[1](Y), np.exp(X[:, 0]) * Y * Y)
    ramp = m.ramp.bind(20)
    assert_same(dlang.vjp(ramp, Y)[1](Y), Y)
    assert_same(dlang.jvp(m.noise.bind(Y), 2.0, 1.0, seed=3)[1], float(np.sum(np.exp(Y))))


def test_what_depends_on_bound_arguments_is_computed_once_for_all_tangents(m):
    bound = m.fit.bind(X, Y)
    for k in range(3):
        dlang.jvp(bound, W, np.eye(3)[k])
    assert bound.once("jvp", lambda: bound).early_runs == 1


def test_a_profile_of_a_bound_function_has_what_runs_at_a_call():
    m = dlang.compile(MODULE)
    whole, rest = m.fit.profile(X, Y, W), m.fit.bind(X, Y).profile(W)
    assert_same(rest.result, whole.result)
    calls = [sum(row.calls for row in p.rows) for p in (whole, rest)]
    assert 0 < calls[1] < calls[0]
