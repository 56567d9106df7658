"""Compiled code for nodes of datatypes: values as the interpreter gives them."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.codegen.abi import words
from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.ir.reader import read_program
from dlang.pipeline import optimise
from tests.codegen.nodes import GROWN, LISTS, MIB, ROWS, TREES, agrees, compiled, peak, row


@pytest.mark.parametrize("n", [0, 1, 7, 100])
def test_a_list_is_built_by_a_loop_and_summed_by_tail_calls(n: int) -> None:
    main = 'fn main(n.0: i64) -> (s.1: i64) {\n  l.2: "L" = call count_down(n.0)\n'
    main += "  s.3: i64 = call total(l.2, 0)\n  yield s.3\n}\n"
    assert agrees(LISTS + main, n) == [n * (n - 1) // 2]


@pytest.mark.parametrize("depth", [0, 1, 6])
def test_a_tree_is_built_and_summed_by_recursion(depth: int) -> None:
    assert agrees(TREES, depth) == [1.5**depth]


def test_two_million_nodes_come_and_go() -> None:
    program = compiled(TREES)
    for _ in range(2):
        assert program.run("main", [20]) == [pytest.approx(1.5**20)]
    assert peak(program) < 64 * MIB


def test_a_node_holds_values_of_every_dtype() -> None:
    dtypes = ("f64", "f32", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool", "str", "f16", "bf16")
    formals = ", ".join(f"a.{k}: {dtype}" for k, dtype in enumerate(dtypes))
    names = ", ".join(f"a.{k}" for k in range(len(dtypes)))
    others = ", ".join(f"b.{k + 20}: {dtype}" for k, dtype in enumerate(dtypes))
    results = ", ".join(f"r.{k + 40}: {dtype}" for k, dtype in enumerate(dtypes))
    given = ", ".join(f"b.{k + 20}" for k in range(len(dtypes)))
    text = f"""\
data "D" {{ No(), All({formals}), Two(x.98: "D", y.99: i8) }}

fn made(which.70: bool, {formals}) -> (d.60: "D") {{
  d.61: "D" = if which.70 {{
    d.62: "D" = construct "D" 1 ({names})
    yield d.62
  }} else {{
    no.63: "D" = construct "D" 0 ()
    d.64: "D" = call made(which.70, {names})
    d.65: "D" = construct "D" 2 (d.64, 0i8)
    yield no.63
  }}
  yield d.61
}}

fn main({formals}) -> ({results}) {{
  d.62: "D" = call made(true, {names})
  {others} = fields "D" 1 d.62
  yield {given}
}}
"""
    smallest = [-1.5e300, -0.0, -(2**63), -(2**31), -(2**15), -128, 0, 0, 0, 0, True, "ä", -1.5, 2.5]
    largest = [np.inf, np.float32(3e38), 2**63 - 1, 2**31 - 1, 2**15 - 1, 127, 2**64 - 1, 2**32 - 1, 65535, 255, False]
    largest += ["", 65504.0, -0.0]
    assert agrees(text, *smallest) == smallest
    assert agrees(text, *largest) == largest


def test_references_are_the_first_words_of_a_node() -> None:
    text = 'data "D" { All(n.0: i64, d.1: "D", x.2: f64[n.0], b.3: bool) }\nfn f() -> () {\n  yield\n}\n'
    assert words(read_program(text).datatypes["D"].variants[0]) == (2, 0, 1, 3)


def test_null_stands_where_nothing_looks() -> None:
    text = """\
fn main(n.0: i64) -> (s.1: i64) {
  some.2: bool = gt(n.0, 0)
  l.3: "L" = if some.2 {
    l.4: "L" = call count_down(n.0)
    yield l.4
  } else {
    yield null "L"
  }
  s.5: i64 = if some.2 {
    s.6: i64 = call total(l.3, 0)
    yield s.6
  } else {
    yield -1
  }
  yield s.5
}
"""
    assert agrees(LISTS + text, 4) == [6]
    assert agrees(LISTS + text, 0) == [-1]


def test_arrays_of_nodes_have_sizes_of_their_own() -> None:
    assert agrees(GROWN, 9) == [sum(i * i for k in range(9) for i in range(k))]


def test_an_array_for_a_node_is_written_where_the_node_holds_it() -> None:
    text = print_program(schedule(optimise(read_program(GROWN), ["main"]), Lanes(256)))
    assert "= arena f64[" in text
    assert "move" not in text and "allocate" not in text


def test_an_array_that_is_used_afterwards_is_not_changed_in_a_node() -> None:
    text = ROWS + (
        """
fn main(n.0: i64) -> (s.1: f64, t.2: f64) {
"""
        + row("n.0", 30)
        + """\
  end.3: "R" = construct "R" 0 ()
  before.4: "R" = construct "R" 1 (n.0, row.30, end.3)
  other.5: f64[n.0] = update row.30[0] = 100.0
  after.6: "R" = construct "R" 1 (n.0, other.5, end.3)
  m.20: i64, x.21: f64[m.20], next.22: "R" = fields "R" 1 after.6
  z.23: f64[m.20] = update x.21[1] = 10.0
  third.24: "R" = construct "R" 1 (m.20, z.23, before.4)
  s.7: f64 = call total(before.4, 0.0)
  t.8: f64 = call total(after.6, 0.0)
  u.25: f64 = call total(third.24, 0.0)
  v.26: f64 = mul(u.25, 0.001)
  w.27: f64 = add(t.8, v.26)
  yield s.7, w.27
}
"""
    )
    assert agrees(text, 3) == [5.0, 10005.0 + (10104.0 + 5.0) * 0.001]


ARRAYS = (
    'data "F" { Forest(n.0: i64, trees.1: "L"[n.0]) }\n'
    + LISTS
    + """
fn forest(n.0: i64) -> (f.1: "F") {
  trees.2: "L"[n.0] = comp i.3 in 0..n.0 {
    l.4: "L" = call count_down(i.3)
    yield l.4
  } to keep [n.0] [i.3] set
  some.5: bool = gt(n.0, 2)
  changed.6: "L"[n.0] = if some.5 {
    extra.7: "L" = call count_down(10)
    c.8: "L"[n.0] = update trees.2[1] = extra.7
    yield c.8
  } else {
    yield trees.2
  }
  back.9: "L"[n.0] = view i.10 in 0..n.0 of changed.6[n.0 - 1 - i.10]
  twice.11: "L"[2*n.0] = concat(changed.6, back.9)
  m.12: i64 = size 2*n.0
  f.13: "F" = construct "F" 0 (m.12, twice.11)
  yield f.13
}

fn main(n.0: i64) -> (s.1: i64, w.9: i64) {
  f.2: "F" = call forest(n.0)
  m.3: i64, trees.4: "L"[m.3] = fields "F" 0 f.2
  s.5: i64 = comp i.6 in 0..m.3 {
    l.7: "L" = read trees.4[i.6]
    s.8: i64 = call total(l.7, i.6)
    yield s.8
  } to keep [] [] sum
  yield s.5, m.3
}
"""
)


def test_arrays_of_nodes_are_made_changed_joined_and_held_by_nodes() -> None:
    (total, count) = agrees(ARRAYS, 6)
    one = [0, 45, 1, 3, 6, 10]
    assert (total, count) == (2 * sum(one) + sum(range(12)), 12)


def test_loops_over_nodes_take_one_iteration_at_a_time() -> None:
    optimised = optimise(read_program(ARRAYS), ["main"])
    lines = print_program(schedule(optimised, Lanes(512))).splitlines()
    copies = [k for k, line in enumerate(lines) if "= &trees" in line and "loop" in lines[k - 1]]
    assert copies and not any(" by " in lines[k - 1] for k in copies)
