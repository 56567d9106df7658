"""Recursion that counts becomes a loop: which does, and that values, derivatives and refusals stay."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.ir import anf
from dlang.ir.traverse import recursive_functions, walk
from dlang.pipeline import NAMED, optimise, run_passes
from tests.meaning import as_written, values_and_gradients_agree
from tests.specialize.support import lowered

PROGRAM = """
fn horner(c: f64[k], x: f64, j: i64) -> f64 = if j == k { 0.0 } else { c[j] + x * horner(c, x, j + 1) }
fn by_horner(c: f64[k], x: f64) -> f64 = horner(c, x, 0)

fn added(c: f64[k], i: i64, n: i64) -> f64 = if i >= n { 0.0 } else { sin(c[i]) + added(c, i + 1, n) }
fn by_order(c: f64[k], x: f64) -> f64 = x * added(c, 0, k)

fn less(c: f64[k], x: f64, i: i64) -> f64 = if i < k { less(c, x * c[i] + 0.5, i + 1) } else { x }
fn by_state(c: f64[k], x: f64) -> f64 = less(c, x, 0)

fn down(c: f64[k], x: f64, i: i64) -> f64 = if i > 0 { cos(x) * down(c, x, i - 1) + c[i - 1] } else { x }
fn by_descent(c: f64[k], x: f64) -> f64 = down(c, x, k)

fn to_a_bound(x: f64, i: i64) -> f64 = if i <= 3 { x } else { x * to_a_bound(x, i - 1) + f64(i) }
fn by_bound(c: f64[k], x: f64) -> f64 = to_a_bound(x, k + 2) + sum(c)

fn mapped(v: f64[n], i: i64) -> f64[n] = if i == 0 { v } else { mapped(sin(v) * 1.5, i - 1) }
fn by_array(c: f64[k], x: f64) -> f64 = sum(mapped(c * x, 5))

fn array_after(v: f64[n], i: i64) -> f64[n] = if i == 0 { v } else { array_after(v, i - 1) * v + f64(i) }
fn by_array_after(c: f64[k], x: f64) -> f64 = sum(array_after(c * x, 4))

struct Point { x: f64, v: f64 }
fn moved(p: Point, i: i64) -> Point =
  if 0 == i { p } else { moved(Point(x = p.x + 0.1 * p.v, v = p.v - 0.1 * sin(p.x)), i - 1) }
fn by_struct(c: f64[k], x: f64) -> f64 = sum(moved(Point(x = v, v = x), 6).x ** 2 for v in c)

fn twice(c: f64[k], x: f64, i: i64) -> f64 = if i == 0 { x } else { twice(c, x, i - 1) * 0.5 + twice(c, x, i - 1) }
fn two_calls(c: f64[k], x: f64) -> f64 = twice(c, x, 3)

fn halved(x: f64, i: i64) -> f64 = if i == 0 { x } else { sin(halved(x, i // 2)) }
fn by_halves(c: f64[k], x: f64) -> f64 = halved(x, k)

fn other(x: f64, i: i64) -> f64 = if i == 0 { x } else { x * other(sin(x), i - 1) }
fn with_state_after(c: f64[k], x: f64) -> f64 = other(x, k)

fn asked(x: f64, i: i64) -> f64 {
  let ends = i == 0
  if ends { x } else { x * asked(x, i - 1) + (if ends { 1.0 } else { 2.0 }) }
}
fn condition_used(c: f64[k], x: f64) -> f64 = asked(x, k)

fn tail(v: f64[n]) -> f64 = if n == 0 { 0.5 } else { sin(v[0]) * 1.5 + tail(v[1..]) }
fn by_tail(c: f64[k], x: f64) -> f64 = x * tail(c * x)

fn head(v: f64[n], x: f64) -> f64 = if n == 0 { x } else { head(v[..n - 1], x) * v[n - 1] + x }
fn by_head(c: f64[k], x: f64) -> f64 = head(c, x)

fn tail_state(v: f64[n], x: f64) -> f64 = if n > 0 { tail_state(v[1..], sin(x) + v[0]) } else { x }
fn by_tail_state(c: f64[k], x: f64) -> f64 = tail_state(c, x)

fn crossed(v: f64[n], w: f64[n]) -> f64 = if n < 1 { 0.0 } else { v[0] * sin(w[n - 1]) + crossed(v[1..], w[..n - 1]) }
fn by_two_parts(c: f64[k], x: f64) -> f64 = crossed(c, x * c) * x

fn rows(m: f64[n, d]) -> f64 = if n == 0 { 1.0 } else { rows(m[1..]) * 0.5 + max(m[0]) }
fn by_rows(c: f64[k], x: f64) -> f64 = rows([[a * x, x - a, sin(a)] for a in c])

fn returned(v: f64[n], i: i64) -> f64 {
  if n == 0 { return f64(i) }
  let rest = returned(v[1..], i + 2)
  v[0] * rest + v[0]
}
fn by_early_return(c: f64[k], x: f64) -> f64 = returned(c, 3) * x

fn shorter(v: f64[n], i: i64) -> f64 = if i == 0 { sum(v) } else { v[0] * 0.5 + shorter(v[1..], i - 1) }
fn by_number_beside(c: f64[k], x: f64) -> f64 = shorter(c, k) * x

fn both_ends(v: f64[n]) -> f64 = if n < 2 { sum(v) } else { v[0] * v[n - 1] + both_ends(v[1..n - 1]) }
fn by_both_ends(c: f64[k], x: f64) -> f64 = both_ends(c) * x

fn all_parts(c: f64[k], x: f64) -> f64 = by_tail(c, x) + by_head(c, x) + by_tail_state(c, x)
fn second_of_parts(c: f64[k], x: f64) -> f64[k] = grad(|a: f64[k]| all_parts(a, x))(c)
fn curved_parts(c: f64[k], x: f64) -> f64 = sum(second_of_parts(c, x) ** 2)

fn second(c: f64[k], x: f64) -> f64[k] = grad(by_horner)(c, x)
fn curved(c: f64[k], x: f64) -> f64 = sum(second(c, x) ** 2)
"""
LOOPS = [
    "by_horner", "by_order", "by_state", "by_descent", "by_bound", "by_array", "by_array_after", "by_struct",
    "by_tail", "by_head", "by_tail_state", "by_two_parts", "by_rows", "by_early_return",
]  # fmt: skip
CALLS = ["two_calls", "by_halves", "with_state_after", "condition_used", "by_number_beside", "by_both_ends"]
COMPILED, MEANING = dlang.compile(PROGRAM), dlang.compile(PROGRAM, backend="interp")


def recursion(name: str) -> frozenset[str]:
    """The functions that call themselves when recursion that counts has become loops."""
    found = lowered(PROGRAM, name)
    program = run_passes(found.program, [found.entry.name], [NAMED["inline"], NAMED["counted_calls"]])
    return frozenset(recursive_functions(program))


@pytest.mark.parametrize("name", LOOPS)
def test_recursion_that_counts_is_a_loop(name: str) -> None:
    assert not recursion(name)


@pytest.mark.parametrize("name", CALLS)
def test_other_recursion_stays(name: str) -> None:
    assert recursion(name)


@pytest.mark.parametrize("name", [*LOOPS, *CALLS, "curved", "curved_parts"])
def test_values_and_gradients_stay(name: str) -> None:
    rng = np.random.default_rng(0)
    for k in (0, 1, 2, 3, 4, 5, 8, 9):
        c, x = rng.normal(size=k), rng.normal()
        f, g = getattr(COMPILED, name), getattr(MEANING, name)
        values_and_gradients_agree(f, g, c, x)


def refusal(program: Any, *args: Any) -> str:
    with pytest.raises(dlang.DlangError) as failure:
        program(*args)
    return str(failure.value)


CHECKED = """
fn down(c: f64[k], j: i64, n: i64) -> f64 = if j == n { c[j] } else { c[j] * down(c, j + 1, n) / c[j + 1] }
fn main(c: f64[k], n: i64) -> f64 = down(c, 0, n)
"""


def test_what_a_call_checks_is_checked() -> None:
    c = np.arange(1.0, 5.0)
    compiled, meaning = dlang.compile(CHECKED).main, dlang.compile(CHECKED, backend="interp").main
    np.testing.assert_allclose(compiled(c, 3), meaning(c, 3), rtol=1e-14)
    with as_written():
        expected = refusal(dlang.compile(CHECKED, backend="interp").main, c, 9)
    assert "is out of range for axis 0 of size 4" in expected
    assert expected.split("note:")[0] == refusal(compiled, c, 9).split("note:")[0]


ORDERED = """
fn slices(d: f64[m], c: f64[k]) -> f64 = if k == 0 { 0.0 } else { d[k - 1] + slices(d, c[1..]) }
fn numbers(d: f64[m], n: i64) -> f64 = if n == 0 { 0.0 } else { assert n != 3, "three {n}"; d[n] + numbers(d, n - 1) }
fn by_slices(d: f64[m], n: size) -> f64 = slices(d, zeros(n))
fn by_numbers(d: f64[m], n: i64) -> f64 = numbers(d, n)
"""


@pytest.mark.parametrize("name", ["by_slices", "by_numbers"])
@pytest.mark.parametrize("n", [2, 4, 9])
def test_the_first_check_that_fails_is_reported(name: str, n: int) -> None:
    compiled, meaning = (getattr(dlang.compile(ORDERED, backend=backend), name) for backend in ("cpu", "interp"))
    d = np.ones(3) if name == "by_slices" else np.ones(7)
    if n == 2:
        with as_written():
            expected = meaning(d, n)
        np.testing.assert_allclose(compiled(d, n), expected)
    else:
        with as_written():
            message = refusal(meaning, d, n)
        assert refusal(compiled, d, n).split("note:")[0] == message.split("note:")[0]


def test_a_call_whose_result_nobody_needs_is_not_made() -> None:
    text = "fn f(c: f64[k], x: f64) -> f64 { if k == 0 { return x }\n  let a = f(c[1..], x)\n  c[0] * x }\n"
    made = lowered(text)
    program = optimise(made.program, [made.entry.name])
    assert not recursive_functions(program)
    ops = [let.op for f in program.functions.values() for let in walk(f.body)]
    assert not any(isinstance(op, anf.For | anf.Comp) for op in ops)


LEFT = """
fn one(x: f64[n]) -> f64 = if n == 1 { x[0] } else { sin(x[n - 1]) + one(x[1..]) }
fn state(x: f64[n], y: f64) -> f64 = if n == 2 { y * x[0] } else { state(x[1..], y + x[0]) }
fn used(x: f64[n], y: f64) -> f64 = if n == 2 { y * sum(x) } else { sin(used(x[..n - 1], y)) }
fn ones(x: f64[n]) -> f64 = one(x)
fn states(x: f64[n]) -> f64 = state(x, 1.5)
fn uses(x: f64[n]) -> f64 = used(x, 1.5)
"""


@pytest.mark.parametrize("name", ["ones", "states", "uses"])
def test_what_is_left_of_an_array_runs_out_where_it_does_in_the_recursion(name: str) -> None:
    compiled, meaning = (getattr(dlang.compile(LEFT, backend=backend), name) for backend in ("cpu", "interp"))
    outcomes = 0
    for n in range(7):
        x = np.linspace(0.5, 1.5, n)
        try:
            wanted = meaning(x)
        except dlang.DlangError as failure:
            assert "[E0801]" in str(failure)
            for f in (compiled, dlang.grad(compiled)):
                assert refusal(f, x) == str(failure)
            outcomes += 1
        else:
            np.testing.assert_allclose(compiled(x), wanted, rtol=1e-12)
            np.testing.assert_allclose(dlang.grad(compiled)(x), dlang.grad(meaning)(x), rtol=1e-10)
    assert outcomes in (1, 2)


def test_recursion_on_what_is_left_needs_no_stack() -> None:
    assert np.isclose(COMPILED.tail(np.full(1_000_000, 0.5)), 0.5 + 1.5e6 * np.sin(0.5))


ENDLESS = """
fn to_zero(x: f64, i: i64) -> f64 = if i == 0 { x } else { 0.5 * to_zero(x, i - 1) }
fn past(x: f64, i: i64) -> f64 = if i > 4 { x } else { 0.5 * past(x, i + 1) }
"""

NEVER = """error[E0805]: the stack is exhausted: `<text>.to_zero` never comes to its end from -1
 --> <text>:2:4
  |
2 | fn to_zero(x: f64, i: i64) -> f64 = if i == 0 { x } else { 0.5 * to_zero(x, i - 1) }
  |    ^^^^^^^
note: in `<text>.to_zero`, called here
 --> <text>:2:4
  |
2 | fn to_zero(x: f64, i: i64) -> f64 = if i == 0 { x } else { 0.5 * to_zero(x, i - 1) }
  |    -------
  = help: use a loop, or see that the recursion ends"""


def test_a_number_that_never_comes_to_its_end_is_refused() -> None:
    program = dlang.compile(ENDLESS)
    assert program.to_zero(1.0, 3) == 0.125
    assert refusal(program.to_zero, 1.0, -1) == NEVER


def test_recursion_that_counts_needs_no_stack() -> None:
    program = dlang.compile(ENDLESS)
    assert program.to_zero(1.0, 3_000_000) == 0.0
    assert program.past(1.0, -3_000_000) == 0.0 and program.past(1.0, 7) == 1.0
    assert dlang.grad(program.to_zero, wrt="x")(1.0, 20) == 0.5**20


def test_points_of_a_recursion_that_counts_go_at_once() -> None:
    text = PROGRAM + "fn all(c: f64[k], x: f64[n]) -> f64[n] = [horner(c, v, 0) for v in x]"
    found = lowered(text, "all")
    assert not recursive_functions(optimise(found.program, [found.entry.name], verify=True))
    assert re.search(r"loop \S+ in \S+ by \d+", dlang.compile(text).all.ir("loops"))
