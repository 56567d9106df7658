"""Values of Python and NumPy as values of a dtype: a NumPy value has its dtype, and Python's own numbers, and lists of
them, take the dtype that is asked for. Only where i64 is asked for, integers of the dtypes that it holds are widened.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlang.host.placed import Placed, converted, fetched, placed
from dlang.ir.terms import FLOATS, INTEGERS
from dlang.ops.dtypes import DTYPES, ELSEWHERE, TRUNCATED, rounded

NUMPY = {d.name: np.dtype(d.numpy) for d in DTYPES.values() if d.in_numpy}
OURS: dict[np.dtype[Any], str] = {numpy: ours for ours, numpy in NUMPY.items()}
BF16 = "bfloat16"
"""The name in the package `ml_dtypes` of the dtype that NumPy does not have. Leaves of it are in f32."""
WIDENED = frozenset(INTEGERS) - {"i64", "u64"}
"""The dtypes whose integers are all integers of i64 too: u64 is not among them."""
_OF_NAMES = {theirs: ours for ours, theirs in ELSEWHERE.items()}


def dtype_name(dtype: np.dtype[Any] | str) -> str | None:
    """The language's name of a dtype, None if it has none."""
    if isinstance(dtype, str):
        return _OF_NAMES.get(dtype)
    return OURS.get(dtype) or _OF_NAMES.get(dtype.name)


def is_taken(given: str | None, dtype: str | None) -> bool:
    """Tells whether a NumPy value of one dtype is taken for another: the same, or integers that i64 holds."""
    return given == dtype or (dtype == "i64" and given in WIDENED)


def number(value: Any, dtype: str) -> Any:
    """A scalar that is taken for that dtype, in it, or None. The host reads one that is on a device."""
    if (there := placed(value)) is not None:
        if there.shape or not is_taken(dtype_name(there.dtype), dtype):
            return None
        return fetched(value).astype(NUMPY.get(dtype, np.float32))[()]
    if dtype in TRUNCATED:
        return _bf16(value, dtype)
    wanted = NUMPY.get(dtype)
    if wanted is None:
        return None
    if isinstance(value, np.generic | np.ndarray):
        fits = value.dtype == wanted or is_taken(dtype_name(value.dtype), dtype)
        return np.asarray(value, wanted)[()] if fits and not value.ndim else None
    if isinstance(value, bool):
        return np.bool_(value) if dtype == "bool" else None
    if isinstance(value, int) and dtype not in FLOATS:
        if dtype == "bool":
            return None
        bounds = np.iinfo(wanted)
        return wanted.type(value) if bounds.min <= value <= bounds.max else None
    if isinstance(value, int | float) and dtype in FLOATS:
        return _float(value, wanted.type)
    return None


def widened(array: Any, dtype: str) -> Any:
    """An array that is taken for a dtype, in it; any other array as it is."""
    name = dtype_name(array.dtype)
    if name == dtype or not is_taken(name, dtype):
        return array
    if not isinstance(array, Placed):
        return array.astype(NUMPY[dtype])
    there = None if array.value is None else converted(array.value, NUMPY[dtype])
    return Placed(there, array.shape, NUMPY[dtype].name)


def _float(value: float, wanted: Any) -> Any:
    """A number of Python's, rounded; None for an integer that is larger than all floats."""
    try:
        with np.errstate(over="ignore"):
            return wanted(float(value))
    except OverflowError:
        return None


def _bf16(value: Any, dtype: str) -> Any:
    """A scalar of `ml_dtypes`, or a number of Python's, rounded; in f32."""
    if isinstance(value, np.generic | np.ndarray):
        return np.asarray(value).astype(np.float32)[()] if value.dtype.name == BF16 and not value.ndim else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    wide = _float(value, np.float64)
    return None if wide is None else np.float32(rounded(wide, dtype))


def as_array(value: Any, dtype: str | None, device: bool = False) -> Any:
    """An array in rows, as compiled code wants it; None for what is none. Lists of Python's numbers take `dtype`.

    device: what is on a device stays there, and is `Placed`.

    What says itself how it is an array is one: a column of a table, or an array of another library in memory that
    NumPy can see. A masked array is none, for its mask would be lost.
    """
    if device and (there := placed(value)) is not None:
        return there
    if getattr(type(value), "__dlang_lazy__", False):
        return None  # its value would be no part of what is recorded
    value = _exported(value)
    if is_masked(value):
        return None
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.byteorder not in "=|":
            array = array.astype(array.dtype.newbyteorder("="))
        ready = np.require(array, requirements=["C", "A"])
        return ready if ready.shape == array.shape else ready.reshape(array.shape)
    if not isinstance(value, list | bool | int | float):
        return None
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # arrays on a device, or rows of several lengths
        return None
    if dtype is None or array.size == 0:
        return array if dtype is None else _converted(array, dtype)
    if dtype_name(array.dtype) != dtype and _has_numpy(value):
        return array  # what has a dtype keeps it
    whole = dtype in (*FLOATS, *INTEGERS)
    fits = {"b": dtype == "bool", "i": whole, "u": whole, "f": dtype in FLOATS}
    if not fits.get(array.dtype.kind):
        exact = _large(value, dtype) if whole and array.dtype.kind in "fO" else None
        return array if exact is None else exact
    converted = _converted(array, dtype)
    return converted if dtype in FLOATS or np.array_equal(converted, array) else array


def _has_numpy(value: Any) -> bool:
    """Tells whether a list has scalars or arrays of NumPy in it, which have dtypes of their own."""
    if isinstance(value, list):
        return any(map(_has_numpy, value))
    return isinstance(value, np.generic | np.ndarray)


def _large(value: Any, dtype: str) -> Any:
    """A list of whole numbers for which NumPy has no common dtype; None if they do not fit, or are no such numbers."""
    array = np.array(value, object)
    if not all(type(x) is int or (type(x) is float and dtype in FLOATS) for x in array.reshape(-1)):
        return None
    numbers: list[Any] = [number(x, dtype) for x in array.reshape(-1)]
    return None if any(x is None for x in numbers) else np.array(numbers, numbers[0].dtype).reshape(array.shape)


def is_masked(value: Any) -> bool:
    """Tells whether an array has a mask. `np.ma` is loaded only for subclasses of arrays."""
    return type(value) is not np.ndarray and isinstance(value, np.ndarray) and isinstance(value, np.ma.MaskedArray)


def _exported(value: Any) -> Any:
    """The array that an object of another library is, if it is one."""
    if isinstance(value, np.ndarray | np.generic | list | bool | int | float | type):
        return value
    if placed(value) is not None:
        return value
    try:
        if hasattr(value, "__array__") or hasattr(value, "__array_interface__") or hasattr(value, "__array_struct__"):
            return np.asarray(value)
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
        if not isinstance(value, str):
            return np.asarray(memoryview(value))
    except Exception:  # whatever that library raises for an array that NumPy cannot see, on a GPU for one
        return value
    return value


def texts(value: Any) -> Any:
    """An array of texts as an array of objects; None for what is none."""
    value = _exported(value)
    if not isinstance(value, list | np.ndarray):
        return None
    try:
        array = np.array(value, object) if isinstance(value, list) else value.astype(object)
    except ValueError:  # rows of several lengths
        return None
    return array if all(isinstance(x, str) for x in array.reshape(-1)) else None


def _converted(array: Any, dtype: str) -> Any:
    with np.errstate(over="ignore"):
        return array.astype(outside_dtype(dtype) or DTYPES[dtype].numpy)


def bfloat16() -> Any:
    """The dtype of `ml_dtypes`, None where the package is not installed."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return np.dtype(ml_dtypes.bfloat16)


def outside_dtype(dtype: str) -> Any:
    """The dtype of arrays of Python that are of a dtype of the language; None for one of `ml_dtypes` without it."""
    return NUMPY[dtype] if dtype in NUMPY else bfloat16()


def describe(value: Any) -> str:
    """Describes a Python value in the words of the language."""
    if (there := placed(value)) is not None:
        return _described(there) + (" on a GPU" if there.value is not None else "")
    exported = _exported(value)
    if is_masked(value):
        return f"a masked array of {value.dtype}"
    if exported is not value:
        return f"an object of class {type(value).__name__} that is {describe(exported)}"
    if isinstance(value, np.ndarray | np.generic):
        return _described(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(describe, value))})"
    if isinstance(value, list):
        try:
            array = np.asarray(value)
        except TypeError:
            return f"a list that begins with {describe(value[0])}"
        except ValueError:
            return "a list whose rows have several lengths"
        return f"a list that is {describe(array)}" if array.dtype in OURS else f"a list that holds {_odd(value)}"
    if isinstance(value, str):
        return "a str"
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an int of {value.bit_length()} bits"
    if isinstance(value, bool | int | float):
        return f"the {type(value).__name__} {value}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value)
    of = f" of `{kind.__module__}`" if hasattr(kind, "__dataclass_fields__") else ""  # others may have one of that name
    return "None" if value is None else f"an object of class {kind.__name__}{of}"


def _odd(items: list[Any]) -> str:
    """Describes the first item of a list that is no number that NumPy has; empty if there is none."""
    for x in items:
        if isinstance(x, list):
            if odd_item := _odd(x):
                return odd_item
        elif np.asarray(x).dtype not in OURS:
            return describe(x)
    return ""


def _described(array: Any) -> str:
    name = dtype_name(array.dtype) or f"an array of {array.dtype}"
    return f"{name}[{', '.join(map(str, array.shape))}]" if array.ndim else name
