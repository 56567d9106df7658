"""Files that are kept between processes, by kind and key.

An entry is written as a draft that is then renamed, so another process sees all of it or nothing, and a crash leaves at
most a file that nobody reads. Its head has a digest of its kind, key and content: one that is damaged, or that was put
in the place of another one, is as good as absent. When there are more bytes than allowed, the entries used least
recently are removed.

Whoever can write here can make others run code, since what is kept is machine code among other things. So a directory
that someone else owns or may write to is not used.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dlang.drafts import ENDING, write

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    try:
        from _blake2 import blake2b  # all of `hashlib` loads OpenSSL
    except ImportError:
        from hashlib import blake2b


MAGIC = b"dlang 2\n"
HEAD = len(MAGIC) + 16
DIRECTORY, SIZE = "DLANG_CACHE", "DLANG_CACHE_SIZE"
DEFAULT_LIMIT = 1 << 30  # bytes
FRESH = 3600  # seconds: how exactly it is known when an entry was last used, and how long a file may be in the making
SWEEPS = 64  # looks at the size of it all in the time in which as many bytes are written as are allowed
_ENTRY = re.compile(r"([a-z]+)-([0-9a-f]+)\.kept")
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as the directory lists it. used: seconds since the epoch."""

    path: str
    kind: str
    bytes: int
    used: float


@dataclass(frozen=True, slots=True)
class Store:
    """A directory of entries of at most `limit` bytes; with a limit of 0 nothing is kept, nor read."""

    directory: Path
    limit: int = DEFAULT_LIMIT

    def get(self, kind: str, key: str) -> bytes | None:
        """Returns the content kept; None if there is none, or if it is damaged or can't be read."""
        if self.limit <= 0:
            return None
        path = self._path(kind, key)
        try:
            if not _is_ours(os.stat(self.directory)):
                return None
            with open(path, "rb") as file:
                if not _is_ours(os.fstat(file.fileno())):
                    return None
                data = file.read()
        except OSError:
            return None
        content = data[HEAD:]
        if data[:HEAD] != _head(kind, key, content):
            return None
        try:
            if os.stat(path).st_mtime < time.time() - FRESH:
                os.utime(path)  # the time of the last use: not every system keeps that of the last read
        except OSError:
            pass
        return content

    def put(self, kind: str, key: str, content: bytes) -> None:
        """Keeps an entry, in the place of one with its key. What can't be written is not kept."""
        if self.limit <= 0:
            return
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_ours(os.stat(self.directory)):
                return
            write(self._path(kind, key), _head(kind, key, content) + content, mode=0o600)
        except OSError:
            return
        # keys are digests, so this holds by chance, and no counter has to be kept: a sweep looks at all files
        if int(key[:8], 16) * self.limit < (len(content) * SWEEPS) << 32:
            self.sweep()

    def entries(self) -> Iterator[Entry]:
        """All entries, in no order; files that are not entries are passed over."""
        for file in self._files():
            if match := _ENTRY.fullmatch(file.name):
                try:
                    status = file.stat()
                except OSError:  # removed by another process
                    continue
                yield Entry(file.path, match[1], status.st_size, status.st_mtime)

    def sweep(self) -> None:
        """Removes the entries used least recently until the rest fits, and what crashed processes left."""
        self._remove_unfinished(time.time() - FRESH)
        entries = sorted(self.entries(), key=lambda e: e.used)
        total = sum(e.bytes for e in entries)
        for entry in entries:
            if total <= self.limit:
                break
            total -= entry.bytes if _removed(entry.path) else 0

    def clear(self) -> int:
        """Removes every entry; gives their number."""
        self._remove_unfinished(float("inf"))
        return sum([_removed(entry.path) for entry in self.entries()])

    def _path(self, kind: str, key: str) -> Path:
        return self.directory / f"{kind}-{key}.kept"

    def _files(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.directory) as files:
                return list(files)
        except OSError:
            return []

    def _remove_unfinished(self, before: float) -> None:
        for file in self._files():
            try:
                if file.name.endswith(ENDING) and file.stat().st_mtime < before:
                    _removed(file.path)
            except OSError:  # removed by another process
                continue


def user_store() -> Store:
    """The store of this user: in `$DLANG_CACHE`, of at most `$DLANG_CACHE_SIZE` bytes (`500M`). If the former is `off`,
    or either of them is `0`, nothing is kept."""
    limit = 0 if switched_off() else limit_of(os.environ.get(SIZE, ""))
    return Store(directory(), DEFAULT_LIMIT if limit is None else limit)


def misread() -> str | None:
    """Returns the value of `$DLANG_CACHE_SIZE` if it is set but no valid size; the default applies then."""
    text = os.environ.get(SIZE, "")
    return text if text and limit_of(text) is None else None


def switched_off() -> bool:
    """Tells whether `$DLANG_CACHE` says that nothing is kept. A directory called `off` is `./off`."""
    return os.environ.get(DIRECTORY, "").lower() in ("off", "0")


def directory() -> Path:
    """`$DLANG_CACHE` if it names a directory, else `dlang` in the user's cache directory."""
    named = os.environ.get(DIRECTORY)
    if named and not switched_off():
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path(os.path.expanduser("~")) / ".cache") / "dlang"


def limit_of(text: str) -> int | None:
    """The bytes that a text such as `500M` says, if it says any."""
    match = re.fullmatch(r"\s*(\d+)\s*([KMG]?)B?\s*", text.upper())
    return int(match[1]) * _SIZES[match[2]] if match else None


def digest(*parts: str | bytes) -> str:
    """A key made of texts: other texts, or other borders between them, give another key."""
    hasher = blake2b(digest_size=20)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hasher.update(len(data).to_bytes(8, "little"))
        hasher.update(data)
    return hasher.hexdigest()


def _head(kind: str, key: str, content: bytes) -> bytes:
    """The bytes before a content. Their digest covers the kind and the key, so what was moved is no entry."""
    hasher = blake2b(f"{kind}-{key}\n".encode(), digest_size=16)
    hasher.update(content)
    return MAGIC + hasher.digest()


def _removed(path: str) -> bool:
    """Removes a file, if that is possible: Windows keeps one that another process reads."""
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def _is_ours(status: os.stat_result) -> bool:
    """Tells whether only this user and the administrator can have written it; Windows has other means for that."""
    if sys.platform == "win32":
        return True
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & 0o022


# ---- this compiler ---------------------------------------------------------------------------------------------------
# Identifies this compiler: two that differ in anything never read what the other has kept.

BEGAN = time.time()
PACKAGE = Path(__file__).parents[1]
SOURCES = (".py", ".lark")


@cache
def identity() -> str | None:
    """A digest of the version of Python and of the compiler's files: their names, lengths and times.

    None if a file changed after this process began: what it has imported by now is then neither the one nor the other.
    """
    digest_of_files, newest = stamp()
    return None if newest > BEGAN else digest_of_files


def is_unchanged() -> bool:
    """Tells whether all that is imported of the compiler is from the files of `identity`, before something is kept."""
    return _is_unchanged(_imported(len(sys.modules)))


@cache
def _imported(modules: int) -> int:
    """How many modules of the compiler are imported where there are so many in all: they are seldom counted."""
    prefix = __name__.rpartition(".cache.")[0] + "."
    return sum([name.startswith(prefix) for name in sys.modules])


@cache
def _is_unchanged(imported: int) -> bool:
    """The files are looked at again where more of them have been imported than at the last look."""
    return identity() == stamp()[0]


def stamp(package: Path = PACKAGE) -> tuple[str, float]:
    """The digest of the files as they are now, and when the last of them changed."""
    stamps: list[str] = []
    newest = 0.0
    folders = [str(package)]
    while folders:
        with os.scandir(folders.pop()) as files:
            for file in files:
                if file.name.endswith(SOURCES):
                    status = file.stat()
                    stamps.append(f"{file.path} {status.st_size} {status.st_mtime_ns}")
                    newest = max(newest, status.st_mtime)
                elif file.is_dir() and file.name != "__pycache__":
                    folders.append(file.path)
    from dlang import __version__  # which a program that was built by itself does not have

    digest_of_files = digest(__version__, sys.version, sys.byteorder, *sorted(stamps))
    return digest_of_files, newest
