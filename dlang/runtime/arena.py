"""Room in the arena of a run, for what Python puts there."""

from __future__ import annotations

import ctypes
from typing import Any

from dlang.codegen.llvm import jit, support


def room(context: Any, bytes: int) -> int:
    """The address of so many bytes at the end of the arena. Raises MemoryError."""
    top = int(context.words[support.ARENA_TOP])
    end = top + bytes
    if end > context.words[support.ARENA_LIMIT] and not _grow()(context.address, end):
        raise MemoryError
    context.words[support.ARENA_TOP] = end
    return top


def _grow() -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int64)(jit.support_address("dl_grow"))
