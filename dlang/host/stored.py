"""Arrays in files of NumPy: as they are written there, and what is read as the dtype that a program asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dlang.host.errors import RunError
from dlang.host.half import bf16_of_bits, bits_of_bf16
from dlang.lazy_modules import lazy_module, np
from dlang.ops.dtypes import DTYPES, TRUNCATED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    from dlang.host import values
else:
    values = lazy_module("dlang.host.values")

CANNOT_READ, CANNOT_WRITE, WRONG_RANK, WRONG_DTYPE = "E0821", "E0822", "E0824", "E0825"


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The dtype of NumPy in which the leaves of a run are: what it does not have in float32, texts as objects."""
    return np.dtype(DTYPES[dtype].numpy)


def written(value: Any, dtype: np.dtype[Any] | None = None) -> Array:
    """A leaf of a run as it is written. dtype: in which it is, if that is not to be seen from it.

    Raises `RunError` for a text that NumPy would shorten.
    """
    array = np.asarray(value, object if isinstance(value, str) else dtype)
    if array.dtype != object:
        return array
    if any(str(t).endswith("\0") for t in array.reshape(-1)):
        raise RunError(CANNOT_WRITE, "a text that ends in NUL cannot be saved: NumPy would leave that out")
    return array.astype(str)


def ranked(array: Array, rank: int, what: str) -> Array:
    """An array that has so many axes; else a `RunError`."""
    if array.ndim != rank:
        shape = ", ".join(map(str, array.shape))
        message = f"`{what}` has {_axes(array.ndim)} ([{shape}]), the program asks for {_axes(rank)}"
        raise RunError(WRONG_RANK, message)
    return array


def _axes(rank: int) -> str:
    return "1 axis" if rank == 1 else f"{rank} axes"


def taken(array: Array, dtype: str, what: str) -> Array:
    """An array that was stored, as the leaves of a run are, by rows, where no value changes; else a `RunError`."""
    name = values.dtype_name(array.dtype) or {"U": "texts", "S": "bytes"}.get(array.dtype.kind, array.dtype.name)
    if dtype == "str":
        if array.dtype.kind != "U":
            raise RunError(WRONG_DTYPE, f"`{what}` holds {name}, and the program asks for texts")
        return _texts(array, what)
    wanted = numpy_dtype(dtype)
    fits = np.can_cast(array.dtype, wanted, "safe")
    if not fits or (dtype in TRUNCATED and not _is_bf16(array.astype(wanted))):
        message = f"`{what}` holds {name}, which {dtype} cannot hold without loss; read it as what it is and convert it"
        raise RunError(WRONG_DTYPE, message)
    return np.ascontiguousarray(array, wanted).reshape(array.shape)


def _texts(array: Array, what: str) -> Array:
    if array.size and array.dtype.itemsize:
        codes = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(-1).view(np.uint32)
        if (codes >= 0x110000).any() or (codes >> 11 == 0xD800 >> 11).any():
            raise RunError(CANNOT_READ, f"it is damaged: `{what}` holds what is no text")
    return array.astype(object)


def _is_bf16(array: Array) -> bool:
    flat = array.reshape(-1)
    return bool(np.array_equal(bf16_of_bits(bits_of_bf16(flat)), flat, equal_nan=True))
