"""Loops that count: which become a `for`, which of their indices are proven, and that they mean what was written."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dlang.host.errors import RunError
from dlang.inequalities import GREATEST, LEAST
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Assert, For, Program, While
from dlang.pipeline import optimise
from tests.optimize.loops import Loops
from tests.specialize.support import lowered, ops


@dataclass(frozen=True)
class Made:
    """A function as it was written, and as it is optimised."""

    entry: str
    written: Program
    optimised: Program

    def kinds(self) -> tuple[int, int, int]:
        """How many operations of what is optimised are a `for`, a `while`, a check."""
        found = ops(self.optimised)
        count, condition, check = (sum(isinstance(op, kind) for op in found) for kind in (For, While, Assert))
        return count, condition, check

    def agree(self, *args: Any) -> None:
        """Compares the results of both, or the code with which they refuse to run.

        The interpreter does not read what is out of range, whether that was checked or not.
        """
        assert outcome(self.written, self.entry, args) == outcome(self.optimised, self.entry, args), args

    def agree_on_arrays(self, *more: Any) -> None:
        """Compares them on arrays of several lengths, none among them, with the same further arguments."""
        for n in (0, 1, 2, 3, 7):
            self.agree(n, np.arange(1.0, n + 1) % 4.0, *more)


def made_of(text: str) -> Made:
    made = lowered(text)
    return Made(made.entry.name, made.program, optimise(made.program, [made.entry.name], verify=True))


def outcome(program: Program, entry: str, args: Sequence[Any]) -> Any:
    try:
        return Interpreter(program).run(entry, list(args))
    except RunError as e:
        return e.diagnostic().code


@pytest.mark.parametrize(
    "loop",
    [
        "var i = 0; while i < n { s = 0.5 * s + x[i]; i += 1 }",
        "var i = 0; while n > i { s = 0.5 * s + x[i]; i = 1 + i }",
        "var i = 0; while i <= n - 1 { s = 0.5 * s + x[i]; i += 1 }",
        "var i = 1; while i - 1 < n { s = 0.5 * s + x[i - 1]; i += 1 }",
        "var i = n - 1; while i >= 0 { s = 0.5 * s + x[i]; i -= 1 }",
        "var i = n; while i > 0 { i -= 1; s = 0.5 * s + x[i] }",
        "var i = 0; while i + 1 < n { i += 1; if i % 3 == 0 { continue }; s = 0.5 * s + x[i] }",
        "var i = 0; while i < n { s = 0.5 * s + x[i]; i += 3 }",
        "var i = n - 1; while i >= 0 { s = 0.5 * s + x[i]; i -= 2 }",
        "var i = 0; while i < n { if x[i] > 2.0 { break }; s = 0.5 * s + x[i]; i += 1 }",
    ],
)
def test_a_while_that_counts_is_a_for_and_its_indices_are_proven(loop: str) -> None:
    made = made_of(f"fn f(x: f64[n]) -> f64 {{ var s = 0.0; {loop}; s + f64(i) }}")
    assert made.kinds() == (1, 0, 0)
    made.agree_on_arrays()


def test_what_the_index_determines_is_no_state_and_the_iterations_are_done_at_once() -> None:
    loop = "for i < n { y[i] = f64(k) * x[i]; k -= 2 }"
    made = made_of(f"fn f(x: f64[n]) -> (f64[n], i64) {{ var y = x; var k = 7; {loop}; (y, k) }}")
    assert made.kinds() == (0, 0, 0)
    for n in (0, 1, 2, 7):
        x = np.arange(1.0, n + 1)
        found, number = outcome(made.optimised, made.entry, (n, x))
        np.testing.assert_array_equal(found, (7.0 - 2.0 * np.arange(n)) * x)
        assert number == 7 - 2 * n


@pytest.mark.parametrize(
    "loop",
    [
        "var j = n - 1; while i < j { if x[i] < x[j] { s += x[i]; i += 1 } else { s += x[j]; j -= 1 } }",
        "var k = 0; while i < n and k < n { if x[i] < x[k] { i += 1 } else { k += 1; s += x[i] } }",
        "i = n - 1; while i >= 0 and s < 4.0 { s += x[i]; i -= 1 }",
        "var out = x; for j < n { if x[j] > 1.5 { out[i] = x[j]; i += 1 } }; s = sum(out)",
        "while i < n { if x[i] > 1.5 { i += 2 } else { s += x[i]; i += 1 } }",
    ],
)
def test_the_indices_of_a_loop_that_counts_in_part_are_proven(loop: str) -> None:
    made = made_of(f"fn f(x: f64[n]) -> f64 {{ var s = 0.0; var i = 0; {loop}; s + f64(i) }}")
    assert made.kinds()[2] == 0
    made.agree_on_arrays()


@pytest.mark.parametrize(
    "loop",
    [
        "while i < n { s += x[i]; i += 1; if s > 2.0 { i -= 3 } }",  # may go back
        "while i < n { s += x[i + 1]; i += 1 }",
        "while i < 2 * n { s += x[i]; i += 1 }",
        "while i <= n { s += x[i]; i += 1 }",
        "i = m; while i < n { s += x[i]; i += 1 }",
        "while i < n { i += 1; s += x[i] }",
        "var k = 0; for j < n { k += 2; s += x[k] }",
        "var k = 0; for j < n { if x[j] > 1.5 { k -= 1 } else { k += 1 }; s += x[k] }",
    ],
)
def test_other_indices_are_still_checked(loop: str) -> None:
    made = made_of(f"fn f(x: f64[n], m: i64) -> f64 {{ var s = 0.0; var i = 0; {loop}; s }}")
    assert made.kinds()[2] > 0
    for m in (-2, 0, 1):
        made.agree_on_arrays(m)


# ---- numbers that wrap -----------------------------------------------------------------------------------------------
ENDS = [0, 1, 5, -3, GREATEST, GREATEST - 1, GREATEST - 4, LEAST, LEAST + 1, LEAST + 5]


@pytest.mark.parametrize("order, step", [("<", 1), ("<", 3), ("<=", 1), ("<=", 4), (">", -1), (">=", -1), (">", -3)])
@pytest.mark.parametrize("ahead", [0, 1, -2])
def test_loops_count_alike_where_integers_wrap(order: str, step: int, ahead: int) -> None:
    compared = f"i + {ahead} {order} b" if ahead >= 0 else f"i - {-ahead} {order} b"
    loop = f"while {compared} {{ s = 3 * s + i; i += {step} }}"
    made, tried = made_of(f"fn f(a: i64, b: i64) -> (i64, i64) {{ var s = 1; var i = a; {loop}; (s, i) }}"), 0
    for a in ENDS:
        for b in [*ENDS, a + 2, a + 3, a - 2, a - 3]:
            if LEAST <= b <= GREATEST and (wanted := counted_by_hand(a, b, order, step, ahead)) is not None:
                assert outcome(made.optimised, made.entry, (a, b)) == list(wanted)
                tried += 1
    assert tried > 40


def counted_by_hand(a: int, b: int, order: str, step: int, ahead: int) -> tuple[int, int] | None:
    """The sum and the last number; None where there are more than a hundred iterations."""
    s, i = 1, a
    for _ in range(100):
        compared = wrapped(i + ahead)
        goes = {"<": compared < b, "<=": compared <= b, ">": compared > b, ">=": compared >= b}[order]
        if not goes:
            return s, i
        s, i = wrapped(3 * s + i), wrapped(i + step)
    return None


def wrapped(i: int) -> int:
    return (i - LEAST) % 2**64 + LEAST


# ---- random loops ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(80))
def test_random_loops_mean_what_was_written(seed: int) -> None:
    made = made_of(Loops(random.Random(seed)).function())
    for n in (0, 1, 2, 5):
        for m in (-1, 0, 2, 6):
            x = np.sin(np.arange(1.0, n + 1))
            made.agree(n, x, m)


BREAKS = [
    "while true { if i == n { break }; s = sin(s) + x[i]; i += 1 }; s + f64(i)",
    "while true { if i >= n { break }; s = sin(s) + x[i]; i += 1 }; s + f64(i)",
    "while true { if i < n { s = sin(s) + x[i]; i += 1 } else { break } }; s + f64(i)",
    "i = n; while true { if i == 0 { break }; i -= 1; s = sin(s) + x[i] }; s + f64(i)",
    "while i != n { s = sin(s) + x[i]; i += 1 }; s + f64(i)",
    "i = n; while 0 != i { i -= 1; s = sin(s) + x[i] }; s + f64(i)",
]


@pytest.mark.parametrize("body", BREAKS)
def test_a_loop_that_ends_where_an_iteration_begins_counts(body: str) -> None:
    made = made_of(f"fn f(x: f64[n]) -> f64 {{ var (i, s) = (0, 0.0); {body} }}")
    assert made.kinds() == (1, 0, 0)
    made.agree_on_arrays()


OTHER_BREAKS = [
    "while true { s = sin(s) + x[i]; i += 1; if i == n { break } }; s",
    "while true { if i == n { break }; if x[i] > 2.0 { break }; s = sin(s) + x[i]; i += 1 }; s",
    "while true { if i == n { s += 1.0; break }; s = sin(s) + x[i]; i += 1 }; s",
    "while s < 3.0 { if i == n { break }; s += x[i]; i += 1 }; s + f64(i)",
    "while true { if i == n { return s * 2.0 }; s = sin(s) + x[i]; i += 1 }; s",
    "while true { if i >= n { break }; i += 1; if i == 2 { continue }; s = sin(s) + x[i - 1] }; s",
    "i = 3; while true { if i >= n { break }; i += 1; if x[i - 1] > 2.0 { return s }; s += 1.0 }; s - 1.0",
    "var m = 0; while true { let k = i * 2 + m; if k > n { break }; i += 1; m += i % 2; s += x[k - m] }; s",
]


@pytest.mark.parametrize("body", OTHER_BREAKS)
def test_other_loops_that_break_mean_what_was_written(body: str) -> None:
    made_of(f"fn f(x: f64[n]) -> f64 {{ var (i, s) = (0, 0.0); {body} }}").agree_on_arrays()


def test_a_number_that_may_have_passed_its_end_is_compared_as_written() -> None:
    made = made_of("fn f(x: f64[n], i: i64) -> f64 {\n var (k, s) = (i, 0.0); while k != n { s += x[k]; k += 1 }; s }")
    assert made.kinds()[1] == 1
    made.agree_on_arrays(0)
    made.agree_on_arrays(9)
