"""Each way in which threads share the trips of a nest, at sizes around those of warps and blocks."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import numpy as np
import pytest

from dlang.codegen.cuda.kernels import with_kernels
from dlang.codegen.loops import Kernel, Loop
from dlang.codegen.schedule import schedule
from dlang.codegen.traverse import walk
from dlang.diagnostics import Source
from dlang.driver import call, check, errors_of, lower
from dlang.ir.anf import Program
from dlang.ir.interpreter import Interpreter
from dlang.listings import request
from dlang.runtime.emulation.device import Geometry
from dlang.runtime.engine import CompiledProgram, Engine
from dlang.runtime.host import Host
from dlang.specialize.specialize import Entry

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


@cache
def compiled() -> tuple[CompiledProgram, Interpreter, dict[str, Entry], Program]:
    checked = check(Source("forms.dl", PROGRAM))
    assert not errors_of(checked)
    functions = checked.module.functions
    program, entries = lower([request(functions[name]) for name in FUNCTIONS])
    engine = Engine(Host(io.StringIO()), emulates=True)
    runner = engine.compile(program, [e.name for e in entries])
    return runner, Interpreter(program, Host(io.StringIO())), dict(zip(FUNCTIONS, entries, strict=True)), program


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_form_gives_what_the_interpreter_gives_in_any_order(name: str, size: int) -> None:
    runner, interpreter, entries, _ = compiled()
    x = np.random.default_rng(size).standard_normal(size)
    wanted = call(interpreter, entries[name], [size], [x])
    device = runner.device
    assert device is not None
    first: list[Any] = []
    for order in (0, 1, 2):
        device.geometry = Geometry(order=order)
        found = call(runner, entries[name], [size], [x])
        for f, w in zip(found, wanted, strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-12, atol=1e-12)
        first = first or found
        for f, before in zip(found, first, strict=True):
            if name != "scattered":  # whose terms come in the order of threads
                np.testing.assert_array_equal(f, before)


def test_a_large_sum_is_the_same_whatever_the_blocks_do() -> None:
    runner, _, entries, _ = compiled()
    x = np.random.default_rng(1).standard_normal(1000)
    device = runner.device
    assert device is not None
    for geometry in (Geometry(64, 3), Geometry(32, 1), Geometry(256, 4, 1), Geometry(32, 40, 2)):
        device.geometry = geometry
        (found,) = call(runner, entries["total"], [1000], [x])
        assert abs(found - x.sum()) < 1e-11


def kernels(name: str) -> list[Kernel]:
    *_, entries, program = compiled()
    f = entries[name].name
    nests = with_kernels(schedule(Program({f: program.functions[f]}, program.datatypes)))
    assert not any(isinstance(s, Loop) for function in nests.functions.values() for s in walk(function.body.stmts))
    return list(nests.kernels)


@pytest.mark.parametrize(
    ("name", "forms"),
    [
        ("scaled", ["map"]),
        ("outer", ["map"]),
        ("total", ["reduction"]),
        ("over_both", ["reduction"]),
        ("row_sums", ["rows"]),
        ("halvings", ["map"]),
    ],
)
def test_the_form_of_a_nest(name: str, forms: list[str]) -> None:
    assert [k.form for k in kernels(name)] == forms


def test_several_reductions_of_one_array_are_one_kernel() -> None:
    assert [k.form for k in kernels("several")] == ["reduction"]


def test_a_sum_of_columns_has_no_atomic_additions() -> None:
    assert not any("atomic" in k.text for k in kernels("column_sums"))


def test_what_meets_in_an_element_is_added_atomically() -> None:
    assert sum("dl_atomic_sum" in k.text for k in kernels("scattered")) == 1


def test_equal_nests_are_one_kernel() -> None:
    _, _, entries, program = compiled()
    names = [entries[n].name for n in ("scaled", "total")]
    functions = {n: program.functions[n] for n in names}
    functions |= {n + "'": program.functions[n] for n in names}
    assert len(with_kernels(schedule(Program(functions, program.datatypes))).kernels) == 2
