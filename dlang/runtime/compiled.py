"""The output of a compiler: machine code, and all that is needed to load it, to call it and to explain a failure.

Nothing in it depends on the process that made it, so it can be kept in a cache and loaded by another. How the sizes of
a call follow from its arguments, and what has to be compared before it, is decided once by what the border of a
function says: the same as `python/arguments.py` finds out at every call by types.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, prod
from typing import TYPE_CHECKING, Any

from dlang.codegen.abi import CODE, LEFT, EntryPoint, Site
from dlang.ir.crossing import Signature, Terms, leaves_of
from dlang.ir.terms import Datatype, Size, Token, Var

if TYPE_CHECKING:
    from dlang.codegen.abi import Kernel
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
        from dlang.codegen.abi import FOREIGN

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


# ---- the sizes of a call ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class PassedSize:
    """A size is an argument itself, which must not be negative. leaf: the number of the argument among all leaves."""

    var: Var
    leaf: int


@dataclass(frozen=True, slots=True)
class Solved:
    """factor · var + rest is how long an axis is, with a factor that is not 0 and a solution that is not negative."""

    var: Var
    leaf: int
    axis: int
    factor: Size
    rest: Size


@dataclass(frozen=True, slots=True)
class Compared:
    """An axis has to be as long as a size says whose variables are known."""

    leaf: int
    axis: int
    size: Size


Step = PassedSize | Solved | Compared


class Unsolvable(Exception):
    """A size that follows from no argument. leaf: an argument whose axes it is in, if there is one."""

    def __init__(self, leaf: int | None) -> None:
        super().__init__()
        self.leaf = leaf


def plan(signature: Signature, terms: Terms) -> list[Step]:
    """Plans how the sizes of arguments are found and checked, in order; raises `Unsolvable`."""
    leaves = list(leaves_of(signature.layout.params))
    first = _first_leaves(signature)
    steps: list[Step] = [PassedSize(var, first[k]) for k, var in terms.sizes]
    known = {step.var for step in steps if isinstance(step, PassedSize)}
    waiting = [
        (number, axis, signature.layout.sizes[position])
        for number, leaf in enumerate(leaves)
        for axis, position in enumerate(leaf.shape)
    ]
    while waiting:
        left = []
        for number, axis, size in waiting:
            unknown = [v for v in dict.fromkeys(size.atoms()) if v not in known]
            if not unknown:
                steps.append(Compared(number, axis, size))
            elif len(unknown) == 1 and size.is_linear(unknown[0]):
                factor, others = size.coefficient(unknown[0]), size.without(unknown[0])
                steps.append(Solved(unknown[0], number, axis, factor, others))
                known.add(unknown[0])
            else:
                left.append((number, axis, size))
        if len(left) == len(waiting):
            raise Unsolvable(left[0][0])
        waiting = left
    if not known.issuperset(signature.sizes):
        raise Unsolvable(None)
    return steps


def _first_leaves(signature: Signature) -> list[int]:
    """The number of the first leaf of each parameter."""

    def counted() -> Iterator[int]:
        total = 0
        for part in signature.layout.params:
            yield total
            total += sum(1 for _ in leaves_of((part,)))

    return list(counted())
