"""The thread pool: failures, interruption, forks, several callers at once, and how many threads there are."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.codegen.llvm import pool as layout
from dlang.diagnostics import DlangError, Source
from dlang.driver import Request, check, errors_of, lower
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.host.platform import PORTABLE
from dlang.runtime import threads
from dlang.runtime.engine import CompiledProgram, Engine
from dlang.runtime.threads import Pool, new_pool
from tests.fuzz.threads import outcome
from tests.patience import eventually
from tests.runtime.interruption import interrupted_after

GRAIN = 1_000_000  # picoseconds


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = new_pool(4)
    yield made
    made.close()


def compiled(text: str, pool: Pool | None, name: str = "main") -> tuple[CompiledProgram, str]:
    checked = check(Source("program.dl", text))
    assert not errors_of(checked)
    program, (entry,) = lower([Request(checked.module.functions[name])])
    return Engine(Host(io.StringIO()), grain=GRAIN, pool=pool).compile(program, [entry.name]), entry.name


def in_use(program: CompiledProgram) -> int:
    return sum(context.in_use for context in program.engine.contexts)


# ---- failures --------------------------------------------------------------------------------------------------------
FAILING = """
fn at(k: i64) -> f64 { assert k % 1000 != 777 or k < 5000, "stopped at {k}"; f64(k) }
fn main(n: i64) -> f64 = sum(at(k) for k < n)
"""
EARLY = """
fn spin(k: i64) -> i64 { var x = k; while x >= 0 { x = (x * 5 + 1) % 1000003 }; x }
fn at(k: i64) -> i64 { assert k != 3, "stopped"; if k > 90_000 { spin(k) } else { k } }
fn main(n: i64) -> i64 = sum(at(k) for k < n)
"""


@pytest.mark.parametrize("count", [1, 2, 7])
def test_the_first_failure_in_order_is_the_one_that_is_reported(count: int) -> None:
    pool = new_pool(count)
    program, name = compiled(FAILING, pool)
    for n in (20_000, 300_000, 300_000):
        code, message, _, calls = outcome(program, name, [n])
        assert code == "E0800" and message.endswith("stopped at 5777")
        assert [label for label, _ in calls] == ["program.at", "program.main"]
        assert in_use(program) == 0
    assert program.run(name, [5000]) == [sum(range(5000))]
    pool.close()


def test_what_comes_after_a_failure_need_not_end(pool: Pool) -> None:
    program, name = compiled(EARLY, pool)
    with pytest.raises(RunError, match="stopped"):
        program.run(name, [100_000])


def test_memory_that_a_piece_takes_is_given_back(pool: Pool) -> None:
    text = """
fn row(k: i64) -> f64 {
  let t = [f64(k + i) for i < 50]
  let u = [t[(i * 7) % 50] for i < 50]
  assert k != 40_000, "stopped"
  sum([t[i] * u[49 - i] for i < 50]) + sum(cumsum(u))
}
fn main(n: i64) -> f64 = sum(row(k) for k < n)
"""
    program, name = compiled(text, pool)
    with pytest.raises(RunError, match="stopped"):
        program.run(name, [100_000])
    assert in_use(program) == 0
    pool.limit(1)
    alone = program.run(name, [30_000])
    pool.limit(4)
    assert program.run(name, [30_000]) == alone


# ---- interruption ----------------------------------------------------------------------------------------------------
ENDLESS = """
fn main(n: i64) -> f64 = sum(sin(f64(i) * f64(j)) for i < n, j < n)
fn uneven(n: i64) -> f64 = sum(if k == 0 { sum(sin(f64(i)) for i < n * n) } else { 1.0 } for k < n)
"""


@pytest.mark.parametrize("function", ["main", "uneven"])
def test_ctrl_c_stops_all_threads(function: str, pool: Pool) -> None:
    program, name = compiled(ENDLESS, pool, function)
    program.run(name, [30])

    with interrupted_after(0.1, helped=True), pytest.raises(KeyboardInterrupt):
        program.run(name, [10**6])  # hours
    assert in_use(program) == 0
    program.run(name, [30])


# ---- several at once -------------------------------------------------------------------------------------------------
WORK = """
fn inner(x: f64, n: i64) -> f64 = sum(exp(-x * f64(i) / f64(n)) for i < n)
fn main(n: i64, s: f64) -> f64 = sum(inner(s + f64(k), 300) for k < n)
"""


def test_several_threads_of_python_may_call_at_once(pool: Pool) -> None:
    program, name = compiled(WORK, pool)
    wanted = [program.run(name, [500, float(k)]) for k in range(6)]
    found: dict[int, list[Any]] = {}

    def call(k: int) -> None:
        found[k] = [program.run(name, [500, float(k)]) for _ in range(20)]

    callers = [threading.Thread(target=call, args=(k,)) for k in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all(found[k] == [wanted[k]] * 20 for k in range(6))


def test_threads_start_when_a_loop_is_large_enough(pool: Pool) -> None:
    program, name = compiled(WORK, pool)
    program.run(name, [1, 1.0])
    assert not pool.helpers
    program.run(name, [500, 1.0])
    assert len(pool.helpers) == 3
    pool.limit(6)
    program.run(name, [500, 1.0])
    assert len(pool.helpers) == 5


def test_helpers_that_are_too_many_wait_where_no_loop_wakes_them(pool: Pool) -> None:
    program, name = compiled(WORK, pool)
    expected = program.run(name, [500, 2.0])
    for count in (2, 4, 3, 1, 6):
        pool.limit(count)
        assert program.run(name, [500, 2.0]) == expected
        helpers = len(pool.helpers)
        asleep = min(helpers, count - 1)
        assert eventually(lambda asleep=asleep: pool.words[layout.SLEEPERS] == asleep), list(pool.words[:20])


def test_a_child_of_a_fork_has_threads_of_its_own(pool: Pool) -> None:
    program, name = compiled(WORK, pool)
    wanted = program.run(name, [500, 2.0])
    child = os.fork()
    if child == 0:
        right = not pool.helpers and program.run(name, [500, 2.0]) == wanted and len(pool.helpers) == 3
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert program.run(name, [500, 2.0]) == wanted


def test_threads_that_wait_on_condition_variables_work_too() -> None:
    code = """
import numpy as np
from dlang.runtime.threads import new_pool
from dlang.host.platform.machine import has_futexes
from tests.runtime.test_threads import WORK, compiled
assert not has_futexes()
pool = new_pool(4)
program, name = compiled(WORK, pool)
alone = program.run(name, [1, 2.0])
outcomes = [program.run(name, [500, 2.0]) for _ in range(50)]
assert len(pool.helpers) == 3 and all(o == outcomes[0] for o in outcomes)
pool.close()
assert program.run(name, [500, 2.0]) == outcomes[0]
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, PORTABLE: "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


# ---- how many --------------------------------------------------------------------------------------------------------
def test_a_process_has_a_thread_for_each_processor_that_it_may_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(threads.VARIABLE, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(12)), raising=False)
    share = tmp_path / "cpu.max"
    monkeypatch.setattr(threads, "GROUP", share)
    assert threads.wanted() == 12
    share.write_text("max 100000\n")
    assert threads.wanted() == 12
    share.write_text("250000 100000\n")
    assert threads.wanted() == 3
    share.write_text("1000 100000\n")
    assert threads.wanted() == 1


def test_the_environment_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(threads.VARIABLE, "5")
    assert threads.wanted() == 5
    for text in ("0", "all", "-1", "1000"):
        monkeypatch.setenv(threads.VARIABLE, text)
        with pytest.raises(DlangError) as found:
            threads.wanted()
        assert found.value.diagnostics[0].code == "E0972"


def test_python_says_how_many() -> None:
    before = threads.default_pool().threads
    module = dlang.compile("fn f(x: f64[n]) -> f64 = sum(sin(x) * exp(x))")
    x = np.linspace(0.0, 1.0, 1_000_003)
    found = set()
    for count in (1, 2, 3):
        dlang.set_threads(count)
        assert threads.default_pool().threads == count
        found.add(float(module.f(x)))
    dlang.set_threads(before)
    assert len(found) == 1
    with pytest.raises(DlangError):
        dlang.set_threads(0)
    with pytest.raises(TypeError):
        dlang.set_threads("2")
