"""The back end from Python and from the command line."""

from __future__ import annotations

import json
import sys
import threading
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import dlang
from dlang.driver import Backend
from dlang.host import cuda
from dlang.runtime import devices
from dlang.runtime.emulation.driver import EmulatedDriver
from dlang.runtime.profile import Ceilings
from dlang.tools.dlc import main
from dlang.tools.repl.session import Session

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


def test_a_conversation_keeps_values_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    device = EmulatedDriver(keeps=True)
    monkeypatch.setattr(devices, "driver_of", lambda backend: device)
    session = Session("cuda-emulated")
    session.submit("let x = [f64(i) for i < 100]")
    assert device.used >= 800
    session.submit("let y = x * x")
    total = session.submit("sum(y)").value
    assert total is not None and total.leaves == (328350.0,)


def test_without_cupy_the_message_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    cuda.loaded_cupy.cache_clear()
    file = tmp_path / "m.dl"
    file.write_text('fn main(n: i64 = 3) { print(sum([f64(i) for i < n])) }\ntest "t" { assert 1 == 1 }\n')
    for command in (["run"], ["test"]):
        assert main([*command, "--backend", "cuda", str(file)]) == 1
        assert "error[E0903]: the back end `cuda` needs CuPy" in capsys.readouterr().err
    with pytest.raises(dlang.DlangError, match="E0903"):
        dlang.compile(SOURCE, backend="cuda").doubled(np.ones(3, np.float32))


def test_several_threads_may_call_and_compile_at_once() -> None:
    m = dlang.compile(SOURCE, backend="cuda-emulated")
    x = [np.arange(n, dtype=np.float32) for n in (5, 40, 300)]
    wrong: list[object] = []

    def work() -> None:
        try:
            for _ in range(10):
                for given in x:
                    np.testing.assert_array_equal(m.doubled(given), 2 * given)
                assert m.loss(np.ones(2), np.ones((3, 2)), np.zeros(3)) == 4.0
                with pytest.raises(dlang.DlangError, match="index 5"):
                    m.chosen([1.0, 2.0], [0, 1, 5])
        except BaseException as e:
            wrong.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_was_compiled_is_kept_for_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reference to its kernels, and apart from what native code is kept of the same function."""
    monkeypatch.setenv("DLANG_CACHE", str(tmp_path))
    file = tmp_path / "m.dl"
    file.write_text(SOURCE)
    x = np.ones(5, np.float32)

    def compiled(backend: Backend) -> list[bool]:
        """Whether functions were compiled when they were first called."""
        m = dlang.load(file, backend=backend)
        np.testing.assert_array_equal(m.doubled(x), 2 * x)
        with pytest.raises(dlang.DlangError, match="index 7"):
            m.chosen([1.0, 2.0], [7])
        runners = [i.runner for f in (m.doubled, m.chosen) for i in f.program._instances.values()]
        return [r.engine.compilations > 0 for r in runners]

    for backend in ("cuda-emulated", "cpu"):
        assert all(compiled(backend)) and not any(compiled(backend))


def test_the_command_measures_what_the_device_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dlang.runtime.profile.measured_ceilings", lambda threads: Ceilings(threads, 1e10, 1e11, 1e11))
    file, trace = tmp_path / "m.dl", tmp_path / "trace.json"
    file.write_text('fn main(n: i64 = 50) {\n  let x = [f64(i) for i < n]\n  print("{sum(x)}")\n}\n')
    options = ["--profile", "--profile-out", str(trace), "--backend", "cuda-emulated"]
    assert main(["run", *options, str(file)]) == 0
    out, err = capsys.readouterr()
    assert out == "1225.0\n" and "dl_reduction_0: loop in `main`, m.dl:2:" in err
    assert err.startswith("the device is emulated") and "asking the device" in err
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["tid"] for event in events if event["ph"] == "X"} == {1, 2}


def test_floats_are_the_same_in_every_run_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What threads would add up in any order becomes integers then, by the largest term of each element."""
    source = "fn f(x: f64[n], k: i64[m]) -> f64 = sum([sin(x[k[i]]) for i])\n"
    x, k = np.ones(5), np.arange(500) % 5
    found = []
    for wanted, option in (("0", False), ("1", False), ("0", True)):
        monkeypatch.setenv("DLANG_DETERMINISTIC", wanted)
        m = dlang.compile(source, backend="cuda-emulated", deterministic=option)
        np.testing.assert_allclose(dlang.grad(m.f)(x, k), 100 * np.cos(x))
        (instance,) = m.f.program._instances.values()
        launched = instance.runner.device
        found.append([] if launched is None else [kernel.text for kernel in launched.kernels])
    assert found[1] == found[2]
    assert [any("dl_atomic_max" in text for text in texts) for texts in found] == [False, True, True]
