"""Datatypes in the IR: nodes, what verification demands of them, text, and the passes that look into them."""

from __future__ import annotations

import pytest

from dlang.interpret.interpreter import Interpreter
from dlang.ir.errors import IRError
from dlang.ir.printer import print_program
from dlang.ir.reader import read_program
from dlang.ir.verify import verify
from dlang.pipeline import optimise

LIST = """\
data "List.0" { Nil(), Cons(n.0: i64, head.1: f64[n.0], tail.2: "List.0") }

fn build(k.0: i64) -> (r.1: "List.0") {
  stop.2: bool = eq(k.0, 0)
  out.3: "List.0" = if stop.2 {
    nil.4: "List.0" = construct "List.0" 0 ()
    yield nil.4
  } else {
    less.5: i64 = sub(k.0, 1)
    rest.6: "List.0" = call build(less.5)
    row.7: f64[k.0] = comp i.8 in 0..k.0 {
      x.9: f64 = cast f64 i.8
      yield x.9
    } to keep [k.0] [i.8] sum
    node.10: "List.0" = construct "List.0" 1 (k.0, row.7, rest.6)
    yield node.10
  }
  yield out.3
}

fn total(l.0: "List.0") -> (s.1: f64) {
  t.2: i64 = tag l.0
  nil.3: bool = eq(t.2, 0)
  s.4: f64 = if nil.3 {
    yield 0.0
  } else {
    n.5: i64, head.6: f64[n.5], tail.7: "List.0" = fields "List.0" 1 l.0
    here.8: f64 = comp i.9 in 0..n.5 {
      x.10: f64 = read head.6[i.9]
      yield x.10
    } to keep [] [] sum
    rest.11: f64 = call total(tail.7)
    all.12: f64 = add(here.8, rest.11)
    yield all.12
  }
  yield s.4
}

fn main(k.0: i64) -> (s.1: f64) {
  l.2: "List.0" = call build(k.0)
  s.3: f64 = call total(l.2)
  yield s.3
}
"""


def test_a_list_of_arrays_is_built_and_summed() -> None:
    program = read_program(LIST)
    verify(program)
    # Σ_{k ≤ 5} (0 + … + k - 1)
    assert Interpreter(program).run("main", [5]) == [20.0]
    optimised = optimise(program, ["main"])
    verify(optimised, ownership=True)
    assert Interpreter(optimised).run("main", [5]) == [20.0]


def test_what_is_printed_reads_back() -> None:
    program = read_program(LIST)
    again = read_program(print_program(program))
    verify(again)
    assert print_program(again) == print_program(program)


def test_looking_into_a_node_that_was_just_made_is_what_it_was_made_of() -> None:
    text = """\
data "Pair.0" { Both(a.0: f64, b.1: f64) }

fn f(x.0: f64) -> (y.1: f64) {
  p.2: "Pair.0" = construct "Pair.0" 0 (x.0, 2.0)
  a.3: f64, b.4: f64 = fields "Pair.0" 0 p.2
  y.5: f64 = mul(a.3, b.4)
  yield y.5
}
"""
    optimised = optimise(read_program(text), ["f"])
    assert "construct" not in print_program(optimised)
    assert Interpreter(optimised).run("f", [3.0]) == [6.0]


def test_an_array_of_a_node_is_copied_before_it_is_changed() -> None:
    text = """\
data "Box.0" { Box(n.0: i64, x.1: f64[n.0]) }

fn last(n.0: i64, x.1: f64[n.0]) -> (y.2: f64) {
  y.3: f64 = read x.1[n.0 - 1]
  t.4: f64 = call last(n.0, x.1)
  yield y.3
}

fn f(b.0: "Box.0") -> (y.1: f64) {
  n.2: i64, x.3: f64[n.2] = fields "Box.0" 0 b.0
  z.4: f64[n.2] = update x.3[0] = 9.0
  y.5: f64 = call last(n.2, z.4)
  yield y.5
}
"""
    optimised = optimise(read_program(text), ["f"])
    assert "copy" in print_program(optimised)
    verify(optimised, ownership=True)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ('l.2: "List.0" = construct "List.0" 1 (1, l.1)', "the fields: 2 for 3"),
        ("x.2: f64 = cast f64 l.1", "a conversion is between numbers"),
        ("x.2: bool = eq(l.1, l.1)", "eq of List.0"),
        ("t.2: i64 = tag 1.0", "is f64, not List.0"),
    ],
)
def test_misuse_is_found(wrong: str, message: str) -> None:
    text = LIST + f'\nfn g(l.1: "List.0") -> () {{\n  {wrong}\n  yield\n}}\n'
    with pytest.raises(IRError, match=message):
        verify(read_program(text))
