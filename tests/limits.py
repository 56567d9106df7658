"""Limits of the system, for what happens when there is no more."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dlang
from dlang.runtime.threads import default_pool


@contextmanager
def file_limit(length: int) -> Iterator[None]:
    """Lets no file of this process and of those that it starts grow beyond a length, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (length, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def memory_needed(f: Callable[..., Any], *args: Any) -> int:
    """The bytes of arrays that a second call of a compiled function has at once, on two threads.

    Each thread has blocks of its own, so a machine with more processors needs more.
    """
    before = default_pool().threads
    dlang.set_threads(2)
    try:
        f(*args)
        with dlang.memory_use() as used:
            f(*args)
    finally:
        dlang.set_threads(before)
    assert used.peak is not None
    return int(used.peak)
