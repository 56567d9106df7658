"""A variable of the source as the machine sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dlang.ir.values import Version
from dlang.specialize.names import Name
from dlang.tools.debugger.code import Key, Spot, Via

OBJECT = 250  # bytes of a variable with a number, about


@dataclass(slots=True, eq=False)
class Seen:
    """A variable with its value, or its cotangent or tangent: which of the guarded values it has, and what they are.

    It is not changed, only replaced; a frozen class takes longer to make. kinds: as of its mark. backward, iterations,
    spot, via: where that was found. tangents: those of the value, or of the cotangent.
    """

    name: Name
    values: tuple[Any, ...]
    kinds: tuple[str, ...] = ()
    guarded: tuple[int, ...] = ()
    backward: bool = False
    iterations: tuple[int, ...] = ()
    spot: Spot | None = None
    via: Via = ()
    tangents: tuple[Seen, ...] = ()

    @property
    def key(self) -> Key:
        """Of which there is one value at a time: what a lambda has captured is not the variable around it."""
        return self.name.local, self.via, self.kinds

    def detached(self) -> Seen:
        """Sharing no memory with what its arrays become by updates."""
        if not any(type(v) is Version for v in self.values) and not self.tangents:
            return self
        values = tuple([v.read().copy() if type(v) is Version else v for v in self.values])
        return replace(self, values=values, tangents=tuple([t.detached() for t in self.tangents]))

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        return (
            OBJECT
            + sum([v.nbytes for v in self.values if isinstance(v, np.ndarray)])
            + sum([t.nbytes for t in self.tangents])
        )

    def holds(self, iterations: tuple[int, ...], via: Via) -> bool:
        """Tells whether it still holds: in the same iterations of the loops, and in the same calls that code was
        inlined for."""
        return iterations[: len(self.iterations)] == self.iterations and reached(via, self.via)


def reached(via: Via, inner: Via) -> bool:
    """Tells whether code that is reached by some calls sees what is known in others of them: those around."""
    return via[len(via) - len(inner) :] == inner
