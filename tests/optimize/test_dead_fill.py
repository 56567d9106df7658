"""Which arrays are not filled before they are overwritten."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.ir.anf import Comp, Empty
from dlang.ir.verify import verify
from dlang.optimize.dead_fill import dead_fill
from tests.optimize.programs import assert_same, cost, count, program, run

STACK = """
fn f(n.0: i64, x.1: f64[n.0], y.2: f64[n.0]) -> (r.3: f64[2, n.0]) {
  a.4: f64[2, n.0] = comp i.5 in 0..2, j.6 in 0..n.0 {
    yield 0.0
  } to keep [2, n.0] [i.5, j.6] set
  b.7: f64[2, n.0] = comp i.8 in 0..n.0 {
    t.9: f64 = read x.1[i.8]
    yield t.9
  } to keep [2, n.0] [0, i.8] set into a.4
  c.10: f64[2, n.0] = comp i.11 in LOW..n.0 {
    t.12: f64 = read y.2[i.11]
    yield t.12
  } to keep [2, n.0] [WHICH, i.11] MONOID into b.7
  yield c.10
}
"""
ARGS = [3, np.arange(3.0), np.ones(3)]


def test_a_stack_is_not_filled_first() -> None:
    before = program(STACK.replace("LOW", "0").replace("WHICH", "1").replace("MONOID", "set"))
    after = dead_fill(before)
    verify(after)
    assert count(after, Empty) == 1 and count(after, Comp) == 2
    assert_same(run(before, ARGS), run(after, ARGS))
    assert cost(before, ARGS) - cost(after, ARGS) == 6


@pytest.mark.parametrize(("low", "which", "monoid"), [("0", "0", "set"), ("1", "1", "set"), ("0", "1", "sum")])
def test_an_array_of_which_an_element_may_stay_is_filled(low: str, which: str, monoid: str) -> None:
    before = program(STACK.replace("LOW", low).replace("WHICH", which).replace("MONOID", monoid))
    assert count(dead_fill(before), Empty) == 0


SEGMENTS = """
fn f(n.0: i64, x.1: f64[n.0], y.2: f64[n.0]) -> (r.3: f64[2*n.0 + 1]) {
  a.4: f64[2*n.0 + 1] = comp i.5 in 0..2*n.0 + 1 {
    yield 0.0
  } to keep [2*n.0 + 1] [i.5] set
  b.6: f64[2*n.0 + 1], c.7: f64[2*n.0 + 1] = comp i.8 in 0..n.0 {
    t.9: f64 = read x.1[i.8]
    u.10: f64 = read y.2[i.8]
    yield t.9, u.10
  } to keep [2*n.0 + 1] [n.0 - 1 - i.8] set into a.4, keep [2*n.0 + 1] [PLACE] set after 0
  d.11: f64[2*n.0 + 1] = comp {
    yield 1.0
  } to keep [2*n.0 + 1] [n.0] set into c.7
  yield d.11
}
"""


@pytest.mark.parametrize(("place", "whole"), [("i.8 + n.0 + 1", True), ("i.8 + n.0", False)])
def test_segments_of_any_length_in_any_order_are_all_of_an_array(place: str, whole: bool) -> None:
    before = program(SEGMENTS.replace("PLACE", place))
    after = dead_fill(before)
    verify(after)
    assert count(after, Empty) == whole
    assert_same(run(before, ARGS), run(after, ARGS))


def test_two_stacks_from_one_filled_array_get_a_room_each() -> None:
    one = STACK.replace("LOW", "0").replace("WHICH", "1").replace("MONOID", "set")
    more = """  d.13: f64[2, n.0] = comp i.14 in 0..n.0 {
    t.15: f64 = read y.2[i.14]
    yield t.15
  } to keep [2, n.0] [0, i.14] set into a.4
  e.16: f64[2, n.0] = comp i.17 in 0..n.0 {
    t.18: f64 = read x.1[i.17]
    yield t.18
  } to keep [2, n.0] [1, i.17] set into d.13
  yield c.10, e.16
"""
    both = one.replace("(r.3: f64[2, n.0])", "(r.3: f64[2, n.0], s.19: f64[2, n.0])").replace("  yield c.10\n", more)
    before = program(both)
    after = dead_fill(before)
    verify(after)
    assert count(after, Empty) == 2 and count(after, Comp) == 4
    assert_same(run(before, ARGS), run(after, ARGS))
