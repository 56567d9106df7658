"""The portable fallbacks for what knows the operating system, in a process that uses nothing else.

`DLANG_PORTABLE` chooses them: a thread with a large stack in place of another stack, ordinary memory in place of what
is only reserved, and no knowledge of how much memory there is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dlang
from dlang.host.platform import PORTABLE
from tests.patience import PATIENCE

MODULE = r"""
import io
enum Tree { Leaf(f64), Node(Tree, Tree) }
fn deep(n: i64) -> i64 = if n == 0 { 0 } else { 1 + deep(n - 1) }
fn endless(n: i64) -> i64 = 1 + endless(n + 1)
fn fib(n: i64) -> i64 = if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
fn list(n: i64) -> List<i64> = if n == 0 { Nil } else { Cons(n, list(n - 1)) }
fn added(l: List<i64>) -> i64 = match l { Nil => 0, Cons(x, rest) => x + added(rest) }
fn queue(n: i64) -> i64 {
  var l: List<i64> = Nil
  for i < n { l = match l { Nil => Cons(i, Nil), Cons(x, _) => Cons(x + i, Cons(i, Nil)) } }
  added(l)
}
fn total(t: Tree) -> f64 = match t { Leaf(x) => x * x, Node(l, r) => total(l) + total(r) }
fn room(n: size) -> f64[n] { var x = zeros(n); for i < n { x[i] += f64(i) }; x }
fn spin(n: i64) -> f64 { var x = 1.0; for i < n { x = 0.5 * (x + 2.0 / x) }; x }
fn talk(n: i64) -> str { if n > 0 { print("at {n}") }; if n == 0 { "end" } else { "{talk(n - 1)} {n}" } }
fn kept(path: str, x: f64[n]) { io.save_npy(path, x) }
fn read(path: str) -> f64[?] = io.npy(path)
fn product(x: f64[n, n]) -> f64[n, n] = x @ x
"""

PROGRAM = r"""
import os, signal, sys, threading, time
import numpy as np
import dlang
from dlang.host.platform import machine, stack

signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored here
assert not stack.can_switch() and machine.physical_memory() == machine.available_memory() == machine.UNKNOWN

m = dlang.load(sys.argv[1])


def refused(code, call, *args):
    try:
        call(*args)
    except dlang.DlangError as e:
        assert e.diagnostics[0].code == code and e.diagnostics[0].span is not None, str(e)
        return str(e)
    raise AssertionError("it ran")


assert m.deep(200_000) == 200_000
assert "calls deep" in refused("E0805", m.endless, 0) and m.deep(10) == 10
assert m.added(m.list(10_000)) == 50_005_000 and m.queue(300_000) > 0
tree = m.Node(m.Leaf(1.0), m.Leaf(2.0))
assert m.total(tree) == 5.0 and dlang.grad(m.total)(tree)._1._0 == 4.0
assert m.talk(3) == "end 1 2 3"
refused("E0806", m.room, 2**45)
assert m.room(3).tolist() == [0.0, 1.0, 2.0]
m.kept(sys.argv[1] + ".npy", np.arange(3.0))
assert m.read(sys.argv[1] + ".npy").tolist() == [0.0, 1.0, 2.0]
assert np.array_equal(m.product(np.eye(60)), np.eye(60))

for call, args in ((m.fib, (70,)), (m.spin, (10**12,))):
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        call(*args)
        raise AssertionError("it ran")
    except KeyboardInterrupt:
        pass
print(m.fib(20), m.spin(50))
"""


def test_everything_works_with_the_fallbacks(tmp_path: Path) -> None:
    (tmp_path / "program.dl").write_text(MODULE)
    env = {**os.environ, PORTABLE: "1", "PYTHONPATH": str(Path(dlang.__file__).parents[1])}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "program.dl")]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["at 3", "at 2", "at 1", "6765 1.414213562373095"]
