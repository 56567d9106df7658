"""The content of a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dlang.tools.pictures.canvas import graph, heat_map

HEIGHT = 16  # lines of characters, unless there is a reason


@dataclass(frozen=True, slots=True)
class Picture:
    """kind: `lines` or `points` of curves, which are pairs of arrays of equal length, with their names; or the `map` of
    a matrix. across: what the curves are drawn against, if that has a name."""

    kind: str
    curves: tuple[tuple[Any, Any], ...]
    matrix: Any
    names: tuple[str, ...]
    across: str = ""

    def in_characters(self, width: int, *, colour: bool, height: int = HEIGHT) -> str:
        """The picture as lines of text, of so many columns."""
        if self.matrix is not None:
            return heat_map(self.matrix, width, height, colour=colour)
        points = self.kind == "points"
        return graph(self.curves, self.names, width, height, points=points, colour=colour, across=self.across)
