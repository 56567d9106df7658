"""The lines of a function while it is written: instructions, labels and places; text is made of them at the end.

An instruction that `fusion.py` may join with others is an object with its operands. Any other is text already.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dlang.diagnostics import Span

TERM = "m"
"""The stem of the names of what `Arithmetic` gives, whose uses are counted."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """result = x + y, x - y, x · y or -x of floats: `add`, `sub`, `mul` or `neg`.

    suffix: what names the type in intrinsics. any_order: whether it is a term of a reduction, whose terms may be added
    in any order.
    """

    result: str
    operation: str
    type: str
    suffix: str
    operands: tuple[str, ...]
    any_order: bool = False

    def __str__(self) -> str:
        return f"  {self.result} = f{self.operation} {self.type} {', '.join(self.operands)}"


@dataclass(frozen=True, slots=True)
class Label:
    """The beginning of a block; whole: of one in the midst of what is one block but for this, the only way in."""

    name: str
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.name}:"


@dataclass(frozen=True, slots=True)
class Place:
    """The place in the source of the lines that follow; it has no text."""

    span: Span


Line = str | Arithmetic | Label | Place


def joined(lines: Iterable[Line]) -> str:
    """The text of lines."""
    return "\n".join([str(line) for line in lines if not isinstance(line, Place)])
