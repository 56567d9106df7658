"""Work that a GPU does step by step: after each kernel and each product the host waits, and knows which one failed.

It is for `DLANG_CUDA_SYNC=1`. CUDA tells of a kernel that touches memory outside of its arrays at a later call, which
may be anybody's, and does not say which kernel it was.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dlang.host.cuda import libraries
from dlang.runtime.devices import PRODUCT

VARIABLE = "DLANG_CUDA_SYNC"
"""The environment variable that has work done in this way."""

_UNSIGNED, _ADDRESS = ctypes.c_uint, ctypes.c_void_p
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, *[_UNSIGNED] * 7, _ADDRESS, _ADDRESS, _ADDRESS)


def wanted() -> bool:
    """Tells whether the environment asks for it."""
    return os.environ.get(VARIABLE, "0") not in ("", "0")


@dataclass(eq=False)
class Steps:
    """Functions for machine code in the place of CUDA's and cuBLAS's. names: of kernels, by their handles; failed: what
    was under way when the device failed first, "" before."""

    names: Mapping[int, str]
    failed: str = ""
    launch: Any = field(init=False)
    product: Any = field(init=False)

    def __post_init__(self) -> None:
        self.launch = _LAUNCH(self._launch)
        self.product = PRODUCT(self._product)

    def _launch(self, kernel: int, *given: Any) -> int:
        library, (*sizes, shared, stream, parameters, extra) = libraries.driver(), given
        places = [ctypes.c_void_p(place) for place in (stream, parameters, extra)]
        status = library.cuLaunchKernel(ctypes.c_void_p(kernel), *map(_UNSIGNED, (*sizes, shared)), *places)
        return self._ended(status, stream, self.names.get(kernel, "a kernel"))

    def _product(self, handle: int, *given: Any) -> int:
        library, stream = libraries.blas().library, ctypes.c_void_p()
        function = PRODUCT(libraries.address(library, "cublasGemmStridedBatchedEx_64"))
        if status := function(handle, *given):
            return int(status)
        library.cublasGetStream_v2(ctypes.c_void_p(handle), ctypes.byref(stream))
        rows, columns, inner = given[2:5]
        return self._ended(0, stream.value, f"a product of {rows} x {columns} elements, sums of {inner}")

    def _ended(self, status: int, stream: int | None, what: str) -> int:
        """The status of a step when it has been done."""
        status = status or libraries.driver().cuStreamSynchronize(ctypes.c_void_p(stream))
        if status and not self.failed:
            self.failed = what
        return int(status)
