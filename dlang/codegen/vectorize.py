"""How many trips of a loop run at once."""
from __future__ import annotations

from dataclasses import dataclass

from dlang.codegen.loops import Loop


@dataclass(frozen=True, slots=True)
class Lanes:
    """bits: the width of a vector register; 0 for none."""

    bits: int

    def chosen(self, loop: Loop) -> Loop:
        return loop
