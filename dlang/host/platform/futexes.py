"""Tells where threads can wait on futexes of Linux."""

from __future__ import annotations

import platform
import sys

from dlang.host.platform import portable


def has_futexes() -> bool:
    """Tells whether there is code for threads that wait on futexes of Linux."""
    return sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64") and not portable()
