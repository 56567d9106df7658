"""Signals that come when a run is under way, however busy the machine is."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 60.0  # seconds


@contextmanager
def interrupted_after(seconds: float, helped: bool = False) -> Iterator[None]:
    """Sends SIGINT when this thread, the main one, has computed for so long: not before what it is to do has begun.

    helped: other threads may compute for it, while it waits.
    """
    clock = time.CLOCK_PROCESS_CPUTIME_ID if helped else time.pthread_getcpuclockid(threading.get_ident())
    then = time.clock_gettime(clock) + seconds
    end = time.monotonic() + PATIENCE
    done = threading.Event()

    def send() -> None:
        while time.clock_gettime(clock) < then and time.monotonic() < end:
            if done.wait(0.005):
                return
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert time.monotonic() < end, "nothing was computed before the signal"
