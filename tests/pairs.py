"""Files of pairs of texts, before and after a pass: a file for each, named after it.

After a change of a pass, or where a pair is new and ends with `----`, `DLANG_UPDATE=1` writes the second halves anew,
to be read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

PAIR = re.compile(r"^==== (.*)\n((?:(?!----|====).*\n)*)----\n((?:(?!====).*\n)*)", re.MULTILINE)

Pairs = list[tuple[str, str, str]]


def pairs_in(folder: Path, extension: str) -> dict[str, Pairs]:
    """The pairs of each file, with their titles."""
    return {file.stem: PAIR.findall(file.read_text(encoding="utf-8")) for file in sorted(folder.glob(f"*.{extension}"))}


def check_file(file: Path, pairs: Pairs, after: Callable[[str, str], str]) -> None:
    """Fails unless a file has nothing but these pairs. Writes what a pass makes first, where that is asked for."""
    if os.environ.get("DLANG_UPDATE"):
        updated = [f"==== {title}\n{before}----\n{after(file.stem, before)}" for title, before, _ in pairs]
        file.write_text("".join(updated), encoding="utf-8")
    assert "".join([f"==== {title}\n{before}----\n{wanted}" for title, before, wanted in pairs]) == file.read_text(
        encoding="utf-8"
    )
