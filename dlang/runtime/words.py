"""Scalars as compiled code has them: words of 8 bytes."""

from __future__ import annotations

import struct
from typing import Any

from dlang.ir.rounding import rounded
from dlang.ir.terms import FLOATS
from dlang.lazy_modules import np
from dlang.ops.dtypes import DTYPES, TRUNCATED, WHOLE

NUMPY = {d.name: d.memory for d in DTYPES.values()}
"""The dtypes of NumPy that lie in memory as ours do; of a text and a node its address."""
PLAIN = frozenset(WHOLE) - {"f32"}
"""The dtypes whose numbers have the same text as Python's own."""


def memory_dtype(dtype: str) -> str:
    """The dtype of NumPy of an element in memory."""
    return NUMPY.get(dtype, "int64")


def word_of(value: Any, dtype: str) -> int:
    """A scalar as 8 bytes, signed."""
    if dtype == "f64":
        return int(struct.unpack("<q", struct.pack("<d", float(value)))[0])
    if dtype in FLOATS:
        return int(struct.unpack("<i", struct.pack("<f", rounded(float(value), dtype)))[0])
    word = int(value) & (2**64 - 1)
    return word - 2**64 if word >= 2**63 else word


def scalar_of(word: int, dtype: str) -> Any:
    """A scalar from 8 bytes, unsigned."""
    match DTYPES[dtype].register:
        case "f64":
            return struct.unpack("<d", struct.pack("<Q", word))[0]
        case "f32":
            return struct.unpack("<f", struct.pack("<I", word & 0xFFFFFFFF))[0]
        case "bool":
            return bool(word & 1)
    bits = int(dtype[1:])
    word &= 2**bits - 1
    return word - 2**bits if dtype[0] == "i" and word >= 2 ** (bits - 1) else word


def memory_word(word: int, dtype: str) -> int:
    """A scalar of 8 bytes as an element of an array is in memory."""
    if dtype in TRUNCATED:
        return (word & 0xFFFFFFFF) >> 16
    if dtype == "f16":
        return int(struct.unpack("<H", struct.pack("<e", scalar_of(word, dtype)))[0])
    return word


def register_word(word: int, dtype: str) -> int:
    """A scalar as 8 bytes, from how an element of an array is in memory, unsigned."""
    if dtype in TRUNCATED:
        return word << 16
    if dtype == "f16":
        return int(struct.unpack("<I", struct.pack("<f", struct.unpack("<e", struct.pack("<H", word))[0]))[0])
    return word


def scalar_class(dtype: str) -> Any:
    """The class of NumPy's scalars."""
    return np.dtype(DTYPES[dtype].numpy).type
