"""Loops that rescale their sums when an exponent is larger: which are found, and that their meaning stays."""

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
# each iteration, of the largest exponent l, the sums s and t, an exponent v and a factor w
FOUND = {
    "maximum": "let m = maximum(l, v); s = s * exp(l - m) + exp(v - m); t = exp(l - m) * t + w * exp(v - m); l = m",
    "arms": """if v <= l { s += exp(v - l); t += w * exp(v - l) }
      else { (l, s, t) = (v, s * exp(l - v) + 1.0, t * exp(l - v) + w) }""",
    "rescaled before": """if v > l { let r = exp(-(v - l)); s *= r; t *= r; l = v }
      let e = exp(v - l); s += e; t += w * e""",
    "a difference": """let m = if v < l { l } else { v }
      s = s * exp(l - m) + exp(v - m); t = t * exp(l - m) - 2.0 * (v - w) * exp(v - m); l = m""",
}
OTHER = {
    "not rescaled": "let m = maximum(l, v); s = s + exp(v - m); t = t * exp(l - m) + w * exp(v - m); l = m",
    "the smaller one": "let m = minimum(l, v); s = s * exp(l - m) + exp(v - m); t = s; l = m",
    "rescaled twice": "if v > l { let r = exp(l - v); s *= r * r; t *= r; l = v }; s += exp(v - l); t += exp(v - l)",
    "another sum": "let m = maximum(l, v); s = s * exp(l - m) + exp(v - m); t = t * exp(l - m) + s * exp(v - m); l = m",
    "a square": "let m = maximum(l, v); s = s * exp(l - m) + w; t = t * exp(l - m) + exp(v - m + v - m); l = m",
    "kept": "if v > l { s = s * exp(l - v) + 1.0; t = t * exp(l - v) + w } else { s += exp(v - l); t += exp(v - l) }",
}
DATA: list[list[float]] = [
    [],
    [0.3],
    [1000.0, 999.0, 1001.5, 1001.5, -1000.0],
    [-INF, -INF],
    [-INF, 2.0, -INF, 1.0],
    [2.0, -INF, 1.0],
    [1.0, INF, 2.0],
    [1.0, NAN, 2.0],
    [NAN, 1.0],
]


@cache
def program(step: str, derivative: bool) -> tuple[Program, Program, str, int]:
    """The program of a step as it is written and optimised, or its gradient; its entry, and its further results."""
    step = step.replace("; ", "\n      ")
    text = f"""
fn f(first: f64, x: f64[n], y: f64[n]) -> (f64, f64, f64) {{
  var (l, s, t) = (first, 0.5, 0.25)
  for i < n {{
    let (v, w) = (x[i], y[i])
    {step}
  }}
  (l, s, t)
}}
fn g(first: f64, x: f64[n], y: f64[n]) -> f64 {{
  let (l, s, t) = f(first, x, y)
  0.1 * l + log(s) + t / s
}}
fn main(first: f64, x: f64[n], y: f64[n]) -> (f64, f64[n], f64[n]) = grad(g, wrt = (0, 1, 2))(first, x, y)
"""
    made = lowered(text, "main" if derivative else "f")
    return made.program, optimise(made.program, [made.entry.name], True), made.entry.name, len(made.entry.extra)


def value(p: Program, name: str, first: float, x: list[float]) -> list[Any]:
    y = np.linspace(-1.0, 1.0, len(x))
    with np.errstate(all="ignore"):
        return Interpreter(p).run(name, [len(x), first, np.array(x, dtype=np.float64), y])


def loops(p: Program) -> tuple[int, int]:
    """How many loops a program has, and how many of them hardly ever run."""
    lets = [let for f in p.functions.values() for let in walk(f.body)]
    rare = [op_blocks(let.op)[0] for let in lets if isinstance(let.op, If) and let.op.cold]
    return sum(isinstance(let.op, For) for let in lets), sum(isinstance(let.op, For) for b in rare for let in walk(b))


@pytest.mark.parametrize("step", FOUND)
def test_sums_that_are_rescaled_are_found_however_they_are_written(step: str) -> None:
    assert loops(program(FOUND[step], False)[1]) == (1, 1)


@pytest.mark.parametrize("step", OTHER)
def test_other_sums_stay_a_loop(step: str) -> None:
    assert loops(program(OTHER[step], False)[1]) == (1, 0)


@pytest.mark.parametrize("step", FOUND)
def test_the_value_is_what_the_loop_gives(step: str) -> None:
    written, p, name, _ = program(FOUND[step], False)
    for first in (-INF, 0.5, 1001.5, INF, NAN):
        for x in DATA:
            np.testing.assert_allclose(value(p, name, first, x), value(written, name, first, x), rtol=1e-13)


@pytest.mark.parametrize("step", FOUND)
def test_the_gradient_is_that_of_the_loop(step: str) -> None:
    _, p, name, extra = program(FOUND[step], True)
    x, y = np.array([0.3, -0.2, 1.5, 0.7]), np.linspace(-1.0, 1.0, 4)

    def of(first: float, x: np.ndarray, y: np.ndarray) -> float:
        written, _, f, _ = program(FOUND[step], False)
        l, s, t = Interpreter(written).run(f, [4, first, x, y])
        return float(0.1 * l + np.log(s) + t / s)

    for first in (0.9, 2.5):
        by_first, by_x, by_y = value(p, name, first, list(x))[extra:]
        h = 1e-6
        steps = h * np.eye(4)
        np.testing.assert_allclose(by_first, (of(first + h, x, y) - of(first - h, x, y)) / (2 * h), atol=1e-8)
        np.testing.assert_allclose(
            by_x, [(of(first, x + d, y) - of(first, x - d, y)) / (2 * h) for d in steps], atol=1e-8
        )
        np.testing.assert_allclose(
            by_y, [(of(first, x, y + d) - of(first, x, y - d)) / (2 * h) for d in steps], atol=1e-8
        )
