"""The programs that a command line names: files, and all of a folder; and what cannot be written."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dlang.diagnostics import error
from dlang.drafts import write
from dlang.typecheck.modules import unreadable

INSTALLED = ("site-packages", "node_modules")


def programs(paths: Sequence[str]) -> list[str]:
    """Files, and the `.dl` files in folders, each once. E0951 for a path where nothing is, E0973 if there are none."""
    by_real_path: dict[str, str] = {}
    for path in paths:
        for file in programs_of(path):
            by_real_path.setdefault(os.path.realpath(file), file)
    if not by_real_path:
        what = ", ".join(f"`{path}`" for path in paths)
        help = ("a program is a file whose name ends in .dl; hidden folders are passed over",)
        raise error("E0973", f"there is no program in {what}", None, help=help)
    return list(by_real_path.values())


def programs_of(path: str) -> list[str]:
    """A file, or the programs of a folder in the order of their names. E0951 if nothing is there."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as e:
        raise unreadable(path, e) from None
    return list(map(str, sorted(programs_in(Path(path))))) if stat.S_ISDIR(mode) else [str(Path(path))]


def programs_in(folder: Path) -> Iterator[Path]:
    """The `.dl` files in a folder and those below, but the ones that are hidden or hold what others have written:
    environments of Python, caches."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name not in INSTALLED)
        for name in sorted(files):
            if name.endswith(".dl") and os.path.isfile(file := os.path.join(parent, name)):
                yield Path(file)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Reports a failure to write the file in the block as a diagnostic: E0822."""
    try:
        yield
    except OSError as e:
        raise error("E0822", f"cannot write `{path}`: {e.strerror}", None) from None


def replace_file(path: str | Path, content: bytes | str) -> None:
    """Writes a file as a whole or not at all; its permissions stay. E0822 if it can't be written."""
    with writing(path):
        write(path, content)


def refuse_unwritable(path: str) -> None:
    """E0822 for a file that could not be written now, before work is done whose results are to be in it."""
    with writing(path):
        folder = os.path.dirname(os.path.realpath(path))
        os.stat(folder)
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        places = (path, folder) if os.path.isfile(path) else (path,) if os.path.exists(path) else (folder,)
        if not all(os.access(place, os.W_OK) for place in places):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
