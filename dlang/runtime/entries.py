"""A function in memory that can be called, and whose code can be replaced while it is in use."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, prod
from typing import Any

from dlang.codegen.entry_points import CODE, LEFT, EntryPoint
from dlang.ir.terms import Token

_LEFT = 8 * LEFT


@dataclass(slots=True)
class Entry:
    """How a function is called. call: the function for Python. cell: two words at an address that stays, which compiled
    code reads whenever it calls the function.

    Code that has been replaced has to stay in memory, as calls may be in it.
    """

    point: EntryPoint
    cell: Any = field(default_factory=lambda: (ctypes.c_int64 * 2)())
    call: Any = None
    _terms: list[tuple[float, list[int]]] | None = None

    def __post_init__(self) -> None:
        self.left = inf

    def connect(self, address: int) -> None:
        """Redirects calls to other code."""
        self.call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(address)
        self.cell[CODE] = address

    @property
    def address(self) -> int:
        return int(self.cell[CODE])

    @property
    def left(self) -> float:
        """The picoseconds of work that calls may do before Python is asked."""
        return ctypes.c_double.from_address(ctypes.addressof(self.cell) + _LEFT).value

    @left.setter
    def left(self, work: float) -> None:
        ctypes.c_double.from_address(ctypes.addressof(self.cell) + _LEFT).value = work

    def work(self, args: Sequence[Any]) -> float:
        """About how many picoseconds a call takes, from 0; infinite if that isn't known."""
        if self._terms is None:
            self._terms = _terms(self.point)
        return max(sum([c * prod([float(args[k]) for k in places]) for c, places in self._terms]), 0.0)


def _terms(point: EntryPoint) -> list[tuple[float, list[int]]]:
    """The terms of an estimate, each a coefficient with the places of its factors among the arguments."""
    if point.work is None:
        return [(inf, [])]
    params = [p for p in point.function.params if not isinstance(p.type, Token)]
    places = {p: k for k, p in enumerate(params)}
    return [(float(c), [places[v] for v in m]) for m, c in point.work.terms.items()]
