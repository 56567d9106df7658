"""bf16 at the border of compiled code: 16 bits in memory, in f32 outside, for NumPy does not have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dlang.lazy_modules import lazy_module, np
from dlang.ops.dtypes import TRUNCATED

if TYPE_CHECKING:
    from dlang.ir import values
else:
    values = lazy_module("dlang.ir.values")


def to_memory(array: Any, dtype: str) -> Any:
    """Numbers as they lie in memory: as bits where NumPy does not have the dtype, others as they are."""
    return bits_of_bf16(array) if dtype in TRUNCATED else array


def from_memory(array: Any, dtype: str) -> Any:
    """Numbers from how they lie in memory."""
    return bf16_of_bits(array) if dtype in TRUNCATED else array


def bits_of_bf16(array: Any) -> Any:
    """The upper halves of f32 numbers rounded to bf16."""
    floats = np.ascontiguousarray(values.to_bf16(np.asarray(array, np.float32)))
    return np.ascontiguousarray((floats.view(np.uint32) >> np.uint32(16)).astype(np.uint16)).reshape(np.shape(array))


def bf16_of_bits(array: Any) -> Any:
    """Returns the bf16 values that bits stand for, in f32."""
    return (np.ascontiguousarray(array).astype(np.uint32) << np.uint32(16)).view(np.float32)
