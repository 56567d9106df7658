"""A program that measures itself counts what it does exactly, wherever the counts are written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlang
from dlang.codegen import counting
from dlang.codegen.llvm import mathematics
from dlang.ir.anf import Atom, Lit, Scalar, fresh
from dlang.runtime.profile import Profile, Row

PROGRAM = """
fn add(x: f64[n], y: f64[n]) -> f64[n] = x + y

fn energy(x: f32[n]) -> f32 = sum(x * x)

fn stencil(x: f64[n]) -> f64[?] = [x[i + 1] - 2.0 * x[i] + x[i - 1] for i in 1..n - 1]

fn triangle(x: f64[n]) -> f64[n] = [sum([x[j] for j < i]) for i < n]

fn positive(x: f64[n]) -> f64[n] {
  var y = zeros(n)
  for i in 1..n { if x[i] > 0.0 { y[i] = y[i - 1] / x[i] / x[i] / x[i] } }
  y
}

fn product(x: f64[n, m], y: f64[m, k]) -> f64[n, k] = x @ y

fn repeated(x: f64[n], steps: i64) -> f64[n] {
  var (y, c) = (x, 0.5)
  for k < steps {
    y = c * y + x
    c = 1.0 - c
  }
  y
}

fn logistic(x: f64, n: i64) -> f64 {
  var y = x
  for i < n { y = 3.2 * y * (1.0 - y) }
  y
}

fn until(x: f64) -> f64 {
  var y = x
  while y < 100.0 { y = 2.0 * y }
  y
}

fn power(x: f64, n: i64) -> f64 = if n == 0 or n < 0 { 1.0 } else { x * power(x, n - 1) }

fn powers(x: f64[n], k: i64) -> f64[n] = [power(v, k) for v in x]

fn halves(x: f64[n]) -> f64 =
  if n < 4 { sum(x * x) } else { halves(x[..n // 2]) + halves(x[n // 2..]) }

fn speak(x: f64) -> () { print("{x}") }
"""
module = dlang.compile(PROGRAM)


def profile(name: str, *args: Any) -> Profile:
    function = getattr(module, name)
    found: Profile = function.profile(*args)
    wanted = function(*args)
    assert wanted is None or np.allclose(found.result, wanted)
    return found


def nests(found: Profile) -> list[Row]:
    return [row for row in found.rows if row.nest.kind != "function"]


def total(found: Profile) -> tuple[int, int]:
    """Bytes and operations of all rows."""
    return sum(row.bytes for row in found.rows), sum(row.operations or 0 for row in found.rows)


def numbers(n: int) -> Any:
    return np.random.default_rng(0).normal(size=n)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 100, 1003])
def test_an_elementwise_loop_reads_and_writes_every_element_once(n: int) -> None:
    (row,) = nests(profile("add", numbers(n), numbers(n)))
    assert (row.calls, row.bytes, row.operations) == (1, 24 * n, n)


@pytest.mark.parametrize("n", [1, 15, 16, 333])
def test_a_sum_is_an_operation_for_each_element(n: int) -> None:
    (row,) = nests(profile("energy", numbers(n).astype(np.float32)))
    assert (row.bytes, row.operations, row.nest.dtype) == (4 * n, 2 * n, "f32")


def test_reads_whose_indices_differ_by_a_constant_count_together() -> None:
    (row,) = nests(profile("stencil", numbers(50)))
    assert (row.bytes, row.operations) == (2 * 8 * 48, 3 * 48)


@pytest.mark.parametrize("n", [1, 9, 40])
def test_a_loop_whose_bounds_depend_on_another_counts_each_of_its_iterations(n: int) -> None:
    found = profile("triangle", numbers(n))
    pairs = n * (n - 1) // 2
    assert total(found) == (8 * (pairs + n), pairs)


def test_what_is_behind_a_condition_counts_where_it_holds() -> None:
    x = numbers(101)
    some = int(np.sum(x[1:] > 0))
    found = profile("positive", x)
    assert total(found)[1] == 3 * some
    filled = 8 * 101
    assert total(found)[0] == filled + 8 * 100 + 2 * 8 * some


@pytest.mark.parametrize("sizes", [(3, 4, 5), (64, 32, 48)])
def test_a_product_counts_its_matrices_once_and_two_operations_a_term(sizes: tuple[int, int, int]) -> None:
    n, m, k = sizes
    found = profile("product", numbers(n * m).reshape(n, m), numbers(m * k).reshape(m, k))
    assert total(found)[1] == 2 * n * m * k
    if n * m * k >= 1000:
        (row,) = [row for row in nests(found) if row.operations]
        assert row.bytes == 8 * (n * m + m * k + n * k)


def test_a_nest_in_a_loop_is_called_in_each_iteration() -> None:
    (row,) = [row for row in nests(profile("repeated", numbers(10), 7)) if row.operations]
    assert (row.calls, row.operations) == (7, 7 * 2 * 10)


def test_a_loop_in_order_is_one_nest_with_all_its_iterations() -> None:
    (row,) = nests(profile("logistic", 0.3, 1000))
    assert (row.calls, row.bytes, row.operations) == (1, 0, 3000)
    assert profile("logistic", 0.3, 0).rows[-1].operations == 0


def test_a_loop_without_known_iterations_counts_those_that_it_makes() -> None:
    (row,) = nests(profile("until", 3.0))
    assert row.operations == 6


def test_calls_in_a_loop_count_as_the_loop_s() -> None:
    (row,) = nests(profile("powers", numbers(10), 5))
    assert (row.calls, row.operations) == (1, 10 * 5)


def test_a_function_without_loops_counts_as_its_caller_s() -> None:
    (row,) = profile("power", 1.5, 12).rows
    assert (row.nest.kind, row.operations) == ("function", 12)


def test_a_recursive_function_with_loops_has_rows_of_its_own() -> None:
    found = profile("halves", numbers(16))
    calls = {row.nest.kind: row.calls for row in found.rows if row.nest.label.endswith(".halves")}
    assert calls["loop"] == 8 and calls["function"] == 15
    assert total(found) == (8 * 16, 2 * 16 + 7)


def test_work_of_the_host_is_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    hosts = [row for row in profile("speak", 1.5).rows if row.nest.kind == "host"]
    assert [row.operations for row in hosts] == [None, None]


def test_times_of_nests_are_parts_of_the_whole() -> None:
    found = profile("repeated", numbers(1000), 50)
    assert 0 < sum(row.seconds for row in found.rows) <= found.seconds
    inside = [e for e in found.events if e.nest.kind != "function"]
    (whole,) = [e for e in found.events if e.nest.kind == "function"]
    assert all(whole.begin <= e.begin <= e.end <= whole.end for e in inside)
    assert len(inside) == sum(row.calls for row in nests(found)) and found.lost == 0


def test_a_derivative_is_profiled_like_any_function() -> None:
    slope = dlang.grad(module.energy)
    (row,) = nests(slope.profile(np.ones(100, np.float32)))
    assert row.calls == 1 and row.bytes == 8 * 100


def test_code_that_does_not_measure_itself_has_no_clocks() -> None:
    assert "readcyclecounter" not in module.energy.ir("llvm") and "enter nest" not in module.energy.ir("loops")


def test_functions_are_the_operations_that_they_are_made_of() -> None:
    x = fresh("x", Scalar("f64"))

    def operations(name: str, args: tuple[Atom, ...]) -> int:
        return counting.operations(name, args, mathematics.operations)

    assert operations("mul", (x, x)) == 1
    assert operations("powi", (x, Lit(5, "i64"))) == 3
    assert operations("exp", (x,)) > 10
    assert operations("select", (fresh("c", Scalar("bool")), x, x)) == 0
    assert operations("add", (fresh("i", Scalar("i64")), Lit(1, "i64"))) == 0
