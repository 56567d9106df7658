"""Breakpoints and watches: at lines, in functions, and where the value of an expression changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlang.diagnostics import error
from dlang.spelling import closest
from dlang.tools.debugger.places import Place, Sources

NO_PLACE = "E0983"


@dataclass(slots=True)
class Breakpoint:
    """places: where it stops. forward: not in backward passes. once: it is gone when it was met, and has no number.

    problem: why its condition could not be evaluated where it was met last.
    """

    number: int
    text: str
    places: frozenset[Place]
    condition: str | None = None
    forward: bool = False
    once: bool = False
    hits: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Watched:
    """A value as its leaves, and how it was shown."""

    leaves: tuple[Any, ...]
    text: str


@dataclass(slots=True)
class Watch:
    """An expression over the variables of a function, whose value is shown at each stop, and whose changes are stops.

    last: its value where it had one last.
    """

    number: int
    expression: str
    function: str
    last: Watched | None = None


@dataclass(slots=True)
class Points:
    """All of them. by_place: the breakpoints of each place."""

    sources: Sources
    breakpoints: list[Breakpoint] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)
    given: int = 0
    by_place: dict[Place, list[Breakpoint]] = field(default_factory=dict)

    def at(self, text: str, here: str, condition: str | None, once: bool = False) -> Breakpoint:
        """A breakpoint at `LINE`, `FILE:LINE` or in a function. Raises `DlangError`.

        here: the file of a line without one.
        """
        places, forward = self._places(text, here)
        self.given += not once
        new = Breakpoint(0 if once else self.given, text, places, condition, forward, once)
        self.breakpoints.append(new)
        self._sort()
        return new

    def watch(self, expression: str, function: str) -> Watch:
        self.given += 1
        self.watches.append(Watch(self.given, expression, function))
        return self.watches[-1]

    def delete(self, number: int | None) -> int:
        """Removes one, or all; how many these were."""
        before = len(self.breakpoints) + len(self.watches)
        self.breakpoints = [b for b in self.breakpoints if number is not None and b.number != number]
        self.watches = [w for w in self.watches if number is not None and w.number != number]
        self._sort()
        return before - len(self.breakpoints) - len(self.watches)

    def _sort(self) -> None:
        self.by_place = {}
        for b in self.breakpoints:
            for place in b.places:
                self.by_place.setdefault(place, []).append(b)

    # ---- where
    def _places(self, text: str, here: str) -> tuple[frozenset[Place], bool]:
        file, colon, line = text.rpartition(":")
        if line.isdigit():
            return frozenset(self._line(int(line), self._path(file) if colon else here)), False
        found = list(self.sources.functions(text))
        if not found:
            known = [n for p in self.sources.known.values() for n in p.functions]
            close = closest(text, known)
            help = f"write a line, FILE:LINE or the name of a function{self._elsewhere}"
            raise error(
                NO_PLACE, f"there is no function `{text}`", None, help=(f"did you mean `{close}`?" if close else help,)
            )
        return frozenset(found), True

    def _path(self, file: str) -> str:
        known = list(self.sources.known)
        for path in known:
            if path == file or Path(path).name == file or Path(path).stem == file:
                return path
        names = ", ".join(sorted({Path(p).name for p in known if self.sources.known[p].places}))
        raise error(
            NO_PLACE, f"the program has no file `{file}`", None, help=(f"its files are {names}{self._elsewhere}",)
        )

    @property
    def _elsewhere(self) -> str:
        return "; `dlc debug --library` sees the standard library, too" if self.sources.hidden else ""

    def _line(self, line: int, path: str) -> Sequence[Place]:
        """The statements that begin in a line, or in the next one where one does."""
        places = self.sources.known[path].places
        later = [p.line for p in places if p.line >= line]
        if not later:
            last = max([p.line for p in places], default=0)
            help = f"the last statement of the file is in line {last}"
            raise error(NO_PLACE, f"there is no statement in line {line} of `{path}`", None, help=(help,))
        chosen = min(later)
        found = [p for p in places if p.line == chosen]
        return [p for p in found if p.parent is None or p.parent not in found]
