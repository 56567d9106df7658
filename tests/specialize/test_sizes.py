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


DIVIDED = """
fn same(x: f64[n], s: size) -> f64[(s * n - s) // s + 1] = x
fn made(n: size, s: size) -> f64[n] {
  let k = (s * n) // s
  zeros(k)
}
fn rest(n: size, s: size) -> f64[n // s] = zeros(n // s)
"""


@pytest.mark.parametrize("optimised", [False, True])
def test_a_size_that_is_divided_out_holds_for_every_number(optimised):
    same = lowered(DIVIDED + "fn f(s: i64) -> i64 { let x: f64[m] = [1.0 for i < 5]; len(same(x, s)) }")
    assert [same.run(s, optimised=optimised) for s in (0, 1, 3, 2**40)] == [[5]] * 4
    made = lowered(DIVIDED + "fn f(n: i64, s: i64) -> f64 = sum(made(n, s))")
    assert made.run(20, 3, optimised=optimised) == [0.0]
    for n, s, code in (
        (2**40, 2**40, "E0807"),  # a product of i64s that wraps
        (20, 0, "E0803"),  # a division of i64s
        (20, 2**60, "E0806"),  # no size
    ):
        with pytest.raises(RunError) as caught:
            made.run(n, s, optimised=optimised)
        assert caught.value.code == code
    rest = lowered(DIVIDED + "fn f(n: i64, s: i64) -> i64 = len(rest(n, s))")
    assert rest.run(7, 2, optimised=optimised) == [3]
    with pytest.raises(RunError) as caught:
        rest.run(7, 0, optimised=optimised)
    assert caught.value.code == "E0803"
