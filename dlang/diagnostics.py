"""Messages to a person: where, what was expected and found, why, and what to do.

Every error that a user can cause is a `Diagnostic` with a code. Stages raise `DlangError` (or collect diagnostics and
go on); only this module formats them, for a terminal, as JSON, or for an editor.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple


@dataclass(frozen=True, eq=False)
class Source:
    """A text and where it came from; positions in it are offsets in characters."""

    path: str
    text: str

    @cached_property
    def line_starts(self) -> list[int]:
        return [0] + [i + 1 for i, c in enumerate(self.text) if c == "\n"]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line, counted from 1, without its end."""
        start = self.line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]


class Span(NamedTuple):
    """A part of a source: offsets `start <= i < end`."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    def __repr__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.path}:{line}:{column}"

    def to(self, other: Span) -> Span:
        """From the start of this span to the end of another."""
        return Span(self.source, self.start, other.end)


class Note(NamedTuple):
    """A remark on another place, such as where a size comes from; `span` is None when it has no place."""

    text: str
    span: Span | None = None


@dataclass(frozen=True)
class Diagnostic:
    """One message.

    code: stable, `E0301`; `dlc explain E0301` has its page. message: one sentence. label: what stands under the
    marked text. help: what to do, with text to paste where there is one.
    """

    code: str
    message: str
    span: Span | None
    label: str = ""
    notes: tuple[Note, ...] = ()
    help: tuple[str, ...] = ()
    severity: str = "error"


@dataclass
class DlangError(Exception):
    """Ends a stage with one or more diagnostics."""

    diagnostics: list[Diagnostic] = field(default_factory=list)

    def __str__(self) -> str:
        return "; ".join(f"{d.code}: {d.message}" for d in self.diagnostics)


def error(
    code: str,
    message: str,
    span: Span | None,
    *,
    label: str = "",
    notes: tuple[Note, ...] = (),
    help: tuple[str, ...] = (),
) -> DlangError:
    """A `DlangError` of one diagnostic, to raise."""
    return DlangError([Diagnostic(code, message, span, label, notes, help)])
