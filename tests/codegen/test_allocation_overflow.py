"""Sizes that are no i64 end the run on both back ends, where they are used, and cost loops over arrays nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlang

TEXT = """
fn square(n: i64) -> f64 = sum(1.0 for i < n * n)
fn product(n: i64, m: i64) -> f64 = sum(f64(i) for i < n * m)
fn four(n: i64) -> f64 = sum(1.0 for i < 4 * n)
fn nested(n: i64, k: i64) -> f64 = sum(sum(f64(i + j) for i < n * n) for j < k)
fn in_a_loop(n: i64, k: i64) -> f64 { var s = 0.0; for j < k { s += sum(f64(i) + s for i < n * n) }; s }
fn iterations(n: i64) -> f64 { var s = 1.0; for j < n * n { s = 0.5 * s }; s }
fn largest(n: i64) -> f64 = max(f64(i) for i < n * n)
fn length(n: i64) -> i64 { let m = n * n; len([i for i < m]) }
fn literal() -> f64 = square(4_294_967_296)
fn slope(n: i64) -> f64 = grad(|a: f64| sum(a * f64(i) for i < n * n))(1.0)
fn avoided(n: i64, c: bool) -> f64 = sum(if c { sum(1.0 for i < n * n) } else { 1.0 } for j < 3)
fn less(n: i64, m: i64) -> f64 = sum(1.0 for i < n * n - m * m + 3)
"""
LARGE = 2**32


@pytest.fixture(scope="module", params=["cpu", "interp"])
def m(request: Any) -> Any:
    return dlang.compile(TEXT, backend=request.param)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("square", (LARGE,)),
        ("square", (LARGE + 1,)),
        ("product", (2**40, 2**24)),
        ("four", (2**62,)),
        ("nested", (LARGE, 2)),
        ("in_a_loop", (LARGE, 2)),
        ("iterations", (LARGE,)),
        ("largest", (LARGE,)),
        ("length", (LARGE,)),
        ("literal", ()),
        ("slope", (LARGE,)),
        ("avoided", (LARGE, True)),
    ],
)
def test_a_size_that_wraps_ends_the_run_where_it_is_used(m: Any, name: str, args: tuple[Any, ...]) -> None:
    with pytest.raises(dlang.DlangError) as caught:
        getattr(m, name)(*args)
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("E0806", "the memory is exhausted")
    line = 1 + next(k for k, text in enumerate(TEXT.splitlines()) if f"fn {name if args else 'square'}(" in text)
    assert found.span is not None and found.span.line == line


def test_sizes_that_do_not_wrap_are_as_before(m: Any) -> None:
    assert m.square(5) == 25.0 and m.square(0) == 0.0 and m.product(3, 4) == 66.0 and m.product(-3, 4) == 0.0
    assert m.four(3) == 12.0 and m.nested(3, 2) == 81.0 and m.in_a_loop(2, 2) == 36.0 and m.iterations(2) == 0.0625
    assert m.largest(3) == 8.0 and m.length(3) == 9 and m.slope(3) == 36.0


def test_what_does_not_run_is_not_refused(m: Any) -> None:
    assert m.avoided(LARGE, False) == 3.0
    assert m.less(LARGE, LARGE) == 3.0


ARRAYS = """
fn flat(x: f64[n, m]) -> f64 = sum(reshape(x, n * m))
fn halves(x: f64[2 * n]) -> f64 = sum(x[i] * x[i + n] for i < n)
fn triangle(x: f64[n]) -> f64 = sum(x[i] * x[j] for i < n, j < i)
fn windows(x: f64[n], w: f64[k]) -> f64 = sum(sum(x[i + p] * w[p] for p < k) ** 2 for i < n - k + 1)
fn pairs(x: f64[n, m]) -> f64[n * m] = [v + 1.0 for v in reshape(x, n * m)]
"""


@pytest.mark.parametrize("name", ["flat", "halves", "triangle", "windows", "pairs"])
def test_the_sizes_of_arrays_are_not_checked(name: str) -> None:
    assert "guard" not in getattr(dlang.compile(ARRAYS), name).ir("loops")


def test_a_size_is_checked_once_in_front_of_its_loop() -> None:
    lines = dlang.compile(TEXT).product.ir("loops").splitlines()
    (guard,) = [k for k, line in enumerate(lines) if "guard" in line]
    assert guard < min(k for k, line in enumerate(lines) if line.strip().startswith(("loop", "parallel")))


def test_an_array_of_no_elements_has_any_size() -> None:
    assert dlang.compile(ARRAYS).flat(np.ones((0, 3))) == 0.0
