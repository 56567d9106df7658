"""Describes this machine, as far as that decides how long things take."""

from __future__ import annotations

import platform
from contextlib import suppress


def processor_name() -> str:
    """Returns the system's name of the processor; the architecture if it has none."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def processor_features() -> frozenset[str]:
    """The names of its instruction sets, as Linux knows them; empty elsewhere."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith(("flags", "Features")):
                return frozenset(line.partition(":")[2].split())
    return frozenset()
