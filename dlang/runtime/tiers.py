"""Two tiers of machine code: what has little to do is compiled quickly, and once more, well, when it has done much.

A program that has never been called is a text of LLVM's. If its first call has little to do, the text is compiled at a
level of LLVM's code generator that is several times faster than the best, and makes slower code of the same results in
every bit, as the text leaves nothing open. Calls add up their work, in a word of their entry; when that is about what
the quick compilation has saved, a thread compiles the text again, and the entries are connected with the better code.
Calls that are under way end in the old one, which stays in memory. What has much to do in one call, or work of which
nobody can say before how much it is, is compiled well at once.

LLVM's code generator takes most of a first call. At its level 0 it is about five times faster, and its code two to
three times slower. The *cell* of an entry (`compiled.py`) has two words that callers read: where its code is, and how
much work calls may do until Python is asked. The thread compiles without the lock of llvmlite (`compile_apart`). Quick
code is kept with its text, so another process finds both. Who asks an `Engine` for a level gets that: tests, `dlc
test`, profiles, code with lines.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any

from dlang.lazy_modules import lazy_module
from dlang.runtime.compiled import Compiled, Draft, Entry

if TYPE_CHECKING:
    from dlang.codegen.llvm import objects
    from dlang.runtime.engine import CompiledProgram
else:
    objects = lazy_module("dlang.codegen.llvm.objects")

VARIABLE = "DLANG_TIERS"
"""The environment variable that says which tiers there are: `off` has code compiled well at once, `quick` never so."""


@dataclass(frozen=True, slots=True)
class Tiers:
    """Levels of LLVM's code generator, and how much quick code may do.

    patience: picoseconds of estimated work for each byte of a text. LLVM takes some 0.65 µs longer for a byte at the
    better level, and quick code two to three times as long as its work was estimated, so this is about where quick code
    has lost what it saved.
    """

    quick: int = 0
    best: int = 2
    patience: int = 300_000


def usual_tiers() -> Tiers | None:
    """The tiers of this process; None if all code is to be the best from the start."""
    match os.environ.get(VARIABLE, "").lower():
        case "off" | "0":
            return None
        case "quick":
            return Tiers(best=Tiers().quick)
        case _:
            return Tiers()


@dataclass(slots=True, eq=False)
class Promotion:
    """A program on its way to its best code. compiled: what it was made from. draft: its text.

    keep: keeps code for other processes. started: whether there is code. final: whether it is the best; asked: whether
    the thread is to make that; error: why it could not.
    """

    tiers: Tiers
    program: CompiledProgram
    compiled: Compiled
    draft: Draft
    keep: Callable[[Compiled], None]
    started: bool = False
    final: bool = False
    asked: bool = False
    error: BaseException | None = None

    def __post_init__(self) -> None:
        for entry in self.program.entries.values():
            entry.left = -inf

    @property
    def budget(self) -> float:
        """The picoseconds of work that quick code may do."""
        return float(self.tiers.patience * self.draft.length)

    def before(self, entry: Entry, args: Sequence[Any]) -> None:
        """Sees to it that there is code that is good enough for a call, and counts its work."""
        work = entry.work(args)
        if self.error is not None:
            raise RuntimeError("a function that is called often could not be compiled again") from self.error
        if work > entry.left:
            self._more(work)
            self._allow(entry, self.budget - work)
        else:
            self._allow(entry, entry.left - work)

    def _allow(self, entry: Entry, work: float) -> None:
        """Says how much work calls may do before this is asked again."""
        entry.left = work
        if self.final:  # perhaps since a moment ago
            entry.left = inf
        elif self.error is not None:
            entry.left = -inf

    def _more(self, work: float) -> None:
        """A call does more than what was left to be done."""
        if work > self.budget:
            self.finish()
        elif self.started:
            _THREAD.ask(self)
        else:
            self.start()

    def start(self) -> None:
        """Has the program run in quick code; in the best, if an earlier process has made that."""
        with _THREAD.called:
            if self.started:
                return
            code = self.compiled.code
            if not code:
                text = self.draft.text()
                best = objects.kept_object(text, self.tiers.best)
                if best is not None:
                    self._end(best)
                    return
                code = objects.compile_object(text, self.tiers.quick)
                self.keep(replace(self.compiled, code=code))
            self.program.install(self.compiled, code)
            self.started = True
            for entry in self.program.entries.values():
                self._allow(entry, self.budget)

    def finish(self) -> None:
        """Has the program run in its best code; if that is under way, waits for it."""
        with _THREAD.called, _THREAD.behind if self.asked else nullcontext():
            if not self.final:
                self._end(objects.compile_object(self.draft.text(), self.tiers.best))

    def finish_behind(self) -> None:
        """Does so while calls go on."""
        with _THREAD.behind:
            if not self.final:
                self._end(objects.compile_apart(self.draft.text(), self.tiers.best))

    def _end(self, code: bytes) -> None:
        self.keep(replace(self.compiled, code=code, draft=None))
        self.program.install(self.compiled, code)
        self.started = self.final = True
        self.program.promotion = None
        for entry in self.program.entries.values():
            self._allow(entry, inf)

    def fail(self, error: BaseException) -> None:
        """Has the next call say that the best code could not be made."""
        self.error = error
        for entry in self.program.entries.values():
            self._allow(entry, -inf)


# ---- the thread ------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Thread:
    """Compiles programs that are called often, one after another; it exists as long as there are any.

    waiting: the programs, the one under way included. called: held by a call that has LLVM at work, until what was
    compiled is in use. behind: the same of the thread. So nobody forks, and no process ends, in the midst of it.
    changing: guards `waiting`.
    """

    waiting: deque[Promotion] = field(default_factory=deque)
    called: threading.RLock = field(default_factory=threading.RLock)
    behind: threading.RLock = field(default_factory=threading.RLock)
    changing: threading.RLock = field(default_factory=threading.RLock)
    thread: threading.Thread | None = None
    ending: bool = False

    def ask(self, promotion: Promotion) -> None:
        """Has a program compiled; its calls go on meanwhile, unless the system has no thread left."""
        with self.changing:
            if self.ending or promotion.asked:
                return
            promotion.asked = True
            self.waiting.append(promotion)
            if self.thread is not None:
                return
            thread = threading.Thread(target=self._work, name="dlang compiler", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                self.waiting.clear()
            else:
                self.thread = thread
                return
        promotion.finish()

    def _work(self) -> None:
        while True:
            with self.changing:
                if self.ending or not self.waiting:
                    self.thread = None
                    return
                promotion = self.waiting[0]
            try:
                promotion.finish_behind()
            except BaseException as e:  # the next call raises it
                promotion.fail(e)
            with self.changing:
                if self.waiting and self.waiting[0] is promotion:
                    self.waiting.popleft()

    def settle(self) -> None:
        """Waits until nothing is left to be compiled."""
        while (thread := self.thread) is not None:
            thread.join()

    # ---- forks and the end of the process ----
    def before_fork(self) -> None:
        for lock in (self.called, self.behind, self.changing):
            lock.acquire()

    def after_fork(self) -> None:
        for lock in (self.changing, self.behind, self.called):
            lock.release()

    def in_child(self) -> None:
        """The thread is not there; what it had to do is asked for again by calls to come."""
        for promotion in self.waiting:
            promotion.asked = False
        self.waiting.clear()
        self.thread = None
        self.after_fork()

    def close(self) -> None:
        """Waits for what is under way, whatever comes: LLVM must not be at work when its library is torn down."""
        self.ending = True
        while True:
            with suppress(KeyboardInterrupt), self.called, self.behind:
                return


_THREAD = _Thread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_THREAD.before_fork, after_in_parent=_THREAD.after_fork, after_in_child=_THREAD.in_child)
atexit.register(_THREAD.close)


def settle() -> None:
    """Waits until all that has been found to be called often runs in its best code."""
    _THREAD.settle()
