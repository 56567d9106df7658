"""Derivatives at zero probabilities, in sums of probabilities that are computed by logarithms: those of the same sums
computed by products."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.ad.limits import TINY
from dlang.diagnostics import Source
from dlang.driver import Request, check, expanded
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Lit
from dlang.ir.traverse import parts, walk
from dlang.pipeline import optimise
from tests.specialize.support import lowered

SUM = "fn g(p: f64[n], a: f64[n]) -> f64 = log(sum(exp(a) * p))\n"
P, A = np.array([0.0, 1.0, 2.0, 0.0]), np.array([0.5, 0.3, -1.0, 2.0])

WRITTEN = {
    "with the builtin": "fn f(p: f64[n], a: f64[n]) -> f64 = logsumexp(a + log(p))",
    "by hand": """
fn lse(z: f64[n]) -> f64 { let m = max(z); m + log(sum(exp(v - m) for v in z)) }
fn f(p: f64[n], a: f64[n]) -> f64 = lse(a + log(p))""",
    "without a maximum": "fn f(p: f64[n], a: f64[n]) -> f64 = log(sum(exp(a + log(p))))",
    "one after another, with branches": """
fn f(p: f64[n], a: f64[n]) -> f64 {
  var s = -1.0 / 0.0
  for i < n {
    let z = a[i] + log(p[i])
    s = if s > z { s + log(1.0 + exp(z - s)) } else { z + (if s > -1e300 { log(1.0 + exp(s - z)) } else { 0.0 }) }
  }
  s
}""",
}
FORMS = """
fn pulled(p: f64[n], a: f64[n]) -> f64[n] = vjp(f, p, a).1(1.0).0
fn rows(p: f64[n], a: f64[n]) -> f64[n] = jacobian(f)(p, a)
fn columns(p: f64[n], a: f64[n]) -> f64[n] =
  [jvp(|q: f64[n]| f(q, a), p, [if i == j { 1.0 } else { 0.0 } for j < n]).1 for i < n]
fn trained(p: f64[n], a: f64[n]) -> f64[n] {
  var q = p
  for step < 3 { q = q + 0.1 * grad(f)(q, a) }
  q
}
"""
near = {"rtol": 1e-12, "atol": 1e-12}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_slope_of_a_sum_in_log_space_is_that_of_the_sum(name):
    m = dlang.compile(SUM + WRITTEN[name] + FORMS, backend="interp")
    expected = dlang.grad(m.g)(P, A)
    value, slope = dlang.value_and_grad(m.f)(P, A)
    np.testing.assert_allclose(value, m.g(P, A), **near)
    for found in (slope, m.pulled(P, A), m.rows(P, A), m.columns(P, A)):
        np.testing.assert_allclose(found, expected, **near)
    other = dlang.compile(SUM.replace("fn g", "fn f") + FORMS, backend="interp")
    np.testing.assert_allclose(m.trained(P, A), other.trained(P, A), **near)


HMM = """
fn in_logs(start: f64[k], move: f64[k, k], emit: f64[k, m], seen: Idx<m>[t]) -> f64 {
  assert t > 0
  var alpha = log(start) + log(emit[.., seen[0]])
  for i in 1..t { alpha = logsumexp([[alpha[j] + log(move[j, l]) for j] for l < k], axis = 1) + log(emit[.., seen[i]]) }
  logsumexp(alpha)
}
fn in_products(start: f64[k], move: f64[k, k], emit: f64[k, m], seen: Idx<m>[t]) -> f64 {
  assert t > 0
  var alpha = start * emit[.., seen[0]]
  for i in 1..t { alpha = [sum(alpha[j] * move[j, l] for j) for l < k] * emit[.., seen[i]] }
  log(sum(alpha))
}
"""


@pytest.mark.parametrize("backend", ["interp", "cpu"])
def test_a_hidden_markov_model_has_zeros_anywhere(backend):
    m = dlang.compile(HMM, backend=backend)
    start, seen = np.array([0.0, 0.4, 0.6]), np.array([0, 1, 2, 2, 0, 1])
    move = np.array([[0.5, 0.5, 0.0], [0.0, 0.3, 0.7], [0.2, 0.0, 0.8]])
    emit = np.array([[0.7, 0.3, 0.0], [0.0, 0.4, 0.6], [0.1, 0.2, 0.7]])
    every = ("start", "move", "emit")
    found, expected = [dlang.grad(f, wrt=every)(start, move, emit, seen) for f in (m.in_logs, m.in_products)]
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11)
    along = [0 * start, np.eye(3, k=2), 0 * emit]
    pushed = [dlang.jvp(f.bind(seen=seen), (start, move, emit), along)[1] for f in (m.in_logs, m.in_products)]
    assert pushed[0] == pytest.approx(pushed[1], rel=1e-11) and pushed[1] > 0.1


OTHERS = """
fn clamped(p: f64[n], a: f64[n]) -> f64 = sum(maximum(log(p), -1000.0)) + logsumexp(a + log(p + 1.0))
fn entropy(p: f64[n], a: f64[n]) -> f64 = sum(where(p > 0.0, p * log(p), 0.0)) + logsumexp(a + log(p))
fn masked(p: f64[n], a: f64[n]) -> f64 = logsumexp(where(p > 0.0, log(p), -1e9) + a)
fn squares(p: f64[n], a: f64[n]) -> f64 = sum(exp(2.0 * log(p) + a))
fn single(p: f32[n], a: f32[n]) -> f32 = logsumexp(a + log(p))
fn slope(p: f64[n], a: f64[n]) -> f64 = sum(exp(log(p)) * a) + 0.0 * log(p[0])
"""


def test_what_no_limit_is_found_for_stays_what_it_was():
    m = dlang.compile(SUM + OTHERS, backend="interp")
    expected = dlang.grad(m.g)(P, A)
    chosen = np.where(P > 0, expected, 0.0)
    np.testing.assert_allclose(dlang.grad(m.masked)(P, A), chosen, **near)
    logs = np.where(P > 0, np.log(np.where(P > 0, P, 1.0)) + 1.0, 0.0)
    np.testing.assert_allclose(dlang.grad(m.entropy)(P, A), expected + logs, **near)
    np.testing.assert_allclose(dlang.grad(m.squares)(P, A), 2 * P * np.exp(A), **near)
    assert dlang.jvp(m.squares, (P, A), (np.eye(4)[0], 0 * A))[1] == 0.0
    assert np.all(np.isfinite(dlang.grad(m.clamped)(P, A))) and dlang.grad(m.clamped)(P, A)[0] < 1.0
    single = dlang.grad(m.single)(P.astype(np.float32), A.astype(np.float32))
    np.testing.assert_allclose(single, expected, rtol=1e-4)


def test_only_logarithms_on_the_way_to_an_exponential_are_looked_at():
    text = """
fn density(x: f64[n], s: f64) -> f64 = sum(-0.5 * (x / s) ** 2 - log(s))
fn plain(x: f64[n], s: f64) -> f64 = grad(density, wrt = s)(x, s)
fn mixture(x: f64[n], s: f64[n]) -> f64 = logsumexp([log(s[i]) - x[i] ** 2 for i])
fn looked_at(x: f64[n], s: f64[n]) -> f64[n] = grad(mixture, wrt = s)(x, s)
fn twice(x: f64[n], s: f64[n]) -> f64[n, n] = hessian(mixture, wrt = s)(x, s)
"""
    for name, expected in (("plain", False), ("looked_at", True), ("twice", False)):
        made = lowered(text, name)
        program = optimise(made.program, [made.entry.name])
        lets = [let for f in program.functions.values() for let in walk(f.body)]
        assert any(Lit(TINY["f64"][0], "f64") in parts(let.op).atoms for let in lets) == expected, name


def test_a_program_that_is_followed_step_by_step_finds_the_same_limits():
    text = WRITTEN["by hand"] + "\nfn slope() -> f64[2] = grad(f)([0.0, 1.0], [0.5, 0.3])\n"
    program, entry = expanded(Request(check(Source("test.dl", text)).module.functions["slope"]))
    *_, found = Interpreter(program).run(entry.name, [])
    np.testing.assert_allclose(found, [np.exp(0.2), 1.0], **near)
