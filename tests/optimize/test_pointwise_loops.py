"""Loops over arrays whose elements never meet are loops over numbers, at all points at once; others stay."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.ir import anf
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.ad.four_ways import four_ways
from tests.optimize.programs import same_in_the_end
from tests.specialize.support import lowered

POINTS = {
    "a polynomial": "var y = zeros(n)\n  for j < m { y = y * x + c[j] }\n  mean(y ** 2)",
    "an oscillator": """var (q, p) = (x, 0.1 * x)
  for t < m {
    p = p - 0.1 * sin(q)
    q = q + 0.1 * p
  }
  sum(q ** 2 + p)""",
    "branches": """var y = x
  for t < m {
    y = [if y[i] > 0.3 { y[i] * 0.9 - 0.1 * c[t] } else { tanh(y[i]) + 0.2 * x[i] } for i < n]
  }
  sum(y ** 2)""",
    "a recurrence in each": """var y = x
  for t < m {
    y = [{
      var s = y[i]
      for u < 3 { s = 0.5 * s + 0.1 * sin(s) }
      s * c[t]
    } for i < n]
  }
  sum(y)""",
    "matrices": "var a = [x[i] * c[j] for i, j]\n  for t < m { a = a - 0.1 * a ** 3 + 0.01 * c[t] }\n  sum(a ** 2)",
    "loops in loops": """var y = x
  for t < m {
    for u < 2 { y = y + 0.1 * sin(y) * c[t] }
    y = 0.9 * y
  }
  sum(y)""",
    "sums at each point": "var y = x\n  for t < m { y = [y[i] + 0.1 * sum(sin(y[i] * v) for v in c) for i] }\n  sum(y)",
}
LOOPS = {
    "neighbours": "var y = x\n  for t < m { y = [y[i] + 0.1 * y[(i + 1) % n] for i < n] }\n  sum(y ** 2)",
    "sums": "var y = x\n  for t < m { y = y + 0.1 * sum(y) * x }\n  sum(y ** 2)",
    "a table of both": "let z = [sin(c[t] * x[i]) for t < m, i < n]\n  var y = x\n  for t < m { y = y * 0.5 + z[t] }\n"
    "  let w = z @ y\n  sum(y ** 2) + sum(w)",
    "the same at all points": "var y = zeros(n)\n  for t < m { y = 0.5 * y + sin(c[t]) }\n  sum(y * x)",
    "a number beside": """var (y, s) = (x, 0.5)
  for t < m {
    y = y * s
    s = 0.5 * s + y[0]
  }
  sum(y) + s""",
}
HEAD = "fn f(x: f64[n], c: f64[m]) -> f64 {\n  "
RNG = np.random.default_rng(2)


def text(name: str) -> str:
    return HEAD + {**POINTS, **LOOPS}[name] + "\n}"


@pytest.mark.parametrize("name", [*POINTS, *LOOPS])
def test_the_state_of_a_loop_is_numbers(name: str) -> None:
    made = lowered(text(name), "f")
    program = optimise(made.program, [made.entry.name], verify=True)
    loops = [let.op for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, anf.For)]
    arrays = [p for loop in loops for p in loop.params if isinstance(p.type, anf.Array)]
    assert loops and bool(arrays) == (name in LOOPS)


@pytest.mark.parametrize("name", [*POINTS, *LOOPS])
@pytest.mark.parametrize("size", [(1, 0), (1, 3), (21, 1), (37, 4)])
def test_the_result_is_that_of_the_loop(name: str, size: tuple[int, int]) -> None:
    args = [*size, *(RNG.uniform(0.1, 0.9, k) for k in size)]
    expected = same_in_the_end(text(name), "f", args, rtol=1e-10)
    np.testing.assert_allclose(dlang.compile(text(name)).f(*args[2:]), expected, rtol=1e-10)


@pytest.mark.parametrize("name", [*POINTS, *LOOPS])
def test_derivatives(name: str) -> None:
    four_ways(text(name), [4, 3, RNG.uniform(0.1, 0.9, 4), RNG.uniform(0.1, 0.9, 3)])


def test_what_an_iteration_makes_of_few_axes_is_made_for_these() -> None:
    head = "fn f(x: f64[n, k], s: f64) -> f64 {\n  var y = 1.0 - [s for i < n, j < n]\n"
    text = f"{head}  for t < k {{ y = tanh([x[j, 0] for i < n, j < n]) }}\n  sum(y)\n}}\n"
    for k in (0, 1, 4):
        same_in_the_end(text, "f", [3, k, np.linspace(-1.0, 2.0, 3 * k).reshape(3, k), 0.5])
