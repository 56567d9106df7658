"""What comprehensions cost, counted by the interpreter: as many points as their ranges have, each computed once."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.diagnostics import Source
from dlang.driver import Request, call, check, lower
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import For
from tests.specialize.support import lowered, ops

RANGES = """
fn same(i: i64, n: size) -> f64[n] { var s = zeros(n); for k < n { s[k] = f64(i * k) }; s }
fn longer(i: i64) -> f64[?] { var s = zeros(i); for k < i { s[k] = f64(i * k) }; s }
"""


def cost(value: str, n: int) -> int:
    checked = check(Source("test", f'{RANGES}test "t" {{ let n = {n}; let y = {value}; assert max(y) >= 0.0 }}\n'))
    assert not checked.diagnostics, [d.message for d in checked.diagnostics]
    program, entries = lower([Request(t) for t in checked.module.tests])
    runner = Interpreter(program, Host())
    call(runner, entries[0])
    return sum(runner.counts.values())


@pytest.mark.parametrize(
    "value",
    [
        "[v for i < n, v in same(i, n)]",
        "[v for i < n, v in same(i, n) if v > 3.0]",
        "[v for i < n, v in longer(i) if v > 3.0]",
        "[f64(j) for i < n, j < i if j > 1]",
        "sum(v for i < n, v in same(i, n))",
        "sum(v for i < n, v in longer(i))",
        "max(v for i < n, v in longer(i) if v >= 0.0)",
        "sum([v for i < n, (k, v) in enumerate(longer(i)) if k > 3])",
    ],
)
def test_the_elements_of_a_range_are_computed_once_for_each_place(value: str) -> None:
    first, second = cost(value, 40), cost(value, 80)
    assert second < 4.5 * first  # n ranges of n elements


def test_ranges_of_several_lengths_take_no_box_around_them() -> None:
    value = "[f64(j) for i < n, j < (if i == 7 { n } else { 1 }) if j >= 0]"
    assert cost(value, 800) < 11 * cost(value, 80)


def test_what_checks_for_a_row_does_so_if_the_row_has_no_elements() -> None:
    f = lowered(
        "fn f(x: f64[n], k: i64, y: f64[m]) -> f64[2, m] = [{ let a = x[k + i]; [a * b for b in y] } for i < 2]"
    )
    assert f.run(3, 0, np.ones(3), 1, np.ones(0))[0].shape == (2, 0)
    with pytest.raises(RunError):
        f.run(3, 0, np.ones(3), 2, np.ones(0))


def test_elements_that_are_comprehensions_are_elements_of_one() -> None:
    plain = lowered("fn f(n: size, m: size) -> f64[n, m] = [[f64(i * j) for j < m] for i < n]").program
    assert not any(isinstance(op, For) for op in ops(plain))
    scanned = lowered("fn f(x: f64[n, m]) -> f64[n, m] = [cumsum(x[i]) for i < n]").program
    assert any(isinstance(op, For) for op in ops(scanned))
