"""Loops that keep the logarithm of a sum: which are found, and that their meaning stays."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import For, If, Program
from dlang.ir.traverse import op_blocks, walk
from dlang.pipeline import optimise
from tests.specialize.support import lowered

INF, NAN = np.inf, np.nan
# each gives the next l, of l, the number v of an iteration, and the maximum m of both
FOUND = {
    "two exponentials": "m + log(exp(l - m) + exp(v - m))",
    "the distance": "m + log1p(exp(-abs(l - v)))",
    "the smaller one": "log1p(exp(minimum(v, l) - m)) + m",
    "no shift": "log(exp(v) + exp(l))",
    "one of both": "l + log1p(exp(v - l))",
    "the library's": "math.logaddexp(v, l)",
}
# the same, where nothing asks whether m is finite
UNGUARDED = {
    "two exponentials, unguarded": "m + log(exp(v - m) + exp(l - m))",
    "the distance, unguarded": "maximum(l, v) + log1p(exp(-abs(l - v)))",
}
OTHER = {
    "twice the number": "m + log(exp(l - m) + 2.0 * exp(v - m))",
    "the larger one is counted twice": "m + log(exp(l - m) + exp(v - m) + 1.0)",
    "a product": "m + log(exp(l - m) * exp(v - m))",
    "the distance to the maximum": "m + log1p(exp(-abs(l - m)))",
    "a difference": "m + log(exp(m - l) + exp(m - v))",
}
DATA: list[list[float]] = [
    [],
    [0.3],
    [1000.0, 999.0, 1001.5, -1000.0],
    [-INF, -INF],
    [-INF, 2.0, -INF, 1.0],
    [1.0, INF, 2.0],
    [INF, -INF, INF],
    [1.0, NAN, INF],
]


@cache
def program(step: str, derivative: bool) -> tuple[Program, Program, str, int]:
    """The program of a step as it is written and optimised, or its gradient; its entry, and its further results."""
    as_it_is = "math" in step or step in UNGUARDED.values()
    next = step if as_it_is else f"if isfinite(m) {{ {step} }} else {{ m }}"
    text = f"""import math
fn f(first: f64, x: f64[n]) -> f64 {{
  var l = first
  for v in x {{
    let m = maximum(l, v)
    l = {next}
  }}
  l
}}
fn main(first: f64, x: f64[n]) -> (f64, f64[n]) = grad(f, wrt = (0, 1))(first, x)
"""
    made = lowered(text, "main" if derivative else "f")
    return made.program, optimise(made.program, [made.entry.name], True), made.entry.name, len(made.entry.extra)


def loops(p: Program) -> int:
    return sum(isinstance(let.op, For) for f in p.functions.values() for let in walk(f.body))


def value(p: Program, name: str, first: float, x: list[float]) -> list[Any]:
    with np.errstate(all="ignore"):
        return Interpreter(p).run(name, [len(x), first, np.array(x, dtype=np.float64)])


@pytest.mark.parametrize("step", FOUND)
def test_the_logarithm_of_a_sum_is_found_however_it_is_written(step: str) -> None:
    assert loops(program(FOUND[step], False)[1]) == 0
    assert loops(program(FOUND[step], True)[1]) == 0


@pytest.mark.parametrize("step", UNGUARDED)
def test_a_loop_that_asks_for_no_infinity_is_there_for_those_alone(step: str) -> None:
    p = program(UNGUARDED[step], False)[1]
    lets = [let for f in p.functions.values() for let in walk(f.body)]
    rare = [op_blocks(let.op)[0] for let in lets if isinstance(let.op, If) and let.op.cold]
    assert loops(p) == sum(isinstance(let.op, For) for block in rare for let in walk(block)) == 1


@pytest.mark.parametrize("step", UNGUARDED)
@pytest.mark.parametrize("first", [-INF, 0.5, INF, NAN])
@pytest.mark.parametrize("x", DATA)
def test_an_unguarded_loop_gives_what_it_did(step: str, x: list[float], first: float) -> None:
    written, p, name, _ = program(UNGUARDED[step], False)
    np.testing.assert_allclose(value(p, name, first, x), value(written, name, first, x), rtol=1e-14)


@pytest.mark.parametrize("step", OTHER)
def test_another_sum_stays_a_loop(step: str) -> None:
    assert loops(program(OTHER[step], False)[1]) == 1


@pytest.mark.parametrize("first", [-INF, 0.5, INF, NAN])
@pytest.mark.parametrize("x", DATA)
def test_the_value_is_what_the_loop_gives(x: list[float], first: float) -> None:
    written, p, name, _ = program(FOUND["the library's"], False)
    np.testing.assert_allclose(value(p, name, first, x), value(written, name, first, x), rtol=1e-14)


@pytest.mark.parametrize("step", ["the library's", "two exponentials", "the distance", *UNGUARDED])
def test_the_gradient_is_that_of_the_logarithm_of_a_sum(step: str) -> None:
    _, p, name, extra = program({**FOUND, **UNGUARDED}[step], True)
    for x in DATA[1:3] + DATA[4:5]:
        for first in (-INF, 0.5, 1000.0):
            if step in UNGUARDED and max(first, x[0]) == -INF:  # ∞ - ∞
                continue
            every = np.array([first, *x])
            weights = np.exp(every - every.max())
            weights /= weights.sum()
            found = value(p, name, first, x)[extra:]
            np.testing.assert_allclose(np.append(found[0], found[1]), weights, rtol=1e-12)
