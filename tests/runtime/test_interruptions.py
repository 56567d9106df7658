"""An interruption that Python drops, in a finalizer or a callback, still ends the call."""

from __future__ import annotations

import gc
import signal
import sys
import weakref

import pytest

import dlang
from dlang.runtime import memory
from dlang.runtime.engine import CompiledProgram

PROGRAM = """
fn quick(x: f64) -> f64 ! io = 2.0 * drop(x)
fn long(x: f64) -> f64 ! io {
  var k = drop(x)
  for i < 100_000_000_000 { k = 0.5 * (k + 2.0 / k) }
  k
}
fn plain(x: f64) -> f64 = x + 1.0
"""


class Thing:
    """Something that a callback hears of when it dies."""

    def __del__(self) -> None:
        if getattr(self, "loud", False):
            signal.raise_signal(signal.SIGINT)


@dlang.primitive("fn drop(x: f64) -> f64 ! io")
def drop(x: float) -> float:
    """Interrupts this process in the callback of a weak reference, where Python drops what is raised."""

    def told(reference: object) -> None:
        signal.raise_signal(signal.SIGINT)

    thing = Thing()
    reference = weakref.ref(thing, told)
    del thing
    assert reference() is None
    return x


@pytest.fixture(scope="module")
def module() -> object:
    return dlang.compile(PROGRAM, primitives=[drop])


@pytest.mark.parametrize("name", ["quick", "long"])
def test_one_in_the_callback_of_a_weak_reference_ends_the_call(module: object, name: str) -> None:
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            getattr(module, name)(1.0)
    assert module.plain(1.0) == 2.0  # it is raised once


def test_one_that_is_dropped_in_a_call_without_a_frame_of_python_ends_that_call(
    module: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        assert module.plain(1.0) == 2.0
    monkeypatch.setattr(CompiledProgram, "run", None)  # from here on compiled code is called directly
    memory.DROPPED.value = 1
    with pytest.raises(KeyboardInterrupt):
        module.plain(1.0)
    assert module.plain(1.0) == 2.0


def test_one_outside_of_a_call_is_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[type[BaseException]] = []
    memory.watch()
    monkeypatch.setattr(sys.unraisablehook, "before", lambda dropped: told.append(dropped.exc_type))
    thing = Thing()
    thing.loud = True
    del thing
    gc.collect()
    assert told == [KeyboardInterrupt] and not memory.DROPPED.value


def test_other_exceptions_that_are_dropped_in_a_call_are_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[type[BaseException]] = []
    memory.watch()
    monkeypatch.setattr(sys.unraisablehook, "before", lambda dropped: told.append(dropped.exc_type))

    class Faulty:
        def __del__(self) -> None:
            raise ValueError

    @dlang.primitive("fn faulty(x: f64) -> f64 ! io")
    def faulty(x: float) -> float:
        Faulty()
        return x

    assert dlang.compile("fn g(x: f64) -> f64 ! io = faulty(x)", primitives=[faulty]).g(1.0) == 1.0
    assert told == [ValueError] and not memory.DROPPED.value
