"""Finds the files of imported modules."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import dlang
from dlang.diagnostics import DlangError, Span, error
from dlang.lazy_modules import lazy_module
from dlang.spelling import closest

if TYPE_CHECKING:
    from dlang.typecheck import elsewhere, messages
else:
    elsewhere = lazy_module("dlang.typecheck.elsewhere")
    messages = lazy_module("dlang.typecheck.messages")


@dataclass(frozen=True, slots=True)
class Finder:
    """Beside the importing file, then on the search path, then in the standard library.

    unsaved: texts of files, by path, that count instead of what the files hold, such as those in an editor.
    """

    search_path: tuple[Path, ...] = ()
    unsaved: Mapping[str, str] = field(default_factory=dict)

    def places(self, path: tuple[str, ...], importing: Path) -> list[Path]:
        relative = Path(*path).with_suffix(".dl")
        return [d / relative for d in (importing.parent, *self.search_path, *library_folders())]

    def find(self, path: tuple[str, ...], importing: Path) -> Path | None:
        return next((p for p in self.places(path, importing) if self.exists(p)), None)

    def exists(self, path: Path) -> bool:
        return str(path) in self.unsaved or is_file(path)

    def read(self, path: Path, at: Span) -> str:
        """The text of a file. Raises `DlangError`, with the place of the import, if it can't be read."""
        known = self.unsaved.get(str(path))
        return read(path, at) if known is None else known

    def standard(self, name: str) -> Path | None:
        return next((p for d in library_folders() if is_file(p := d / f"{name}.dl")), None)

    def hidden(self, path: Path) -> bool:
        """Tells whether a file has the name of a module of the standard library, and is not that module."""
        library = self.standard(path.stem)
        return library is not None and library != path

    def holding(self, name: str) -> list[str]:
        """The modules of the standard library that declare a public function or constant of the name."""
        declares = re.compile(rf"^(?:fn|const|extern\b.*\bfn) {re.escape(name)}\b", re.MULTILINE)
        files = {f.stem: f for d in library_folders() if d.is_dir() for f in d.glob("*.dl")}
        known = sorted(stem for stem in files if stem != "prelude" and not stem.startswith("_"))
        return [stem for stem in known if declares.search(files[stem].read_text(encoding="utf-8"))]

    def instead_of(self, path: tuple[str, ...], importing: Path) -> tuple[str, ...]:
        """Suggests a replacement for a module that isn't there."""
        name = ".".join(path)
        other = elsewhere.of_module(name)
        if other is not None:
            return (other,)
        *above, last = path
        if above and self.find(tuple(above), importing) is not None:
            return (f"to import a name of a module, write `import {'.'.join(above)} {{ {last} }}`",)
        return messages.did_you_mean(name, self.known(importing))

    def known(self, importing: Path, above: Sequence[str] = ()) -> list[str]:
        """Modules that could have been meant. above: the folders in front of the name, as an import has them."""
        folders = [Path(d, *above) for d in (importing.parent, *self.search_path, *library_folders())]
        files = [f for d in folders if d.is_dir() for f in d.glob("*.dl")]
        files += [f for path in self.unsaved if (f := Path(path)).parent in folders and f.suffix == ".dl"]
        return sorted({f.stem for f in files if f != importing and f.stem != "prelude" and not f.stem.startswith("_")})


def read(path: str | Path, at: Span | None = None) -> str:
    """The text of a file. One that can't be read is a `DlangError`, at the import that asks for it."""
    return read_exactly(path, at).replace("\r\n", "\n").replace("\r", "\n")


def read_exactly(path: str | Path, at: Span | None = None) -> str:
    """The text of a file, its line ends as they are."""
    try:
        return decoded(Path(path).read_bytes(), str(path), at)
    except (OSError, ValueError) as e:  # a name that the system can't have is a ValueError
        raise unreadable(path, e, at) from None


def decoded(content: bytes, path: str, at: Span | None = None) -> str:
    """The text that a file holds. E0952 if it is none."""
    try:
        return content.decode()
    except UnicodeDecodeError as e:
        line = content.count(b"\n", 0, e.start) + 1
        message = f"`{path}` is not UTF-8 text: byte 0x{content[e.start]:02x} in line {line} cannot be decoded"
        raise error("E0952", message, at, help=("a program is text; save it as UTF-8",)) from None


def unreadable(path: str | Path, why: Exception, at: Span | None = None) -> DlangError:
    """E0951, which knows what the name of a file may have meant."""
    path, help = Path(path), ""
    with suppress(OSError, ValueError):
        if path.is_dir():
            help = f"it is a folder; name a file in it{_example(path)}"
        elif not path.exists() and (close := closest(path.name, sorted(os.listdir(path.parent)))):
            help = f"did you mean `{path.with_name(close)}`?"
    reason = getattr(why, "strerror", None) or why
    return error("E0951", f"cannot read `{path}`: {reason}", at, help=(help,) if help else ())


def _example(folder: Path) -> str:
    first = min(folder.glob("*.dl"), default=None)
    return "" if first is None else f", such as `{first}`"


def is_file(path: Path) -> bool:
    """Tells whether there is a readable file; a name that the system can't have is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def library_folders() -> tuple[Path, ...]:
    """The standard library: inside an installed package; beside it in the repository alone."""
    package = Path(dlang.__file__).parent
    inside = package / "stdlib"
    return (inside if inside.is_dir() else package.parent / "stdlib",)
