"""The places in a program where it leaves compiled code, and what crosses to the host there."""

from __future__ import annotations

from dataclasses import dataclass

from dlang.diagnostics import Span

READ, WRITE, FREE = "read", "written", "freed"
"""The kinds of access to memory."""
ACCESS = "access"
"""The kind of a place where memory is touched, in a program that is sanitised."""
DEVICE = "device"
"""The name of what the host is to do for a device."""


@dataclass(frozen=True, slots=True)
class Signature:
    """How a value crosses to the host: dtype, and rank (0: a scalar) with its sizes behind the pointer."""

    dtype: str
    rank: int

    @property
    def words(self) -> int:
        return 1 + self.rank


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the program where it leaves compiled code: a failure, a call to trace, or work of the host."""

    kind: str  # "check", "memory", "stack", "interrupt", "device", "call", "runtime", or "access"
    name: str  # a code, the label of a function, or what the host is to do
    parts: tuple[str, ...] = ()
    args: tuple[Signature, ...] = ()
    outs: tuple[Signature, ...] = ()
    results: tuple[Signature, ...] = ()
    span: Span | None = None

    @property
    def words(self) -> int:
        return sum(s.words for s in (*self.args, *self.outs, *self.results))
