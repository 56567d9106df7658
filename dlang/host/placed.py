"""Arrays in the memory of a device, as libraries of Python hand them over.

What shows itself by `__cuda_array_interface__`, or by DLPack as an array on a device, is such an array: those of CuPy,
and of others. What is asked of one here is its shape and its dtype, for which the host waits for nothing; `fetched` is
for the few that the host has to read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dlang.diagnostics import DlangError, error
from dlang.lazy_modules import lazy_module

if TYPE_CHECKING:
    from dlang.host import cuda
else:
    cuda = lazy_module("dlang.host.cuda")

DLPACK = (2, 13)  # the kinds of memory that are CUDA's: of a device, and managed
_OF_THE_HOST = (np.ndarray, np.generic, bool, int, float, str, list, tuple, type, type(None))
_OWN = frozenset((("cupy", "ndarray"), ("dlang.runtime.emulation.driver", "EmulatedArray")))


@dataclass(frozen=True, slots=True)
class Placed:
    """An array on a device. value: the object of its library, None of one that only stands for an array; dtype: what
    NumPy calls it, or `bfloat16`.
    """

    value: Any
    shape: tuple[int, ...]
    dtype: str

    @property
    def ndim(self) -> int:
        return len(self.shape)


def placed(value: Any) -> Placed | None:
    """A value as an array on a device; None if it is none, or if its library does not show it."""
    if isinstance(value, _OF_THE_HOST):
        return None
    if isinstance(value, Placed):
        return value
    if is_own(type(value)):
        return Placed(value, value.shape, str(value.dtype))
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
        if isinstance(interface, dict):
            if interface.get("mask") is not None:
                return None
            dtype = _dtype(getattr(value, "dtype", interface["typestr"]))
            return Placed(value, tuple(interface["shape"]), dtype)
        where = getattr(value, "__dlpack_device__", None)
        if where is None or int(where()[0]) not in DLPACK:
            return None
        shown = value if hasattr(value, "shape") and hasattr(value, "dtype") else _seen(value)
        return Placed(value, tuple([int(n) for n in shown.shape]), _dtype(shown.dtype))
    except Exception:  # whatever a library raises for an array that it does not show, such as one with a gradient
        return None


def fetched(value: Any) -> Any:
    """A copy of an array on a device for the host, of NumPy. Raises `DlangError` where CuPy is needed and missing."""
    return _seen(value).get()


def copied(value: Any) -> Any:
    """A copy of an array on a device, there."""
    return _seen(value).copy()


def converted(value: Any, dtype: Any) -> Any:
    """A copy of an array on a device in another dtype, there."""
    return _seen(value).astype(dtype)


def _seen(value: Any) -> Any:
    """An array as CuPy sees it, or an emulated one."""
    if is_own(type(value)):
        return value
    cupy = cuda.cupy()
    loan = cuda.on_device(cupy, value, cupy.cuda.get_current_stream())
    if loan is None:
        raise elsewhere(type(value).__name__)
    return loan.array


def elsewhere(name: str) -> DlangError:
    """An array of which the device is not the one that is used, or that its library does not hand over."""
    message = f"the array of `{name}` is on a GPU, where this one can't read it"
    return error("E0904", message, None, help=("pass a copy of it on the current GPU", "pass a copy on the host"))


def is_own(kind: type) -> bool:
    """Tells whether objects of a class are always arrays on a device, with methods that are known."""
    return (kind.__module__, kind.__name__) in _OWN


def _dtype(dtype: Any) -> str:
    """The name of a dtype, which may be of a library that has its own."""
    try:
        return str(np.dtype(dtype).name)
    except TypeError:
        return str(dtype).rpartition(".")[2]
