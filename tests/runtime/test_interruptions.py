"""An interruption that Python drops, in a finalizer or a callback, still ends the call."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
import weakref

import pytest

import dlang
from dlang.diagnostics import Source
from dlang.driver import Request, check, lower
from dlang.host import interruptions
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.runtime.engine import CompiledProgram
from dlang.runtime.memory import Context
from tests.patience import PATIENCE

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
    interruptions.DROPPED.value = 1
    with pytest.raises(KeyboardInterrupt):
        module.plain(1.0)
    assert module.plain(1.0) == 2.0


def test_one_that_is_dropped_while_compiled_code_runs_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the collector runs inside of compiled code that makes a result: no frame of Python is the package's."""
    assert dlang.compile(PROGRAM, primitives=[drop]).plain(1.0) == 2.0
    monkeypatch.setattr(Context, "idle", False)
    thing = Thing()
    thing.loud = True
    del thing
    with pytest.raises(KeyboardInterrupt):
        interruptions.check()
    interruptions.check()  # it is raised once


def test_one_that_is_dropped_in_a_run_of_the_interpreter_ends_that() -> None:
    decl = check(Source("drop.dl", 'fn quick(x: f64) -> f64 ! print {\n  print("{x}")\n  x\n}\n')).module.functions[
        "quick"
    ]
    program, (entry,) = lower([Request(decl)])

    class Loud(Host):
        def print(self, text: str) -> None:
            interruptions.DROPPED.value = 1  # as the hook does, on the main thread

    with pytest.raises(KeyboardInterrupt):
        Interpreter(program, Loud()).run(entry.name, [1.0])
    assert not interruptions.DROPPED.value


@pytest.mark.parametrize("module", ["dlang.driver", "dlang.host.effects"])
def test_one_that_is_dropped_in_any_function_of_the_package_is_noted(module: str) -> None:
    things = [Thing()]
    things[0].loud = True
    exec("things.pop()", {"__name__": module, "things": things})
    with pytest.raises(KeyboardInterrupt):
        interruptions.check()


def test_a_signal_that_another_thread_gets_ends_a_run_of_the_interpreter() -> None:
    """The system may choose any thread, which does not wake the one that waits."""
    source = Source(
        "long.dl",
        'fn long(n: i64) -> f64 ! print {\n  print("begin")\n  var k = 1.0\n  for i < n { k = 1.0 / k }\n  k\n}\n',
    )
    program, (entry,) = lower([Request(check(source).module.functions["long"])])
    begun, over = threading.Event(), threading.Event()

    class Told(Host):
        def print(self, text: str) -> None:
            begun.set()

    def send() -> None:
        begun.wait(PATIENCE)
        time.sleep(0.05)  # by now the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        over.wait(PATIENCE)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            Interpreter(program, Told()).run(entry.name, [10**11])
    finally:
        over.set()
        thread.join()


def test_one_outside_of_a_call_is_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[type[BaseException]] = []
    interruptions.watch()
    monkeypatch.setattr(sys.unraisablehook, "before", lambda dropped: told.append(dropped.exc_type))
    thing = Thing()
    thing.loud = True
    del thing
    gc.collect()
    assert told == [KeyboardInterrupt] and not interruptions.DROPPED.value


def test_other_exceptions_that_are_dropped_in_a_call_are_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[type[BaseException]] = []
    interruptions.watch()
    monkeypatch.setattr(sys.unraisablehook, "before", lambda dropped: told.append(dropped.exc_type))

    class Faulty:
        def __del__(self) -> None:
            raise ValueError

    @dlang.primitive("fn faulty(x: f64) -> f64 ! io")
    def faulty(x: float) -> float:
        Faulty()
        return x

    assert dlang.compile("fn g(x: f64) -> f64 ! io = faulty(x)", primitives=[faulty]).g(1.0) == 1.0
    assert told == [ValueError] and not interruptions.DROPPED.value
