"""How much memory runs need, counted where it is handed out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlang.lazy_modules import lazy_module

if TYPE_CHECKING:
    from dlang.runtime import memory
else:
    memory = lazy_module("dlang.runtime.memory")


@dataclass(slots=True)
class Usage:
    """Bytes that the largest run held at once: in arrays, its results included, and in nodes of datatypes.

    What threads that helped with loops held at most is added, as if all of them had done so at once.
    Left out are arguments, the stack, and results of less than 64 KiB, which are NumPy's. A block counts with the room
    that it takes, up to a quarter more than was asked for.
    """

    arrays: int = 0
    nodes: int = 0

    @property
    def peak(self) -> int:
        return self.arrays + self.nodes

    def __str__(self) -> str:
        nodes = f", {in_units(self.nodes)} of it in nodes" if self.nodes else ""
        return f"{in_units(self.peak)} at most{nodes}"


@contextmanager
def memory_use() -> Iterator[Usage]:
    """Measures the runs inside: `with dlang.memory_use() as used: f(x)`, then `used.peak`.

    What is known is complete after the block. Results of earlier runs count no more than once: what was held when the
    block began is taken off.
    """
    from dlang.runtime.threads import Pool

    before: dict[int, int] = {}
    contexts = list(memory.CONTEXTS)
    for context in contexts:
        for watch in memory.WATCHES:  # those around this one see what there was
            watch(context)
        before[context.address] = context.forget_peak()
    for pool in {c.pool for c in contexts}:
        pool.forget_peaks()
    usage = Usage()
    helped: dict[Pool, int] = {}  # what the threads of a pool held

    def include(context: memory.Context) -> None:
        arrays, nodes = context.held
        arrays -= before.get(context.address, 0)
        helped[context.pool] = max(helped.get(context.pool, 0), context.pool.held)
        if arrays + nodes > usage.peak:
            usage.arrays, usage.nodes = arrays, nodes

    memory.WATCHES.append(include)
    try:
        yield usage
    finally:
        memory.WATCHES.remove(include)
        for context in list(memory.CONTEXTS):
            include(context)
        usage.arrays += sum(helped.values())


def in_units(bytes: int) -> str:
    """A number of bytes for people."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if bytes >= scale:
            return f"{bytes / scale:.3g} {unit}"
    return f"{bytes} bytes"
