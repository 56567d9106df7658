"""Signatures of functions that the compiler knows, and descriptions of them and of the names in types."""

from __future__ import annotations

from dlang.ops.functions import TYPES, about

_WORDS_OF_TYPES = {
    "size": "The type of a parameter that is a size: an `i64` that is not negative, which types may mention.",
    "Idx": "`Idx<n>` is an `i64` with 0 ≤ i < n: proven where it is asked for, or checked by `e as Idx<n>`.",
    "Num": "The dtypes of numbers, with `+`, `-` and `*`.",
    "Float": "The dtypes of floats.",
    "Int": "The dtypes of integers.",
    "Ord": "The dtypes whose values have an order.",
    "Eq": "The dtypes whose values can be compared.",
    "Vector": "Types that add up and scale: floats, arrays, tuples and structs of them.",
    "Bits": "Integers and `bool`.",
    "Scalar": "Numbers and `bool`.",
}


def signature(name: str) -> str | None:
    """Returns the signature of a builtin function without its name: `(x: a[n]) -> i64`."""
    return TYPES.get(name)


def words(name: str) -> str:
    """Describes its result."""
    return about(name) or _WORDS_OF_TYPES.get(name, "")
