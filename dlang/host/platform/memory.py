"""How much memory there is, and how much of it is free."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from dlang.host.platform import portable

UNKNOWN = 1 << 30  # bytes, where the system does not tell
GROUP = Path("/sys/fs/cgroup")
SYSTEM = Path("/proc/meminfo")


def physical_memory() -> int:
    """The bytes of memory of this machine, or of the group of processes that this one is in if that has fewer."""
    return UNKNOWN if portable() else _measured()


@cache
def _measured() -> int:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN
    limit = _number(GROUP / "memory.max")
    return total if limit is None else min(total, limit)


def available_memory() -> int:
    """The bytes that can be used without taking them from other programs, as far as the system tells."""
    if portable():
        return physical_memory()
    try:
        with SYSTEM.open(encoding="ascii") as lines:
            free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return physical_memory()
    limit, used = _number(GROUP / "memory.max"), _number(GROUP / "memory.current")
    return free if limit is None or used is None else min(free, max(limit - used + _reclaimable(), 0))


def spare_memory() -> int:
    """The bytes that a run may take besides what it has: an eighth of all memory is left to the rest of the system."""
    return available_memory() - physical_memory() // 8


def _reclaimable() -> int:
    """The bytes of the group that hold files which nobody has read for a while: they count as used until asked for."""
    try:
        with (GROUP / "memory.stat").open(encoding="ascii") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
    except (OSError, StopIteration, ValueError, IndexError):
        return 0


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no group, or one without a limit
        return None
