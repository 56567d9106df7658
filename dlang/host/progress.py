"""How far loops are, for a person who waits: a line on a terminal that is drawn anew, else a line now and then."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

OFTEN, SELDOM = 0.1, 10.0
"""Seconds between two looks on a terminal, and between two lines elsewhere."""
WIDTHS = 24, 12, 6, 0
"""Characters of a bar: the first, or of those that fit on the line the widest."""
_ERASE = "\r\x1b[K"


@dataclass(slots=True)
class _Loop:
    label: str
    total: int
    start: float
    done: int = 0


@dataclass(slots=True)
class Progress:
    """The loops that run, the outermost first. clock: seconds. drawn: whether a line of ours is on the
    terminal. shown: when there was one last."""

    out: IO[str] | None = None
    clock: Callable[[], float] = time.perf_counter
    loops: list[_Loop] = field(default_factory=list)
    drawn: bool = False
    shown: float = float("-inf")

    def report(self, done: int, total: int, label: str) -> int:
        """A loop has done so many iterations of a total; gives the number at which it should say so again.

        total: -1 where the loop has ended, at whatever iteration.
        """
        now = self.clock()
        label = "".join(c if c.isprintable() else " " for c in label)
        if done == 0 and total >= 0:
            self.loops.append(_Loop(label, total, now))
            if len(self.loops) == 1:
                self.shown = now
            return 1
        while len(self.loops) > 1 and not self._is_last(total, label):
            self.loops.pop()  # left by a `return`
        loop = self.loops[-1]
        loop.done = done
        if total < 0:
            self._end(loop, now)
            return 0
        self._show(now)
        wait = OFTEN * done / max(now - loop.start, 1e-9)
        return done + max(1, min(int(wait), done))

    def erase(self) -> None:
        """Makes room for something else on the terminal."""
        if self.drawn:
            self._out.write(_ERASE)
            self._out.flush()
            self.drawn = False

    def abandon(self) -> None:
        """Forgets all loops: what they were in has failed."""
        self.erase()
        self.loops.clear()

    @property
    def _out(self) -> IO[str]:
        return sys.stderr if self.out is None else self.out

    def _is_last(self, total: int, label: str) -> bool:
        return self.loops[-1].label == label and total in (-1, self.loops[-1].total)

    def _show(self, now: float) -> None:
        terminal = self._out.isatty()
        if now - self.shown < (OFTEN if terminal else SELDOM):
            return
        texts = (
            " · ".join(described(x.label, x.done, x.total, now - x.start, width) for x in self.loops)
            for width in WIDTHS
        )
        if terminal:
            room = _columns(self._out) - 1
            text = min(texts, key=lambda t: max(len(t), room))
            self._out.write(_ERASE + text[:room])
        else:
            self._out.write(next(texts) + "\n")
        self._out.flush()
        self.shown, self.drawn = now, terminal

    def _end(self, loop: _Loop, now: float) -> None:
        self.loops.pop()
        self.erase()
        if not self.loops:
            name = f"{loop.label}: " if loop.label else ""
            iterations = f"{loop.done}" if loop.done == loop.total else f"{loop.done} of {loop.total}"
            self._out.write(f"{name}{iterations} in {duration(now - loop.start)}\n")
            self._out.flush()


def _columns(out: IO[str]) -> int:
    """The width of a terminal; 80 where it says nothing of that."""
    try:
        return os.get_terminal_size(out.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def described(label: str, done: int, total: int, seconds: float, width: int = WIDTHS[0]) -> str:
    """`training [######····] 60 % 6/10, 2.0/s, 2 s left`, with a bar of so many characters."""
    share = done / total if total else 1.0
    filled = int(share * width)
    name = f"{label} " if label else ""
    bar = f"[{'#' * filled}{'·' * (width - filled)}] " if width else ""
    text = f"{name}{bar}{int(100 * share)} % {done}/{total}"
    if not done or not seconds:
        return text
    rate = done / seconds
    speed = f"{rate:.3g}/s" if rate >= 1 else f"{1 / rate:.3g} s each"
    return f"{text}, {speed}, {duration((total - done) / rate)} left"


def duration(seconds: float) -> str:
    """`0.53 s`, `42 s`, `3:07 min`, `2:05:00 h`."""
    if seconds < 59.5:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02} h"
