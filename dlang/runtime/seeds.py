"""The warning for calls that draw the same random numbers as those before them, because no seed is given."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass


class SeedWarning(UserWarning):
    """A function that draws random numbers is called again without a seed, and draws the same ones."""


@dataclass(slots=True)
class DefaultSeeds:
    """Counts the calls of a function that draws without a seed being given, up to the second, which warns.

    From then on nothing has to count them any more. name: of the function.
    """

    name: str
    calls: int = 0

    @property
    def is_told(self) -> bool:
        return self.calls > 1

    def note(self) -> None:
        """Counts a call; the second one warns, at the line outside of this package that made it."""
        if self.is_told:
            return
        self.calls += 1
        if self.is_told:
            message = (
                f"`{self.name}` draws random numbers and is called again without `seed=`: it draws those of the call "
                f"before. Give each call a seed of its own, or `seed=0` to keep the draws"
            )
            warnings.warn(message, SeedWarning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """Counts the frames from `DefaultSeeds.note` to the first call from outside of this package."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("dlang."):
        frame, level = frame.f_back, level + 1
    return level
