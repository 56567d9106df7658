"""Ctrl-C stops compiled code at once, and whatever handles signals in Python decides what happens."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dlang
from dlang.diagnostics import Source
from dlang.driver import Request, check, lower
from dlang.host.effects import Host
from dlang.host.platform import PORTABLE
from dlang.runtime.engine import Engine
from tests.patience import PATIENCE
from tests.runtime.interruption import interrupted_after

SLOW = """
fn spin(n: i64) -> i64 {
  var k = 1
  var i = 0
  while i < n {
    k = (k * 1103515245 + 12345) % 2147483648
    i += 1
  }
  k
}
fn steps(n: i64) -> f64 {
  var k = 1.0
  for i in 0..n { k = 0.5 * (k + 2.0 / k) }
  k
}
fn total(n: i64) -> f64 = sum(f64(i) * 0.5 for i < n)
fn table(n: i64) -> f64 = sum(sin(f64(i) * f64(j)) for i < n, j < n)
fn gather(t: i64[n], k: i64) -> i64 = sum(t[(i * 7) % 1000] for i < k)
fn fib(n: i64) -> i64 = if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
fn product(a: f64[n, n], k: i64) -> f64[n, n] {
  var b = a
  for _ < k { b = a @ b }
  b
}
fn kept(n: i64, m: i64) -> f64 {
  let x = [f64(i) for i < n]
  x[0] + steps(m) + x[n - 1]
}
"""
CALLS = {
    "spin": (10**11,),
    "steps": (10**11,),
    "total": (10**12,),
    "table": (10**6,),
    "gather": (np.arange(1000), 10**11),
    "fib": (70,),
    "product": (np.full((300, 300), 1e-3), 10**8),
    "kept": (100_000, 10**11),
}
"""All of them take hours or years, so a run that ends at all ends by the interrupt."""


@pytest.fixture(scope="module")
def module() -> object:
    return dlang.compile(SLOW)


def stops(function: object, args: tuple[object, ...], helped: bool = False) -> None:
    """Interrupts a call that is under way. helped: the function runs in another thread, too."""
    few = [5 if isinstance(a, int) else a if np.ndim(a) == 1 else np.ones((5, 5)) for a in args]
    function(*few)  # compiled before
    with interrupted_after(0.1, helped), pytest.raises(KeyboardInterrupt):
        function(*args)


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_stops_a_run(module: object, name: str) -> None:
    stops(getattr(module, name), CALLS[name])


def test_ctrl_c_stops_one_block_of_a_product_of_many_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block is the whole product, and there is no loop around it."""
    monkeypatch.setenv(PORTABLE, "1")  # so that a run that is interrupted says where
    m = dlang.compile("fn f(a: f64[128, k], b: f64[k, 128]) -> f64[128, 128] = a @ b")
    a, b = np.full((128, 400_000), 1e-3), np.full((400_000, 128), 1e-3)
    begin = time.process_time()
    m.f(a, b)
    whole = time.process_time() - begin
    with interrupted_after(min(0.1, whole / 10)), pytest.raises(KeyboardInterrupt) as found:
        m.f(a, b)
    assert found.value.__notes__ == ["in `f`"]  # where the run had ended, there would be none
    assert m.f(a[:, :10], b[:10])[3, 5] == pytest.approx(1e-5)


def test_recursion_on_a_thread_stops_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PORTABLE, "1")
    stops(dlang.compile(SLOW).fib, (70,), helped=True)


def test_what_was_interrupted_can_be_called_again_and_holds_no_memory(module: object) -> None:
    decl = check(Source("slow.dl", SLOW)).module.functions["kept"]
    program, (entry,) = lower([Request(decl)])
    engine = Engine(Host())
    compiled = engine.compile(program, [entry.name])
    for _ in range(2):
        with interrupted_after(0.1), pytest.raises(KeyboardInterrupt) as found:
            compiled.run(entry.name, [100_000, 10**11])
        assert found.value.__notes__[-1] == "in `kept`"
        assert all(context.in_use == 0 for context in engine.contexts)
    (value,) = compiled.run(entry.name, [4, 50])
    assert abs(value - (3.0 + 2.0**0.5)) < 1e-12


def test_a_handler_of_the_user_runs_and_the_run_goes_on(module: object) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with interrupted_after(0.05):
            result = module.steps(60_000_000)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]
    assert abs(result - 2.0**0.5) < 1e-12


def test_an_exception_of_a_handler_is_raised_by_the_call(module: object) -> None:
    class Enough(Exception):
        pass

    def handler(number: int, frame: object) -> None:
        raise Enough

    before = signal.signal(signal.SIGVTALRM, handler)
    try:
        with pytest.raises(Enough):
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.1)
            module.steps(10**11)
    finally:
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_ctrl_c_ends_the_command(tmp_path: Path, backend: str) -> None:
    file = tmp_path / "slow.dl"
    file.write_text(SLOW + 'fn main() {\n  print("begin")\n  print("{steps(100000000000)}")\n}\n')
    command = [sys.executable, "-m", "dlang.tools.dlc", "run", "--backend", backend, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "begin\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE) == 130
        assert "Traceback" not in process.stderr.read()
