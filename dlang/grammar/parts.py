"""What a parser keeps of the files that it has seen."""

from __future__ import annotations

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
