"""Values that a loop needs in the same form in each iteration, made in front of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlang.codegen.loops import Free, Matrix, Panels, Stmt
from dlang.codegen.memory import Frame
from dlang.ir.anf import Size, Var


@dataclass(slots=True)
class Outside:
    """The surroundings of a loop under way. known: arrays and scalars from outside that the loop mentions.

    frame: of the loop's body; around: of the block that the loop is in. panels: the matrices that are packed in front,
    each with its rows and columns; a matrix and its transpose are two, although they are one array.
    """

    known: frozenset[Var]
    frame: Frame
    around: Frame
    before: list[Stmt] = field(default_factory=list)
    panels: dict[tuple[Matrix, Size, Size], Panels] = field(default_factory=dict)

    @property
    def after(self) -> list[Stmt]:
        """Returns the statements behind the loop: they free the panels."""
        return [Free(panels.buffer) for panels in self.panels.values()]


def outermost(loops: Sequence[Outside], frame: Frame, var: Var) -> Outside | None:
    """The outermost loop that has a variable from outside, of those that run a block, known by its frame, in a
    iteration."""
    outermost_loop = None
    for loop in reversed(loops):
        if loop.frame is not frame or var not in loop.known:
            break
        outermost_loop, frame = loop, loop.around
    return outermost_loop
