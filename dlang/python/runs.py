"""Runs as Python sees them: their memory, the threads that work on their large loops, and the warning of seeds."""

from __future__ import annotations

from dlang.runtime.memory import Usage, memory_use
from dlang.runtime.seeds import SeedWarning
from dlang.runtime.threads import checked, default_pool

__all__ = ["SeedWarning", "Usage", "memory_use"]


# ---- threads ---------------------------------------------------------------------------------------------------------
# How many threads work on the large loops of compiled code.


def set_threads(count: int) -> None:
    """Lets so many threads work on a large loop, the one that calls included; 1 for no others.

    Without it the environment variable DLANG_THREADS says how many, or else there is one for each processor that this
    process may use. Results have the same bits with any number. A number that can't be is a `DlangError`.
    """
    if not isinstance(count, int):
        raise TypeError(f"the number of threads is an int, not {type(count).__name__}")
    default_pool().limit(checked(count, "`count`"))
