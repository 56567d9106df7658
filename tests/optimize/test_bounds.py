"""Comparisons that the bounds of axes and loops decide, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.ir.anf import Check, Prim, SizeOf
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


CYCLE = """
fn f(x: f64[n]) -> f64[n] = [x[(i + 1) % n] + 10.0 * x[(i + n - 1) % n] + 100.0 * x[(2 * n - 1 - i) % n] for i < n]
"""


@pytest.mark.parametrize(
    "body, checks, ordered",
    [
        ("x[clip(i, 0, n - 1)]", 0, 0),
        ("x[clip(i - 1, 0, n - 1)]", 0, 1),
        ("x[minimum(i + 1, n - 1)] * x[maximum(i - 2, 0)]", 0, 2),
        ("x[clip(3 * i - 7, 0, n - 1)]", 0, 2),
        ("x[maximum(i - 1, 1)]", 1, 1),
        ("x[minimum(i - 1, n - 1)]", 1, 0),
        ("x[i % n]", 0, 0),
        ("x[(7 * i - 3) % n]", 0, 0),
        ("x[(i + 1) % (n + 1)]", 1, 0),
    ],
)
def test_the_least_and_the_greatest_and_remainders_are_bounded(body: str, checks: int, ordered: int) -> None:
    made = lowered(f"fn f(x: f64[n]) -> f64[n] = [{body} for i < n]")
    program = optimise(made.program, [made.entry.name], verify=True)
    assert sum(isinstance(op, Check) for op in ops(program)) == checks
    assert sum(isinstance(op, Prim) and op.name in ("maximum", "minimum") for op in ops(program)) == ordered


def test_a_remainder_of_what_is_one_length_off_is_no_division() -> None:
    made = lowered(CYCLE)
    program = optimise(made.program, [made.entry.name], verify=True)
    assert not [op for op in ops(program) if isinstance(op, Prim) and op.name == "mod"]
    for n in (1, 2, 5):
        x = np.arange(float(n)) + 1.0
        wanted = np.roll(x, -1) + 10.0 * np.roll(x, 1) + 100.0 * x[(2 * n - 1 - np.arange(n)) % n]
        assert np.array_equal(Interpreter(program).run(made.entry.name, [n, x])[-1], wanted)
    assert len(Interpreter(program).run(made.entry.name, [0, np.zeros(0)])[-1]) == 0


@pytest.mark.parametrize("first, many, divides", [(1, 3, False), (2, 4, False), (-1, 2, False), (9, 3, True)])
def test_a_remainder_of_what_is_a_few_lengths_off_is_no_division(first: int, many: int, divides: bool) -> None:
    made = lowered(f"fn f(x: f64[n]) -> f64[n] = [sum(x[(i + p - {first}) % n] * f64(p + 1) for p < {many}) for i < n]")
    program = optimise(made.program, [made.entry.name], verify=True)
    assert divides == any(isinstance(op, Prim) and op.name == "mod" for op in ops(program))
    for n in range(6):
        x = np.arange(float(n)) + 1.0
        wanted = sum((np.roll(x, first - p) * (p + 1) for p in range(many)), np.zeros(n))
        assert np.array_equal(Interpreter(program).run(made.entry.name, [n, x])[-1], wanted)


def test_the_greatest_of_numbers_that_may_wrap_is_left_alone() -> None:
    made = lowered("fn f(x: f64[n], k: i64) -> f64[n] = [x[maximum(i + k, i)] for i < n]")
    program = optimise(made.program, [made.entry.name], verify=True)
    with pytest.raises(RunError, match="out of range"):
        Interpreter(program).run(made.entry.name, [3, np.ones(3), 1])
    assert len(Interpreter(program).run(made.entry.name, [3, np.ones(3), -(2**63)])[-1]) == 3


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
