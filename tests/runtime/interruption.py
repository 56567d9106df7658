"""Signals that come when a run is under way, however busy the machine is."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.patience import eventually


@contextmanager
def interrupted_after(seconds: float, helped: bool = False) -> Iterator[None]:
    """Sends SIGINT when this thread, the main one, has computed for so long: not before what it is to do has begun.

    helped: other threads may compute for it, while it waits.
    """
    clock = time.CLOCK_PROCESS_CPUTIME_ID if helped else time.pthread_getcpuclockid(threading.get_ident())
    then = time.clock_gettime(clock) + seconds
    done, in_time = threading.Event(), True

    def send() -> None:
        nonlocal in_time
        in_time = eventually(lambda: done.is_set() or time.clock_gettime(clock) >= then)
        if not done.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert in_time, "nothing was computed before the signal"
