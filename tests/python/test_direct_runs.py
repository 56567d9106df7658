"""Failures, recursion, threads and signals in calls that go from Python to compiled code at once."""

import signal
import threading

import numpy as np
import pytest

import dlang
from tests.python.direct import MODULE, A, outcome, quick, slowly, warm


@pytest.fixture(scope="module")
def m():
    return dlang.compile(MODULE)


def test_a_failure_says_where_and_which_calls_led_there():
    m = dlang.compile("""
fn inner(x: f64[n], i: i64) -> f64 = x[i] * 2.0
fn middle(x: f64[n], i: i64) -> f64 = inner(x, i + 1) + 1.0
fn outer(x: f64[n], i: i64) -> f64 = middle(x, i)
""")
    expected = outcome(slowly(m.outer), A, 5)
    assert "out of range" in expected[1] and "middle`, called" in expected[1]
    for _ in range(4):
        assert outcome(m.outer, A, 5) == expected
        assert m.outer(A, 0) == 3.0


def test_deep_recursion_is_direct_too(m):
    warm(m.deep, 10)
    assert m.deep(1_000_000) == 1_000_000
    assert m.deep(10) == 10


def test_a_function_called_from_the_python_that_it_calls():
    held = {}

    def again(x: float) -> float:
        return held["f"](x - 1.0) + 1.0 if x > 0.0 else 0.0

    m = dlang.compile(
        "fn f(x: f64) -> f64 ! io = again(x) * 1.0",
        primitives=[dlang.primitive("fn again(x: f64) -> f64 ! io")(again)],
    )
    held["f"] = m.f
    for _ in range(3):
        assert m.f(5.0) == 5.0


def test_threads_call_one_function_at_once(m):
    warm(m.wait, 10)
    warm(m.plus, A, A)
    expected = m.wait(20_000)
    wrong = []

    def work(k):
        x = np.full(20_000, float(k))
        for _ in range(30):
            if m.wait(20_000) != expected or not np.array_equal(m.plus(x, x), x + x):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@quick
def test_other_threads_go_on_during_a_long_call(m):
    warm(m.wait, 10)
    began, ticks, done = threading.Event(), [], threading.Event()

    def tick():
        began.set()
        while not done.wait(0.001):
            ticks.append(0)

    thread = threading.Thread(target=tick)
    thread.start()
    began.wait()
    ticks.clear()
    m.wait(5_000_000)
    seen = len(ticks)
    done.set()
    thread.join()
    assert seen > 3


def interrupted_after(seconds):
    """Sends this process an interrupt in a while."""
    timer = threading.Timer(seconds, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    return timer


def test_an_interrupt_ends_a_direct_call(m):
    warm(m.wait, 10)
    for _ in range(2):
        timer = interrupted_after(0.1)
        with pytest.raises(KeyboardInterrupt):
            m.wait(10**12)
        timer.join()
        assert m.wait(10) == slowly(m.wait)(10)


def test_a_handler_of_signals_may_call_the_function_that_is_interrupted(m):
    warm(m.wait, 10)
    expected = m.wait(10), m.wait(20_000_000)
    found = []
    before = signal.signal(signal.SIGINT, lambda *_: found.append(m.wait(10)))
    try:
        timer = interrupted_after(0.1)
        assert m.wait(20_000_000) == expected[1]
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert found == [expected[0]]
