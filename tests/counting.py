"""How much work something is, counted: what a clock says depends on what else a machine does."""

from __future__ import annotations

from collections.abc import Callable
from cProfile import Profile


def calls(work: Callable[[], object]) -> int:
    """How many functions something calls in this thread, those that are written in C included."""
    counted = Profile()
    counted.runcall(work)
    return sum(entry.callcount for entry in counted.getstats())
