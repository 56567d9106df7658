"""Runs a program on a thread of its own: with a stack for deep recursion, and Ctrl-C ends the command at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from dlang.driver import Runner, call
from dlang.specialize.specialize import Entry

STACK = 1 << 30  # address space; memory is used as far as the recursion goes


def run_entry(runner: Runner, entry: Entry) -> Sequence[Any]:
    """The leaves of an entry without parameters."""
    outcome: list[Sequence[Any] | BaseException] = []

    def work() -> None:
        try:
            outcome.append(call(runner, entry))
        except BaseException as e:  # handed to the thread that waits
            outcome.append(e)

    before = threading.stack_size(STACK)
    try:
        # a daemon: where Ctrl-C ends the waiting, the process ends without it
        thread = threading.Thread(target=work, name="program", daemon=True)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    (result,) = outcome
    if isinstance(result, BaseException):
        raise result
    return result
