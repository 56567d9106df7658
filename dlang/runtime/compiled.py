"""The output of a compiler: machine code, and all that is needed to load it, to call it and to explain a failure.

Nothing in it depends on the process that made it, so it can be kept in a cache and loaded by another.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlang.codegen.entry_points import EntryPoint
from dlang.codegen.llvm.sites import Site
from dlang.ir.terms import Datatype

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
