"""The decisions of passes on loops and branches, which `dlc ir --stage loops --why` prints.

A pass puts a decision on the loop or branch that it leaves, so that they go where the code goes; nothing depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlang.ir.anf import Size


@dataclass(frozen=True, slots=True)
class Decision:
    """The choice of a pass, and its reason. figures: those that decided, each for a `{}` in the reason."""

    choice: str
    reason: str
    figures: tuple[int | float | Size, ...] = ()
