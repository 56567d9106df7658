"""Memory that is not there ends a run with a located message; sizes never wrap into small ones."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import dlang
from dlang.diagnostics import DlangError
from dlang.driver import Backend
from dlang.host.platform import PORTABLE, machine
from tests.backends import HERE
from tests.patience import PATIENCE

SOURCE = """
fn table(n: size) -> f64 {
  var t = zeros(n, n)
  t[0, 0] = 1.0
  t[n - 1, n - 1] + t[0, 0]
}
fn result(n: size) -> f64[n, n] = zeros(n, n)
fn wrapped_result(n: size) -> f64[n * n] = zeros(n * n)
fn wrapped(n: size) -> f64 {
  var t = [f64(i) for i < n * n]
  t[0] = 1.0
  sum(t)
}
fn wrapped_bytes(n: size) -> f64 {
  var t = zeros(8 * n * n)
  for i in 0..10 { t[i] = 2.0 }
  t[5]
}
fn literal(k: i64) -> f64 {
  var t = zeros(10000000000, 10000000000)
  t[k, k] = 1.0
  t[k, 0] + sum(t)
}
fn chosen(x: f64[n], k: size) -> f64 {
  let t = [x[i % 3] for i < k * k if i % 2 == 0]
  t[0]
}
fn texts(n: size) -> str[n, n] = ["a" for i < n, j < n]
fn inner(n: size) -> f64 {
  var t = zeros(n, n, n)
  t[0, 0, 0] = 1.0
  sum(t)
}
fn outer(n: size) -> f64 = 1.0 + inner(n)
"""
CASES = {
    "table": (3, (10**7,)),
    "result": (7, (10**7,)),
    "wrapped_result": (8, (2**32,)),
    "wrapped": (10, (2**32,)),
    "wrapped_bytes": (15, (2**31,)),
    "literal": (20, (1,)),
    "texts": (28, (10**7,)),
    "inner": (30, (10**6,)),
}


@cache
def module_of(backend: Backend) -> ModuleType:
    return dlang.compile(SOURCE, backend=backend)


def failure(backend: Backend, name: str, args: tuple[object, ...]) -> DlangError:
    with pytest.raises(DlangError) as found:
        getattr(module_of(backend), name)(*args)
    return found.value


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize("name", CASES)
def test_memory_that_is_not_there_is_an_error_with_a_place(backend: Backend, name: str) -> None:
    line, args = CASES[name]
    (diagnostic,) = failure(backend, name, args).diagnostics
    assert diagnostic.code == "E0806"
    assert diagnostic.span is not None
    assert diagnostic.span.line == line


@pytest.mark.parametrize("backend", HERE)
def test_the_calls_that_led_there_are_named(backend: Backend) -> None:
    (diagnostic,) = failure(backend, "outer", (10**6,)).diagnostics
    assert diagnostic.code == "E0806"
    assert [note.text for note in diagnostic.notes] == [
        "in `<text>.inner`, called here",
        "in `<text>.outer`, called here",
    ]


@pytest.mark.parametrize("backend", HERE)
def test_a_size_that_is_no_multiple_of_a_wrap_is_as_before(backend: Backend) -> None:
    module = module_of(backend)
    assert module.wrapped(3) == 37.0
    assert module.wrapped_bytes(4) == 2.0
    assert module.chosen(np.arange(3.0), 2) == 0.0
    assert module.result(0).shape == (0, 0)


def test_an_engine_goes_on_after_memory_was_exhausted() -> None:
    module = module_of("cpu")
    for _ in range(3):
        with pytest.raises(DlangError, match="the memory is exhausted"):
            module.table(10**7)
        assert module.table(10) == 1.0


@pytest.mark.parametrize("calls", [1, 3])
def test_results_that_outlive_python_s_modules_are_dropped_in_silence(calls: int) -> None:
    program = f"""
import numpy as np, dlang
m = dlang.compile("fn f(x: f64[n]) -> f64[n] = cumsum(x)")
np.kept = [m.f(np.ones(1 << 17)) for _ in range({calls})]
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_group_of_processes_has_what_its_limit_leaves_and_what_old_files_take(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(PORTABLE, raising=False)
    monkeypatch.setattr(machine, "GROUP", tmp_path)
    monkeypatch.setattr(machine, "SYSTEM", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable: 8000 kB\n")
    assert machine.available_memory() == 8000 << 10
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("5000000\n")
    assert machine.available_memory() == 8000 << 10
    (tmp_path / "memory.max").write_text("6000000\n")
    assert machine.available_memory() == 1_000_000
    (tmp_path / "memory.stat").write_text("active_file 300000\ninactive_file 4000000\n")
    assert machine.available_memory() == 5_000_000
