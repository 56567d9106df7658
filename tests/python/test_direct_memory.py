"""The memory of calls that go from Python to compiled code at once."""

import gc
import sys
import tracemalloc
import weakref

import numpy as np
import pytest

import dlang
from dlang.host.platform.objects import can_call
from dlang.runtime import tiers
from dlang.runtime.memory import CONTEXTS
from tests.python.direct import MODULE, A, quick, warm


@pytest.fixture(scope="module")
def m():
    """The module, in code that stays: that of another tier, made behind the calls, would be counted as theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(tiers.VARIABLE, "off")
        yield dlang.compile(MODULE)


def test_many_calls_keep_no_reference_and_no_memory(m):
    w, b = np.arange(6.0).reshape(2, 3), np.ones(3)
    layer = m.Layer(w, b)
    pair = (A, (1.5, layer))
    small, big = np.ones(3), np.ones(20_000)
    strided, bare, text, colour, some = A[::2], np.asarray(2.0), "up", m.Blue(), m.Some((1, 2.0))
    setting = m.Setting("x", m.Red(), m.Some(1.0))
    calls = [
        (m.number, (1.5,)), (m.plus, (small, small)), (m.plus, (big, big)), (m.apply, (layer, small[:2])),
        (m.swap, (pair,)), (m.positive, (A,)), (m.nothing, (1.5,)), (m.narrow, (1.5, 3)), (m.noise, (1.5,)),
        (m.double, (strided,)), (m.shift, (small, text)), (m.chosen, (setting,)), (m.half, (small, True)),
        (m.half, (small, False)), (m.figure, (2,)), (m.figure, (3,)), (m.figure, (4,)), (m.parts, (A,)),
        (m.parts, (small[:1],)), (m.weight, (colour, some)), (m.number, (bare,)), (lambda x: m.three(z=x, x=x), (1.5,)),
    ]  # fmt: skip
    objects = [w, b, layer, pair, small, big, A, None, True, np.dtype(np.float64), m.Layer, np.ndarray]
    objects += [strided, bare, text, colour, some, setting, m.Red, m.Pair, m.Setting, m.Some, m.Ok]

    def run(n):
        for f, args in calls:
            for _ in range(n):
                f(*args)

    run(100)
    tiers.settle()
    gc.collect()
    counts = [sys.getrefcount(x) for x in objects]
    tracemalloc.start()
    run(10)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    run(3_000 if can_call() else 1_000)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < (30_000 if can_call() else 300_000)  # without, some objects wait to be used again
    assert all(abs(sys.getrefcount(x) - c) < 20 for x, c in zip(objects, counts, strict=True))


def test_calls_that_fail_keep_no_reference(m):
    warm(m.at, A, 1)
    gc.collect()
    count = sys.getrefcount(A)
    for _ in range(1000):
        with pytest.raises(dlang.DlangError):
            m.at(A, 6)
    gc.collect()
    assert abs(sys.getrefcount(A) - count) < 5


@quick
def test_large_results_use_the_memory_of_results_that_have_died(m):
    big = np.ones(100_000)
    warm(m.plus, big, big)
    first = m.plus(big, big)
    address = first.__array_interface__["data"][0]
    kept = m.plus(big, big)
    assert kept.__array_interface__["data"][0] != address
    del first
    assert m.plus(big, big).__array_interface__["data"][0] == address
    np.testing.assert_array_equal(kept, 2.0)


@quick
def test_calls_through_python_leave_no_second_store_of_memory():
    m = dlang.compile(MODULE)
    big = np.ones(100_000)
    early = m.plus(big, big)
    address = early.__array_interface__["data"][0]
    warm(m.plus, big, big)
    (instance,) = m.plus.program._instances.values()
    assert instance.runner.engine.contexts == []
    del early
    results = [m.plus(big, big) for _ in range(3)]
    assert address in [r.__array_interface__["data"][0] for r in results]


def test_results_live_longer_than_the_function():
    m = dlang.compile(MODULE)
    big = np.ones(100_000)
    warm(m.plus, big, big)
    warm(m.positive, big)
    results = [m.plus(big, big), m.positive(big)]
    views = [r[1:] for r in results]
    del m, results
    gc.collect()
    for v, expected in zip(views, (2.0, 1.0), strict=True):
        np.testing.assert_array_equal(v, expected)


def test_what_a_dead_function_leaves_is_not_under_way():
    test_results_live_longer_than_the_function()
    assert all(context.idle for context in list(CONTEXTS))  # else Ctrl-C would be taken for one of a call


def test_a_function_and_what_it_has_compiled_die_together():
    m = dlang.compile(MODULE)
    warm(m.plus, A, A)
    gone = weakref.ref(m.plus)
    del m
    gc.collect()
    assert gone() is None
