"""Environment variables that set how compiled code can be observed.

`DLANG_SANITIZE=1`: it checks what it touches of memory. `DLANG_DEBUG_INFO=1`: it knows the lines of its sources, and
GDB is told where it is. `DLANG_PERF_MAP=1`: perf is. `platform/debugger.py` is how these are told.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from dlang.lazy_modules import lazy_module

if TYPE_CHECKING:
    from dlang.host.platform import debugger
else:
    debugger = lazy_module("dlang.host.platform.debugger")


LINES, MAP, CHECKS = "DLANG_DEBUG_INFO", "DLANG_PERF_MAP", "DLANG_SANITIZE"


def wants_lines() -> bool:
    """Tells whether code is to know the lines of its sources."""
    return os.environ.get(LINES, "") not in ("", "0")


def wants_checks() -> bool:
    """Tells whether code is to check the memory that it touches."""
    return os.environ.get(CHECKS, "") not in ("", "0")


def announce(code: bytes, entry: str, address: int) -> None:
    """Tells those who want to know of an object in memory. entry: a function of it, which is at the address."""
    wants_map = os.environ.get(MAP, "") not in ("", "0")
    if sys.platform != "linux" or code[:4] != b"\x7fELF" or not (wants_map or wants_lines()):
        return
    if wants_map:
        debugger.write_map(code, entry, address)
    if wants_lines():
        debugger.tell_gdb(code, entry, address)
