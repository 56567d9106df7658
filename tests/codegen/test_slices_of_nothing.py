"""A slice that begins behind the end of an array without elements is refused as a slice, wherever its size is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlang
from tests.outcomes import Everywhere

TEXT = """
fn given(x: f64[n]) -> f64[?] = x[1..]
fn stated(x: f64[n]) -> f64[n - 1] = x[1..]
fn summed(x: f64[n]) -> f64 = sum(x[1..])
fn from_a(x: f64[n], a: i64) -> f64[?] = x[a..]
fn products(x: f64[n]) -> f64 = sum(x[1..] * x[..n - 1])
fn last(x: f64[n]) -> f64[?] = x[n - 1..]
fn every_second(x: f64[n]) -> f64[?] = x[1.. by 2]
fn positive(x: f64[n]) -> f64[?] = [v for v in x[1..] if v > 0.0]
fn slope(x: f64[n]) -> f64[n] = grad(|x: f64[n]| sum(x[1..] ** 2))(x)
fn added(x: f64[n]) -> f64[n] {
  var y = x
  y[1..] += 1.0
  y
}
fn rec(x: f64[n], k: i64) -> f64[n - 1] = if k > 0 { rec(x, k - 1) } else { x[1..] }
fn recursive(x: f64[n]) -> f64 = sum(rec(x, 3))
fn recursive_slope(x: f64[n]) -> f64[n] = grad(|x: f64[n]| sum(rec(x, 3) ** 2))(x)
fn rows(x: f64[n, m]) -> f64[?, ?] = [x[i][1..] for i]
fn called_rows(x: f64[n, m]) -> f64[n, m - 1] = [rec(x[i], 2) for i]
fn first(y: f64[a, b], w: f64[b + 1]) -> f64 = w[0]
fn first_of(x: f64[n, m]) -> f64 { let y = [cumsum(x[i][1..]) for i]; first(y, zeros(m)) }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Everywhere:
    return Everywhere(TEXT, tmp_path_factory.mktemp("slices"))


VECTORS = ["given", "stated", "summed", "products", "last", "every_second", "positive", "slope", "added", "recursive"]


@pytest.mark.parametrize("name", [*VECTORS, "recursive_slope"])
def test_it_is_the_slice_that_is_refused(program: Everywhere, name: str) -> None:
    assert program.agreed(name, np.zeros(0)) == "E0801"
    assert not isinstance(program.agreed(name, np.arange(3.0)), str)


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("from_a", (np.zeros(0), 1), "E0801"),
        ("from_a", (np.zeros(0), -1), "E0801"),
        ("from_a", (np.zeros(0), 0), []),
        ("rows", (np.zeros((2, 0)),), "E0801"),
        ("rows", (np.zeros((0, 0)),), "E0802"),  # no slice is taken, but there would be an array
        ("rows", (np.zeros((0, 1)),), []),
        ("called_rows", (np.zeros((2, 0)),), "E0801"),
        ("called_rows", (np.zeros((0, 0)),), "E0802"),
        ("first_of", (np.zeros((1, 0)),), "E0801"),
        ("first_of", (np.zeros((0, 0)),), "E0802"),
        ("first_of", (np.zeros((0, 2)),), 0.0),
    ],
)
def test_ends_and_rows(program: Everywhere, name: str, args: tuple[Any, ...], expected: Any) -> None:
    assert program.agreed(name, *args) == expected


@pytest.mark.parametrize("backend", ["interp", "cpu", "cuda-emulated"])
@pytest.mark.parametrize("name", VECTORS)
def test_the_message_has_both_ends_and_the_size(backend: str, name: str) -> None:
    with pytest.raises(dlang.DlangError) as refused:
        getattr(dlang.compile(TEXT, backend=backend), name)(np.zeros(0))
    ends = "-1 .. 0" if name == "last" else "1 .. 0"
    assert refused.value.diagnostics[0].message == f"the slice {ends} is out of range for an axis of size 0"
