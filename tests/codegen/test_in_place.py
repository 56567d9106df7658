"""Results in the memory of arrays that nothing needs any more: where they are, and that no number changes by it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import numpy as np
import pytest

from dlang.codegen.loops import Allocate, Free, Loop, Move, Parallel
from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from dlang.codegen.vectorize import Lanes
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from dlang.runtime.threads import Pool, new_pool
from tests.specialize.support import lowered

TINY = 2_000  # picoseconds: every loop of a few iterations is in pieces


def allocated(text: str) -> list[str]:
    """The shapes of the arrays that the loops of `main` make, but for what a product needs to pack its operand."""
    made = lowered(text, "main")
    nests = schedule(optimise(made.program, [made.entry.name], verify=True), Lanes(512))
    lines = re.findall(
        r"allocate (\S+\[.*\])", "\n".join(x for x in print_program(nests).splitlines() if "&workspace" not in x)
    )
    return [re.sub(r"(?<=[a-z])\.\d+", "", line) for line in lines]


ROWS = """fn main(x: f64[n, m]) -> f64[n, m] =
  [exp(x[i, j] - max(x[i])) / sum(exp(x[i, k] - max(x[i])) for k < m) for i < n, j < m]"""


def test_a_softmax_of_rows_makes_its_exponentials_in_the_rows_of_the_result() -> None:
    assert allocated(ROWS) == []


def test_the_weights_after_a_step_are_made_in_the_memory_of_their_gradients() -> None:
    text = """
fn loss(w: f64[80, 70], x: f64[n, 80]) -> f64 = mean(tanh(x @ w) ** 2)
fn main(w: f64[80, 70], x: f64[n, 80]) -> f64[80, 70] = w - 0.1 * grad(loss)(w, x)"""
    assert "f64[80, 70]" not in allocated(text)


def test_a_layer_is_saved_once_and_its_derivative_made_in_its_place() -> None:
    text = """
fn loss(w: f64[80, 70], b: f64[70], x: f64[n, 80]) -> f64 = sum(maximum(0.0, x @ w + b) ** 2)
fn main(w: f64[80, 70], b: f64[70], x: f64[n, 80]) -> (f64[80, 70], f64[70]) = grad(loss, wrt = (w, b))(w, b, x)"""
    assert allocated(text) == ["f64[n, 70]"]


def test_a_state_that_each_step_makes_from_its_own_elements_stays_where_it_is() -> None:
    text = """
fn main(x: f64[n], y: f64[n]) -> f64[n] {
  var s = x
  for k < 5 { s = tanh(s) + y }
  s
}"""
    assert allocated(text) == []


def test_zeros_that_are_all_overwritten_are_not_made_nor_what_they_are_overwritten_with_copied() -> None:
    text = """
fn main(x: f64[n, m]) -> f64 {
  var wide = zeros(n, m)
  wide[.., 0..m] = x
  sum(wide[i, j] * wide[n - 1 - i, j] for i < n, j < m)
}"""
    assert allocated(text) == []


def test_rows_take_scratch_once_in_front_of_their_loop_and_in_each_piece_of_it() -> None:
    text = "fn main(x: f64[n, m]) -> f64[n] = [{ let e = cumsum(x[i]); sum(e[j] * e[m - 1 - j] for j < m) } for i < n]"
    made = lowered(text, "main")
    for grain in (0, TINY):
        (function,) = schedule(optimise(made.program, [made.entry.name]), Lanes(512), grain).functions.values()
        stmts = list(walk(function.body.stmts))
        assert not any(isinstance(s, Allocate | Free) for s in stmts)
        ((loop, scratch),) = [(s, s.scratch) for s in stmts if isinstance(s, Loop) and s.scratch]
        assert len(scratch) == 1 and any(isinstance(s, Parallel) and loop in s.stmts for s in stmts) == bool(grain)


def test_what_the_condition_of_a_loop_makes_is_changed_where_it_is() -> None:
    text = """fn main(x: f64[n], limit: f64) -> i64 {
  var c = 0
  while {
    var a = zeros(n)
    for i in 1..n { a[i] = a[i - 1] * 0.5 + sin(x[i] + f64(c)) }
    sum(a) < limit
  } { c += 1 }
  c
}"""
    made = lowered(text, "main")
    (function,) = schedule(optimise(made.program, [made.entry.name]), Lanes(512)).functions.values()
    stmts = list(walk(function.body.stmts))
    assert sum(isinstance(s, Allocate) for s in stmts) == 1 and not any(isinstance(s, Move) for s in stmts)


FUNCTIONS = """
fn made(x: f64[n, m]) -> f64[n, m] {
  var s = x
  for i < n, j < m { s[i, j] = s[i, j] + 0.5 * s[0, 0] }
  s
}
fn loss(x: f64[n, m]) -> f64 = sum(tanh(x @ transpose(x)) ** 2) + sum(maximum(x, 0.1) * x)
"""

CASES = {
    "softmax of rows": "{ let e = exp(x); [e[i, j] / sum(e[i]) + sum(e[i, k] * e[i, k] for k < m) for i < n, j < m] }",
    "a neighbour": "{ let e = exp(x); [e[i, j] + e[(i + 1) % n, j] for i < n, j < m] }",
    "backwards": "{ let e = exp(x); [e[i, j] * e[i, m - 1 - j] for i < n, j < m] }",
    "looked at twice": "{ let e = made(x); let f = e * 2.0; [f[i, j] + e[i, j] * sum(f[i]) for i < n, j < m] }",
    "a view of it": "{ let e = made(x); let v = e[..n, ..]; [sin(e[i, j]) + v[n - 1 - i, j] for i < n, j < m] }",
    "two results of one": """{
  let e = made(x)
  let f = sin(e)
  let g = cos(e)
  let a = made(f)
  let b = made(g)
  [a[i, j] * b[n - 1 - i, j] for i < n, j < m]
}""",
    "rows that are added up": """{
  let total = sum([exp(x[i, j]) / sum(exp(x[i, k]) for k < m) for i < n, j < m], axis = 0)
  [total[j] * x[i, j] for i < n, j < m]
}""",
    "one column": "{ let e = made([[x[i, 0]] for i < n]); [tanh(e[i, 0]) + x[i, j] for i < n, j < m] }",
    "a state": "{ var s = made(x); for k < 4 { s = [sin(s[i, j]) * x[i, j] for i < n, j < m] }; s }",
    "two states that change places": """{
  var u = made(x)
  var before = x
  for k < 5 {
    let next = [2.0 * u[i, j] - before[i, j] + 0.1 * u[i, (j + 1) % m] for i < n, j < m]
    before = u
    u = next
  }
  u
}""",
    "an arm": "{ var s = made(x); if x[0, 0] > 0.0 { s = exp(s) }; [s[i, j] + 1.0 for i < n, j < m] }",
    "a check": "{ let e = made(x); [e[i, j] + x[i64(abs(e[i, j]) * 0.0), j] for i < n, j < m] }",
    "a product": "{ let p = x @ transpose(x); let q = tanh(p + 1.0); [q[i, i] + q[i, (j + i) % n] for i < n, j < m] }",
    "a residual": "{ let h = made(x); let q = h + tanh(h @ transpose(x) @ x); [q[i, j] * 2.0 for i < n, j < m] }",
    "rows that share scratch": """[{
  let e = cumsum(x[i])
  e[0] * x[i, j] + e[m - 1] + sum(e[k] * e[m - 1 - k] for k < m)
} for i < n, j < m]""",
    "rows in rows that share scratch": """{
  let r = [{
    let e = cumsum(x[i])
    let s = [{ let f = cumsum([e[k] * x[j, k] for k < m]); f[0] + f[m - 1] * f[m // 2] } for j < n]
    s[0] + sum(s[j] * s[n - 1 - j] for j < n) + e[0]
  } for i < n]
  [r[i] + x[i, j] for i < n, j < m]
}""",
    "a derivative": "grad(loss)(x)",
}


@pytest.fixture(scope="module")
def pools() -> Iterator[list[Pool]]:
    made = [new_pool(1), new_pool(3)]
    yield made
    for pool in made:
        pool.close()


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_the_interpreter_in_lanes_and_in_pieces(name: str, pools: list[Pool]) -> None:
    made = lowered(f"{FUNCTIONS}fn main(x: f64[n, m]) -> f64[n, m] = {CASES[name]}", "main")
    reference = optimise(made.program, [made.entry.name]) if "grad" in CASES[name] else made.program
    interpreter = Interpreter(reference)
    optimised = optimise(made.program, [made.entry.name], verify=True)
    engines = [
        Engine(Host(io.StringIO()), grain=grain, pool=pool) for grain, pool in ((0, None), *((TINY, p) for p in pools))
    ]
    compiled = [engine.compile(optimised, [made.entry.name]) for engine in engines]
    for n, m in ((1, 1), (2, 9), (5, 3), (33, 17), (4, 70)):
        x = np.random.default_rng(n).normal(size=(n, m))
        (wanted,) = interpreter.run(made.entry.name, [n, m, x])
        for c in compiled:
            (found,) = c.run(made.entry.name, [n, m, x.copy()])
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
