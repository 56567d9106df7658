"""An end for what may take too long: compiled code, and Python."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 0.1  # seconds


class TooLong(Exception):
    """The time that there was is over."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises `TooLong` if the body takes more time; only in the main thread, where the system has such a clock.

    What the interruption has made fail, such as the import of a module, is `TooLong` too.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    late = False

    def over(number: int, frame: FrameType | None) -> None:
        nonlocal late
        late = True
        raise TooLong

    def lost(args: sys.UnraisableHookArgs) -> None:
        if not isinstance(args.exc_value, TooLong):
            hook(args)

    before, hook = signal.signal(signal.SIGALRM, over), sys.unraisablehook
    # Again and again, because an exception is lost where Python runs a callback that may not raise. Nobody is told.
    sys.unraisablehook = lost
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01), AGAIN)
    try:
        yield
    except Exception as e:
        if late and not isinstance(e, TooLong):
            raise TooLong from e
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook
