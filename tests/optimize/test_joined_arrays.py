"""Joined arrays whose elements are read are branches where they are read; others stay arrays."""

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

READ = {
    "shifted": "sum(concat([0.5], x[..n - 1]) * x)",
    "shifted back": "sum((concat(x[1..], x[n - 1..]) - x) ** 2)",
    "a border at both ends": "sum([concat([1.0], x, [2.0])[i] * concat([1.0], x, [2.0])[i + 2] for i < n])",
    "a column before": "sum((concat(y[.., ..1], y[.., ..m - 1], axis = 1) - y) ** 2)",
    "a row behind": "sum((concat(y[1..], y[..1]) * y) ** 2)",
    "at places from data": "sum(concat(x, x * 2.0)[k[i] + i] ** 2 for i)",
    "in a loop": """{
  var v = x
  for t < 4 { v = 0.5 * v + 0.25 * (concat(v[1..], v[..1]) + concat([0.1], v[..n - 1])) }
  sum(v ** 2)
}""",
}
WHOLE = {
    "sorted": "sum(sort(concat(x, x[..1])) * concat(x, x[..1]))",
    "a state": "{ var v = x; for t < 3 { v = concat(v[1..], [sum(v)]) }\n  sum(v ** 2) }",
    "many pieces": "sum(concat(x, x, x, x, x)[i] * x[i] for i < n)",
}
HEAD = "fn f(x: f64[n], y: f64[n, m], k: Idx<n>[n]) -> f64 = "
RNG = np.random.default_rng(3)


def arguments(n: int, m: int) -> list[object]:
    return [n, m, RNG.normal(size=n), RNG.normal(size=(n, m)), RNG.integers(0, max(n, 1), n)]


@pytest.mark.parametrize("name", [*READ, *WHOLE])
def test_only_arrays_that_are_used_as_a_whole_are_made(name: str) -> None:
    made = lowered(HEAD + {**READ, **WHOLE}[name], "f")
    program = optimise(made.program, [made.entry.name], verify=True)
    joined = [let for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, anf.Concat)]
    assert bool(joined) == (name in WHOLE)


@pytest.mark.parametrize("name", [*READ, *WHOLE])
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (17, 9)])
def test_the_result_is_that_of_the_program_as_it_was(name: str, size: tuple[int, int]) -> None:
    same_in_the_end(HEAD + {**READ, **WHOLE}[name], "f", arguments(*size))


@pytest.mark.parametrize("name", [*READ, *WHOLE])
def test_derivatives(name: str) -> None:
    four_ways(HEAD + {**READ, **WHOLE}[name], arguments(5, 4))


def test_texts_are_joined_as_arrays() -> None:
    f = dlang.compile('fn f(a: str[n]) -> bool = all(concat(["x"], a)[i] <= concat(a, ["z"])[i] for i < n + 1)').f
    assert f(["x", "y"]) and not f(["y", "x"])
