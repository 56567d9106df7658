"""The derivatives of pooling: what squares side by side cost, their structure, and the second derivative."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dlang
from dlang.ir.anf import Comp, Program, ScatterAdd
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.optimize.programs import cost
from tests.specialize.support import lowered

PROGRAM = """
import nn {{ max_pool2d, average_pool2d }}

fn value(x: f64[n, h, w, c]) -> f64 = sum({pool})
fn gradient(x: f64[n, h, w, c]) -> f64[n, h, w, c] = grad(value)(x)
fn cubes(x: f64[n, h, w, c]) -> f64 = sum({pool} ** 3)
fn slope(x: f64[n, h, w, c], d: f64[n, h, w, c]) -> f64 = sum(grad(cubes)(x) * d)
fn curvature(x: f64[n, h, w, c], d: f64[n, h, w, c]) -> f64[n, h, w, c] = grad(|x| slope(x, d))(x)
"""
SIDE_BY_SIDE = ("max_pool2d(x, 2)", "average_pool2d(x, 2)")
ALL = (*SIDE_BY_SIDE, "max_pool2d(x, 3, stride = 2)", "average_pool2d(x, 3, stride = 2)")
SHAPE = (2, 8, 8, 3)


@cache
def optimised(pool: str, name: str) -> tuple[Program, str]:
    made = lowered(PROGRAM.format(pool=pool), name)
    return optimise(made.program, [made.entry.name], verify=True), made.entry.name


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)


@pytest.mark.parametrize("pool", SIDE_BY_SIDE)
def test_squares_side_by_side_have_a_gradient_without_scatters(pool: str) -> None:
    program, _ = optimised(pool, "gradient")
    comps = [let.op for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, Comp)]
    assert not any(isinstance(d, ScatterAdd) for op in comps for d in op.destinations)


def test_the_gradient_of_max_pooling_costs_little_more_than_finding_where_the_largest_are() -> None:
    x = drawn(*SHAPE)
    value, gradient = (
        cost(program, [*SHAPE, x], name)
        for program, name in (optimised(SIDE_BY_SIDE[0], name) for name in ("value", "gradient"))
    )
    assert gradient <= value + 3 * x.size


@pytest.mark.parametrize("pool", ALL)
def test_the_second_derivative_through_pooling_is_that_of_differences(pool: str, tmp_path: Path) -> None:
    path = tmp_path / "pooling.dl"
    path.write_text(PROGRAM.format(pool=pool), encoding="utf-8")
    program = dlang.load(str(path))
    x, d = drawn(*SHAPE), drawn(*SHAPE[::-1]).reshape(SHAPE)
    found = program.curvature(x, d)
    for at in [(0, 0, 0, 0), (1, 3, 4, 2), (0, 6, 5, 1)]:
        step = np.zeros(SHAPE)
        step[at] = 1e-5
        difference = (program.slope(x + step, d) - program.slope(x - step, d)) / 2e-5
        np.testing.assert_allclose(found[at], difference, atol=1e-6)
