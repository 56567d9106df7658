"""Branches in loops: when both arms are computed, several iterations at a time."""

from __future__ import annotations

import io

import numpy as np
import pytest

from dlang.codegen.loops import Branch, Compute, Loop, Program
from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.runtime.engine import Engine
from tests.optimize.programs import program

TURNED = """
fn f(n.0: i64, x.1: f64[n.0], y.2: f64[n.0]) -> (u.3: f64[n.0], v.4: f64[n.0]) {
  u.5: f64[n.0], v.6: f64[n.0] = comp i.7 in 0..n.0 {
    x.8: f64 = read x.1[i.7]
    y.9: f64 = read y.2[i.7]
    none.10: bool = eq(x.8, 0.0)
    a.11: f64, b.12: f64 = if none.10 {
      yield 1.0, -0.0
    } else {
      s.13: f64 = sqrt(y.9)
      q.14: f64 = div(s.13, x.8)
      yield q.14, s.13
    }
    c.15: f64 = mul(a.11, y.9)
    d.16: f64 = if none.10 {
      e.17: f64 = div(c.15, 0.0)
      yield e.17
    } else {
      g.18: f64 = sqrt(y.9)
      h.19: f64 = add(g.18, b.12)
      yield h.19
    }
    yield c.15, d.16
  } to keep [n.0] [i.7] set, keep [n.0] [i.7] set
  yield u.5, v.6
}
"""
WITH_ARM = """
fn f(n.0: i64, x.1: i64[n.0], y.2: i64[n.0]) -> (u.3: i64[n.0]) {
  u.5: i64[n.0] = comp i.7 in 0..n.0 {
    x.8: i64 = read x.1[i.7]
    y.9: i64 = read y.2[i.7]
    none.10: bool = eq(y.9, 0)
    a.11: i64 = if none.10 {
      yield 7
    } else {
      ARM
      yield q.14
    }
    yield a.11
  } to keep [n.0] [i.7] set
  yield u.5
}
"""


def scheduled(text: str) -> Program:
    return schedule(program(text), Lanes(512))


def only_loop(nests: Program) -> Loop:
    (loop,) = [s for s in nests.functions["f"].body.stmts if isinstance(s, Loop)]
    return loop


def agrees(text: str, args: list[object]) -> None:
    p = program(text)
    with np.errstate(all="ignore"):
        expected = Interpreter(p).run("f", list(args))
    found = Engine(Host(io.StringIO())).compile(p, ["f"]).run("f", list(args))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_loop_with_cheap_branches_has_lanes() -> None:
    loop = only_loop(scheduled(TURNED))
    assert loop.lanes == 8 and not any(isinstance(s, Branch) for s in loop.stmts)


def test_an_arm_knows_what_an_earlier_branch_on_its_condition_chose() -> None:
    names = [s.name for s in only_loop(scheduled(TURNED)).stmts if isinstance(s, Compute)]
    assert names.count("sqrt") == 1 and names.count("select") == 3


def test_selected_arms_give_what_branches_do() -> None:
    x = np.array([0.0, 1.0, -0.0, 2.0, np.nan, 0.5, 3.0, 0.0, 5.0, 6.0, 0.0])
    agrees(TURNED, [11, x, np.linspace(-1.0, 9.0, 11)])


def test_the_scalar_code_of_a_program_without_lanes_keeps_its_branches() -> None:
    assert print_program(schedule(program(TURNED))).count("if none") == 2


@pytest.mark.parametrize("arm", ["q.14: i64 = floordiv(x.8, y.9)", "q.14: i64 = read x.1[y.9]"])
def test_what_may_fail_where_its_arm_is_not_taken_stays_in_a_branch(arm: str) -> None:
    loop = only_loop(scheduled(WITH_ARM.replace("ARM", arm)))
    assert (loop.lanes == 1) == ("floordiv" in arm)  # what is read can have a mask
    assert any(isinstance(s, Branch) for s in loop.stmts)


def test_a_division_that_a_branch_guards_is_not_done_elsewhere() -> None:
    args = [9, np.arange(9), np.array([0, 1, 2, 0, 3, 0, 0, 5, 0])]
    agrees(WITH_ARM.replace("ARM", "q.14: i64 = floordiv(x.8, y.9)"), list(args))


def test_an_arm_that_costs_more_than_the_lanes_gain_stays() -> None:
    heavy = "p.12: f64 = cast f64 x.8\n" + "\n".join(f"p.{k + 1}: f64 = exp(p.{k})" for k in range(12, 22))
    text = WITH_ARM.replace("ARM", heavy + "\nq.14: i64 = cast i64 p.22").replace("q.14", "q.99").replace("u.5", "u.98")
    assert only_loop(scheduled(text)).lanes == 1


def test_a_branch_that_costs_more_than_its_arms_is_a_selection_without_lanes_too() -> None:
    text = """
fn f(n.0: i64, x.1: f64[n.0], k.2: i64[n.0], a.3: f64[n.0]) -> (r.4: f64[n.0]) {
  r.5: f64[n.0] = comp i.6 in 0..n.0 {
    t.7: f64 = read x.1[i.6]
    k.8: i64 = read k.2[i.6]
    c.9: bool = gt(t.7, 0.0)
    v.10: f64 = if c.9 {
      yield t.7
    } else {
      yield 0.0
    }
    ok.11: i64 = check c.9 "E0801" ("") () for (k.8)
    yield v.10
  } to add [n.0] [ok.11] into a.3
  yield r.5
}
"""
    loop = only_loop(scheduled(text))
    assert loop.lanes == 1 and not any(isinstance(s, Branch) for s in loop.stmts)
