"""Each way in which threads share the iterations of a nest, at sizes around those of warps and blocks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dlang.codegen.cuda.placement import on_device
from dlang.codegen.loops import Loop
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from dlang.ir.anf import Program
from tests.cuda.both import Both

PROGRAM = """
fn scaled(x: f64[n]) -> f64[n] = [2.0 * v + 1.0 for v in x]
fn outer(x: f64[n]) -> f64[n, n] = [x[i] - x[j] for i, j]
fn triangle(x: f64[n]) -> f64[n, n] = [if j <= i { x[i] * x[j] } else { 0.0 } for i, j]
fn total(x: f64[n]) -> f64 = sum(x)
fn several(x: f64[n]) -> (f64, f64, bool, bool) =
  (sum(x), sum(v * v for v in x), any(v > 2.0 for v in x), all(v < 2.0 for v in x))
fn over_both(x: f64[n]) -> f64 = sum(x[i] * x[j] * f64(i - j) for i, j)
fn row_sums(x: f64[n]) -> f64[n] = [sum(x[i] * x[j] for j) for i]
fn softmaxes(x: f64[n]) -> f64[n, n] {
  let e = [exp(x[i] * x[j]) for i, j]
  [e[i, j] / sum(e[i, k] for k) for i, j]
}
fn column_sums(x: f64[n]) -> f64[n] = sum([x[i] * x[j] + f64(i) for i, j], axis = 0)
fn scattered(x: f64[n]) -> f64[n] = grad(|y: f64[n]| sum(y[i * i % n] * x[i] for i))(x)
fn halvings(x: f64[n]) -> f64[n] {
  [{ var v = abs(x[i])
     var k = 0.0
     while v > 0.001 { v = v / 2.0
       k += 1.0 }
     k } for i]
}
fn shifted(x: f64[n]) -> u64[n] = [shift_right(u64(abs(x[i]) * 1e6) * u64(i + 1), 3) for i]
"""
FUNCTIONS = (
    "scaled", "outer", "triangle", "total", "several", "over_both", "row_sums", "softmaxes", "column_sums", "scattered",
    "halvings", "shifted",
)  # fmt: skip
SIZES = (0, 1, 31, 32, 33, 100)
LARGE = 1000


@cache
def program() -> Both:
    return Both(PROGRAM, FUNCTIONS)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_form_gives_what_the_interpreter_gives_in_any_order(name: str, size: int) -> None:
    x = np.random.default_rng(size).standard_normal(size)
    program().agree(name, [size], [x], 1e-12, fixed=name != "scattered")  # whose terms come in the order of threads


@pytest.mark.parametrize("name", ["scaled", "several", "row_sums", "column_sums", "scattered", "shifted"])
def test_so_it_does_for_many_iterations(name: str) -> None:
    x = np.random.default_rng(LARGE).standard_normal(LARGE)
    program().agree(name, [LARGE], [x], 1e-11, fixed=name != "scattered")


def test_a_kernel_is_right_for_any_number_of_blocks() -> None:
    x = np.random.default_rng(1).standard_normal(LARGE)
    for multiprocessors in (1, 3, 5):
        some = Both(PROGRAM, ("total", "several"))
        some.driver.multiprocessors = multiprocessors
        (found,) = some.found("total", [LARGE], [x])
        assert abs(found - x.sum()) < 1e-11


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("scaled", "map"),
        ("outer", "map"),
        ("total", "reduction"),
        ("over_both", "reduction"),
        ("row_sums", "rows"),
        ("halvings", "map"),
    ],
)
def test_the_form_of_a_nest(name: str, form: str) -> None:
    assert program().kernels(name)[0].form == form


def test_several_reductions_of_one_array_are_one_kernel() -> None:
    assert [k.form for k in program().kernels("several")].count("reduction") == 1


def test_a_sum_of_columns_has_no_atomic_additions() -> None:
    assert not any("atomic" in k.text for k in program().kernels("column_sums"))


def test_what_meets_in_an_element_is_added_atomically() -> None:
    assert sum("dl_atomic_sum" in k.text for k in program().kernels("scattered")) == 1


def test_no_loop_is_left_to_the_host() -> None:
    for name in FUNCTIONS:
        p = program().program
        f = program().entries[name].name
        nests = on_device(schedule(Program({f: p.functions[f]}, p.datatypes), device=True))
        assert not any(isinstance(s, Loop) for function in nests.functions.values() for s in walk(function.body.stmts))


def test_equal_nests_are_one_kernel() -> None:
    p = program().program
    names = [program().entries[n].name for n in ("scaled", "total")]
    once = {n: p.functions[n] for n in names}
    twice = once | {n + "'": replace(p.functions[n], name=n + "'") for n in names}
    found = [on_device(schedule(Program(f, p.datatypes), device=True)).kernels for f in (once, twice)]
    assert found[0] == found[1]
