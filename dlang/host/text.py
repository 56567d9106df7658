"""Text from values: what `print`, messages of checks and interpolated strings show. Every back end uses this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlang.lazy_modules import np


def format_parts(parts: Sequence[str], values: Sequence[Any]) -> str:
    """`parts` alternates literal text and a format specification for each value: text, spec, text, …, text.

    Values are Python or NumPy scalars, strings, and NumPy arrays. The dtype of a float decides its shortest text, so a
    NumPy `float32` prints as an f32.
    """
    pieces = [parts[0]]
    for k, value in enumerate(values):
        pieces.append(format_value(value, parts[2 * k + 1]))
        pieces.append(parts[2 * k + 2])
    return "".join(pieces)


def format_value(value: Any, spec: str = "") -> str:
    """One value by Python's format specifications; without one, its shortest exact text."""
    if isinstance(value, str):
        return format(value, spec)
    if getattr(value, "ndim", 0):
        return _array(value, spec)
    item = value.item() if hasattr(value, "item") else value
    if isinstance(item, bool):
        return format("true" if item else "false", spec)
    if spec:
        return format(_character(item) if spec[-1] == "c" else item, spec)
    return str(value) if hasattr(value, "dtype") else str(item)


def _character(number: int) -> int:
    """The number of a character; that of the replacement character where Unicode has none of this number."""
    return number if 0 <= number < 0xD800 or 0xDFFF < number <= 0x10FFFF else 0xFFFD


_NOTHING = "\0"
"""Stands for an empty text in NumPy, which has no place for one in an array."""


def _array(array: Any, spec: str) -> str:
    if spec or array.dtype == object:
        text = np.array2string(array, separator=" ", formatter={"all": lambda v: format_value(v, spec) or _NOTHING})
        return text.replace(_NOTHING, "")
    return np.array2string(array)
