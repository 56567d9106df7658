"""The output of a compiler: machine code, and all that is needed to load it, to call it and to explain a failure.

Nothing in it depends on the process that made it, so it can be kept in a cache and loaded by another.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, prod
from typing import TYPE_CHECKING, Any

from dlang.codegen.entry_points import CODE, LEFT, EntryPoint
from dlang.codegen.llvm.sites import Site
from dlang.ir.terms import Datatype, Token

if TYPE_CHECKING:
    from dlang.codegen.kernel import Kernel
    from dlang.codegen.loops import Nest


@dataclass(frozen=True, slots=True)
class Draft:
    """A text of LLVM's of so many characters, compressed."""

    length: int
    packed: bytes

    @staticmethod
    def of(text: str) -> Draft:
        return Draft(len(text), zlib.compress(text.encode(), 1))

    def text(self) -> str:
        return zlib.decompress(self.packed).decode()


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program as machine code. What the code refers to from outside: functions of libraries (`imports`), and
    functions of C (`foreign`: a symbol, and what it stands for).

    nests: what it measures of itself, if it was made for that. kernels: what it launches; careful: whether something
    may fail in one; multiplies: whether it has products for a device. draft: if the code was compiled quickly, or not
    at all yet and is empty, what is to be compiled (`tiers.py`).
    """

    code: bytes
    entries: dict[str, EntryPoint]
    sites: tuple[Site, ...]
    imports: tuple[str, ...]
    foreign: tuple[tuple[str, str], ...]
    datatypes: dict[str, Datatype]
    needs_arena: bool
    nests: tuple[Nest, ...] = ()
    draft: Draft | None = None
    kernels: tuple[Kernel, ...] = ()
    careful: bool = False
    multiplies: bool = False

    @property
    def brings_kernels(self) -> bool:
        """Tells whether it has kernels of CUDA C files, which may change and are not among the program's sources."""
        from dlang.codegen.kernel import FOREIGN

        return any(kernel.form == FOREIGN for kernel in self.kernels)

    @property
    def words(self) -> int:
        """The room that the values of its messages take in a context."""
        return max((s.words for s in self.sites), default=0)


# ---- functions in memory ---------------------------------------------------------------------------------------------
# A function in memory that can be called, and whose code can be replaced while it is in use.

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
