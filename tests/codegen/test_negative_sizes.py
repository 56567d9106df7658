"""A size that comes out negative ends a run with the same code everywhere; none wraps, and none is taken for memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlang
from tests.outcomes import Everywhere

TEXT = """
fn filled(k: i64) -> f64[?] = zeros(k - 5)
fn plane(k: i64) -> f64[?, ?] = full(2.0, 3, k - 5)
fn used(k: i64) -> f64[?] { let y = ones(k - 5); 2.0 * y }
fn made(k: i64) -> f64[?] = [f64(i) for i < k - 5]
fn ranged(a: i64, b: i64) -> f64[?] = [f64(i) for i in a..b]
fn kept(k: i64) -> i64[?] = [i for i < k - 5 if i > 2]
fn running(k: i64) -> f64[?] = cumsum([1.0 for i < k - 5])
fn of_data(x: f64[n]) -> f64[?] { let k = i64(x[0]); zeros(k) }
fn of_a_sum(x: f64[n]) -> f64[?] { let k = i64(sum(x)); [f64(i) for i < k - 5] }
fn after_output(k: i64) -> f64[?] { print("here"); zeros(k - 5) }
fn folded(x: f64[n], k: i64, m: i64) -> f64[?, ?] = reshape(x as f64[k * m], k, m)
fn shorter(x: f64[n]) -> f64[n - 3] = zeros(n - 3)
fn windows(x: f64[n], k: size) -> f64[n - k + 1, k] = [x[i + j] for i < n - k + 1, j < k]
fn counted(k: size) -> f64 = sum(1.0 for i < k)
fn doubled(k: size) -> f64[k] = [2.0 * f64(i) for i < k]
fn tail(k: size, x: f64[n]) -> f64 = sum(x[i] for i in k..n)
fn given(k: i64) -> f64[?] = doubled(k - 5)
fn given_counted(k: i64) -> f64 = counted(k - 5)
fn given_tail(k: i64, x: f64[n]) -> f64 = tail(k - 5, x)
fn given_slope(k: i64, x: f64[n]) -> f64[n] = grad(tail, wrt = x)(k - 5, x)
fn given_in_a_loop(k: i64, x: f64[n]) -> f64 { var s = 0.0; for i < 3 { s = 0.5 * s + tail(k - 5 - i, x) }; s }
fn given_at_points(k: i64, x: f64[n]) -> f64[3] = [tail(k - 5 - i, x) for i < 3]
fn given_as_value(k: i64, x: f64[n], b: bool) -> f64 { let f = if b { tail } else { |k, x| sum(x) }; f(k - 5, x) }
fn given_data(x: f64[n]) -> f64 = counted(i64(x[0]))
fn first(x: f64[n + 1]) -> f64 = x[0]
fn last(x: f64[n + 1]) -> f64 = x[n]
fn solved(x: f64[n]) -> f64 = first([v for v in x if v > 4.0])
fn solved_last(x: f64[n]) -> f64 = last([v for v in x if v > 4.0])
fn solved_in_place(x: f64[n]) -> f64 {
  fn inside(y: f64[q + 1]) -> f64 = y[0] + y[q]
  inside([v for v in x if v > 4.0])
}
struct Pair<n> { x: f64[n + 1] }
fn of_pair(p: Pair<n>) -> f64 = p.x[0] + p.x[n]
fn solved_in_struct(x: f64[n]) -> f64 = of_pair(Pair([v for v in x if v > 4.0]))
fn from_two(x: f64[n]) -> f64[?] = [x[i] for i in 2..n]
fn by_two(k: i64) -> i64[?] = [i for i in 2..k by 2]
fn named(k: i64) -> f64 { let a = [1.0 for i in 2..k]; let b: f64[q] = a; f64(q) + sum(b) }
fn even(a: i64, b: i64) -> i64[?] = [i for i in a..b if i % 2 == 0]
fn even_to(n: size) -> i64[?] = [i for i in 3..n if i % 2 == 0]
fn total(a: i64, b: i64) -> i64 = sum(i for i in a..b)
fn told(a: i64, b: i64) -> i64[?] = [{ print("{i}"); i } for i in a..b]
fn told_even(a: i64, b: i64) -> i64[?] = [{ print("{i}"); i } for i in a..b if i % 2 == 0]
"""
LEAST = -(2**63)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Everywhere:
    return Everywhere(TEXT, tmp_path_factory.mktemp("negative"))


@pytest.mark.parametrize("name", ["filled", "plane", "used", "made", "kept", "running", "after_output", "given"])
@pytest.mark.parametrize("k", [4, 0, -1, -(2**62) - 5, LEAST])
def test_a_computed_size_below_zero_is_refused(program: Everywhere, name: str, k: int) -> None:
    assert program.agreed(name, k) == "E0802"
    assert program.agreed(name, 5) in ([], [[], [], []])


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("ranged", (3, 1), "E0802"),
        ("ranged", (1, 3), [1.0, 2.0]),
        ("of_data", (np.array([-3.0]),), "E0802"),
        ("of_data", (np.array([2.0]),), [0.0, 0.0]),
        ("of_data", (np.array([1e18]),), "E0806"),
        ("of_a_sum", (np.array([1.0, 2.0]),), "E0802"),
        ("of_a_sum", (np.array([2.0, 5.0]),), [0.0, 1.0]),
        ("folded", (np.arange(6.0), -2, -3), "E0802"),
        ("shorter", (np.arange(2.0),), "E0802"),
        ("windows", (np.arange(2.0), 5), "E0802"),
        ("windows", (np.arange(2.0), 3), []),
        ("given_counted", (4,), "E0802"),
        ("given_tail", (4, np.arange(3.0)), "E0802"),
        ("given_tail", (6, np.arange(3.0)), 3.0),
        ("given_tail", (9, np.arange(3.0)), 0.0),
        ("given_slope", (4, np.arange(3.0)), "E0802"),
        ("given_slope", (6, np.arange(3.0)), [0.0, 1.0, 1.0]),
        ("given_in_a_loop", (6, np.arange(3.0)), "E0802"),
        ("given_at_points", (6, np.arange(3.0)), "E0802"),
        ("given_at_points", (7, np.arange(3.0)), [2.0, 3.0, 3.0]),
        ("given_as_value", (4, np.arange(3.0), True), "E0802"),
        ("given_as_value", (4, np.arange(3.0), False), 3.0),
        ("given_data", (np.array([-1.0]),), "E0802"),
        ("solved", (np.arange(3.0),), "E0802"),
        ("solved", (np.arange(9.0),), 5.0),
        ("solved_last", (np.arange(3.0),), "E0802"),
        ("solved_last", (np.arange(9.0),), 8.0),
        ("solved_in_place", (np.arange(3.0),), "E0802"),
        ("solved_in_struct", (np.arange(3.0),), "E0802"),
        ("solved_in_struct", (np.arange(9.0),), 13.0),
        ("from_two", (np.arange(1.0),), "E0802"),
        ("from_two", (np.arange(4.0),), [2.0, 3.0]),
        ("by_two", (0,), "E0802"),
        ("by_two", (1,), []),
        ("by_two", (5,), [2, 4]),
        ("named", (1,), "E0802"),
        ("named", (4,), 4.0),
        ("even", (3, 1), []),
        ("even", (2**62, -(2**62)), []),
        ("even", (1, 5), [2, 4]),
        ("even_to", (1,), []),
        ("even_to", (7,), [4, 6]),
        ("total", (3, 1), 0),
        ("told", (3, 1), "E0802"),
        ("told", (1, 3), [1, 2]),
        ("told_even", (3, 1), []),
        ("told_even", (1, 3), [2]),
        ("counted", (-1,), "E0960"),
        ("counted", (LEAST,), "E0960"),
        ("doubled", (-1,), "E0960"),
        ("first", (np.zeros(0),), "E0960"),
    ],
)
def test_it_is_refused_wherever_it_comes_from(
    program: Everywhere, name: str, args: tuple[Any, ...], expected: Any
) -> None:
    assert program.agreed(name, *args) == expected


@pytest.mark.parametrize("backend", ["interp", "cpu"])
def test_the_message_says_which_size_it_is(backend: str) -> None:
    m = dlang.compile(TEXT, backend=backend)
    for call, expected in (
        (lambda: m.given(3), "the size `k` of `doubled` is negative: -2"),
        (lambda: m.solved(np.zeros(2)), "the size `n` of `first` is negative: -1"),
        (lambda: m.shorter(np.zeros(2)), "the size of an array is negative: -1"),
        (lambda: m.made(3), "the size of a comprehension is negative: -2"),
    ):
        with pytest.raises(dlang.DlangError) as refused:
            call()
        assert refused.value.diagnostics[0].message == expected


def test_a_size_that_an_array_has_is_not_checked() -> None:
    text = "fn tail(k: size, x: f64[n], y: f64[k]) -> f64 = sum(x[i] for i in k..n)\n"
    text += "fn f(x: f64[n], y: f64[m]) -> f64 = tail(m, x, y) + tail(m + 2, x, concat(y, [1.0, 2.0]))"
    assert "E0802" not in dlang.compile(text).f.ir("opt")
