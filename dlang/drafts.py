"""Writing files. Whoever writes a file does it here, so there is always all of the old one or all of the new one.

A file is written as a draft beside its place, `NAME.part`, and moved there when it is complete. Two that write the same
file wait for each other. What is added at the end of a file is there as a whole or not at all.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

ENDING = ".part"
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def draft(path: str | os.PathLike[str], lasting: bool = False, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Opens a new file that takes the place of `path` when the block ends, unless that raises. Raises OSError.

    A link stays one, to a new file, and a file that was there hands its permissions on. What is no file, such as a
    device, is written to at once. lasting: the file survives a machine that stops. mode: the permissions of a new file,
    but for those that the user's mask takes away.
    """
    target = os.path.realpath(path)
    try:
        old: int | None = os.stat(target).st_mode
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old):
        with open(target, "wb") as out:
            yield out
        return
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)
    name = target + ENDING
    with _own(name, mode) as out:
        try:
            yield out
            out.flush()
            if old is not None and sys.platform != "win32":
                os.fchmod(out.fileno(), stat.S_IMODE(old))
            if lasting:
                os.fsync(out.fileno())
            if sys.platform == "win32":  # where an open file stays where it is
                out.close()
            os.replace(name, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise


def write(path: str | os.PathLike[str], content: bytes | str, mode: int = 0o666) -> None:
    """Replaces a file by one with this content; text is written in UTF-8. Raises OSError."""
    with draft(path, mode=mode) as out:
        out.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def appending(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Opens a file, which may be new, to read it and to add to its end.

    If the block raises or a write fails, the file gets its length back. Raises OSError.
    """
    with open(path, "a+b", buffering=0) as file:
        _lock(file)
        before = os.fstat(file.fileno())
        try:
            yield file
        except BaseException:
            if stat.S_ISREG(before.st_mode):
                with suppress(OSError):
                    file.truncate(before.st_size)
            raise


def add(file: IO[bytes], content: bytes) -> None:
    """Writes all of the content to a file without a buffer, which may take a part of it at a time. Raises OSError."""
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[file.write(remaining) :]


@contextmanager
def _own(name: str, mode: int) -> Iterator[IO[bytes]]:
    """Opens an empty draft that no other process writes to: who writes the same file waits for its turn."""
    while True:
        with open(name, "wb", opener=lambda path, flags: os.open(path, flags & ~os.O_TRUNC | _NO_LINKS, mode)) as out:
            _lock(out)
            if not _is_at(out, name):  # another process has moved it to its place meanwhile
                continue
            out.truncate(0)
            yield out
            return


def _lock(file: IO[bytes]) -> None:
    """Waits until no other has locked the file. Some systems, and some file systems, have no locks."""
    with suppress(OSError, ImportError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)


def _is_at(file: IO[bytes], path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
