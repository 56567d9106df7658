"""Recognising a call like an earlier one, so that its arguments need not be matched with their types again.

The key of a call says all that matching looks at: classes, dtypes, shapes, and the values of arguments that types may
mention. Only values whose leaves are used as they are, or converted one by one, have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dlang.host.classes import fields_of
from dlang.host.placed import is_own, placed
from dlang.host.values import dtype_name, is_taken

_SCALARS = frozenset({float, int, bool, str, np.float64, np.float32, np.int64})


class Seen(NamedTuple):
    key: tuple[object, ...]
    leaves: list[Any]


def seen_before(args: Sequence[Any], sizes: Sequence[bool], which: int) -> Seen | None:
    """The key and the leaves of arguments; None where they have to be matched.

    sizes: which parameters types may mention. which: in bits, those that the arguments are for.
    """
    key: list[object] = [which]
    leaves: list[Any] = []
    for a, size in zip(args, [s for k, s in enumerate(sizes) if which >> k & 1], strict=True):
        if not _walk(a, key, leaves):
            return None
        if size:
            if type(a) not in _SCALARS:
                return None
            key.append(a)
    return Seen(tuple(key), leaves)


def _walk(value: Any, key: list[object], leaves: list[Any]) -> bool:
    kind = type(value)
    if kind is np.ndarray:
        key.append(value.dtype)
        key.append(value.shape)
        leaves.append(value)
    elif kind in _SCALARS:
        key.append(kind)
        leaves.append(value)
    elif kind is tuple:
        key.append(len(value))
        return all(_walk(v, key, leaves) for v in value)
    elif is_own(kind):
        key.append(value.dtype)
        key.append(value.shape)
        leaves.append(value)
        return bool(value.shape)
    elif hasattr(kind, "__dataclass_fields__") and not hasattr(kind, "__dlang_variant__"):
        key.append(kind)
        return all(_walk(getattr(value, name), key, leaves) for name in fields_of(kind))
    elif (there := placed(value)) is not None and there.shape:
        key.append(there.dtype)
        key.append(there.shape)
        leaves.append(value)
    else:
        return False
    return True


Conversion = type | None  # the class that a leaf is converted to; None leaves it as it is


def conversions(seen: Sequence[Any], matched: Sequence[Any]) -> tuple[Conversion, ...] | None:
    """Returns the conversion of each leaf by matching, the same at every call with this key; None if it may vary.

    An integer that becomes u64 is perhaps too large for i64, and a smaller one would be that.
    """
    out: list[Conversion] = []
    for a, b in zip(seen, matched, strict=False):
        if a is b or (type(a) is type(b) and not isinstance(a, np.ndarray) and placed(a) is None):
            out.append(None)
        elif isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and is_taken(dtype_name(a.dtype), "i64"):
            out.append(np.int64)  # of an array this is one as well
        elif isinstance(b, np.generic) and not isinstance(a, np.ndarray) and not isinstance(b, np.uint64):
            out.append(type(b))
        else:
            return None
    return tuple(out) if len(seen) == len(matched) else None


def converted(leaves: Sequence[Any], how: Sequence[Conversion]) -> list[Any] | None:
    """The leaves as matching makes them; None where a dtype does not hold an integer, of which matching will speak."""
    if not any(how):
        return list(leaves)
    try:
        with np.errstate(over="ignore"):
            return [x if c is None else c(x) for x, c in zip(leaves, how, strict=True)]
    except OverflowError:
        return None
