"""A check that is the same in every iteration is made once, where no one can tell."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dlang
from dlang.diagnostics import DlangError
from dlang.ir.anf import Assert, For
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.specialize.support import lowered

PROGRAM = """
fn read(x: f64[n], k: i64, m: i64) -> f64 {
  var s = 0.0
  for i < m { s = sin(s) + x[k] }
  s
}
fn told(x: f64[n], k: i64, m: i64) -> f64 {
  var s = 0.0
  for i < m {
    print(i)
    s = sin(s) + x[k]
  }
  s
}
fn other(x: f64[n], k: i64, m: i64) -> f64 {
  var s = 0.0
  for i < m { s = sin(s) + 0.0 * x[i] + x[k] }
  s
}
"""
INSIDE = {"read": 0, "told": 1, "other": 2}


@pytest.mark.parametrize("name", INSIDE)
def test_a_loop_without_iterations_reads_nothing(name: str) -> None:
    f = getattr(dlang.compile(PROGRAM), name)
    x = np.array([0.5, 0.25])
    assert f(x, 7, 0) == 0.0
    assert f(x, 7, -3) == 0.0
    assert f(x, 1, 2) == pytest.approx(math.sin(0.25) + 0.25)


@pytest.mark.parametrize("name", INSIDE)
def test_what_fails_first_is_told_and_all_before_is_done(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    f = getattr(dlang.compile(PROGRAM), name)
    with pytest.raises(DlangError) as failed:
        f(np.array([0.5, 0.25]), 7, 9)
    assert "index 7 is out of range for axis 0 of size 2" in str(failed.value)
    assert capfd.readouterr().out.split() == (["0"] if name == "told" else [])


@pytest.mark.parametrize("name", INSIDE)
def test_checks_leave_a_loop_that_does_nothing_before_them(name: str) -> None:
    made = lowered(PROGRAM, name)
    program = optimise(made.program, [made.entry.name], verify=True)
    loops = [let.op for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, For)]
    assert sum(isinstance(let.op, Assert) for loop in loops for let in walk(loop.body)) == INSIDE[name]
