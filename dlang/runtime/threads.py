"""Threads that help with large loops: a pool of them for the process, which starts when a loop first wants it.

The pool's memory is laid out, and its code written, by `codegen/llvm/pool.py`. Who waits there does so on a futex of
Linux, or else on a condition variable of POSIX; without POSIX there are no threads.

Each thread has a context of its own, with its free lists. Only the caller looks for signals; the others see in their
loops that a piece before theirs has failed, and the first failure in order is reported. A region inside another runs in
its thread. Helpers beyond the number of threads wait where no region wakes them. A child of a fork starts a pool of its
own.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
import weakref
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlang.codegen.llvm import pool as layout, support, waiting
from dlang.diagnostics import error
from dlang.host.platform.machine import has_futexes
from dlang.lazy_modules import lazy_module

if TYPE_CHECKING:
    from dlang.codegen.llvm import jit
else:
    jit = lazy_module("dlang.codegen.llvm.jit")

VARIABLE = "DLANG_THREADS"
"""The environment variable that says how many threads there are at first."""
MOST = 256
HELP = "one thread for each processor is the best there is; 1 is for none beside the caller"
NEVER = 1 << 62
GROUP = Path("/sys/fs/cgroup/cpu.max")


def has_threads() -> bool:
    """Tells whether there are threads of POSIX."""
    return os.name == "posix"


# ---- how many --------------------------------------------------------------------------------------------------------
def available() -> int:
    """How many processors this process may use: by its affinity, and by the share of its group of processes."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    share = quota()
    return max(count if share is None else min(count, share), 1)


def quota() -> int | None:
    """How many processors' time the group of this process gets, rounded up; None if that isn't limited."""
    try:
        most, period = GROUP.read_text(encoding="ascii").split()
        return max(-(-int(most) // int(period)), 1)
    except (OSError, ValueError):  # no group, or "max"
        return None


def wanted() -> int:
    """How many threads there are at first: what the environment says, else one for each processor."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return min(available(), MOST)
    if not text.isascii() or not text.isdigit():
        raise error("E0972", f"{VARIABLE} is `{text}`, not a number of threads", None, help=(HELP,))
    return checked(int(text), VARIABLE)


def checked(threads: int, what: str) -> int:
    """A number of threads, if it is one."""
    if not 1 <= threads <= MOST:
        raise error("E0972", f"{what} is {threads}, not a number of threads from 1 to {MOST}", None, help=(HELP,))
    return threads


# ---- the pool --------------------------------------------------------------------------------------------------------
@dataclass(slots=True, eq=False, weakref_slot=True)
class Pool:
    """Threads that help with loops, and their memory, at an address that stays."""

    address: int
    words: Any
    starting: threading.RLock = field(default_factory=threading.RLock)
    helpers: list[tuple[Any, Any]] = field(default_factory=list)

    @property
    def threads(self) -> int:
        """How many may work on a loop, the caller too."""
        return int(self.words[layout.THREADS])

    def limit(self, threads: int) -> None:
        """Says how many threads may work on a loop; they start when one is large enough."""
        with self.starting:
            self.words[layout.THREADS] = threads if has_threads() else 1
            self._wake()
        if 0 < self.words[layout.STARTED] < threads - 1:
            self.start()

    def start(self) -> None:
        """Starts the threads that are missing; if the system has no more, it is what there is."""
        with self.starting:
            while len(self.helpers) < self.threads - 1:
                if not self._start_one(len(self.helpers) + 1):
                    self.words[layout.THREADS] = len(self.helpers) + 1
            self.words[layout.STARTED] = len(self.helpers)

    def _start_one(self, number: int) -> bool:
        import signal

        given = _aligned(layout.WORKER_WORDS)
        given[layout.OF_POOL], given[layout.NUMBER] = self.address, number
        given[layout.WORKER_CONTEXT + support.INTERVAL] = NEVER
        given[layout.WORKER_CONTEXT + support.DEADLINE] = -1  # the last tick
        thread = ctypes.c_void_p()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # signals are for other threads
        try:
            create = ctypes.CDLL(None).pthread_create
            create.argtypes = [ctypes.c_void_p] * 4
            failed = create(ctypes.byref(thread), None, _compiled("dl_worker"), ctypes.addressof(given))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if not failed:
            if not self.helpers:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))  # the threads go on reading its memory
            self.helpers.append((thread, given))
        return not failed

    def forget_peaks(self) -> None:
        """Begins to look anew for the most that each helper holds."""
        for _, given in self.helpers:
            given[layout.WORKER_CONTEXT + support.PEAK] = given[layout.WORKER_CONTEXT + support.IN_USE]

    @property
    def held(self) -> int:
        """The bytes that helpers have held at most since `forget_peaks`, each for itself, added up."""
        return sum([int(given[layout.WORKER_CONTEXT + support.PEAK]) for _, given in self.helpers])

    def close(self, patience: float = 10.0) -> None:
        """Ends the threads, and waits so many seconds for it; afterwards loops run on the threads that call."""
        with self.starting:
            self.words[layout.THREADS] = 1
            self.words[layout.CLOSING] = 1
            self._wake()
            until = time.monotonic() + patience
            while not all(given[layout.ENDED] for _, given in self.helpers):
                if time.monotonic() > until:
                    return
                time.sleep(0.0001)
            for thread, _ in self.helpers:
                ctypes.CDLL(None).pthread_join(thread, None)
            if self.helpers:
                ctypes.pythonapi.Py_DecRef(ctypes.py_object(self))
            self.helpers.clear()
            self.words[layout.STARTED] = self.words[layout.CLOSING] = 0

    def _wake(self) -> None:
        """Has all helpers see what has been said anew."""
        wake = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, ctypes.c_int64)
        for word in (layout.CHANGES, layout.EPOCH):
            self.words[word] += 1
            if self.helpers:
                wake(_compiled("dl_wake"))(self.address, self.address + 8 * word, len(self.helpers))

    def forget(self) -> None:
        """Starts anew in a child of a fork, which has none of the threads."""
        threads = self.threads
        ctypes.memset(self.address, 0, 8 * layout.POOL_WORDS)
        _ready(self.words, threads)
        self.starting = threading.RLock()
        self.helpers.clear()


def new_pool(threads: int) -> Pool:
    """A pool that may grow to so many threads, the caller of a loop included."""
    words = _aligned(layout.POOL_WORDS)
    _ready(words, threads if has_threads() else 1)
    pool = Pool(ctypes.addressof(words), words)
    if hasattr(os, "register_at_fork"):
        pool_ref = weakref.ref(pool)

        def forget() -> None:
            if (alive := pool_ref()) is not None:
                alive.forget()

        os.register_at_fork(after_in_child=forget)
    return pool


@cache
def default_pool() -> Pool:
    """The pool of the process."""
    pool = new_pool(wanted())
    atexit.register(pool.close, 1.0)  # before the code that its threads are in goes
    return pool


def _compiled(name: str) -> int:
    return jit.support_address(name)


def _aligned(count: int) -> Any:
    """Words at the start of a cache line, all 0."""
    raw = (ctypes.c_int64 * (count + 8))()
    return (ctypes.c_int64 * count).from_buffer(raw, -ctypes.addressof(raw) % 64)


def _ready(words: Any, threads: int) -> None:
    words[layout.THREADS] = threads
    if has_threads() and not has_futexes():
        for name, word in (("pthread_mutex_init", waiting.LOCK), ("pthread_cond_init", waiting.SIGNAL)):
            make = getattr(ctypes.CDLL(None), name)
            make.argtypes = [ctypes.c_void_p] * 2
            make(ctypes.addressof(words) + 8 * word, None)
