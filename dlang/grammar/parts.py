"""Keeps the declarations of files that were parsed, for the next time that a file is parsed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dlang.diagnostics import Source

if TYPE_CHECKING:
    from dlang.grammar import syntax as s


@dataclass(slots=True)
class Parts:
    """The declarations of files, by their path and text, to be taken over when a file is parsed again.

    Each has a source of its own, which is moved to where the declaration stands now.
    """

    kept: dict[str, dict[str, list[tuple[Source, tuple[s.Item, ...]]]]] = field(default_factory=dict)
    made: int = 0

    def copied(self) -> Parts:
        """The same, to be changed on its own; the sources are the same objects."""
        files = {path: {text: list(known) for text, known in parts.items()} for path, parts in self.kept.items()}
        return Parts(files, self.made)

    def sources(self) -> Iterator[Source]:
        """The sources of all declarations."""
        return (source for parts in self.kept.values() for known in parts.values() for source, _ in known)
