"""Small arrays of a known size lie on the stack, where nothing uses them longer than their block."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.codegen.llvm import modules
from dlang.codegen.loops import Program
from dlang.codegen.schedule import schedule
from dlang.codegen.stack_arrays import stack_arrays
from dlang.codegen.vectorize import Lanes
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.runtime.engine import Engine
from tests.codegen.test_parallel import lowered

TOTALS = """fn main(x: f64[n, 3], m: i64) -> f64[n] = [
  {
    var total = zeros(3)
    for k < m { total[k % 3] += x[i, (k + 1) % 3] * f64(k) }
    total[0] * total[1] - total[2]
  }
  for i < n
]"""
TURNS = """fn main(x: f64[n, 3], m: i64) -> f64[n] = [
  {
    var p = x[i]
    for k < m { p = [p[(j + k) % 3] + 0.5 * sum(p) for j < 3] }
    p @ x[i]
  }
  for i < n
]"""
MESSAGE = """fn main(x: f64[n, 3], m: i64) -> f64[n] = [
  {
    var total = zeros(3)
    for k < m { total[k % 3] += x[i, k % 3] }
    assert total[0] < 2.0, "{total}"
    total[1]
  }
  for i < n
]"""
RECURSIVE = """fn walk(x: f64[n, 3], k: i64) -> f64 {
  if k == 0 { return 0.0 }
  var p = zeros(3)
  for j < k { p[j % 3] += x[0, j % 3] }
  p[0] + walk(x, k // 2) + p[1]
}
fn main(x: f64[n, 3], m: i64) -> f64 = walk(x, m)"""

EMPTY = """fn main(x: f64[n, 3], m: i64) -> f64 {
  var rows = [x[i, 0] * f64(j) for i < n, j < 0]
  for k < m { if x[k, 1] > 0.0 { rows[k % n] = rows[(k + 1) % n] } }
  sum(rows) + x[0, 0]
}"""


def on_stack(text: str) -> tuple[list[str], Program]:
    core, _ = lowered(text)
    program = schedule(core, Lanes(256), 1)
    return sorted(b.name for f in program.functions.values() for b in stack_arrays(f)), program


def test_what_a_point_sums_in_a_small_array_takes_no_memory_of_the_heap() -> None:
    names, program = on_stack(TOTALS)
    assert len(names) == 1
    text = modules.emit(program, [next(iter(program.functions))]).llvm
    assert text.count("alloca [24 x i8]") == 1


@pytest.mark.parametrize("text", [MESSAGE, RECURSIVE], ids=["shown in a message", "of a recursive function"])
def test_what_outlives_its_block_or_is_there_many_times_is_on_the_heap(text: str) -> None:
    assert on_stack(text)[0] == []


@pytest.mark.parametrize("text", [TOTALS, TURNS, RECURSIVE, EMPTY], ids=["totals", "turns", "recursive", "empty"])
def test_arrays_on_the_stack_hold_what_the_interpreter_has(text: str) -> None:
    core, name = lowered(text)
    args = [7, np.linspace(-1.0, 2.0, 21).reshape(7, 3), 5]
    expected = Interpreter(core).run(name, args)
    for grain in (0, 1):
        engine = Engine(Host(), grain=grain)
        for a, b in zip(engine.compile(core, [name]).run(name, args), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        assert all(context.in_use == 0 for context in engine.contexts)


def test_an_array_without_elements_but_with_a_size_that_is_not_known_is_compiled() -> None:
    text = """
fn main(q: f64[n]) -> f64[n] = grad(|q: f64[n]| {
  var o = q[..0]
  for y in q {
    if y < 0.0 { continue }
    o = tanh(o) * y
  }
  sum(o) + sum(q)
})(q)
"""
    assert all(dlang.compile(text).main([1.0, -2.0, 3.0]) == [1.0, 1.0, 1.0])
