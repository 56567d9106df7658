"""Positions of extrema: the first of the largest elements, or the first NaN, however many registers look for it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.codegen.loops import Loop
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from dlang.codegen.vectorize import Lanes
from dlang.pipeline import optimise
from tests.specialize.support import lowered

TEXT = """
fn flat(x: f64[n]) -> (i64, i64) = (argmax(x), argmin(x))
fn single(x: f32[n]) -> (i64, i64) = (argmax(x), argmin(x))
fn whole(x: i32[n]) -> (i64, i64) = (argmax(x), argmin(x))
fn rows(x: f64[n, m]) -> (i64, i64) = (argmax(x), argmin(x))
fn turned(x: f64[n, m]) -> (i64, i64) = (argmax([x[i, j] for j < m, i < n]), argmin([x[i, j] for j < m, i < n]))
fn down(x: f64[n, m]) -> (i64[m], i64[m]) = (argmax(x, axis = 0), argmin(x, axis = 0))
fn along(x: f64[n, m]) -> (i64[n], i64[n]) = (argmax(x, axis = 1), argmin(x, axis = 1))
fn slope(x: f64[n]) -> f64[n] = grad(|v| max(v))(x)
"""


@cache
def module() -> Any:
    return dlang.compile(TEXT)


def first(x: np.ndarray, sign: int = 1) -> int:
    """The position of the first NaN, or of the first largest element; of the first smallest for a sign of -1."""
    flat = x.ravel()
    return int(np.argmax(np.isnan(flat))) if np.isnan(flat).any() else int(np.argmax(sign * flat.astype(np.float64)))


def both(x: np.ndarray) -> tuple[int, int]:
    return first(x), first(x, -1)


def arrays(n: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(n)
    one = np.full(n, -np.inf)
    one[n // 2] = -1e30
    holed = random.normal(size=n)
    holed[random.integers(0, n, size=2)] = np.nan
    return {
        "all differ": random.normal(size=n),
        "many are the same": np.round(random.normal(size=n)),
        "all are the least": np.full(n, -np.inf),
        "all are the largest": np.full(n, np.inf),
        "one is not the least": one,
        "zeros of both signs": np.where(np.arange(n) % 3 == 1, 0.0, -0.0),
        "NaNs": holed,
    }


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 100, 257, 70_000])
def test_the_first_extremum_is_found_among_any_number(n: int) -> None:
    for name, x in arrays(n).items():
        small = np.nan_to_num(3 * x, nan=0.0, posinf=2**31 - 1, neginf=-(2**31)).clip(-(2**31), 2**31 - 1)
        for f, y in (("flat", x), ("single", x.astype(np.float32)), ("whole", small.astype(np.int32))):
            assert getattr(module(), f)(y) == both(y), (name, f)


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1), (3, 5), (20, 8), (9, 33), (40, 70)])
def test_the_first_extremum_is_found_in_any_order_of_the_axes(shape: tuple[int, int]) -> None:
    for name, flat in arrays(shape[0] * shape[1]).items():
        x = flat.reshape(shape)
        assert module().rows(x) == both(x), name
        assert module().turned(x) == both(x.T.copy()), name
        for f, lines in (("down", x.T), ("along", x)):
            expected = zip(*[both(line) for line in lines], strict=True)
            for found, places in zip(getattr(module(), f)(x), expected, strict=True):
                np.testing.assert_array_equal(found, places, name)


def loops(name: str) -> list[Loop]:
    made = lowered(TEXT, name)
    program = schedule(optimise(made.program, [made.entry.name]), lanes=Lanes(512))
    return [s for s in walk(program.functions[made.entry.name].body.stmts) if isinstance(s, Loop)]


@pytest.mark.parametrize("name", ["flat", "slope"])
def test_a_search_has_as_many_registers_as_a_sum(name: str) -> None:
    searches = [loop for loop in loops(name) if any(r.position for r in loop.reductions)]
    assert searches and all(loop.lanes == 32 for loop in searches)


def test_ranks_ascend_where_the_order_of_the_loops_is_that_of_the_axes() -> None:
    assert all(r.ascending for loop in loops("rows") for r in loop.reductions)
    outer, inner = ({r.ascending for r in loop.reductions} for loop in loops("turned"))
    assert outer == {False} and inner == {True}
