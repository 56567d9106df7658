"""The parts of a stack are made in their places."""

from __future__ import annotations

import io

import numpy as np

from dlang.codegen.loops import Allocate, Loop
from dlang.codegen.schedule import schedule
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.optimize.programs import program

TWO = """
fn f(n.0: i64, x.1: f64[n.0]) -> (r.2: f64[2, n.0]) {
  p.3: f64[n.0], q.4: f64[n.0] = comp i.5 in 0..n.0 {
    t.6: f64 = read x.1[i.5]
    s.7: f64 = exp(t.6)
    c.8: f64 = mul(s.7, t.6)
    yield s.7, c.8
  } to keep [n.0] [i.5] set, keep [n.0] [i.5] set
  e.9: f64[2, n.0] = empty f64 [2, n.0]
  a.10: f64[2, n.0] = comp i.11 in 0..n.0 {
    t.12: f64 = read p.3[i.11]
    yield t.12
  } to keep [2, n.0] [FIRST, i.11] set into e.9
  b.13: f64[2, n.0] = comp i.14 in 0..n.0 {
    t.15: f64 = read q.4[i.14]
    yield t.15
  } to keep [2, n.0] [1, i.14] set into a.10
  yield b.13
}
"""


def loops(text: str) -> int:
    return sum(isinstance(s, Loop) for s in schedule(program(text)).functions["f"].body.stmts)


def test_parts_of_a_stack_are_made_in_their_slices() -> None:
    nests = schedule(program(TWO.replace("FIRST", "0")))
    stmts = nests.functions["f"].body.stmts
    assert sum(isinstance(s, Loop) for s in stmts) == 1 and not any(isinstance(s, Allocate) for s in stmts)


def test_a_slice_that_is_set_twice_is_set_in_order() -> None:
    assert loops(TWO.replace("FIRST", "1")) == 3


def test_a_part_that_is_used_elsewhere_is_copied() -> None:
    text = TWO.replace("FIRST", "0").replace("-> (r.2: f64[2, n.0])", "-> (r.2: f64[2, n.0], o.16: f64[n.0])")
    assert loops(text.replace("yield b.13", "yield b.13, q.4")) == 2


def test_stacks_made_in_place_agree_with_the_interpreter() -> None:
    for first in ("0", "1"):
        p = program(TWO.replace("FIRST", first))
        args = [5, np.linspace(-1.0, 1.0, 5)]
        (expected,) = Interpreter(p).run("f", list(args))
        (found,) = Engine(Host(io.StringIO())).compile(optimise(p, ["f"]), ["f"]).run("f", list(args))
        rows = slice(None) if first == "0" else slice(1, 2)
        np.testing.assert_allclose(found[rows], expected[rows], rtol=1e-15)
