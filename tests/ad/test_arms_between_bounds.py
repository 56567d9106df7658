"""Adjoints of what arms of branches read between bounds of the axes: comprehensions that read, or few points."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Comp, For, ScatterAdd
from dlang.pipeline import optimise
from tests.meaning import as_written, meaning
from tests.specialize.support import lowered, ops

STENCILS = {
    "before": "[x[i] * (if i > 0 { x[i - 1] } else { x[i] }) for i < n]",
    "behind": "[if i + 1 < n { x[i + 1] * x[i] } else { sin(x[i]) } for i < n]",
    "both": "[if i == 0 { 2.0 * x[0] } else if i == n - 1 { x[i] } else { x[i - 1] * x[i + 1] } for i < n]",
    "and": "[if i > 1 and i < n - 1 { x[i - 2] * x[i + 1] } else { x[i] } for i < n]",
    "not": "[if not (i >= 2) or x[i] > 0.5 { x[i] } else { x[i - 2] ** 2 } for i < n]",
    "turned": "[if i > 0 { x[n - i] * x[i - 1] } else { 0.0 } for i < n]",
    "data": "[if x[i] > 0.0 and i > 0 { x[i - 1] ** 2 } else { x[i] } for i < n]",
    "texts": (
        '{ let t = [if v > 0.0 { "a" } else { "b" } for v in x];'
        ' [if t[n - 1 - i] == "a" and i > 0 { x[i] * x[i - 1] } else { x[i] } for i < n] }'
    ),
    "joined": "x * concat([1.0], x[..n - 1]) + concat(x[1..], [x[0]])",
    "mirrored": "{ let p = concat(x[..1], x, x[n - 1..]); p[..n] * x - x * p[2..] }",
    "longer": "[if i < n { x[i] * (if i > 0 { x[i - 1] } else { 1.0 }) } else { 2.0 } for i < n + 2]",
    "row": "[if i > 0 { x[0] * x[i - 1] } else { x[0] } for i < n]",
    "inner": "{ var y = x; for i in 1..n - 1 { y[i] = x[i - 1] * x[i + 1] - x[i] }; y }",
}
PLANE = """[
  (if i > 0 { y[i - 1, j] } else { y[i, j] }) * y[i, j] - (if j < m - 1 { y[i, j + 1] * y[i, j] } else { 0.0 })
  for i < n, j < m
]"""
TEXT = "\n".join(
    [f"fn f{k}(x: f64[n]) -> f64 = sum(({body}) ** 2)" for k, body in enumerate(STENCILS.values())]
    + [f"fn plane(y: f64[n, m]) -> f64 = sum({PLANE} ** 2)"]
)
NAMES = {**{name: f"f{k}" for k, name in enumerate(STENCILS)}, "plane": "plane"}


@cache
def both() -> tuple[Any, Any]:
    return dlang.compile(TEXT), dlang.compile(TEXT, backend="interp")


@pytest.mark.parametrize("name", NAMES)
def test_gradients_read_and_add_to_no_place_that_data_chooses(name: str) -> None:
    variable, size = ("y", "n, m") if name == "plane" else ("x", "n")
    head = f"fn g({variable}: f64[{size}]) -> f64[{size}] = grad({NAMES[name]})({variable})\n"
    made = lowered(head + TEXT, "g")
    program = optimise(made.program, [made.entry.name], verify=True)
    assert not [op for op in ops(program) if isinstance(op, For)]
    assert not [d for op in ops(program) if isinstance(op, Comp) for d in op.destinations if isinstance(d, ScatterAdd)]
    counts = []
    for n in (40, 80):
        interpreter = Interpreter(program)
        interpreter.run(made.entry.name, [n, 2, np.ones((n, 2))] if name == "plane" else [n, np.ones(n)])
        counts.append(interpreter.operations)
    assert counts[1] - counts[0] <= (80 if name == "plane" else 40) * 60


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_the_program_as_written(name: str) -> None:
    compiled, written = (getattr(module, NAMES[name]) for module in both())
    random = np.random.default_rng(3)
    for n in (2, 3, 9):
        x = random.normal(size=(n, 4) if name == "plane" else n)
        with as_written():
            value, slope = written(x), dlang.grad(written)(x)
        np.testing.assert_allclose(compiled(x), value, rtol=1e-12)
        np.testing.assert_allclose(dlang.grad(compiled)(x), slope, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["before", "both", "inner"])
def test_second_derivatives(name: str) -> None:
    compiled = getattr(both()[0], NAMES[name])
    x, v = np.random.default_rng(4).normal(size=(2, 5))
    step = 1e-5
    slopes = [dlang.grad(compiled)(x + sign * step * v) for sign in (1.0, -1.0)]
    np.testing.assert_allclose(dlang.hessian(compiled)(x) @ v, (slopes[0] - slopes[1]) / (2 * step), 1e-5, 1e-6)


def test_a_bound_that_is_not_known_as_a_size_is_asked_for() -> None:
    """Of `1 <= i and i < m`, where m is a number, the points that are led back to are known to have the first only."""
    text = """
fn f(x: f64[n + 2], c: f64[k]) -> f64 {
  var y = x
  for t < k { for i < n { y[i + 1] = y[i + 1] * c[t] + x[i] - x[i + 2] } }
  sum(y ** 2)
}
"""
    compiled, interpreted = dlang.compile(text).f, dlang.compile(text, backend="interp").f
    random = np.random.default_rng(5)
    for n in (0, 1, 3, 9):
        x, c = random.normal(size=n + 2), random.normal(size=2)
        slope = meaning(dlang.grad(interpreted, wrt="x"), x, c)
        np.testing.assert_allclose(dlang.grad(compiled, wrt="x")(x, c), slope, rtol=1e-11, atol=1e-12)
