"""Exact division in sizes is checked where such a size is made."""

from __future__ import annotations

import pytest

from dlang.runtime.errors import RunError
from tests.specialize.support import lowered

HALF = "fn half(x: f64[n]) -> f64[n / 2] = x[..n // 2] as f64[n / 2]\n"


@pytest.mark.parametrize("optimised", [False, True])
def test_half_of_an_odd_size_ends_the_run(optimised):
    made = lowered(HALF + "fn f(n: i64) -> f64 { let x: f64[m] = [1.0 for i < n]; sum(half(x)) }")
    assert made.run(4, optimised=optimised) == [2.0]
    with pytest.raises(RunError, match="3 / 2 is not a whole number") as caught:
        made.run(3, optimised=optimised)
    assert caught.value.code == "E0807"


def test_half_of_an_odd_literal_ends_the_run():
    with pytest.raises(RunError, match="not a whole number"):
        lowered(HALF + "fn f() -> f64 = sum(half([1.0, 2.0, 3.0]))").run()


def test_a_size_is_checked_once():
    made = lowered(HALF + "fn f(x: f64[n]) -> f64[n] = concat(half(x), half(x))")
    (f,) = made.functions_of("half")
    assert sum("whole" in str(let) for let in f.body.lets) == 1
