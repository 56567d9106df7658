"""The programs that a command line names: files, and all of a folder; and writing them anew."""

from __future__ import annotations

import contextlib
import os
import tempfile
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


def replace_text(path: Path, text: str) -> None:
    """Writes a file as a whole or not at all; its mode stays. E0822 if it can't be written."""
    path = path.resolve()  # a link stays one
    try:
        if not os.access(path, os.W_OK):
            raise PermissionError(13, os.strerror(13))
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
            os.chmod(temporary, path.stat().st_mode & 0o7777)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as e:
        raise error("E0822", f"cannot write `{path}`: {e.strerror}", None) from None
