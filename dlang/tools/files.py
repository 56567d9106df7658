"""The programs that a command line names: files, and all of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dlang.diagnostics import error


def programs(paths: Sequence[str]) -> list[str]:
    """Files, and the `.dl` files in folders, each once. E0951 for a path where nothing is."""
    found: dict[str, None] = {}
    for path in map(Path, paths):
        if path.is_dir():
            found.update(dict.fromkeys(str(p) for p in sorted(path.rglob("*.dl")) if p.is_file()))
        elif path.exists():
            found[str(path)] = None
        else:
            raise error("E0951", f"cannot read `{path}`: no such file or folder", None)
    return list(found)
