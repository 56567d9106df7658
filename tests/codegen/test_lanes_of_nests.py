"""The outer loop of a nest has the lanes where all accesses are adjacent, and those inside would be added up."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.codegen.loops import Loop
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from dlang.codegen.vectorize import Lanes, most_iterations
from dlang.pipeline import optimise
from tests.specialize.support import lowered

TEXT = """
fn sums(x: f64[n], y: f64[m]) -> f64[n] = [sum(exp(-(x[i] - y[j]) ** 2) for j) for i]
fn nearest(x: f64[n], y: f64[m]) -> f64 = sum(min(abs(x[i] - y[j]) for j) for i)
fn places(x: f64[n], y: f64[m]) -> i64[n] = [argmin([(x[i] - y[j]) ** 2 for j]) for i]
fn counts(x: f64[n], y: f64[m]) -> i64[n] = [sum(if x[i] > y[j] { 1 } else { 0 } for j) for i]
fn window(x: f64[n], y: f64[m]) -> f64[n] = [sum(y[j] * x[(i + j) % n] for j) for i < n]
fn moving(x: f64[n], y: f64[m]) -> f64[n] = [sum(x[j] for j in maximum(i - m, 0)..minimum(i + m + 1, n)) for i < n]
fn convolved(x: f64[n], y: f64[m]) -> f64 = sum(sin(sum(y[j] * x[i + j] for j)) for i < n - m + 1)
fn strided(x: f64[n], y: f64[m]) -> f64 = sum(tanh(sum(y[j] * x[2 * i + j] for j)) for i < (n - m) // 2 + 1)
fn slopes(x: f64[n], y: f64[m]) -> (f64[n], f64[m]) = grad(convolved, wrt = (x, y))(x, y)
fn steps(x: f64[n], y: f64[m]) -> (f64[n], f64[m]) = grad(strided, wrt = (x, y))(x, y)
fn plane(x: f64[n, k], y: f64[m, l]) -> f64 =
  sum(sin(sum(x[i + p, j + q] * y[p, q] for p, q)) for i < n - m + 1, j < k - l + 1)
fn planes(x: f64[n, k], y: f64[m, l]) -> (f64[n, k], f64[m, l]) = grad(plane, wrt = (x, y))(x, y)
fn kernel(x: f64[n, k], y: f64[3, 3]) -> f64 =
  sum(sin(sum(x[i + p, j + q] * y[p, q] for p, q)) for i < n - 2, j < k - 2)
fn kernels(x: f64[n, k], y: f64[3, 3]) -> (f64[n, k], f64[3, 3]) = grad(kernel, wrt = (x, y))(x, y)
fn nearby(x: f64[n, 3], y: f64[m, 3]) -> f64 =
  sum(min((x[i, 0] - y[j, 0]) ** 2 + (x[i, 1] - y[j, 1]) ** 2 + (x[i, 2] - y[j, 2]) ** 2 for j) for i)
fn nearby_of_nine(x: f64[n, 3], y: f64[9, 3]) -> f64 =
  sum(min((x[i, 0] - y[j, 0]) ** 2 + (x[i, 1] - y[j, 1]) ** 2 + (x[i, 2] - y[j, 2]) ** 2 for j) for i)
fn nearby_of_many(x: f64[n, 3], y: f64[900, 3]) -> f64 =
  sum(min((x[i, 0] - y[j, 0]) ** 2 + (x[i, 1] - y[j, 1]) ** 2 + (x[i, 2] - y[j, 2]) ** 2 for j) for i)
fn distances(x: f64[n, 3], y: f64[m, 3]) -> f64 = sum(exp(-(x[i, 0] - y[j, 0]) ** 2 - x[i, 2] * y[j, 1]) for i, j)
fn which(x: f64[n, 3], y: f64[m, 3]) -> i64[n] = [argmin([(x[i, 0] - y[j, 0]) ** 2 + x[i, 2] * y[j, 1] for j]) for i]
fn pulls(x: f64[n, 3], y: f64[m, 3]) -> (f64[n, 3], f64[m, 3]) = grad(nearby, wrt = (x, y))(x, y)
"""
NARROWER = ("convolved", "strided", "slopes", "steps", "planes")


@cache
def module(backend: str) -> Any:
    return dlang.compile(TEXT, backend=backend)


def same(name: str, *args: Any) -> None:
    found, expected = (getattr(module(backend), name)(*args) for backend in ("cpu", "interp"))
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("n", [1, 3, 8, 33, 70])
@pytest.mark.parametrize(
    "name", ["sums", "nearest", "places", "counts", "window", "moving", "convolved", "strided", "slopes", "steps"]
)
def test_values_are_right_for_any_number_of_iterations(name: str, n: int) -> None:
    random = np.random.default_rng(n)
    for m in (1, 2, 8, 19, 40):
        if m <= n or name not in NARROWER:
            same(name, random.normal(size=n), random.normal(size=m))


@pytest.mark.parametrize("n", [1, 7, 8, 37])
@pytest.mark.parametrize("name", ["nearby", "distances", "which", "pulls"])
def test_points_in_space_are_right_beside_few_and_beside_many_others(name: str, n: int) -> None:
    random = np.random.default_rng(n)
    for m in (1, 3, 8, 63, 64, 65, 130):
        same(name, random.normal(size=(n, 3)), random.normal(size=(m, 3)))


@pytest.mark.parametrize(("name", "m"), [("nearby_of_nine", 9), ("nearby_of_many", 900)])
def test_points_in_space_beside_a_known_number_of_others(name: str, m: int) -> None:
    random = np.random.default_rng(m)
    for n in (1, 7, 8, 37):
        same(name, random.normal(size=(n, 3)), random.normal(size=(m, 3)))


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 4, 3, 4), (5, 40, 2, 3), (12, 9, 3, 9)])
def test_windows_in_two_directions(sizes: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    same("planes", random.normal(size=sizes[:2]), random.normal(size=sizes[2:]))


def nests(name: str) -> Iterator[tuple[Loop, list[Loop]]]:
    """The loops of a function with those inside of each."""
    made = lowered(TEXT, name)
    program = schedule(optimise(made.program, [made.entry.name]), lanes=Lanes(512))
    for stmt in walk(program.functions[made.entry.name].body.stmts):
        if isinstance(stmt, Loop) and (inside := [s for s in walk(stmt.stmts) if isinstance(s, Loop)]):
            yield stmt, inside


@pytest.mark.parametrize("sizes", [(3, 3), (4, 9), (5, 40), (20, 26)])
def test_small_windows_of_known_size(sizes: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    same("kernels", random.normal(size=sizes), random.normal(size=(3, 3)))


def test_a_loop_of_fewer_iterations_than_a_register_has_lanes_has_none() -> None:
    inner = [loop for _, inside in nests("kernels") for loop in inside if not loop.masked]
    few = [loop for loop in inner if (most := most_iterations(loop)) is not None and most < 8]
    assert few and all(loop.lanes == 1 for loop in few)


@pytest.mark.parametrize("name", ["sums", "nearest", "counts"])
def test_the_outer_loop_has_lanes_and_the_inner_one_those_for_what_is_left(name: str) -> None:
    ((loop, inside),) = nests(name)
    assert loop.lanes > 1 and all(inner.lanes > 1 for inner in inside)
    assert not loop.masked


@pytest.mark.parametrize("name", ["nearby", "which"])
def test_the_outer_loop_has_the_lanes_where_what_is_not_adjacent_serves_all_of_few_iterations(name: str) -> None:
    ((loop, (inner,)),) = nests(name)
    assert loop.lanes > 1 and loop.few == (inner.highs[0] - inner.lows[0],) and inner.lanes > 1


def test_the_lanes_are_where_a_known_number_of_iterations_wants_them() -> None:
    ((few, _),), ((many, (inner,)),) = nests("nearby_of_nine"), nests("nearby_of_many")
    assert few.lanes > 1 and not few.few
    assert many.lanes == 1 < inner.lanes


def test_expensive_iterations_keep_their_lanes() -> None:
    ((loop, (inner,)),) = nests("distances")
    assert loop.lanes == 1 < inner.lanes


def test_between_the_ends_of_an_array_windows_are_whole() -> None:
    of_array = [(loop, inside) for loop, inside in nests("slopes") if not loop.short]
    whole = [loop for loop, (inner,) in of_array if loop.lanes > 1 and len(inner.lows) == len(inner.highs) == 1]
    ends = [loop for loop, (inner,) in of_array if len(inner.lows) > 1]
    assert len(whole) >= 3 and len(ends) == 2 and all(loop.lanes == 1 for loop in ends)


def test_columns_that_are_set_in_a_loop_are_no_pieces_inside_of_lanes() -> None:
    text = "fn f(m0: f64[n, n], x: f64[n]) -> f64[n, n] {\n  var m = m0\n  for i in 1..n { m[.., i] = x }\n  m\n}\n"
    f, g = (dlang.compile(text, backend=backend).f for backend in ("cpu", "interp"))
    for n in (1, 3, 40):
        np.testing.assert_array_equal(f(np.zeros((n, n)), np.arange(n) * 1.0), g(np.zeros((n, n)), np.arange(n) * 1.0))
