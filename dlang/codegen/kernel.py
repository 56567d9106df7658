"""Describes kernels, as a device, the machine code that launches them and the code that starts that agree.

Programs that were compiled before need it too, so nothing else of the compiler is imported.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlang.diagnostics import Span

LAUNCH, COPY, PRODUCT, STREAM, BLAS, RUN, KERNELS, THREADS, LAUNCHES, MARKS, REACH = range(11)
"""The words of a run's table: functions, what they are called with, the state of the run on the device, where the
handles of kernels are, how many threads the device runs at once, how many launches there were that may fail, where the
marks of a profile are, and up to where the indices of a kernel may go for it to have narrow ones."""
TABLE = 11
FOREIGN = "foreign"
"""The form of a kernel that a program brings along; its text is that of the file."""
LARGEST_INDEX = 2**31 - 1
"""Of narrow ones, which have 32 bits."""
BEYOND = 2**17
"""How far a kernel may count beyond its iterations and the ends of its loops, and as far again as there are threads."""
SURE = 2**16
"""Up to here indices are narrow on any device."""
NUMBERS = 64  # among the parameters of a function, of which the device may know the floats
WORDS = 64
"""Of a message, and of the results of a reduction."""
BLOCK, WARP = 256, 32
"""Threads of a block, if nothing else is said, and those that go in step."""
SHARED = 48 << 10
"""Bytes of memory that the threads of a block share at most, on any device."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function of a device, in CUDA C, of which there may be one with narrow indices and one with wide ones.

    form: how threads share its iterations, `map`, `rows` or `reduction`. block: threads of a block. threads: how many a
    iteration keeps busy. It is right for any grid and any block of whole warps; of use are ceil(iterations · threads /
    block) blocks, at least one. span: where a program says that it brings it along.
    """

    name: str
    form: str
    text: str
    block: int = BLOCK
    threads: int = 1
    span: Span | None = None
