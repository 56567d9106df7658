"""Identifies this processor by what the system says of it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from functools import cache

from dlang.host.platform import portable

CPUINFO = "/proc/cpuinfo"
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
    here = {_plain(flag) for flag in said.rpartition(SEPARATOR)[2].split()}
    return next((name for name in needs if _plain(NAMES.get(name, name)) not in here), None)


def _plain(flag: str) -> str:
    return flag.replace("_", "").replace(".", "").replace("-", "")


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
    return SEPARATOR.join(found[name] for name in FIELDS)
