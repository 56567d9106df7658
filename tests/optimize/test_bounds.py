"""Comparisons that the bounds of axes and loops decide, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.ir.anf import Check, SizeOf
from dlang.ir.interpreter import Interpreter
from dlang.optimize.pipeline import optimise
from dlang.runtime.errors import RunError
from tests.specialize.support import lowered, ops

HELPERS = """
fn at(x: f64[n], i: i64) -> f64 = x[i]
fn before(x: f64[n], i: i64) -> f64 = x[i - 1]
"""


@pytest.mark.parametrize(
    "body, checks",
    [
        ("[at(x, i) for i < n]", 0),
        ("[at(x, n - 1 - i) for i < n]", 0),
        ("[before(x, i) for i in 1..n]", 0),
        ("{ var a = x\n  for i in 1..n { a[i] = before(a, i) }\n  a }", 0),
        ("[before(x, i) for i < n]", 1),
        ("[at(x, i + 1) for i < n]", 1),
        ("[at(x, i * i) for i < n]", 1),
    ],
)
def test_an_index_that_a_function_is_given_is_proven_by_the_loop_around(body: str, checks: int) -> None:
    made = lowered(f"{HELPERS}\nfn f(x: f64[n]) -> f64[?] = {body}")
    program = optimise(made.program, [made.entry.name], verify=True)
    assert sum(isinstance(op, Check) and op.code == "E0801" for op in ops(program)) == checks


def test_what_is_out_of_range_is_refused() -> None:
    made = lowered(HELPERS + "fn f(x: f64[n]) -> f64[n] = [at(x, i + 1) for i < n]")
    program = optimise(made.program, [made.entry.name], verify=True)
    with pytest.raises(RunError, match="index 3 is out of range"):
        Interpreter(program).run(made.entry.name, [3, np.ones(3)])


def test_numbers_that_are_no_indices_are_left_alone() -> None:
    """They may wrap, so k - 1 < k need not hold."""
    made = lowered("fn f(k: i64) -> bool = k - 1 < k")
    program = optimise(made.program, [made.entry.name], verify=True)
    least = np.int64(-(2**63))
    assert not [op for op in ops(program) if isinstance(op, SizeOf)]
    assert Interpreter(program).run(made.entry.name, [least])[-1] == (np.int64(2**63 - 1) < least)
