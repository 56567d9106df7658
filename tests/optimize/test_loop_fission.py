"""Loops that set arrays and carry numbers: each part does its iterations at once where the loop as it was could not."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.ir import anf
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.ad.four_ways import four_ways
from tests.optimize.programs import same_in_the_end
from tests.specialize.support import lowered

SPLIT = {
    "the greatest of what is set": """
  var a = 0.5 * x
  var top = -1.0
  for i < n {
    for j < m { a[i] -= 0.1 * y[i, j] ** 2 }
    top = maximum(top, a[i])
  }
  top + sum(a ** 2)""",
    "a sum of products with what is set": """
  var a = x * 0.0
  var (s, t) = (0.0, 0.0)
  for i < n {
    a[i] = sin(x[i]) * x[i]
    s += a[i]
    t += a[i] * x[i]
  }
  s * t + sum(a)""",
    "rows, and the least of their elements": """
  var a = y * 0.0
  var least = 9.0
  for i < n {
    for j < m { a[i, j] = y[i, j] * x[i] + a[i, j] }
    least = minimum(least, a[i, 0])
  }
  least + sum(a ** 2)""",
    "elements and a number that one branch changes": """
  var a = x
  var s = 0.5
  for i < n {
    if x[i] > 0.0 {
      a[i] = sin(x[i])
      s = s * 0.5 + x[i] * tanh(s)
    }
  }
  s + sum(a)""",
    "a recurrence over what is set": """
  var a = x
  var s = 0.5
  for i < n {
    a[i] = a[i] * 0.5 + sum(y[i] ** 2)
    s = 0.9 * s + tanh(a[i] * s)
  }
  s + sum(a)""",
}
WHOLE = {
    "a neighbour's element": """
  var a = x
  var s = 0.5
  for i in 1..n {
    a[i] = a[i] * 0.5 + x[i]
    s = 0.9 * s + a[i - 1] * s
  }
  s + sum(a)""",
    "an element of the array as it was": """
  var a = x
  var s = 0.0
  for i < n {
    s = 0.9 * s + a[n - 1 - i]
    a[i] = a[i] * 0.5 + 1.0
  }
  s + sum(a)""",
    "what the number decides": """
  var a = x
  var s = 0.5
  for i < n {
    a[i] = a[i] * s
    s = 0.9 * s + a[i]
  }
  s + sum(a)""",
}
HEAD = "fn f(x: f64[n], y: f64[n, m]) -> f64 {"
RNG = np.random.default_rng(3)


def text(body: str) -> str:
    return f"{HEAD}{body}\n}}"


def arguments(n: int, m: int) -> list[object]:
    return [n, m, RNG.normal(size=n), RNG.normal(size=(n, m))]


@pytest.mark.parametrize("name", SPLIT)
def test_the_arrays_are_set_before(name: str) -> None:
    made = lowered(text(SPLIT[name]), "f")
    program = optimise(made.program, [made.entry.name], verify=True)
    (function,) = program.functions.values()
    states = [p for let in walk(function.body) if isinstance(let.op, anf.For) for p in let.op.params]
    assert all(isinstance(p.type, anf.Scalar) for p in states), states
    assert bool(states) == (name in ("a recurrence over what is set", "elements and a number that one branch changes"))


@pytest.mark.parametrize("name", [*SPLIT, *WHOLE])
@pytest.mark.parametrize("size", [(0, 2), (1, 1), (7, 3)])
def test_the_result_is_that_of_the_loop_as_it_was(name: str, size: tuple[int, int]) -> None:
    same_in_the_end(text({**SPLIT, **WHOLE}[name]), "f", arguments(*size))


@pytest.mark.parametrize("name", [*SPLIT, *WHOLE])
def test_derivatives(name: str) -> None:
    four_ways(text({**SPLIT, **WHOLE}[name]), arguments(4, 3))


# ---- numbers that need nothing of the state --------------------------------------------------------------------------
NUMBERS = {
    "the nearest row": """
  var sums = 0.0 * y
  var counts = zeros(n)
  for p in y {
    let c = argmin([sum((p - q) ** 2) + x[0] for q in y[..n // 2 + 1]])
    sums[c] += sin(p)
    counts[c] += x[c]
  }
  sum(sums ** 2) + sum(counts ** 2)""",
    "an element at a number that is checked": """
  var sums = 0.0 * x
  for i < n {
    let k = i64(abs(max([sin(v) for v in y[i]])) * f64(n)) % n
    sums[k] += sum(y[i] ** 2)
  }
  sum(sums ** 2 * x)""",
    "from a later number on": """
  var s = 0.0
  var sums = 0.0 * x
  for i in 2..n {
    let greatest = argmax([cos(v) * x[i] for v in y[i - 1]])
    let least = min([cos(v) - x[i] for v in y[i - 1]])
    s += x[greatest] * least
    sums[greatest] += least - x[i]
  }
  s + sum(sums ** 3)""",
}
LEFT = {
    "numbers of the state": """
  var s = 0.5
  var sums = 0.0 * x
  for i < n {
    let k = argmax([v * s for v in y[i]])
    sums[k % n] += s
    s = 0.5 * s + x[i]
  }
  s + sum(sums ** 2)""",
    "checks on both sides": """
  var sums = 0.0 * x
  for i < n {
    let k = argmax([v * v for v in y[i]])
    sums[k] += y[i, k] + sums[n - 1 - i]
  }
  sum(sums ** 2)""",
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_found_for_all_iterations_before(name: str) -> None:
    made = lowered(text(NUMBERS[name]), "f")
    p = optimise(made.program, [made.entry.name], verify=True)
    assert not [let for let in walk(p.functions[made.entry.name].body) if isinstance(let.op, anf.For)]
    same_in_the_end(text(NUMBERS[name]), "f", arguments(7, 5))


@pytest.mark.parametrize("name", LEFT)
def test_an_iteration_that_needs_the_state_stays_one(name: str) -> None:
    made = lowered(text(LEFT[name]), "f")
    p = optimise(made.program, [made.entry.name], verify=True)
    assert [let for let in walk(p.functions[made.entry.name].body) if isinstance(let.op, anf.For)]


@pytest.mark.parametrize("name", [*NUMBERS, *LEFT])
def test_derivatives_where_iterations_find_numbers(name: str) -> None:
    four_ways(text(NUMBERS.get(name) or LEFT[name]), arguments(7, 5))
