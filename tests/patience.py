"""How long tests wait for what has to happen: on a machine that is busy, or that stands still for minutes, too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

PATIENCE = 600.0
"""The seconds after which a process that has not ended hangs."""
LOOKS = 60_000
"""How often a test looks. Looks are counted, because clocks go on while a machine stands still."""
PAUSE = 0.001
"""The seconds between two looks."""


def looks() -> Iterator[None]:
    """Iterates over the looks that a test has."""
    for _ in range(LOOKS):
        yield
        time.sleep(PAUSE)


def eventually(holds: Callable[[], bool]) -> bool:
    """Tells whether a condition comes to hold."""
    return any(holds() for _ in looks())
