"""What the machine has of a variable of the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dlang.diagnostics import CallSite
from dlang.specialize.names import Name
from dlang.tools.debugger.code import Spot

Key = tuple[object, tuple[CallSite, ...]]


@dataclass(frozen=True, slots=True)
class Seen:
    """A variable with its value, or its cotangent: which of the subjects it has, and what they are.

    backward, trips, spot, via: where that was found.
    """

    name: Name
    values: tuple[Any, ...]
    order: int = 0
    subjects: tuple[int, ...] = ()
    backward: bool = False
    trips: tuple[int, ...] = ()
    spot: Spot | None = None
    via: tuple[CallSite, ...] = ()

    @property
    def key(self) -> Key:
        """Of which there is one value at a time: what a lambda has captured is not the variable around it."""
        return self.name.local, self.via

    def holds(self, trips: tuple[int, ...], via: tuple[CallSite, ...]) -> bool:
        """Whether it still does: in the same trips of the loops, and in the same calls in whose place code stands."""
        return trips[: len(self.trips)] == self.trips and reached(via, self.via)


def reached(via: tuple[CallSite, ...], inner: tuple[CallSite, ...]) -> bool:
    """Whether code that is reached by some calls sees what is known in others of them: those around."""
    return via[len(via) - len(inner) :] == inner
