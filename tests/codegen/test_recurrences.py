"""Loops with a state inside of loops of independent iterations: several of these at once, with a state of vectors."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest

from dlang.codegen.loops import Allocate, Branch, For, Loop
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from dlang.codegen.vectorize import Lanes, moving_state
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.runtime.engine import Engine
from tests.optimize.programs import program

RECURRENCE = """
fn f(n.0: i64, k.1: i64, x.2: f64[n.0], c.3: f64[k.1]) -> (y.4: f64[n.0], t.5: f64) {
  y.6: f64[n.0], t.7: f64 = comp i.8 in 0..n.0 {
    x.9: f64 = read x.2[i.8]
    p.10: f64, q.11: f64, r.12: i64 = for j.13 in 0..HIGH (p.14: f64 = x.9, q.15: f64 = 1.0, r.16: i64 = 0) {
      BODY
      yield p.17, q.18, r.19
    }
    s.20: f64 = mul(p.10, q.11)
    m.21: f64 = cast f64 r.12
    y.22: f64 = add(s.20, m.21)
    yield y.22, s.20
  } to keep [n.0] [i.8] set, keep [] [] sum
  yield y.6, t.7
}
"""
BODIES = {
    "one part of the state differs between iterations of the outer loop": """
      c.30: f64 = read c.3[j.13]
      p.31: f64 = mul(p.14, x.9)
      p.17: f64 = add(p.31, c.30)
      q.18: f64 = mul(q.15, c.30)
      r.19: i64 = add(r.16, 1)
    """,
    "a branch": """
      c.30: f64 = read c.3[j.13]
      large.31: bool = gt(p.14, 0.25)
      p.17: f64, r.19: i64 = if large.31 {
        p.32: f64 = mul(p.14, c.30)
        r.33: i64 = add(r.16, 1)
        yield p.32, r.33
      } else {
        p.34: f64 = add(p.14, 0.5)
        yield p.34, r.16
      }
      q.18: f64 = sub(q.15, p.14)
    """,
    "a loop in the loop, and what is computed from the outer loop alone": """
      sine.30: f64 = sin(x.9)
      q.18: f64 = for l.31 in 0..j.13 (q.32: f64 = q.15) {
        c.33: f64 = read c.3[l.31]
        h.34: f64 = mul(q.32, 0.5)
        q.35: f64 = add(h.34, c.33)
        yield q.35
      }
      p.36: f64 = mul(p.14, sine.30)
      p.17: f64 = add(p.36, q.18)
      r.19: i64 = add(r.16, 1)
    """,
}

AND_BACK = """
fn f(n.0: i64, k.1: i64, x.2: f64[n.0], c.3: f64[k.1]) -> (y.4: f64[n.0]) {
  y.5: f64[n.0] = comp i.6 in 0..n.0 {
    x.7: f64 = read x.2[i.6]
    t.8: f64[k.1] = empty f64 [k.1]
    p.9: f64, t.10: f64[k.1] = for j.11 in 0..k.1 (p.12: f64 = x.7, t.13: f64[k.1] = t.8) {
      t.14: f64[k.1] = update t.13[j.11] = p.12
      c.15: f64 = read c.3[j.11]
      p.16: f64 = mul(p.12, c.15)
      p.17: f64 = add(p.16, x.7)
      CHECK
      yield p.17, t.14
    }
    q.18: f64 = for j.19 in 0..k.1 (q.20: f64 = p.9) {
      t.21: f64 = read t.10[k.1 - j.19 - 1]
      q.22: f64 = mul(q.20, t.21)
      q.23: f64 = add(q.22, 0.5)
      yield q.23
    }
    yield q.18
  } to keep [n.0] [i.6] set
  yield y.5
}
"""


def text(name: str, high: str = "k.1") -> str:
    return RECURRENCE.replace("BODY", BODIES[name]).replace("HIGH", high)


def outer(text: str, bits: int = 512) -> Loop:
    (loop,) = [s for s in schedule(program(text), Lanes(bits)).functions["f"].body.stmts if isinstance(s, Loop)]
    return loop


@pytest.mark.parametrize("name", BODIES)
def test_points_are_done_several_at_a_time(name: str) -> None:
    assert outer(text(name)).lanes >= 16 and outer(text(name), 256).lanes == 8 and outer(text(name), 0).lanes == 1


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("n", [0, 1, 7, 32, 45])
def test_they_give_what_the_interpreter_does(name: str, n: int) -> None:
    random = np.random.default_rng(n)
    args = [n, 5, random.normal(size=n), random.normal(size=5)]
    p = program(text(name))
    found = Engine(Host(io.StringIO())).compile(p, ["f"]).run("f", list(args))
    for a, b in zip(found, Interpreter(p).run("f", list(args)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 7, 16, 45])
def test_what_each_point_saves_on_the_way_is_an_array_with_a_place_for_each_lane(n: int) -> None:
    written = AND_BACK.replace("CHECK", "")
    loop = outer(written)
    (made,) = [s for s in loop.scratch or loop.stmts if isinstance(s, Allocate)]
    assert loop.lanes == 16 and len(made.shape) == 1 and made.shape[0].terms.popitem()[1] == 16
    random = np.random.default_rng(n)
    args = [n, 5, random.normal(size=n), random.normal(size=5)]
    p = program(written)
    (found,) = Engine(Host(io.StringIO())).compile(p, ["f"]).run("f", list(args))
    np.testing.assert_allclose(found, Interpreter(p).run("f", list(args))[0], rtol=1e-12)


def test_points_that_save_and_may_fail_are_done_one_by_one() -> None:
    check = 'less.24: bool = lt(p.17, 9.0)\n p.25: f64 = check less.24 "E0801" ("") () for (p.17)'
    written = AND_BACK.replace("CHECK", check).replace("yield p.17, t.14", "yield p.25, t.14")
    assert outer(written).lanes == 1


def test_loops_whose_iterations_differ_in_number_are_done_one_by_one() -> None:
    loop = outer(text("a branch", "i.8"))
    assert loop.lanes == 1 and any(isinstance(s, Branch) for s in walk(loop.stmts))  # nothing waits for both arms


def test_a_state_is_a_vector_where_it_depends_on_the_lane() -> None:
    loop = outer(text("one part of the state differs between iterations of the outer loop"))
    (inner,) = [s for s in walk(loop.stmts) if isinstance(s, For)]
    moving = moving_state(inner, loop.var, {loop.var, *[v for v in inner.init if v is inner.init[0]]})
    assert moving == {inner.params[0]}
    assert moving_state(replace(inner, init=inner.init[1:] + inner.init[:1]), loop.var, set()) == frozenset()
