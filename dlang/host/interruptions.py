"""Ctrl-C is not lost.

Python drops an exception that is raised in a finalizer, in the callback of a weak reference or in a function that C
calls: it prints it and goes on. An interruption that is dropped so, while a call of this package is under way, is noted
here instead and raised at the next safe point: where a run asks whether to go on, and at the end of each call. Whatever
handles the signal stays as it is.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

DROPPED = ctypes.c_int64(0)
"""1 if one has been dropped and not been raised yet; machine code reads it."""
BEAT = 0.05
"""Seconds after which one that waits looks whether a signal has come."""
_PACKAGE = __name__.partition(".")[0]


class Runner(Protocol):
    """Something that runs compiled code, which has no frame of Python."""

    @property
    def idle(self) -> bool:
        """Tells whether no run is under way."""
        ...


RUNNERS: weakref.WeakSet[Runner] = weakref.WeakSet()
"""All of this process."""


def check() -> None:
    """Raises `KeyboardInterrupt` if one has been dropped; for the main thread, where handlers of signals run."""
    if DROPPED.value and threading.current_thread() is threading.main_thread():
        DROPPED.value = 0
        raise KeyboardInterrupt


def watch() -> None:
    """Notes the interruptions that are dropped from now on."""
    if not isinstance(sys.unraisablehook, _Hook):
        sys.unraisablehook = _Hook(sys.unraisablehook)


def wait(done: threading.Event) -> None:
    """Waits for what another thread does, and raises what the handlers of signals raise meanwhile.

    The system may give a signal to any thread, which does not wake this one: so it wakes by itself again and again.
    """
    while not done.wait(BEAT):
        check()


class _Hook:
    """Receives exceptions that Python drops. before: the hook that received them until now."""

    __slots__ = ("before",)

    def __init__(self, before: Callable[[Any], Any]) -> None:
        self.before = before

    def __call__(self, dropped: Any) -> None:
        main = threading.current_thread() is threading.main_thread()
        if main and issubclass(dropped.exc_type, KeyboardInterrupt) and (_is_called() or _is_running()):
            DROPPED.value = 1
        else:
            self.before(dropped)


def _is_called() -> bool:
    """Tells whether a function of this package is being called."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE:
            return True
        frame = frame.f_back
    return False


def _is_running() -> bool:
    """Tells whether compiled code is under way."""
    return not all(runner.idle for runner in list(RUNNERS))
