"""Files that are replaced when all of the new one is written, so that an interrupted run leaves no half of one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from dlang.runtime.errors import RunError

CANNOT_WRITE = "E0822"


def replace(path: str, save: Callable[[IO[bytes]], object], lasting: bool = False) -> None:
    """Writes a file by `save`, beside its place, and moves it there. lasting: also where the machine stops at once.

    A link stays one, to a new file. What is no file, such as a device, is written to. Raises `RunError`.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as out:
                save(out)
            return
        draft = target.with_name(target.name + ".part")
        with _own(draft) as out:
            try:
                save(out)
                out.flush()
                if lasting:
                    os.fsync(out.fileno())
                draft.replace(target)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
    except OSError as e:
        raise RunError(CANNOT_WRITE, f"cannot write `{path}`: {e.strerror or e}") from None


@contextmanager
def _own(draft: Path) -> Iterator[IO[bytes]]:
    """An empty draft that no other process writes to: who writes the same file waits for its turn."""
    while True:
        with open(draft, "wb", opener=lambda name, flags: os.open(name, flags & ~os.O_TRUNC, 0o666)) as out:
            with suppress(OSError, ImportError):  # of a file system, or a system, without locks
                import fcntl

                fcntl.flock(out, fcntl.LOCK_EX)
            if not _is_at(out, draft):  # another process has moved it to its place meanwhile
                continue
            out.truncate(0)
            yield out
            return


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
