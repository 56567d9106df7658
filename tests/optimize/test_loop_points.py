"""Loops whose iterations make arrays for themselves are comprehensions in the end, which keep no more than a loop."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.diagnostics import DlangError
from dlang.ir import anf
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.ad.four_ways import four_ways
from tests.meaning import meaning
from tests.optimize.programs import same_in_the_end
from tests.specialize.support import lowered

POINTS = {
    "the nearest of some points": """
  var total = 0.0
  for i < n {
    var (least, at) = (9.0, 0)
    for j < k {
      var s = 0.0
      for a < d { s += (x[i, a] - c[j, a]) ** 2 }
      if s < least {
        least = s
        at = j
      }
    }
    total += sum((x[i] - c[at]) ** 2)
  }
  total""",
    "a mixture": """
  var total = 0.0
  for i < n {
    var terms = [0.1 * f64(j) for j < k]
    var top = -9.0
    for j < k {
      for a < d { terms[j] -= 0.5 * (x[i, a] - c[j, a]) ** 2 }
      top = maximum(top, terms[j])
    }
    var s = 0.0
    for j < k { s += exp(terms[j] - top) }
    total += top + log(s)
  }
  total""",
    "rows of weights": """
  var y: f64[n, k] = zeros(n, k)
  var total = 0.0
  for i < n {
    let t = [exp(-sum((x[i] - c[j]) ** 2)) for j]
    y[i] = t / sum(t)
    total += max(t)
  }
  total + sum(y[i, j] ** 2 for i, j)""",
    "in an order of their own": """
  var least = 9.0
  for i in n - 1..-1 by -1 {
    let t = [sum(sin(x[i] * c[j])) for j]
    least = minimum(least, sum(t) * max(t))
  }
  least""",
}
LOOPS = {
    "a state that goes on": """
  var s = 0.1
  for i < n {
    let t = [sin(sum(x[i] * c[j]) + s) for j]
    s = 0.3 * s + 0.1 * sum(t ** 2) + 0.1 * max(t)
  }
  s""",
    "a part of a neighbour's": """
  var y: f64[n, k] = zeros(n, k)
  for i in 1..n {
    let t = [sin(sum(x[i] * c[j]) + y[i - 1, j]) for j]
    y[i] = t / sum(t ** 2)
  }
  sum(y)""",
}
HEAD = "fn f(x: f64[n, d], c: f64[k, d]) -> f64 {"
RNG = np.random.default_rng(8)


def text(name: str) -> str:
    return HEAD + {**POINTS, **LOOPS}[name] + "\n}"


def arguments(n: int, d: int, k: int) -> list[object]:
    return [n, d, k, 0.5 * RNG.normal(size=(n, d)), 0.5 * RNG.normal(size=(k, d))]


@pytest.mark.parametrize("name", [*POINTS, *LOOPS])
def test_loops_of_independent_iterations_are_gone(name: str) -> None:
    made = lowered(text(name), "f")
    program = optimise(made.program, [made.entry.name], verify=True)
    ops = [let.op for f in program.functions.values() for let in walk(f.body)]
    assert any(isinstance(op, anf.For) for op in ops) == (name in LOOPS)
    large = [v for f in program.functions.values() for let in f.body.lets for v in let.vars]
    sizes = [v.type.shape for v in large if isinstance(v.type, anf.Array)]
    kept = [s for s in sizes if len(s) == 2]
    assert len(kept) <= (2 if "var y" in text(name) else 0)  # the arrays that the program says, and no others


@pytest.mark.parametrize("name", [*POINTS, *LOOPS])
@pytest.mark.parametrize("size", [(0, 1, 2), (1, 3, 1), (21, 2, 5)])
def test_the_result_is_that_of_the_loop(name: str, size: tuple[int, int, int]) -> None:
    args = arguments(*size)
    expected = same_in_the_end(text(name), "f", args, rtol=1e-9)
    f = dlang.compile(text(name)).f
    np.testing.assert_allclose(f(*args[3:]), expected, rtol=1e-9)


@pytest.mark.parametrize("name", [*POINTS, *LOOPS])
def test_derivatives(name: str) -> None:
    four_ways(text(name), arguments(4, 2, 3))


def test_the_first_iteration_that_fails_is_the_one_reported() -> None:
    f = dlang.compile("""fn f(x: f64[n, m], k: i64[n]) -> f64 {
  var total = 0.0
  for i < n {
    let t = [x[i, j] + x[i, k[i]] for j]
    total += sum(t) / max(t ** 2)
  }
  total
}""").f
    places = np.zeros(100, dtype=np.int64)
    places[[40, 41, 77]] = 9, 11, 7
    with pytest.raises(DlangError) as failed:
        f(np.ones((100, 4)), places)
    assert "index 9 is out of range" in str(failed.value)


def test_what_an_arm_multiplies_is_not_what_it_adds_elsewhere() -> None:
    """The way back through the loop multiplies a number in an arm, and adds the product to another one there."""
    text = """
fn f(x: f64[n], b: f64[n], q: i64[n], p: f64, k: i64) -> f64 {
  var y = x * b
  for t < k { for i < n { if q[i] > 0 { y[i] = sin(y[i] + p) } } }
  sum(y * x)
}
fn main(x: f64[n], b: f64[n], q: i64[n], p: f64, k: i64) -> (f64[n], f64[n], f64) =
  grad(f, wrt = (x, b, p))(x, b, q, p, k)
"""
    made = lowered(text, "main")
    optimise(made.program, [made.entry.name], verify=True)
    args = (RNG.normal(size=9), RNG.normal(size=9), np.arange(9) % 2, 0.3, 3)
    expected = meaning(dlang.compile(text, backend="interp").main, *args)
    for found, wanted in zip(dlang.compile(text).main(*args), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
