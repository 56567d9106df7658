"""The devices of this process, by back end: whatever it compiles shares them, so that arrays go from one to another."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from dlang.lazy_modules import lazy_module

if TYPE_CHECKING:
    from dlang.host import cuda
    from dlang.runtime import gpu
    from dlang.runtime.devices import Driver
    from dlang.runtime.emulation.driver import EmulatedDriver
else:
    gpu = lazy_module("dlang.runtime.gpu")
    cuda = lazy_module("dlang.host.cuda")

DEVICES = frozenset(("cuda", "cuda-emulated"))
"""The back ends that have loops run on a device."""


def driver_of(backend: str) -> Driver | None:
    """The device that a back end uses now, which on CUDA is CuPy's current one; None for one that uses none.

    Raises `DlangError` where there is no device, or what it needs is not installed.
    """
    match backend:
        case "cuda":
            return _gpu(cuda.cupy().cuda.runtime.getDevice())
        case "cuda-emulated":
            return _emulation()
        case _:
            return None


@cache
def _gpu(number: int) -> gpu.CudaDriver:
    """The driver of CuPy's current device, which has that number."""
    return gpu.CudaDriver()


@cache
def _emulation() -> EmulatedDriver:
    from dlang.runtime.emulation.driver import EmulatedDriver

    return EmulatedDriver()
