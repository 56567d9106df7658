"""Profiles count what the interpreter counts, in random programs of branches, loops, calls and returns."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.codegen.counting import operations
from dlang.codegen.llvm import mathematics
from dlang.diagnostics import Source
from dlang.driver import check, lower
from dlang.dump_ir import request
from dlang.interpret.code import Code, Frame
from dlang.interpret.interpreter import Interpreter
from dlang.ir import anf
from dlang.ir.terms import WIDTHS
from dlang.ir.types import dtype_of

HELPERS = """
fn recurse(v: f64, k: i64) -> f64 = if k == 0 { v } else { recurse(0.5 * v + 1.0, k - 1) * 1.25 }
fn halves(x: f64[k]) -> f64 = if k < 4 { sum(x * x) } else { halves(x[..k // 2]) + halves(x[k // 2..]) }
fn first(x: f64[k], limit: f64) -> f64 {
  for i < k { if x[i] * x[i] > limit { return 2.0 * x[i] } }
  0.0
}
fn down(v: f64) -> f64 {
  var a = v
  while a > 1.0 { a = 0.5 * a + 0.25 }
  a
}
"""
FLOATS = ("x[i]", "z[i]", "down(x[i])", "recurse(x[i], i % 5)", "first(y, x[i])", "1.5", "exp(x[i])", "x[i] / 3.0")
CONDITIONS = ("x[i] > 0.5", "i % 3 == 1", "x[i] * z[i] < 0.25", "i > 2 and x[i] > 0.0")
INNER = ("y[j] > 0.3", "y[j] * x[i] > 0.1", "j > i", "j % 2 == 0")


def generated(rng: random.Random) -> str:
    """A function of x: f64[n] and y: f64[m], whose arms store: others may become selections, which do both arms.

    What they store needs another element that may have changed: then iterations are no points.
    """

    def value() -> str:
        return f"{rng.choice(FLOATS)} {rng.choice('+-*')} {rng.choice(FLOATS)}"

    def statement() -> str:
        update = f"z[i] = z[i % 2] + {value()}"
        match rng.randrange(7):
            case 0:
                return f"for i < n {{ if {rng.choice(CONDITIONS)} {{ {update} }} }}"
            case 1:
                return f"for i < n {{ if {rng.choice(CONDITIONS)} {{ {update} }} else {{ z[i] = {value()} }} }}"
            case 2:
                return f"for i < n {{ if {rng.choice(CONDITIONS)} {{ continue }}\n {update} }}"
            case 3:
                return f"for i < n {{ if {rng.choice(CONDITIONS)} {{ break }}\n {update} }}"
            case 4:
                inner = f"w[j] = w[j % 2] + y[j] * {rng.choice(FLOATS)}"
                return f"for i < n {{ for j < m {{ if {rng.choice(INNER)} {{ {inner} }} }} }}"
            case 5:
                term = rng.choice(FLOATS).replace("[i]", "[j]").replace("i %", "j %")
                return f"for i < n {{ for j < i {{ z[j] += {term} * x[i] }} }}"
            case _:
                return f"for i < n {{ {update} }}"

    body = "\n  ".join([statement() for _ in range(rng.randint(1, 3))])
    last = rng.choice(("sum(z) + sum(w)", "halves(z) + halves(w)", "first(z, 0.5) + sum(w)"))
    return f"""{HELPERS}
fn f(x: f64[n], y: f64[m]) -> f64 {{
  var (z, w) = (zeros(n), zeros(m))
  {body}
  {last}
}}
"""


class Counted(Interpreter):
    """An interpreter that counts operations of floats. total: so far."""

    total = 0

    def block(self, code: Code, frame: Frame) -> list[Any]:
        for step in code.steps:
            if isinstance(step.let.op, anf.Prim):
                self.total += frame.times * operations(step.let.op.name, step.let.op.args, mathematics.operations)
        return super().block(code, frame)

    def count(self, let: anf.Let, operations: int, moved: int = 0) -> None:
        if not isinstance(let.op, anf.Comp):
            return
        widths = [WIDTHS[dtype_of(value)] for value in let.op.body.results]
        if 8 in widths:  # elements are read and written, and the rest of the operations combine values
            self.total += operations - moved * len(widths) // sum(widths)


def interpreted(text: str, args: Sequence[np.ndarray[Any, Any]]) -> int:
    checked = check(Source("counts.dl", text))
    assert not checked.diagnostics, text
    program, (entry,) = lower([request(checked.module.functions["f"])])
    counted = Counted(program)
    params = program.functions[entry.name].params
    shapes = [p.type.shape for p in params if isinstance(p.type, anf.Array)]
    sizes = {
        size.atom: n for shape, x in zip(shapes, args, strict=True) for size, n in zip(shape, x.shape, strict=True)
    }
    counted.run(entry.name, [*[sizes[p] for p in params if not isinstance(p.type, anf.Array)], *args])
    return counted.total


@pytest.mark.parametrize("seed", range(24))
def test_a_profile_counts_the_operations_of_the_program(seed: int) -> None:
    rng = random.Random(seed)
    text = generated(rng)
    n, m = rng.randint(1, 30), rng.randint(1, 20)
    numbers = np.random.default_rng(seed)
    args = numbers.normal(size=n), numbers.normal(size=m)
    profile = dlang.compile(text).f.profile(*args)
    assert all(row.operations is not None for row in profile.rows)
    found = sum([row.operations or 0 for row in profile.rows])
    assert found == interpreted(text, args), text


WINDOW = """
fn window(x: f64[n, m]) -> f64[n, m] = [
  { var s = 0.0
    for p < 5, q < 5 {
      let (a, b) = (i + p - 2, j + q - 2)
      if a >= 0 and a < n and b >= 0 and b < m { s += x[a, b] * 0.04 }
    }
    s }
  for i < n, j < m
]
fn pairs(x: f64[n], y: f64[m]) -> f64[n] {
  var z = zeros(n)
  for i < n { for j < m { if y[j] > 0.5 { z[i] += x[i] * y[j] } } }
  z
}
fn banded(x: f64[n]) -> f64 = sum(x[i + j] for i < n - 4, j < 5)
"""


def test_elements_that_loops_come_to_again_count_once() -> None:
    module = dlang.compile(WINDOW)
    n, m = 40, 30
    x, y = np.ones(n), np.ones(m)
    moved = sum([row.bytes for row in module.window.profile(np.ones((n, m))).rows])
    assert 2 * 8 * n * m <= moved < 13 * 8 * n * m  # the array, the result, and sums of rows
    moved = sum([row.bytes for row in module.pairs.profile(x, y).rows])
    assert moved <= 8 * (n + m + 4 * n)
    moved = sum([row.bytes for row in module.banded.profile(x).rows])
    assert moved == 8 * n
