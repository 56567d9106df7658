"""Settings of this process of Python: how deep it recurses, and when it looks for garbage.

Threads that need deeper recursion have to agree on the limit. Large trees are made without stopping to look for garbage
among them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock


@dataclass(slots=True)
class _Limit:
    """wanted: by those who need it deeper now. before: what it was when there were none."""

    lock: Lock = field(default_factory=Lock)
    wanted: list[int] = field(default_factory=list)
    before: int = 0

    def add(self, frames: int) -> None:
        with self.lock:
            if not self.wanted:
                self.before = sys.getrecursionlimit()
            self.wanted.append(frames)
            sys.setrecursionlimit(max(self.before, *self.wanted))

    def remove(self, frames: int) -> None:
        with self.lock:
            self.wanted.remove(frames)
            sys.setrecursionlimit(max(self.before, *self.wanted, 1))


_LIMIT = _Limit()  # like the setting itself, one for the process


@contextmanager
def recursion(frames: int) -> Iterator[None]:
    """Lets Python recurse at least so deep."""
    _LIMIT.add(frames)
    try:
        yield
    finally:
        _LIMIT.remove(frames)


# ---- garbage ---------------------------------------------------------------------------------------------------------
@contextmanager
def gc_paused() -> Iterator[None]:
    """Trees are made of many small objects and hold no cycles: collecting while they grow would double the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
