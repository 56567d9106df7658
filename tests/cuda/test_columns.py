"""Reductions over any axis: of few and of many rows and columns, by one block for a column and by several."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from dlang.host.effects import Host
from dlang.ir.reader import read_program
from dlang.runtime.emulation.driver import EmulatedDriver
from dlang.runtime.engine import Engine
from tests.cuda.both import Both

PROGRAM = """
fn sums(x: f64[n, m]) -> f64[m] = sum(x, axis = 0)
fn means(x: f32[n, m]) -> f32[m] = [sum(x[i, j] for i) / f32(n) for j]
fn deviations(x: f64[n, m], mean: f64[m]) -> f64[m] = [sum((x[i, j] - mean[j]) ** 2 for i) for j]
fn places(x: f32[n, m]) -> (i64[m], f32[m]) = ([argmax(x[i, j] for i) for j], [min(x[i, j] for i) for j])
fn halves(x: f16[n, m]) -> f16[m] = [max(x[i, j] for i) for j]
fn weighted(x: f64[n, m], w: f64[n]) -> f64[m] = [sum(w[i] * x[i, j] for i) for j]
fn between(x: f64[n, m], k: size) -> f64[k, m] = [sum(x[i, j] * f64(l + 1) for i) for l < k, j]
fn outside(x: f64[n, m, k]) -> f64[k] = sum(x, axis = (0, 1))
fn inside(x: f64[n, m, k]) -> f64[n] = sum(x, axis = (1, 2))
fn middle(x: f64[n, m, k]) -> f64[n, k] = sum(x, axis = 1)
fn with_columns(x: f64[n, m], y: f64[n, m]) -> (f64[n, m], f64[m]) {
  let z = [if x[i, j] > 0.0 { y[i, j] } else { 0.5 } for i, j]
  (z, sum(z, axis = 0))
}
fn layer(x: f64[n, k], w: f64[k, m], b: f64[m]) -> f64[n, m] {
  let a = x @ w
  [maximum(a[i, j] + b[j], 0.0) for i, j]
}
fn layers(x: f64[n, k], w: f64[k, m], b: f64[m]) -> (f64[k, m], f64[m]) =
  grad(|w: f64[k, m], b: f64[m]| sum(layer(x, w, b)[i, j] ** 2 for i, j), wrt = (w, b))(w, b)
"""
MATRICES = ("sums", "means", "deviations", "places", "halves", "weighted")
CUBES = ("outside", "inside", "middle")
SHAPES = ((0, 3), (3, 0), (1, 1), (31, 33), (32, 5), (33, 64), (300, 33), (1000, 3), (5000, 1), (4, 1000))


@cache
def program() -> Both:
    return Both(PROGRAM, (*MATRICES, "between", "with_columns", "layers", *CUBES))


CASES = [(name, shape) for name in MATRICES for shape in SHAPES if shape[0] or name not in ("places", "halves")]


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_columns_of_any_shape_give_what_the_interpreter_gives(name: str, shape: tuple[int, int]) -> None:
    n, m = shape
    draw = np.random.default_rng(n + m)
    dtype, tolerance = {"means": ("f4", 1e-4), "places": ("f4", 0), "halves": ("f2", 0)}.get(name, ("f8", 1e-10))
    args = [draw.standard_normal(shape).astype(dtype)]
    more = {"deviations": [draw.standard_normal(m)], "weighted": [draw.standard_normal(n)]}
    program().agree(name, shape, [*args, *more.get(name, [])], tolerance)


@pytest.mark.parametrize("shape", [(0, 2, 3), (1, 1, 1), (3, 33, 5), (40, 3, 32), (2, 600, 9), (70, 70, 2)])
@pytest.mark.parametrize("name", CUBES)
def test_any_axes_of_a_cube_may_be_added(name: str, shape: tuple[int, int, int]) -> None:
    x = np.random.default_rng(sum(shape)).standard_normal(shape)
    program().agree(name, shape, [x], 1e-10)


def test_columns_may_be_of_a_level_among_others() -> None:
    x = np.random.default_rng(5).standard_normal((300, 40))
    program().agree("between", (300, 40, 3), [x, 3], 1e-10)


@pytest.mark.parametrize("shape", [(1, 1), (33, 70), (300, 33), (4, 1000)])
def test_what_is_stored_may_be_added_on_the_way(shape: tuple[int, int]) -> None:
    draw = np.random.default_rng(7)
    x, w, b = draw.standard_normal((shape[0], 3)), draw.standard_normal((3, shape[1])), draw.standard_normal(shape[1])
    program().agree("layers", (shape[0], 3, shape[1]), [x, w, b], 1e-9)
    assert any(k.form == "columns" and "dl_store" in k.text for k in program().kernels("layers"))
    y = draw.standard_normal(shape)
    program().agree("with_columns", shape, [y, y * 2], 1e-10, fixed=False)


def test_so_many_columns_that_no_threads_share_them() -> None:
    x = np.random.default_rng(6).standard_normal((2, 270_001))
    (found,) = program().found("sums", x.shape, [x])
    np.testing.assert_array_equal(found, x[0] + x[1])


@pytest.mark.parametrize(
    ("name", "form"), [("sums", "columns"), ("outside", "columns"), ("middle", "columns"), ("inside", "rows")]
)
def test_the_axis_decides_on_the_form(name: str, form: str) -> None:
    assert form in [k.form for k in program().kernels(name)]


def test_no_column_is_added_atomically() -> None:
    assert not any("atomic" in k.text for name in (*MATRICES, *CUBES) for k in program().kernels(name))


NO_ROWS = """
fn main(n.0: i64, l.1: i64, x.2: f64[l.1, 2]) -> (y.3: f64[n.0]) sizes (n.0) {
  none.4: bool = le(l.1, 0)
  enough.5: bool = ge(n.0, 2)
  holds.6: bool = or(enough.5, none.4)
  check holds.6 "E0801" ("index 1 is out of range for size ", "", "") (n.0) for ()
  zeros.7: f64[n.0] = comp i.8 in 0..n.0 {
    yield 0.0
  } to keep [n.0] [i.8] set
  y.9: f64[n.0] = comp r.10 in 0..l.1, j.11 in 0..2 {
    t.12: f64 = read x.2[r.10, j.11]
    yield t.12
  } to keep [n.0] [j.11] sum into zeros.7
  yield y.9
}
"""


@pytest.mark.parametrize(("n", "l"), [(0, 0), (1, 0), (2, 0), (2, 1), (5, 70)])
def test_a_column_without_rows_need_not_be_there(n: int, l: int) -> None:
    """A check certifies that a column is there only where it has a row."""
    program = read_program(NO_ROWS)
    x = np.arange(2.0 * l).reshape(l, 2)
    (found,) = Engine(Host(), driver=EmulatedDriver()).compile(program, ["main"]).run("main", [n, l, x])
    np.testing.assert_array_equal(found, np.concatenate([x.sum(0), np.zeros(n)])[:n])
