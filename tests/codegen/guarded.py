"""Arrays between pages of memory that may not be touched."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np


def guarded(shape: Sequence[int], dtype: Any, at_end: bool) -> np.ndarray[Any, Any]:
    """An array that ends where a page begins that can't be touched, or begins where one ends; it keeps its memory."""
    count = int(np.prod(shape))
    size = count * np.dtype(dtype).itemsize
    inner = max(-(-size // mmap.PAGESIZE), 1) * mmap.PAGESIZE
    memory = mmap.mmap(-1, inner + 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for page in (start, start + mmap.PAGESIZE + inner):
        assert protect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    return np.frombuffer(memory, dtype, count, mmap.PAGESIZE + (inner - size if at_end else 0)).reshape(shape)
