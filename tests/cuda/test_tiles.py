"""Transposes and their like: tiles of any shape, also beside what is read in order."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.cuda.both import Both

PROGRAM = """
fn transposed(x: f64[n, m]) -> f64[m, n] = [x[i, j] for j, i]
fn added(x: f32[n, m], y: f32[m, n]) -> f32[m, n] = [x[i, j] + 2.0 * y[j, i] for j, i]
fn halves(x: f16[n, m]) -> f16[m, n] = [x[i, j] * x[i, j] for j, i]
fn two(x: f64[n, m], y: f64[m, n]) -> f64[m, n] = [x[i, j] / (1.0 + x[i, j] ** 2) + y[j, i] for j, i]
fn shifted(x: f64[n, m]) -> f64[m, n] = [if i > 0 { x[i, j] } else { 0.0 } for j, i]
fn batches(x: f64[n, m, k]) -> f64[n, k, m] = [x[b, i, j] for b, j, i]
fn reversed_axes(x: f64[n, m, k]) -> f64[k, m, n] = [x[i, j, l] for l, j, i]
"""
MATRICES = ("transposed", "added", "halves", "two", "shifted")
CUBES = ("batches", "reversed_axes")
SHAPES = ((0, 3), (3, 0), (1, 1), (31, 33), (32, 64), (100, 5), (70, 70))


@cache
def program() -> Both:
    return Both(PROGRAM, (*MATRICES, *CUBES))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", MATRICES)
def test_a_transpose_of_any_shape_gives_what_the_interpreter_gives(name: str, shape: tuple[int, int]) -> None:
    draw = np.random.default_rng(sum(shape))
    dtype = {"added": "f4", "halves": "f2"}.get(name, "f8")
    args = [draw.standard_normal(shape).astype(dtype)]
    if name in ("added", "two"):
        args.append(draw.standard_normal(shape[::-1]).astype(dtype))
    program().agree(name, shape, args, 1e-6 if dtype == "f4" else 1e-15)


@pytest.mark.parametrize("shape", [(0, 2, 3), (3, 40, 33), (2, 1, 70), (33, 2, 35)])
@pytest.mark.parametrize("name", CUBES)
def test_so_do_those_of_a_cube(name: str, shape: tuple[int, int, int]) -> None:
    program().agree(name, shape, [np.random.default_rng(sum(shape)).standard_normal(shape)], 0)


@pytest.mark.parametrize("name", ["transposed", "added", "halves", "two", "batches", "reversed_axes"])
def test_what_is_loaded_across_goes_through_tiles(name: str) -> None:
    assert "tiles" in [k.form for k in program().kernels(name)]
