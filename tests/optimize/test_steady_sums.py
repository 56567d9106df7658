"""A loop adds up in a number what its iterations add to one element, and adds that once."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.ir import anf
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.ad.four_ways import four_ways
from tests.meaning import meaning
from tests.specialize.support import lowered

RNG = np.random.default_rng(3)
# name: a function of the parameters a[m] and the inputs x[n]; its gradient in `a` has no array in the state of a loop
STEADY = {
    "an element behind a check": "var v = 0.0; for t < n { v = sin(v + a[0] * x[t]) * a[2] }; v",
    "an element in an arm": """
  var (v, s) = (0.0, 0.0)
  for t < n { v = 0.5 * v + a[0] * x[t]; if v > a[1] { v = a[2]; s += a[3] * v } else { s -= a[m - 1] } }
  s + v
""",
    "an element in an arm of an arm": """
  var v = 1.0
  for t < n { if x[t] > 0.0 { if v > 0.2 { v = v * a[1] } else { v = v - a[2] } } else { v = v + a[1] }; v = tanh(v) }
  v
""",
    "elements that points choose": """
  let y = [{ var u = x[i]; for t in 1..m { if u > x[0] { u = a[1] * sin(u) } }; u * u } for i]
  sum(y)
""",
    "a loop in a loop": """
  var v = 1.0
  for t < n { for k < 3 { if v > x[t] { v = sin(v * a[2]) } }; v = v + a[0] * 0.1 }
  v
""",
    "an element of which as much is taken": """
  var v = 0.3
  for t < n { v = v * x[t] - (if v < 0.9 { a[1] } else { a[0] }) }
  v
""",
}
# the same, with such an array in the state
ARRAYS = {
    "other elements as well": """
  var v = 0.3
  for t < n { v = sin(v) * a[t % m] + (if v > 0.2 { a[1] } else { x[t] }) }
  v
""",
}
# functions that add, and set or read
ALONE = {
    "a sum beside others": "var h = a; for t < n { h[1] += x[t] * h[0]; h[0] *= 0.9 }; sum(h ** 2)",
    "sums of a value": """
  var (h, s) = (a, 1.0)
  for t < n { s = sin(s + x[t]); h[1] += s; h[t % m] -= s * s }
  sum(h ** 2)
""",
    "whole rows of sums": """
  var (h, s) = (a, 1.0)
  for t < n { s = sin(s + x[t]); for i < m { h[i] += s; h[2] += s } }
  sum(h ** 3)
""",
    "an old value is kept": "var (h, g) = (a, a); for t < n { g = h; h[1] += x[t] }; sum(h ** 2) + sum(g ** 3)",
}


def text_of(body: str) -> str:
    return (
        f"fn f(a: f64[m], x: f64[n]) -> f64 {{ {body} }}\n"
        "fn main(a: f64[m], x: f64[n]) -> (f64[m], f64[n]) = grad(f, wrt = (a, x))(a, x)\n"
    )


def carried(body: str) -> list[anf.Var]:
    """The arrays of the size of the parameters in the states of the gradient's loops."""
    made = lowered(text_of(body), "main")
    program = optimise(made.program, [made.entry.name], verify=True)
    a, _ = [p for p in program.functions[made.entry.name].params if isinstance(p.type, anf.Array)]
    loops = [let.op for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, anf.For)]
    return [p for loop in loops for p in loop.params if p.type == a.type]


@pytest.mark.parametrize("name", STEADY)
def test_no_array_is_in_the_state(name: str) -> None:
    assert not carried(STEADY[name])


@pytest.mark.parametrize("name", ARRAYS)
def test_other_sums_stay_in_the_array(name: str) -> None:
    assert carried(ARRAYS[name])


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in {**STEADY, **ARRAYS, **ALONE}.items()])
def test_gradients(body: str) -> None:
    text = text_of(body)
    compiled, interpreted = dlang.compile(text), dlang.compile(text, backend="interp")
    for n in (0, 1, 9):
        args = RNG.normal(size=4), RNG.normal(size=n)
        if n == 0 and "x[0]" in body:
            continue
        for found, wanted in zip(compiled.main(*args), meaning(interpreted.main, *args), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(compiled.f(*args), meaning(interpreted.f, *args), rtol=1e-12)
    four_ways(text, [4, 3, RNG.normal(size=4), RNG.normal(size=3)])


def test_a_place_that_no_iteration_reaches_may_be_out_of_range() -> None:
    program = dlang.compile(text_of(STEADY["an element in an arm"]))
    slopes, _ = program.main(np.ones(2), np.zeros(0))
    np.testing.assert_array_equal(slopes, [0.0, 0.0])
    slopes, _ = program.main(np.array([1.0, 5.0]), np.array([0.5, 0.25]))  # a[2] and a[3] are not there, nor read
    np.testing.assert_allclose(slopes, [0.5, -2.0])
    with pytest.raises(dlang.DlangError, match="index 2 is out of range"):
        program.main(np.array([1.0, 0.1]), np.array([0.5, 0.25]))
