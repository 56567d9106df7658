"""Identifies this compiler: two that differ in anything never read what the other has kept."""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from pathlib import Path

import dlang
from dlang.cache.store import digest

BEGAN = time.time()
PACKAGE = Path(dlang.__file__).parent
SOURCES = (".py", ".lark")


@cache
def identity() -> str | None:
    """A digest of the version of Python and of the compiler's files: their names, lengths and times.

    None if a file changed after this process began: what it has imported by now is then neither the one nor the other.
    """
    made, newest = stamp()
    return None if newest > BEGAN else made


def is_unchanged() -> bool:
    """Tells whether all that is imported of the compiler is from the files of `identity`, before something is kept."""
    prefix = dlang.__name__ + "."
    return _is_unchanged(sum([name.startswith(prefix) for name in sys.modules]))


@cache
def _is_unchanged(imported: int) -> bool:
    """The files are looked at again where more of them have been imported than at the last look."""
    return identity() == stamp()[0]


def stamp(package: Path = PACKAGE) -> tuple[str, float]:
    """The digest of the files as they are now, and when the last of them changed."""
    found: list[str] = []
    newest = 0.0
    folders = [str(package)]
    while folders:
        with os.scandir(folders.pop()) as files:
            for file in files:
                if file.name.endswith(SOURCES):
                    status = file.stat()
                    found.append(f"{file.path} {status.st_size} {status.st_mtime_ns}")
                    newest = max(newest, status.st_mtime)
                elif file.is_dir() and file.name != "__pycache__":
                    folders.append(file.path)
    made = digest(dlang.__version__, sys.version, sys.byteorder, *sorted(found))
    return made, newest
