"""What the solvers of differential equations refuse."""

import pytest

import dlang
from dlang.diagnostics import DlangError

SOLVE = """
import ode
fn last(times: f64[n], rate: f64 = 1.0) -> f64 = ode.solve(|t, y| -rate * y, 1.0, times, max_steps = 1000)[n - 1]
"""


@pytest.fixture(scope="module")
def last():
    return dlang.compile(SOLVE).last


@pytest.mark.parametrize(
    "times, rate, words",
    [
        ([0.0, 1.0, 0.5], 1.0, "the times have to rise"),
        ([1.0, 0.0], 1.0, "the times have to rise"),
        ([0.0, float("nan")], 1.0, "the times have to rise"),
        ([0.0, 1.0], 1e7, "1000 steps were not enough"),
    ],
)
def test_what_cannot_be_solved_is_a_message(last, times, rate, words):
    with pytest.raises(DlangError, match=words):
        last(times, rate)
