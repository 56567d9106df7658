"""Functions that end in a branch, as those with early returns do: each arm computes its adjoint behind itself."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.ad.residuals import Residuals, written
from dlang.ir.anf import If
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.ad.four_ways import four_ways
from tests.specialize.support import lowered

FUNCTIONS = {
    "guards": """
  if x[0] > 2.0 { return x[1] * x[1] }
  let y = sin(x[0]) * x[1]
  if y > 0.3 { return y * x[2] }
  y * y + x[0]""",
    "loops that return": """
  var s = 0.5
  for i < n { if x[i] > 2.0 { return s * x[i] }
    s += sin(x[i]) }
  for i < n { if s > 2.0 { return s * x[i] * c }
    s += x[i] * x[i] * s }
  s""",
    "arrays": """
  var u = x
  if c > 1.0 { u[0] = u[1] * c
    return sum(u * u) }
  u = [sin(u[i]) * u[n - 1 - i] for i < n]
  if c > 0.5 { return u[0] * x[1] + sum(u) }
  u[1] += c * u[0]
  u[0] * u[1] * u[2]""",
    "an array that one arm changes": """
  var u = x
  if c > 0.5 { for i in 1..n { u[i] = u[i] * u[i - 1] } }
  if c > 1.5 { u[n - 1] } else { u[0] + u[1] * x[0] }""",
    "what an arm takes from outside": """
  let y = [exp(0.1 * x[i]) for i < n]
  var s = 0.1
  for i < n { s = sin(s + y[i]) }
  if c > 1.0 { s * y[0] } else { if c > 0.5 { s * s } else { y[1] } }""",
    "a call in an arm": """
  if c > 1.0 { return g(x[0], 3) }
  g(x[1], 2) * x[0]""",
    "a recursive call at the end": "\n  g(x[0] * c, 4)",
    "a result that is used twice": """
  let r = if c > 1.0 { x[0] * x[1] } else { x[2] }
  r * r + r""",
}
GIVEN = "fn g(y: f64, k: i64) -> f64 { if k == 0 { return y * y }\n  g(sin(y) * y, k - 1) }\n"


def text(body: str) -> str:
    return f"{GIVEN}fn f(x: f64[n], c: f64) -> f64 {{{body}\n}}\n"


@pytest.mark.parametrize("body", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize(
    ("x", "c"),
    [([0.4, 0.8, 0.7], 0.3), ([0.4, 0.8, 0.7], 1.2), ([2.5, 0.5, 0.1], 0.7), ([1.2, 1.9, 2.3], 2.0)],
    ids=["small", "small and large", "first", "last"],
)
def test_derivatives_of_functions_that_end_in_a_branch(body: str, x: list[float], c: float) -> None:
    four_ways(text(body), [3, np.array(x), c])


@pytest.mark.parametrize("body", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("c", [0.7, 1.2])
def test_second_derivatives_of_functions_that_end_in_a_branch(body: str, c: float) -> None:
    first = text(body).replace("fn f(", "fn first(")
    second = "fn f(x: f64[n], c: f64) -> f64 { let a = grad(first)(x, c)\n  sum(a * a) + c * a[0] }\n"
    four_ways(first + second, [3, np.array([0.4, 0.8, 0.7]), c])


def saved(body: str) -> list[str]:
    found: list[Residuals] = []
    made = lowered(text(body) + "fn slope(x: f64[n], c: f64) -> f64[n] = grad(f)(x, c)\n", "slope")
    optimise(made.program, [made.entry.name], residuals=found)
    return [line for s in found for line in written(s).splitlines()]


def test_no_array_is_saved_for_guards() -> None:
    lines = saved(FUNCTIONS["guards"])
    assert lines[-1].endswith("bytes in all") and "n.0" not in lines[-1]


def test_what_loops_in_arms_save_is_reported() -> None:
    lines = saved("\n  if c > 1.0 { return x[0] }\n  var s = c\n  for i < n { s = sin(s) * x[i] }\n  s * s")
    assert any("bytes in each of n.0 iterations of a loop" in line for line in lines), lines


@pytest.mark.parametrize("n", [3, 12])
def test_branches_inside_of_one_another_have_no_more_results_than_their_function(n: int) -> None:
    guards = "".join(f"  if x[{k % 3}] > {k}.5 {{ return y * x[0] }}\n  y += sin(y * c)\n" for k in range(n))
    made = lowered(text(f"\n  var y = c\n{guards}  y") + "fn s(x: f64[n], c: f64) -> f64[n] = grad(f)(x, c)\n", "s")
    program = optimise(made.program, [made.entry.name])
    branches = [let for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, If)]
    assert len(branches) >= n and max(len(let.vars) for let in branches) <= 3
