"""Writes to terminals: colours, and a screen that is drawn anew."""

from __future__ import annotations

import os
from typing import IO

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
CLEARED = "\x1b[H\x1b[2J\x1b[3J"
"""Written first, it leaves an empty screen."""


def coloured(stream: IO[str]) -> bool:
    """Tells whether to write colours there: see https://no-color.org and https://force-color.org."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") != "0":
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def painted(text: str, style: str, on: bool) -> str:
    """The text in a style of `STYLES`, if colours are on."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if on and text else text
