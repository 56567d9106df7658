"""Arrays that all nodes of a variant hold are read where they are in scope: such nodes hold none, and values agree."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.ir.anf import Array
from dlang.pipeline import normalise
from tests.ad.four_ways import four_ways
from tests.meaning import meaning
from tests.specialize.support import lowered

HEAD = """
enum Shape<n> { Flat(f64[n]), Peak(f64[n], f64) }
fn at(s: Shape<n>, i: i64) -> f64 = match s { Flat(a) => a[i], Peak(a, b) => a[i] * b }
fn line(q: f64[k], t: f64) -> f64 { let i = i64(floor(abs(t))) % (k - 1); q[i] + (t - floor(t)) * (q[i + 1] - q[i]) }
fn f(q: f64[k], x: f64, p: f64[n]) -> f64 {
  BODY
}
"""
BODIES = {
    "a function that is chosen before a loop": """
  let g = if x > 0.2 { |t: f64| line(q, t) } else { |t: f64| t * x }
  var y = x
  for v in p { y += v * g(y) }
  y""",
    "a function that an iteration may replace": """
  var g = |y: f64| y * x
  var t = x
  for i < n { if p[i] > t { g = |y: f64| y * q[i % k] }; t = sin(g(t)) }
  t""",
    "an array of functions that capture two": """
  let g = [if p[i] > x { |y: f64| sin(y) } else { |y: f64| y * q[i % k] + p[0] } for i < n]
  var t = 0.3
  for i < n { t = g[i](t + p[i]) }
  t""",
    "a function of a function": """
  let g = if x > 0.2 { |t: f64| line(q, t) } else { |t: f64| t * q[0] }
  let h = if x > 0.1 { |t: f64| g(t) * q[1] } else { |t: f64| g(t * x) }
  var y = x
  for v in p { y += v * h(y) }
  y""",
    "an array that each iteration makes": """
  var y = x
  for v in p {
    let u = sin(q * y)
    let g = [|t: f64| u[1] * t, |t: f64| t + u[0], |t: f64| t]
    var c = 0
    while c < 3 and y < 9.0 { y = g[(c + i64(y)) % 3](y); c += 1 }
  }
  y""",
    "a list of what holds one": """
  var l = Nil
  for v in p { l = Cons((if v > x { Flat(q) } else { Peak(q, v) }, v), l) }
  var (t, i, going) = (0.0, 0, true)
  while going {
    match l {
      Nil => { going = false }
      Cons((s, v), rest) => {
        t += sin(v * at(s, i % k))
        i += 1
        l = rest
      }
    }
  }
  t""",
}  # fmt: skip
CALLED = ("a list of what holds one",)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_values_and_derivatives_are_those_of_nodes_that_hold_arrays(body: str) -> None:
    text = HEAD.replace("BODY", body.strip())
    q, p = np.array([0.7, 0.4, -0.3]), np.array([0.3, 0.9, 0.5, 0.1, 0.8])
    for x in (0.25, 0.15, -0.4):
        assert dlang.compile(text).f(q, x, p) == pytest.approx(
            meaning(dlang.compile(text, backend="interp").f, q, x, p), rel=1e-12
        )
        four_ways(text, [3, 5, q, x, p])


@pytest.mark.parametrize("body", [body for name, body in BODIES.items() if name not in CALLED])
def test_no_function_that_is_chosen_holds_an_array_in_scope(body: str) -> None:
    made = lowered(HEAD.replace("BODY", body.strip()), "f")
    program = normalise(made.program, [made.entry.name], verify=True)
    held = [p.type for d in program.datatypes.values() for v in d.variants for p in v.fields]
    assert program.datatypes and not any(isinstance(t, Array) for t in held)


def test_a_function_that_is_called_with_nodes_opens_those_of_other_calls() -> None:
    text = """
fn go(g: f64 -> f64, x: f64[n], i: i64) -> f64 {
  if i == 0 { return g(x[0]) }
  let y = sin(x)
  i64(g(0.5) * 10.0) as f64 + go(if x[1] > 0.5 { g } else { |t: f64| t * x[1] }, y, i - 1)
}
fn f(x: f64[n], i: i64) -> f64 = go(|t: f64| t + x[0], x, i)
"""
    text = text.replace("i64(g(0.5) * 10.0) as f64", "f64(i64(g(0.5) * 10.0))")
    x = np.array([0.9, 0.6, 0.2])
    for i in range(4):
        assert dlang.compile(text).f(x, i) == pytest.approx(meaning(dlang.compile(text, backend="interp").f, x, i))
