"""Code that is compiled quickly, and again when it has done much: the same in all that can be seen of it."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlang
from dlang.codegen.llvm import objects
from dlang.diagnostics import DlangError
from dlang.host.effects import Host
from dlang.host.platform.objects import can_call
from dlang.python.function import Function
from dlang.runtime import tiers
from dlang.runtime.engine import CompiledProgram, Engine
from dlang.runtime.tiers import Promotion, Tiers
from tests.codegen.cases import CASES, Case
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
TEXT = """
fn total(x: f64[n]) -> f64 = sum(sin(x) * x)
fn at(x: f64[n], i: i64) -> f64 = 2.0 * x[i]
fn twice(x: f64[n]) -> f64[n] = x + x
fn halved(x: f64) -> f64 { var y = x; while y > 1.0 { y = 0.5 * y }; y }
fn scaled(w: f64[n, n], x: f64[n]) -> f64[n] = (w @ w) @ x
"""
X = np.linspace(0.0, 3.0, 1000)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLANG_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(tiers.VARIABLE, raising=False)


@pytest.fixture
def m() -> Any:
    return dlang.compile(TEXT)


def program_of(function: Function) -> CompiledProgram:
    (program,) = [p for p in function.program.compiled() if next(iter(p.entries)).startswith(function.decl.name)]
    return program


def promotion_of(function: Function) -> Promotion:
    promotion = program_of(function).promotion
    assert promotion is not None
    return promotion


def call_until_settled(function: Function, *args: Any) -> list[Any]:
    """What calls give until the best code is in use, and one call more."""
    given = []
    while program_of(function).promotion is not None:
        given += [function(*args) for _ in range(100)]
    return [*given, function(*args)]


# ---- results ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_both_tiers_give_the_same_bits(case: Case) -> None:
    compiled = Engine(Host(io.StringIO()), tiers=Tiers(patience=10**9)).compile(case.program, ["f"])
    rng = np.random.default_rng(11)
    args = [case.arguments(rng, n) for n in case.sizes]
    quick = [compiled.run("f", a) for a in args]
    if compiled.promotion is not None:
        assert not compiled.promotion.final
        compiled.promotion.finish()
        assert len(compiled.loaded) == 2
    for given, a in zip(quick, args, strict=True):
        for first, second in zip(given, compiled.run("f", a), strict=True):
            assert np.asarray(first).tobytes() == np.asarray(second).tobytes() or first == second


def test_failures_are_the_same(m: Any) -> None:
    def message() -> str:
        with pytest.raises(DlangError) as caught:
            m.at(X, 2000)
        return str(caught.value)

    m.at(X, 1)
    quick = message()
    promotion_of(m.at).finish()
    assert message() == quick and "out of range" in quick


# ---- when ------------------------------------------------------------------------------------------------------------
def test_a_call_with_little_to_do_runs_in_quick_code_and_many_in_the_best(m: Any) -> None:
    first = m.total(X)
    promotion = promotion_of(m.total)
    assert promotion.started and not promotion.final and not promotion.asked
    assert set(call_until_settled(m.total, X)) == {first}
    assert len(program_of(m.total).loaded) == 2


def test_what_has_much_to_do_is_compiled_well_at_once(m: Any) -> None:
    m.twice(np.ones(100_000_000 // 8))
    assert program_of(m.twice).promotion is None and len(program_of(m.twice).loaded) == 1


def test_work_that_nobody_knows_before_is_compiled_well_at_once(m: Any) -> None:
    m.halved(8.0)
    assert program_of(m.halved).promotion is None and len(program_of(m.halved).loaded) == 1


def test_one_large_call_of_quick_code_is_not_run_in_it(m: Any) -> None:
    m.twice(X)
    assert promotion_of(m.twice).started
    m.twice(np.ones(100_000_000 // 8))
    assert program_of(m.twice).promotion is None and len(program_of(m.twice).loaded) == 2


@pytest.mark.skipif(not can_call(), reason="calls go through Python here")
def test_calls_that_do_not_go_through_python_count(m: Any) -> None:
    for _ in range(3):
        m.total(X)
    entry = next(iter(program_of(m.total).entries.values()))
    before, args = entry.left, [X.size, X]
    for _ in range(10):
        m.total(X)
    assert before - entry.left == pytest.approx(10 * entry.work(args))
    assert promotion_of(m.total).asked is False


def test_without_tiers_all_is_compiled_well(m: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tiers.VARIABLE, "off")
    m.total(X)
    assert program_of(m.total).promotion is None and len(program_of(m.total).loaded) == 1


def test_quick_code_stays(m: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tiers.VARIABLE, "quick")
    with monkeypatch.context() as patch:
        made = recorded(patch)
        m.scaled(np.eye(200), np.ones(200))
    assert made == [Tiers().quick]


def recorded(patch: pytest.MonkeyPatch) -> list[int]:
    """The levels at which machine code is made from now on."""
    compile_object, made = objects.compile_object, []

    def noted(text: str, level: int = 2, *args: Any) -> bytes:
        made.append(level)
        return compile_object(text, level, *args)

    patch.setattr(objects, "compile_object", noted)
    return made


def test_bound_functions_are_promoted_too(m: Any) -> None:
    f = m.scaled.bind(np.eye(5))
    first = f(np.ones(5))
    (program,) = m.scaled.program.compiled()
    assert len(program.entries) == 2 and program.promotion is not None and not program.promotion.asked
    while program.promotion is not None:
        assert all(np.array_equal(f(np.ones(5)), first) for _ in range(1000))
    assert np.array_equal(f(np.ones(5)), first)


# ---- threads ---------------------------------------------------------------------------------------------------------
def test_many_threads_may_call_while_the_code_is_replaced(m: Any) -> None:
    wanted, wrong = m.total(X), []

    def work() -> None:
        wrong.extend([y for y in call_until_settled(m.total, X) if y != wanted])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and len(program_of(m.total).loaded) == 2


def test_threads_that_come_first_compile_once(monkeypatch: pytest.MonkeyPatch, m: Any) -> None:
    made: list[Any] = []
    emit = objects._prepared

    def prepared(text: str, made_for: Any, optimize: int = 0, context: Any = None) -> Any:
        if "@dl_begin" not in text:  # what Python calls is compiled once too, always quickly
            made.append(made_for)
        return emit(text, made_for, optimize, context)

    monkeypatch.setattr(objects, "_prepared", prepared)
    threads = [threading.Thread(target=m.total, args=(X,)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert made == [objects.machine(Tiers().quick)]


def test_why_the_best_code_could_not_be_made_is_said_by_the_next_call(m: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        m.total(X)

    def fails(text: str, level: int) -> bytes:
        raise ValueError("broken")

    monkeypatch.setattr(objects, "compile_apart", fails)
    with pytest.raises(RuntimeError, match="compiled again") as caught:
        while True:
            m.total(X)
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(RuntimeError, match="compiled again"):
        m.total(X)


def test_where_there_is_no_thread_left_the_call_compiles(m: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    first = m.total(X)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert set(call_until_settled(m.total, X)) == {first}


# ---- processes -------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program that has been checked, and not compiled."""
    folder = tmp_path_factory.mktemp("checked")
    (folder / "program.dl").write_text(TEXT)
    run(folder, "import dlang; dlang.load('program.dl')")
    return folder


@pytest.fixture
def folder(checked: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checked, tmp_path / "copy", copy_function=shutil.copy2))


def called(folder: Path, program: str, *options: str, **environment: str) -> str:
    """What a process prints that has called a function once."""
    return run(folder, START + program, *options, **environment)


def run(folder: Path, program: str, *options: str, **environment: str) -> str:
    """What a process prints, which says nothing on its standard error and ends well."""
    known = {k: v for k, v in os.environ.items() if not k.startswith("DLANG")}
    paths = {"PYTHONPATH": str(ROOT), "DLANG_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, *options, "-c", program], cwd=folder, env={**known, **paths, **environment},
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


START = """
import sys, os, dlang, numpy as np
from dlang.runtime import tiers
m = dlang.load("program.dl")
x = np.linspace(0.0, 3.0, 1000)
def state():
    (p,) = m.total.program.compiled()
    print(p.promotion is None, len(p.loaded), *[n for n in ("llvmlite", "dlang.ad.expand", "lark") if n in sys.modules])
def until_settled():
    while m.total.program.compiled()[0].promotion is not None:
        m.total(x)
first = m.total(x)
"""


def test_quick_code_is_found_by_the_next_process_and_the_best_by_the_one_after(folder: Path) -> None:
    assert called(folder, "state()") == "False 1 llvmlite dlang.ad.expand\n"
    assert called(folder, "state(); until_settled(); state()") == "False 1\nTrue 2 llvmlite\n"
    assert called(folder, "state()") == "True 1\n"


def test_without_tiers_quick_code_that_was_kept_is_compiled_well(folder: Path) -> None:
    called(folder, "")
    assert called(folder, "state()", DLANG_TIERS="off") == "True 1 llvmlite\n"
    assert called(folder, "state()") == "True 1\n"


def test_what_is_compiled_together_with_others_finds_its_best_code_by_its_text(folder: Path) -> None:
    bound = "f = m.scaled.bind(np.eye(5)); f(np.ones(5)); p = m.scaled.program.compiled()[-1]; "
    called(folder, bound + "p.promotion.finish()")
    assert called(folder, bound + "print(p.promotion is None, len(p.loaded))") == "True 1\n"


@pytest.mark.parametrize("seconds", [0.0, 0.02])
def test_a_process_may_end_while_it_compiles(folder: Path, seconds: float) -> None:
    ask = "import time; p = m.total.program.compiled()[0].promotion; tiers._THREAD.ask(p); "
    assert called(folder, f"{ask}time.sleep({seconds}); print('end')") == "end\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_of_a_fork_goes_on(folder: Path) -> None:
    program = """
p = m.total.program.compiled()[0].promotion
tiers._THREAD.ask(p)
child = os.fork()
until_settled()
same = m.total(x) == first
if not child:
    os._exit(0 if same and m.twice(x)[1] == 2 * x[1] else 1)
print(same, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert called(folder, program, "-W", "ignore::DeprecationWarning") == "True 0\n"
