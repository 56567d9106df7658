"""What a program of the host needs of a device: C functions to call, and memory that it is handed.

There are two drivers: that of CUDA, and an emulation of it on the processor that is there. Both have the same C
functions, so the same machine code runs with either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dlang.codegen.loops import Kernel


@dataclass(frozen=True, slots=True)
class Functions:
    """Addresses of C functions, which give 0 if all is well: of CUDA's driver and of cuBLAS, by what they do.

    launch: cuLaunchKernel. copy: cuMemcpyDtoDAsync_v2. fill: cuMemsetD8Async. product: cublasGemmStridedBatchedEx_64,
    with scalars of its own in the memory of the host.
    """

    launch: int
    copy: int
    fill: int
    product: int


class Graph(Protocol):
    """What a run has asked of the device, to be asked again at once."""

    def launch(self) -> None:
        """Has the device do it all, on the stream of the driver."""


class Driver(Protocol):
    """A device. Addresses are those of its own memory, which the host can't read.

    multiprocessors: how many it has. blas: the handle for products.
    """

    multiprocessors: int
    functions: Functions
    blas: int

    @property
    def stream(self) -> int:
        """The stream that is to be used now; what is asked of it is done in order."""

    def load(self, kernels: Sequence[Kernel]) -> Sequence[int]:
        """Handles of kernels, for `launch`; raises `DlangError` where there is nothing to compile them with."""

    def allocate(self, size: int) -> int:
        """The address of so many bytes, at least one, with undefined contents. Raises MemoryError."""

    def free(self, address: int) -> None:
        """Gives back what was allocated; what the stream has still to do with it is done before it is used anew."""

    def upload(self, target: int, source: int, size: int) -> None:
        """Copies from the host, whose memory may change as soon as this returns."""

    def download(self, target: int, source: int, size: int) -> None:
        """Copies to the host, when all that the stream was asked for before is done."""

    def wait(self) -> None:
        """Until all that the stream was asked for is done."""

    def error(self, status: int) -> Exception:
        """What a C function of the driver means by a status that is not 0."""

    # ---- arrays of Python --------------------------------------------------------------------------------------------
    def given(self, value: Any, dtype: str) -> tuple[int, Any] | None:
        """The address of an array that is on the device already, and what keeps it there.

        None for what lies elsewhere, has elements of another dtype or is not in row-major order. Waits for no stream.
        """

    def result(self, address: int, shape: Sequence[int], dtype: str) -> Any:
        """An array of Python from what was allocated, which is its own from now on; dtype: of NumPy."""

    # ---- graphs ------------------------------------------------------------------------------------------------------
    def begin(self) -> None:
        """From now on what the stream is asked for is kept instead of being done; nothing may wait for it."""

    def end(self) -> Graph:
        """Ends that; what was kept."""

    def abandon(self) -> None:
        """Ends that and forgets what was kept."""
