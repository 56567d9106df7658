"""The emulated device of a program: its kernels, and the launches that the program of the host asks for.

Its memory is that of the host.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dlang.codegen.loops import Kernel
from dlang.runtime.emulation import compiler
from dlang.runtime.emulation.compiler import Misbehaviour

WORDS = 64  # of a message, and of the results of a reduction, as in `device.cuh`
NEVER = 2**64 - 1


class _State(ctypes.Structure):
    """`dl_run` of `device.cuh`."""

    _fields_ = [
        ("partials", ctypes.c_void_p),
        ("trip", ctypes.c_uint64),
        ("site", ctypes.c_int64),
        ("lock", ctypes.c_uint32),
        ("ticket", ctypes.c_uint32),
        ("values", ctypes.c_int64 * WORDS),
    ]


@dataclass(frozen=True, slots=True)
class Geometry:
    """How many threads there are: of a block, and of blocks at most; few, so that threads have several trips.

    order: in which the threads of a block run, 0 from the first, 1 from the last, others at random.
    """

    block: int = 64
    blocks: int = 3
    order: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """A guard that has failed: which one of its kernel, and where the words of its message are."""

    guard: int
    values: int
    owner: Any


@dataclass(eq=False)
class EmulatedDevice:
    """Runs kernels. Raises `DlangError` where there is nothing to compile them with."""

    kernels: Sequence[Kernel]
    geometry: Geometry = field(default_factory=Geometry)
    library: Any = field(init=False)

    def __post_init__(self) -> None:
        self.library = compiler.library(self.kernels)

    def launch(self, number: int, words: int, count: int, memory: Sequence[tuple[int, int]]) -> Failure | None:
        """Runs a kernel; what has failed in it, if anything.

        words: the address of the number of trips and the arguments, `count` in all.
        memory: arrays that the kernel may touch, by address and length in bytes. Raises Misbehaviour.
        """
        kernel = self.kernels[number]
        trips = ctypes.c_int64.from_address(words).value
        geometry = self.geometry
        threads = trips * 32 if kernel.form == "rows" else trips
        grid = max(min(-(-threads // geometry.block), geometry.blocks), 1)
        partials = (ctypes.c_int64 * (geometry.blocks * WORDS))()
        state = _State(partials=ctypes.addressof(partials), trip=NEVER)
        own, site = ctypes.c_void_p(ctypes.addressof(state)), ctypes.c_int64(0)
        args = (ctypes.c_void_p * (count + 2))(
            ctypes.addressof(own), ctypes.addressof(site), *[words + 8 * k for k in range(count)]
        )
        known = (ctypes.c_uint64 * max(2 * len(memory), 1))(*[word for pair in memory for word in pair])
        start = getattr(self.library, f"launch_{kernel.name}")
        start.restype = ctypes.c_char_p
        wrong = start(
            args, ctypes.c_uint(grid), ctypes.c_uint(geometry.block), ctypes.c_uint(geometry.order), known,
            ctypes.c_uint64(len(memory)),
        )  # fmt: skip
        if wrong is not None:
            raise Misbehaviour(f"the kernel {kernel.name}: {wrong.decode()}\n{kernel.text}")
        if state.trip != NEVER:
            return Failure(state.site, ctypes.addressof(state) + _State.values.offset, state)
        return None
