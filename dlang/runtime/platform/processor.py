"""Which processor this is, as the system says it."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache

from dlang.runtime.platform import portable

CPUINFO = "/proc/cpuinfo"
HEAD = 1 << 14  # bytes, more than one processor takes
FIELDS = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")


@cache
def features() -> str | None:
    """A text that differs where the instructions differ that code may use; None where the system has none."""
    if portable() or sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    try:
        file = os.open(CPUINFO, os.O_RDONLY)
        try:
            head = os.read(file, HEAD)
        finally:
            os.close(file)
    except OSError:
        return None
    first, end, _ = head.partition(b"\n\n")
    found = {}
    for line in first.decode(errors="replace").splitlines():
        name, _, value = line.partition(":")
        found[name.strip()] = value.strip()
    if not end or not all(found.get(name) for name in FIELDS):
        return None
    return " ".join(found[name] for name in FIELDS)
