"""Threads, processes and calls inside of calls: a module is used from wherever Python runs."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import dlang
from tests.patience import PATIENCE

TEXT = """
fn total(x: f64[n]) -> f64 = sum(x)
fn twice(x) = x + x
fn grown(x: f64[n]) -> f64[n] = 2.0 * x + 1.0
fn shown(k: i64) -> str = "value {k} of {2 * k}"
fn deep(n: i64) -> i64 = if n == 0 { 0 } else { 1 + deep(n - 1) }
fn list(n: i64) -> List<i64> = if n == 0 { Nil } else { Cons(n, list(n - 1)) }
fn added(l: List<i64>) -> i64 = match l { Nil => 0, Cons(x, rest) => x + added(rest) }
fn applied(f: (f64) -> f64, x: f64) -> f64 = f(f(x))
fn chosen(k: i64) -> i64 = [1, 2, 3][k]
"""


@pytest.fixture(scope="module", params=["interp", "cpu"])
def m(request):
    return dlang.compile(TEXT, request.param)


@pytest.fixture(scope="module")
def compiled():
    return dlang.compile(TEXT)


def test_many_threads_may_compile_and_call_at_once():
    for backend in ("interp", "cpu"):
        m = dlang.compile(TEXT, backend)
        barrier = threading.Barrier(6)
        wrong: list[BaseException] = []

        def work(k, m=m, barrier=barrier, wrong=wrong):
            barrier.wait()
            try:
                for _ in range(3):
                    use(m, k)
            except BaseException as e:
                wrong.append(e)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        limit = sys.getrecursionlimit()
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong
        assert sys.getrecursionlimit() == limit


def use(m, k):
    assert m.total(np.ones(k + 1)) == k + 1
    assert m.twice(np.full(3, k, np.float32)).tolist() == [2 * k] * 3
    assert m.shown(k) == f"value {k} of {2 * k}"
    assert m.deep(50 + k) == 50 + k
    assert m.added(m.list(20 + k)) == (20 + k) * (21 + k) // 2
    assert m.applied(lambda x: x + k, 1.0) == 1.0 + 2 * k
    assert np.array_equal(m.grown(np.arange(20_000.0)), 2.0 * np.arange(20_000.0) + 1.0)
    assert dlang.grad(m.total)(np.ones(k + 1)).shape == (k + 1,)
    with pytest.raises(dlang.DlangError, match=f"index {k + 3} is out of range"):
        m.chosen(k + 3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_goes_on(compiled):
    use(compiled, 1)
    pid = os.fork()
    if pid == 0:
        try:
            use(compiled, 2)
            compiled.deep(100_000)
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    use(compiled, 3)


WORKER = """
import multiprocessing, sys
import dlang.importer
from shared import area, Point

if __name__ == "__main__":
    area(Point(1.0, 2.0))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(area, [Point(2.0, 3.0)]))
"""


def test_functions_and_values_of_an_imported_module_go_to_other_processes(tmp_path):
    (tmp_path / "shared.dl").write_text("struct Point { x: f64, y: f64 }\nfn area(p: Point) -> f64 = p.x * p.y\n")
    (tmp_path / "main.py").write_text(WORKER)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(dlang.__file__).parents[1])])}
    run = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE
    )
    assert run.stdout == "[6.0]\n", run.stderr


def test_an_error_can_be_pickled(compiled):
    with pytest.raises(dlang.DlangError) as caught:
        compiled.chosen(7)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_result_outlives_its_module():
    x = dlang.compile(TEXT).grown(np.ones(100_000))[5:]
    gc.collect()
    assert x[0] == 3.0


def test_a_callable_may_call_the_program_again(m):
    assert m.applied(lambda x: m.applied(lambda y: m.total(np.array([y, 1.0])), x), 1.0) == 5.0


def test_calls_inside_of_one_another_without_end_are_refused(m):
    def again(x):
        return m.applied(again, x)

    with pytest.raises((dlang.DlangError, RecursionError)) as caught:
        m.applied(again, 0.0)
    assert all(len(line) < 400 for line in str(caught.value).splitlines())
    assert m.applied(lambda x: x + 1.0, 0.0) == 2.0


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_error_passes_through(m, kind):
    def leave(x):
        raise kind

    with pytest.raises(kind):
        m.applied(leave, 1.0)
    assert m.applied(abs, -1.0) == 1.0


@pytest.mark.parametrize("kind", [ValueError, StopIteration, RecursionError, MemoryError])
def test_an_error_of_a_callable_is_the_cause(m, kind):
    def fails(x):
        raise kind("because")

    with pytest.raises(dlang.DlangError) as caught:
        m.applied(fails, 1.0)
    assert type(caught.value.__cause__) is kind
    trace = caught.value.__cause__.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    assert trace.tb_frame.f_code.co_name == "fails"
    assert f"`f` raised {kind.__name__}: because (test_processes.py, line" in str(caught.value)


def test_a_generator_may_stand_between_calls(m):
    def numbers():
        for k in range(3):
            yield m.deep(k)

    given = numbers()
    assert m.applied(lambda x: x + next(given), 1.0) == 2.0 and list(given) == [2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_pool_of_forked_processes_computes():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map(summed, [1, 3]) == [2.0, 4.0]


def summed(n):
    return dlang.compile("fn total(x: f64[n]) -> f64 = sum(x) + 1.0").total(np.ones(n))
