"""`dlc test --jobs`: files are tested in processes of their own, and told in their order."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

from dlang.tools.terminal import coloured

T = TypeVar("T")


def in_processes(files: Sequence[str], jobs: int, test: Callable[[str], T], ended: Callable[[str], T]) -> Iterator[T]:
    """Applies a function to each file in processes; its output is printed when that of the files before has been.

    The function and what it gives must be such that `pickle` knows them. Processors are shared out among processes.
    ended: gives what stands for a file whose process has come to a sudden end, as a foreign function may bring about.
    """
    threads = max(1, (os.cpu_count() or 1) // jobs)
    settings = {"DLANG_THREADS": os.environ.get("DLANG_THREADS", str(threads))}
    if coloured(sys.stderr):
        settings["FORCE_COLOR"] = "1"
    pool_of = partial(ProcessPoolExecutor, mp_context=get_context("spawn"), initializer=_begin, initargs=(settings,))
    work = partial(_captured, test)
    with pool_of(jobs) as pool:
        for file, future in [(file, pool.submit(work, file)) for file in files]:
            try:
                out, errors, result = future.result()
            except BrokenProcessPool:  # by this file, or by another at the same time
                try:
                    with pool_of(1) as alone:
                        out, errors, result = alone.submit(work, file).result()
                except BrokenProcessPool:
                    yield ended(file)
                    continue
            print(out, end="", flush=True)
            print(errors, end="", file=sys.stderr, flush=True)
            yield result


def _begin(settings: dict[str, str]) -> None:
    os.environ.update(settings)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the process that waits says that it was interrupted


def _captured(test: Callable[[str], T], file: str) -> tuple[str, str, T]:
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        result = test(file)
    return out.getvalue(), errors.getvalue(), result
