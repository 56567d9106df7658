"""Arrays of other libraries on the device, seen as arrays of CuPy without a copy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from dlang.lazy_modules import np

CUDA, MANAGED = 2, 13  # kinds of memory in DLPack
BF16 = "bfloat16"


@dataclass(frozen=True, slots=True)
class Loan:
    """An array of another library, as one of CuPy. stream: on which its owner works with it, if that is known."""

    array: Any
    stream: Any = None


def on_device(cupy: Any, value: Any, stream: Any) -> Loan | None:
    """The array of another library that a value is; None for what is not on a device.

    Work on the given stream comes after what its owner has asked for; the host waits for nothing. Some libraries refuse
    to show an array, such as one that gradients are taken of; then it is none.
    """
    try:
        if hasattr(value, "__dlpack_device__"):
            kind, _ = value.__dlpack_device__()
            with stream:
                return Loan(cupy.from_dlpack(value)) if int(kind) in (CUDA, MANAGED) else None
        interface = getattr(value, "__cuda_array_interface__", None)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return None
    if not isinstance(interface, dict) or interface.get("mask") is not None:
        return None
    other = interface.get("stream")
    owners = None if other is None else stream if other == stream.ptr else cupy.cuda.ExternalStream(other)
    if owners not in (None, stream):
        stream.wait_event(owners.record())
    return Loan(cupy.asarray(_Shown(interface, value)), owners)


class _Shown:
    """An array by the interface of CUDA, without the stream: CuPy would have the host wait for that."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__cuda_array_interface__ = {key: value for key, value in interface.items() if key != "stream"}
        self.owner = owner


@cache
def numpy_dtype(name: str) -> Any:
    """A dtype of NumPy or of `ml_dtypes`; None where that is not installed."""
    return bf16_dtype() if name == BF16 else np.dtype(name)


def bf16_dtype() -> Any:
    """Returns the bf16 dtype of the package `ml_dtypes`, None where it is not installed."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return ml_dtypes.bfloat16


def bf16_array(cupy: Any, bits: Any) -> Any:
    """Numbers from their 16 bits: those of `ml_dtypes`, or in f32 where the package is not installed."""
    dtype = bf16_dtype()
    if dtype is not None:
        return bits.view(dtype)
    return cupy.left_shift(bits.astype(cupy.uint32), cupy.uint32(16)).view(cupy.float32)
