"""Sorting in compiled code: the order that NumPy's stable sort gives, for all values of every dtype."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dlang
from dlang.codegen.printing import print_program
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.pipeline import optimise
from tests.specialize.support import lowered

PROGRAM = """
fn order<a: Ord>(x: a[n]) -> i64[n] = argsort(x)
fn ascending<a: Ord>(x: a[n]) -> a[n] = sort(x)
"""
SIZES = (0, 1, 2, 40, 41, 300, 5000)  # inserted up to 40, by bytes from there


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> dlang.Module:
    path = Path(tmp_path_factory.mktemp("sorting")) / "sorting.dl"
    path.write_text(PROGRAM, encoding="utf-8")
    return dlang.load(str(path))


def check(program: dlang.Module, x: np.ndarray) -> None:
    order = np.argsort(x, kind="stable")
    np.testing.assert_array_equal(program.order(x), order)
    np.testing.assert_array_equal(program.ascending(x), x[order])


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_equal_floats_keep_their_order_also_zeros_of_both_signs_and_nan_is_last(
    program: dlang.Module, dtype: str
) -> None:
    random = np.random.default_rng(0)
    for n in SIZES:
        x = random.normal(size=n).astype(dtype)
        check(program, x)
        check(program, np.round(x) * random.choice(np.array([1, -1], dtype), n))
        for value in (np.nan, -np.nan, np.inf, -np.inf, np.finfo(dtype).tiny / 2):
            x[random.random(n) < 0.1] = value
        check(program, x)


@pytest.mark.parametrize("dtype", ["i8", "i4", "u8", "u4", "i1", "u1", "i2"])
def test_integers_of_all_signs_are_sorted_stably(program: dlang.Module, dtype: str) -> None:
    random, ends = np.random.default_rng(0), np.iinfo(dtype)
    for n in SIZES:
        check(program, random.integers(ends.min, ends.max, n, dtype=dtype, endpoint=True))
        check(program, random.integers(0, 3, n).astype(dtype))


def test_numbers_are_sorted_without_the_host() -> None:
    for dtype in ("f64", "f32", "i64"):
        made = lowered(f"fn order(x: {dtype}[n]) -> i64[n] = argsort(x)", "order")
        text = print_program(schedule(optimise(made.program, [made.entry.name], verify=True), Lanes(512)))
        assert "runtime" not in text and "counts" in text
