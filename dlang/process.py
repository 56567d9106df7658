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

from dlang.diagnostics import Span, error
from dlang.polynomials import TooManyTerms


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


ROOM = 30_000
"""Frames of Python: enough for every stage on a tree of the depth that the parser lets through."""


@contextmanager
def recursion(frames: int = ROOM) -> Iterator[None]:
    """Lets Python recurse at least so deep, or else as deep as the stages of the compiler need."""
    _LIMIT.add(frames)
    try:
        yield
    finally:
        _LIMIT.remove(frames)


@contextmanager
def compiling(span: Span | None) -> Iterator[None]:
    """Lets stages of the compiler recurse as deep as they need. Raises E0290 at `span` where that is too deep, E0291
    where sizes that are fine alone are too large when they are multiplied: those of one array, or of loops in loops."""
    try:
        with recursion():
            yield
    except RecursionError:
        message = "the calls and blocks in this are nested too deeply to be compiled"
        help = ("use a loop, or a recursive function, and divide the rest into several functions",)
        raise error("E0290", message, span, help=help) from None
    except TooManyTerms:
        message = "the number of elements of an array in this is too large when it is multiplied out"
        help = ("give sums and products among its sizes `size` parameters of their own, or the array fewer axes",)
        raise error("E0291", message, span, help=help) from None


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
