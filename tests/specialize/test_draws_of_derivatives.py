"""Derivatives draw what the value draws, however they are nested: each is compared with differences of the one below
it at the same seed.
"""

from __future__ import annotations

import numpy as np
import pytest

import dlang

F = """
import random
fn f(x: f64[n]) -> f64 ! random = random.normal() * x[0] ** 3 * x[1] ** 2 + random.normal() * sum(x ** 5)
"""
X, T, SEED = np.array([0.75, -1.25]), np.array([0.5, 0.875]), 3
STEP = 1e-5

INNER = {
    "f": (lambda f: f, 0),
    "grad(f)": (lambda f: dlang.grad(f), 1),
    "jacobian(f)": (lambda f: dlang.jacobian(f), 1),
    "hessian(f)": (lambda f: dlang.hessian(f), 2),
    "jacobian(grad(f))": (lambda f: dlang.jacobian(dlang.grad(f)), 2),
    "jacobian(jacobian(f))": (lambda f: dlang.jacobian(dlang.jacobian(f)), 2),
}
"""Functions of x, each with how it is made from Python and how many axes its value has."""

LAST = {
    "jacobian": ("jacobian({})(x)", lambda g: dlang.jacobian(g)(X, seed=SEED), lambda y, j: j),
    "jvp": ("jvp({}, x, t).1", lambda g: dlang.jvp(g, X, T, seed=SEED)[1], lambda y, j: j @ T),
    "vjp": (
        "{{ let (y, pull) = vjp({}, x); pull(y) }}",
        lambda g: (lambda y, pull: pull(y))(*dlang.vjp(g, X, seed=SEED)),
        lambda y, j: np.tensordot(y, j, np.ndim(y)),
    ),
}
"""Forms of functions with any value: in the language, from Python, and from the value and its differences."""

OF_FLOATS = {
    "grad(f)": ("grad(f)(x)", lambda f: dlang.grad(f)(X, seed=SEED)),
    "value_and_grad(f)": ("value_and_grad(f)(x).1", lambda f: dlang.value_and_grad(f)(X, seed=SEED)[1]),
}


def in_language(texts, backend="cpu"):
    fns = [f"fn a{k}(x: f64[n], t: f64[n]) = random.run({SEED}, || {text})" for k, text in enumerate(texts)]
    m = dlang.compile(F + "\n".join(fns), backend=backend)
    return [(lambda x, k=k: getattr(m, f"a{k}")(x, T)) for k in range(len(texts))]


def slopes(g):
    """Differences of a function: its Jacobian."""
    moved = [(np.asarray(g(X + STEP * e)) - np.asarray(g(X - STEP * e))) / (2 * STEP) for e in np.eye(len(X))]
    return np.stack(moved, axis=-1)


@pytest.fixture(scope="module")
def f():
    return dlang.compile(F).f


@pytest.mark.parametrize("name", LAST)
@pytest.mark.parametrize("inner", INNER)
def test_a_form_of_a_form_draws_what_the_inner_one_does(f, inner, name):
    make, _ = INNER[inner]
    text, from_python, expected = LAST[name]
    g = make(f)
    below, found = in_language([f"{inner}(x)", text.format(inner)])
    wanted = expected(g(X, seed=SEED), slopes(lambda x: g(x, seed=SEED)))
    assert below(X) == pytest.approx(g(X, seed=SEED))
    assert found(X) == pytest.approx(wanted, rel=1e-5, abs=1e-5)
    assert from_python(g) == pytest.approx(wanted, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", LAST)
@pytest.mark.parametrize("form", [dlang.grad, dlang.jacobian, dlang.hessian])
def test_a_form_of_a_bound_form_draws_what_it_does(form, name):
    m = dlang.compile("import random\nfn f(x: f64[n], y) -> f64 ! random = random.normal() * sum(x ** 3) * y")
    g = form(m.f).bind(y=2.0)
    _, from_python, expected = LAST[name]
    assert from_python(g) == pytest.approx(
        expected(g(X, seed=SEED), slopes(lambda x: g(x, seed=SEED))), rel=1e-5, abs=1e-5
    )


@pytest.mark.parametrize("name", OF_FLOATS)
def test_a_gradient_draws_what_the_value_does(f, name):
    text, from_python = OF_FLOATS[name]
    wanted = slopes(lambda x: f(x, seed=SEED))
    assert from_python(f) == pytest.approx(wanted, rel=1e-5, abs=1e-5)
    assert in_language([text])[0](X) == pytest.approx(wanted, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("inner", ["grad(f)", "jacobian(f)"])
def test_a_hessian_draws_what_the_gradient_does(f, inner):
    g = INNER[inner][0](f)
    wanted = slopes(lambda x: g(x, seed=SEED))
    assert dlang.hessian(f)(X, seed=SEED) == pytest.approx(wanted, rel=1e-5, abs=1e-5)
    for backend in ("interp", "cpu"):
        found = in_language(["hessian(f)(x)"], backend)[0]
        assert found(X) == pytest.approx(wanted, rel=1e-5, abs=1e-5)


def test_forms_beside_other_draws_draw_what_their_function_does_there():
    """The event of a nested form is that of its call: what comes after it is numbered alike."""
    forms = ["grad(f)(x)", "jacobian(f)(x)", "jacobian(grad(f))(x)", "hessian(f)(x)"]
    fns = [
        f"fn a{k}(x: f64[n]) = random.run(1, || {{ let a = random.normal(); let y = {form}; (a, y, random.normal()) }})"
        for k, form in enumerate(forms)
    ]
    m = dlang.compile(F + "\n".join(fns))
    first, again, *seconds = [getattr(m, f"a{k}") for k in range(4)]
    assert first(X)[1] == pytest.approx(again(X)[1])
    for second in seconds:
        assert second(X)[1] == pytest.approx(slopes(lambda x: first(x)[1]), rel=1e-5, abs=1e-5)
        assert second(X)[0] == first(X)[0] and second(X)[2] == first(X)[2]


def test_a_form_of_a_function_that_is_known_only_when_it_runs_draws_what_it_does():
    m = dlang.compile(
        F
        + """
fn g(x: f64[n]) -> f64 ! random = random.normal() * x[1] ** 4
fn pick(k: i64) -> (f64[2]) -> f64 ! random = if k == 0 { f } else { g }
fn slope(k: i64, x: f64[2]) = random.run(1, || grad(pick(k))(x))
fn bend(k: i64, x: f64[2]) = random.run(1, || jacobian(grad(pick(k)))(x))
"""
    )
    for k in (0, 1):
        assert m.bend(k, X) == pytest.approx(slopes(lambda x, k=k: m.slope(k, x)), rel=1e-5, abs=1e-5)
