"""The programs that a command line names: files, and all of a folder; and writing them anew."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dlang.diagnostics import error
from dlang.typecheck.modules import unreadable

INSTALLED = ("site-packages", "node_modules")


def programs(paths: Sequence[str]) -> list[str]:
    """Files, and the `.dl` files in folders, each once. E0951 for a path where nothing is, E0973 if there are none."""
    found: dict[str, str] = {}
    for path in paths:
        for file in programs_of(path):
            found.setdefault(os.path.realpath(file), file)
    if not found:
        what = ", ".join(f"`{path}`" for path in paths)
        help = ("a program is a file whose name ends in .dl; hidden folders are passed over",)
        raise error("E0973", f"there is no program in {what}", None, help=help)
    return list(found.values())


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
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name not in INSTALLED)
        for name in sorted(files):
            if name.endswith(".dl") and os.path.isfile(file := os.path.join(here, name)):
                yield Path(file)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """What fails to be written in it is a message: E0822."""
    try:
        yield
    except OSError as e:
        raise error("E0822", f"cannot write `{path}`: {e.strerror}", None) from None


def refuse_unwritable(path: str) -> None:
    """E0822 for a file that could not be written now, before work is done whose results are to be in it."""
    with writing(path):
        place = path if os.path.exists(path) else os.path.dirname(path) or "."
        os.stat(place)
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def replace_text(path: Path, text: str) -> None:
    """Writes a file as a whole or not at all; its mode stays. E0822 if it can't be written."""
    with writing(path):
        path = path.resolve()  # a link stays one
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
            os.chmod(temporary, path.stat().st_mode & 0o7777)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
