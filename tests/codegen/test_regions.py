"""Loops that carry nodes: those whose state reaches all that they made never look for garbage, and others do."""

from __future__ import annotations

import pytest

from dlang.codegen.printing import print_program
from dlang.codegen.regions import keepers_of, makers_of
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.ir.reader import read_program
from tests.codegen.nodes import GROWN, LISTS, MIB, NUMBERS, ROWS, compiled, peak, row

HEAD = (
    LISTS
    + """
fn push(l.0: "L", k.1: i64) -> (l.2: "L") {
  l.3: "L" = construct "L" 1 (k.1, l.0)
  yield l.3
}

fn replaced(l.0: "L", k.1: i64) -> (l.2: "L") {
  nil.3: "L" = construct "L" 0 ()
  l.4: "L" = construct "L" 1 (k.1, nil.3)
  yield l.4
}

fn measured(k.0: i64) -> (s.1: i64) {
  l.2: "L" = call count_down(k.0)
  s.3: i64 = call total(l.2, 0)
  yield s.3
}

fn doubled(l.0: "L") -> (l.1: "L") {
  t.2: i64 = tag l.0
  nil.3: bool = eq(t.2, 0)
  l.4: "L" = if nil.3 {
    yield l.0
  } else {
    head.5: i64, tail.6: "L" = fields "L" 1 l.0
    rest.7: "L" = call doubled(tail.6)
    more.8: i64 = add(head.5, head.5)
    l.9: "L" = construct "L" 1 (more.8, rest.7)
    yield l.9
  }
  yield l.4
}

fn main(n.0: i64) -> (s.1: i64) {
  nil.2: "L" = construct "L" 0 ()
  l.3: "L" = for i.4 in 0..n.0 (l.5: "L" = nil.2) {
"""
)
TAIL = """
    yield l.90
  }
  s.91: i64 = call total(l.3, 0)
  yield s.91
}
"""

KEEP = {
    "a node": '    l.90: "L" = construct "L" 1 (i.4, l.5)',
    "a call": '    l.90: "L" = call push(l.5, i.4)',
    "an arm": """\
    odd.6: bool = gt(i.4, 5)
    l.90: "L" = if odd.6 {
      l.7: "L" = construct "L" 1 (i.4, l.5)
      yield l.7
    } else {
      yield l.5
    }""",
    "a loop": """\
    l.90: "L" = for j.6 in 0..i.4 (l.7: "L" = l.5) {
      l.8: "L" = construct "L" 1 (j.6, l.7)
      yield l.8
    }""",
    "a while": """\
    j.15: i64, l.90: "L" = while (j.6: i64 = 0, l.7: "L" = l.5) {
      more.8: bool = lt(j.6, i.4)
      yield more.8
    } do {
      l.9: "L" = construct "L" 1 (j.6, l.7)
      k.10: i64 = add(j.6, 1)
      yield k.10, l.9
    }""",
    "what a call lets go of": """\
    k.6: i64 = call measured(i.4)
    l.90: "L" = construct "L" 1 (k.6, l.5)""",
}
DROP = {
    "the state": """\
    nil.6: "L" = construct "L" 0 ()
    l.90: "L" = construct "L" 1 (i.4, nil.6)""",
    "a node": """\
    x.6: "L" = construct "L" 1 (i.4, l.5)
    t.7: i64 = call total(x.6, 0)
    l.90: "L" = construct "L" 1 (t.7, l.5)""",
    "the state in a call": '    l.90: "L" = call replaced(l.5, i.4)',
    "the state in an arm": """\
    odd.6: bool = gt(i.4, 5)
    l.90: "L" = if odd.6 {
      l.7: "L" = construct "L" 1 (i.4, l.5)
      yield l.7
    } else {
      nil.8: "L" = construct "L" 0 ()
      yield nil.8
    }""",
    "what one arm uses": """\
    x.6: "L" = construct "L" 1 (i.4, l.5)
    odd.7: bool = gt(i.4, 5)
    l.90: "L" = if odd.7 {
      yield x.6
    } else {
      yield l.5
    }""",
    "a node that a loop may use": """\
    x.6: "L" = construct "L" 1 (i.4, l.5)
    l.90: "L" = for j.7 in 0..i.4 (l.8: "L" = l.5) {
      l.9: "L" = construct "L" 1 (j.7, x.6)
      yield l.9
    }""",
    "the state in a loop": """\
    l.90: "L" = for j.6 in 0..i.4 (l.7: "L" = l.5) {
      nil.8: "L" = construct "L" 0 ()
      l.9: "L" = construct "L" 1 (j.6, nil.8)
      yield l.9
    }""",
    "a copy": """\
    x.6: "L" = call doubled(l.5)
    t.7: i64 = call total(x.6, 0)
    l.90: "L" = construct "L" 1 (t.7, l.5)""",
    "what was copied": """\
    x.6: "L" = call doubled(l.5)
    l.90: "L" = construct "L" 1 (i.4, x.6)""",
}


def collects(text: str, name: str = "main") -> bool:
    nests = schedule(read_program(text), Lanes(256))
    return "= collect " in print_program(type(nests)({name: nests.functions[name]}))


@pytest.mark.parametrize("body", KEEP.values(), ids=KEEP)
def test_a_loop_whose_state_reaches_all_that_it_made_does_not_collect(body: str) -> None:
    assert not collects(HEAD + body + TAIL)


@pytest.mark.parametrize("body", DROP.values(), ids=DROP)
def test_a_loop_that_may_drop_something_collects(body: str) -> None:
    assert collects(HEAD + body + TAIL)


def table(index: str, more: str = "") -> str:
    """A loop around a loop that fills a table with nodes."""
    return f"""{NUMBERS}
fn main(n.0: i64, k.1: i64) -> (a.2: "L"[n.0, n.0]) {{
  nil.3: "L" = construct "L" 0 ()
  a.4: "L"[n.0, n.0] = empty "L" [n.0, n.0]
  a.5: "L"[n.0, n.0] = for i.6 in 0..n.0 (a.7: "L"[n.0, n.0] = a.4) {{
    a.8: "L"[n.0, n.0] = for j.9 in 0..n.0 (a.10: "L"[n.0, n.0] = a.7) {{
      l.11: "L" = construct "L" 1 (j.9, nil.3)
      a.12: "L"[n.0, n.0] = update a.10[{index}] = l.11
{more}      yield a.{13 if more else 12}
    }}
    yield a.8
  }}
  yield a.5
}}
"""


@pytest.mark.parametrize("index", ["i.6, j.9", "j.9, n.0 - i.6 - 1"])
def test_a_loop_that_sets_an_element_of_its_own_does_not_collect(index: str) -> None:
    assert not collects(table(index))


@pytest.mark.parametrize("index", ["j.9, 0", "i.6, k.1", "j.9, j.9"])
def test_a_loop_that_may_set_an_element_twice_collects(index: str) -> None:
    assert collects(table(index))


def test_a_loop_that_sets_two_elements_in_a_iteration_collects() -> None:
    assert collects(table("i.6, j.9", '      a.13: "L"[n.0, n.0] = update a.12[i.6, j.9] = nil.3\n'))


def test_arrays_that_nodes_hold_are_kept_with_them() -> None:
    assert not collects(GROWN)
    sometimes = (
        ROWS
        + """
fn main(n.0: i64) -> (s.1: f64) {
  end.2: "R" = construct "R" 0 ()
  r.3: "R" = for k.4 in 0..n.0 (r.5: "R" = end.2) {
"""
        + row("k.4", 30)
        + """\
    odd.6: bool = gt(k.4, 5)
    r.7: "R" = if odd.6 {
      r.8: "R" = construct "R" 1 (k.4, row.30, r.5)
      yield r.8
    } else {
      yield r.5
    }
    yield r.7
  }
  s.9: f64 = call total(r.3, 0.0)
  yield s.9
}
"""
    )
    assert collects(sometimes)


def test_the_results_of_functions_reach_what_a_call_makes() -> None:
    program = read_program(HEAD + KEEP["a node"] + TAIL)
    makers = makers_of(program)
    assert makers == {"count_down", "push", "replaced", "measured", "doubled", "main"}
    keepers = keepers_of(program, makers)
    assert keepers["push"] == {0, 1}
    assert keepers["replaced"] == {1}
    assert keepers["doubled"] == keepers["measured"] == frozenset()


def test_a_list_takes_the_memory_of_its_nodes_alone() -> None:
    n = 1_000_000
    program = compiled(HEAD + KEEP["a node"] + TAIL)
    assert program.run("main", [n]) == [n * (n - 1) // 2]
    assert peak(program) <= 24 * n + 2 * MIB
