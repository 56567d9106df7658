"""Branches on what an earlier branch decided: none is left, and no node that only told the two apart."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import dlang
from dlang.ir.anf import Construct, If, Tag
from dlang.ir.verify import verify
from dlang.optimize.jump_threading import jump_threading
from dlang.pipeline import optimise
from tests.counting import calls
from tests.meaning import meaning
from tests.optimize.programs import assert_same, count, run
from tests.specialize.support import lowered

HEAD = """
enum Shape { Point(f64), Line(f64, f64), Nothing }
fn size(s: Shape) -> f64 = match s { Point(a) => a, Line(a, b) => a * b, Nothing => 0.0 }
"""


@pytest.mark.parametrize(
    ("body", "branches"),
    [
        ("(if x > 0.0 { |y: f64| y * x } else { |y: f64| y })(2.0)", 1),
        ("size(if x > 0.0 { Point(x) } else { Line(x, x) })", 1),
        ("size(if x > 0.0 { Point(x) } else if x > -1.0 { Line(x, x) } else { Nothing })", 2),
        ("{ let s = if x > 0.0 { Some(x) } else { None }\n x + (match s { Some(v) => v * v, None => x }) }", 1),
        ("{ let k = if x > 0.0 { 3 } else { 4 }\n if k * 2 > 7 { x } else { x * x } }", 1),
    ],
)
def test_what_an_earlier_branch_chose_is_not_asked_again(body: str, branches: int) -> None:
    made = lowered(f"{HEAD}fn f(x: f64) -> f64 = {body}", "f")
    name = made.entry.name
    after = optimise(made.program, [name], verify=True)
    assert count(after, Tag, Construct) == 0 and count(after, If) == branches
    for x in (2.0, -0.5, -3.0):
        assert_same(run(made.program, [np.float64(x)], name), run(after, [np.float64(x)], name))


LOOPS = """
fn f(x: f64[n], c: f64) -> f64 = (if c > 0.0 { |y: f64| y * c } else { |y: f64| y + x[0] })(LOOP)
"""


@pytest.mark.parametrize(
    "loop", ["sum(sin(x))", "fold(|a, v| sin(a * v), c, x)", "{ var a = c; while a < 9.0 { a = a * a + 1.0 }; a }"]
)
def test_a_loop_computes_an_argument_before_a_node_is_chosen(loop: str) -> None:
    text = LOOPS.replace("LOOP", loop)
    made = lowered(text, "f")
    assert count(optimise(made.program, [made.entry.name], verify=True), Tag, Construct) == 0
    compiled = dlang.compile(text).f
    for c in (0.5, -0.5):
        assert_same([compiled(np.ones(3), c)], [meaning(dlang.compile(text, backend="interp").f, np.ones(3), c)])


def test_a_check_in_a_loop_passes_no_other_check() -> None:
    text = """
fn f(x: f64[n], c: f64, i: i64, j: i64) -> f64 = {
  let g = if c > 0.0 { let u = x[i]; |y: f64| y * u } else { |y: f64| y }
  g(sum(x[j + t] for t < 2))
}
"""
    for c, position in ((1.0, "7"), (-1.0, "8")):
        for backend in ("cpu", "interp"):
            with pytest.raises(dlang.DlangError, match=f"index {position} is out of range"):
                dlang.compile(text, backend=backend).f(np.ones(3), c, 7, 8)


CHECKED = """
fn f(x: f64[n], c: f64, i: i64, j: i64) -> f64 = {
  let g = if c > 0.0 { FIRST } else { |y: f64| y }
  g(x[j])
}
"""


@pytest.mark.parametrize(("first", "nodes"), [("|y: f64| y * x[i]", 0), ("{ let u = x[i]; |y: f64| y * u }", 3)])
def test_an_element_is_read_and_checked_before_a_node_is_chosen_but_no_check_passes_another(
    first: str, nodes: int
) -> None:
    text = CHECKED.replace("FIRST", first)
    made = lowered(text, "f")
    assert count(optimise(made.program, [made.entry.name], verify=True), Tag, Construct) == nodes
    compiled, interpreted = dlang.compile(text).f, dlang.compile(text, backend="interp").f
    x = np.array([0.5, 3.0])
    for c in (1.0, -1.0):
        for i, j in ((0, 1), (2, 1), (1, 3), (4, 5)):
            found = []
            for call in (compiled, partial(meaning, interpreted)):
                try:
                    found.append(call(x, c, i, j))
                except dlang.DlangError as error:
                    found.append(error.diagnostics[0].message)
            assert found[0] == found[1]


def test_the_work_is_linear_in_the_number_of_early_returns() -> None:
    def work(n: int) -> int:
        steps = "".join([f"  s = s * 2.0\n  if x[{k % 8}] > s {{ return s }}\n" for k in range(n)])
        program = lowered(f"fn f(x: f64[8]) -> f64 {{\n  var s = x[0]\n{steps}  s\n}}", "f").program
        return calls(lambda: jump_threading(program))

    work(2)  # what is made once
    few, more, most = map(work, (12, 24, 48))
    assert most - more < 2.2 * (more - few)


ON_ONE_CONDITION = """
fn f(x: f64[8], c: bool) -> f64 {
  var s = x[0]
  var t = x
  var kept = 0.0
  for k < 2 {
    if c { s = s * 2.0; print("{s}") }
    let between = sin(s)
    if c { kept = kept + between } else { print("{between}") }
    let twice = between * 2.0
    if c { t[k] = twice + s } else { if s > 0.5 { t[k + 1] = kept } }
    if c { s = s + t[1] } else { s = s - 1.0; print("{t[1]}") }
    s = s + twice
  }
  s + kept + sum(t)
}
"""


def test_branches_on_one_condition_in_a_row_become_one(capfd: pytest.CaptureFixture[str]) -> None:
    made = lowered(ON_ONE_CONDITION, "f")
    name = made.entry.name
    after = jump_threading(made.program)
    verify(after)
    assert count(made.program, If) == 5 and count(after, If) == 2
    x = np.linspace(0.3, 1.0, 8)
    for c in (True, False):
        found = []
        for program in (made.program, after):
            found.append((run(program, [x, np.bool_(c)], name), capfd.readouterr().out))
        assert_same(found[0][0], found[1][0])
        assert found[0][1] == found[1][1] != ""
