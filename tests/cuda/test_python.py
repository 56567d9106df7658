"""The back end from Python and from the command line."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import dlang
from dlang.tools.dlc import main

SOURCE = """
fn loss(w: f64[k], x: f64[n, k], y: f64[n]) -> f64 = mean((x @ w - y) ** 2)
fn doubled(x: f32[n]) -> f32[n] = 2.0 * x
fn chosen(x: f64[n], k: i64[m]) -> f64[m] = [x[k[i]] for i]
fn made(n: size) -> f64[n] = [f64(i) for i < n]
fn positive(x: f64[n]) = [v for v in x if v > 0.0]
"""


@cache
def module() -> ModuleType:
    return dlang.compile(SOURCE, backend="cuda-emulated")


def test_calls_give_what_native_code_gives_however_often() -> None:
    x = np.linspace(0.0, 1.0, 70, dtype=np.float32)
    for size in (70, 3, 0, 33):
        np.testing.assert_array_equal(module().doubled(x[:size]), 2 * x[:size])


def test_gradients_and_bound_arguments() -> None:
    rng = np.random.default_rng(0)
    w, x, y = rng.standard_normal(3), rng.standard_normal((40, 3)), rng.standard_normal(40)
    native = dlang.compile(SOURCE)
    value, slope = dlang.value_and_grad(module().loss)(w, x, y)
    wanted, wanted_slope = dlang.value_and_grad(native.loss)(w, x, y)
    np.testing.assert_allclose([value, *slope], [wanted, *wanted_slope], rtol=1e-12)
    np.testing.assert_allclose(module().loss.bind(x=x, y=y)(w), wanted, rtol=1e-12)


def test_sizes_and_arrays_that_are_made_come_back() -> None:
    np.testing.assert_array_equal(module().made(40), np.arange(40.0))
    x = np.random.default_rng(0).standard_normal(100)
    np.testing.assert_array_equal(module().positive(x), x[x > 0])


def test_a_guard_that_fails_in_a_kernel_is_an_error_with_its_place() -> None:
    with pytest.raises(dlang.DlangError, match="E0801") as found:
        module().chosen([1.0, 2.0], [0, 1, 5, -7])
    (diagnostic,) = found.value.diagnostics
    assert "index 5" in diagnostic.message and diagnostic.span is not None and diagnostic.span.line == 4
    np.testing.assert_array_equal(module().chosen([1.0, 2.0], [1, 0]), [2.0, 1.0])


def test_the_command_runs_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.dl"
    file.write_text('fn main(n: i64 = 50) {\n  let x = [f64(i) for i < n]\n  print("{sum(x)} {max(x)}")\n}\n')
    assert main(["run", "--backend", "cuda-emulated", str(file), "--n", "40"]) == 0
    assert main(["run", str(file), "--n", "41", "--backend", "cuda-emulated"]) == 0
    assert capsys.readouterr().out == "780.0 39.0\n820.0 40.0\n"
    assert main(["ir", str(file), "--stage", "cuda"]) == 0
    assert "dl_reduction_0(dl_run *run" in capsys.readouterr().out


def test_code_that_measures_itself_is_native_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.dl"
    file.write_text("print(1)\n")
    assert main(["run", "--profile", "--backend", "cuda-emulated", str(file)]) == 1
    assert "E0958" in capsys.readouterr().err
