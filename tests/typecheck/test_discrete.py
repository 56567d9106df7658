"""Which derivatives go through discrete draws."""

from __future__ import annotations

import pytest

from tests.typecheck.support import check

HEAD = "import random\n"
WARNED = {
    "a condition": "fn f(p: f64) -> f64 ! random = grad(|q: f64| if random.bernoulli(q) { q } else { 0.0 })(p)",
    "a number of events": "fn f(p: f64) -> f64 ! random = jvp(|q: f64| f64(random.poisson(q)), p, 1.0).1",
    "elements": """
fn f(w: f64[n]) -> f64[n] ! random = grad(|v: f64[n]| sum(if random.bernoulli(q) { 1.0 } else { 0.0 } for q in v))(w)
""",
    "a function of one's own": """
fn coin(p: f64) -> bool ! random = random.uniform() < 0.5
fn heads(p: f64) -> f64 ! random { let both = (p, 1.0); if coin(both.0) { 1.0 } else { 0.0 } }
fn f(p: f64) -> f64 ! random = grad(heads)(p)
""",
    "a local function": """
fn f(p: f64) -> f64 ! random {
  let coin = |q: f64| if random.bernoulli(q) { 1.0 } else { 0.0 }
  grad(|q: f64| coin(q))(p)
}
""",
    "a seed inside": """
fn f(p: f64) -> f64 = grad(|q: f64| random.run(1, || if random.bernoulli(q) { 1.0 } else { 0.0 }))(p)
""",
    "what a loop carries": """
fn walk(p: f64) -> f64 ! random {
  var (here, at) = (0.5, 0)
  for i < 3 {
    at += if random.bernoulli(here) { 1 } else { 0 }
    here = p
  }
  f64(at)
}
fn f(p: f64) -> f64 ! random = value_and_grad(walk)(p).1
""",
    "a number that is compared": """
fn f(p: f64) -> f64 ! random = grad(|q: f64| where(random.uniform() < q, 1.0, 0.0))(p)
""",
    "a second derivative": """
fn f(p: f64) -> f64 ! random = hessian(|q: f64| if random.bernoulli(q) { q } else { 0.0 })(p)
""",
}
SILENT = {
    "what is stopped": """
fn f(p: f64) -> f64 ! random = grad(|q: f64| if random.bernoulli(stop_gradient(q)) { q } else { 0.0 })(p)
""",
    "noise": """
fn f(w: f64[n]) -> f64[n] ! random = grad(|v: f64[n]| sum(where(x + random.normal() > 0.0, x, 0.0) for x in v))(w)
""",
    "draws with slopes": "fn f(p: f64) -> f64 ! random = grad(|q: f64| random.gamma(q) + random.beta(q, q) * q)(p)",
    "data in random order": """
fn f(w: f64, x: f64[n]) -> f64 ! random = grad(|v: f64| v * random.choice(x) + v * random.shuffle(x)[0])(w)
""",
    "dropout at a rate that is given": """
fn drop(w: f64[n], rate: f64) -> f64 ! random = sum(if random.bernoulli(rate) { x } else { 0.0 } for x in w)
fn f(w: f64[n]) -> f64[n] ! random = grad(drop)(w, 0.5)
""",
    "a draw outside": "fn f(p: f64) -> f64 ! random { let k = random.poisson(p); grad(|q: f64| q * f64(k))(p) }",
    "what is not differentiated in": """
fn g(p: f64, x: f64) -> f64 ! random = if random.bernoulli(p) { x } else { 0.0 }
fn f(p: f64) -> f64 ! random = grad(g, wrt = x)(p, 2.0)
""",
}


@pytest.mark.parametrize("name", WARNED)
def test_a_derivative_through_a_discrete_draw_has_a_warning(name: str) -> None:
    (found,) = check(HEAD + WARNED[name]).diagnostics
    assert (found.code, found.severity) == ("E0712", "warning")
    assert found.span is not None and found.notes[0].span is not None


@pytest.mark.parametrize("name", SILENT)
def test_a_derivative_that_no_draw_hides_has_none(name: str) -> None:
    assert not check(HEAD + SILENT[name]).diagnostics
