"""Describes this machine: its processor, its memory, and the library of linear algebra that is there."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from dlang.host.platform import portable

PROCESSORS = "/proc/cpuinfo"
SEPARATOR = "; "
HEAD = 1 << 14  # bytes, more than one processor takes
NAMES = {"sse3": "pni", "bmi": "bmi1", "lzcnt": "abm", "sahf": "lahf_lm", "sha": "sha_ni", "pclmul": "pclmulqdq"}
"""The names in Linux of features whose names in LLVM differ; in others a point or nothing becomes `_`."""
FIELDS = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")


def lacking(needs: Iterable[str]) -> str | None:
    """Returns the first feature, named as in LLVM, that this processor lacks; None if none, or if unknown."""
    said = features()
    if said is None:
        return None
    flags = {_plain(flag) for flag in said.rpartition(SEPARATOR)[2].split()}
    return next((name for name in needs if _plain(NAMES.get(name, name)) not in flags), None)


def _plain(flag: str) -> str:
    return flag.replace("_", "").replace(".", "").replace("-", "")


@cache
def features() -> str | None:
    """A text that differs where the instructions differ that code may use; None where the system has none."""
    if portable() or sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    processor = _processor()
    return SEPARATOR.join(processor[name] for name in FIELDS) if all(map(processor.get, FIELDS)) else None


@cache
def _processor() -> dict[str, str]:
    """The first values in the table that Linux has of processors, as far as its head holds these whole."""
    try:
        with open(PROCESSORS, "rb", buffering=0) as file:
            head, _, _ = file.read(HEAD).rpartition(b"\n\n")
    except OSError:
        return {}
    values: dict[str, str] = {}
    for line in head.decode(errors="replace").splitlines():
        name, _, value = line.partition(":")
        values.setdefault(name.strip(), value.strip())
    return values


# ---- memory ----------------------------------------------------------------------------------------------------------
# How much memory there is, and how much of it is free.

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


# ---- futexes ---------------------------------------------------------------------------------------------------------
# Tells where threads can wait on futexes of Linux.


def has_futexes() -> bool:
    """Tells whether there is code for threads that wait on futexes of Linux."""
    return sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64") and not portable()


# ---- linear algebra --------------------------------------------------------------------------------------------------
# The library of linear algebra: OpenBLAS, which holds BLAS and LAPACK.


@cache
def openblas() -> Any:
    """OpenBLAS, on one thread: its own threads collapse beside a busy neighbour. Its symbols begin with `scipy_`."""
    library = ctypes.CDLL(library_file())
    library.scipy_openblas_set_num_threads(1)
    library.scipy_LAPACKE_set_nancheck(0)  # NaN is an input like any other, and `info` keeps its meaning
    return library


def library_file() -> str:
    """Finds the path of the library."""
    import glob

    import scipy_openblas32

    candidates = sorted(glob.glob(os.path.join(scipy_openblas32.get_lib_dir(), f"*{scipy_openblas32.get_library()}*")))
    return next(p for p in candidates if not p.endswith(".a"))


# ---- processors by name ----------------------------------------------------------------------------------------------
# Describes this machine, as far as that decides how long things take.


def processor_name() -> str:
    """Returns the system's name of the processor; the architecture if it has none."""
    processor = _processor()
    return processor.get("model name") or processor.get("Model") or platform.processor() or platform.machine()


def processor_features() -> frozenset[str]:
    """The names of its instruction sets, as Linux knows them; empty elsewhere."""
    processor = _processor()
    return frozenset((processor.get("flags") or processor.get("Features") or "").split())
