"""Where the file of an imported module is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import dlang
from dlang.diagnostics import Span, error


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
        """Whether a file has the name of a module of the standard library, and is not that module."""
        library = self.standard(path.stem)
        return library is not None and library != path

    def holding(self, name: str) -> list[str]:
        """The modules of the standard library that declare a public function or constant of the name."""
        declares = re.compile(rf"^(?:fn|const|extern\b.*\bfn) {re.escape(name)}\b", re.MULTILINE)
        files = {f.stem: f for d in library_folders() if d.is_dir() for f in d.glob("*.dl")}
        known = sorted(stem for stem in files if stem != "prelude" and not stem.startswith("_"))
        return [stem for stem in known if declares.search(files[stem].read_text(encoding="utf-8"))]

    def instead_of(self, path: tuple[str, ...], importing: Path) -> tuple[str, ...]:
        """What to write for a module that isn't there."""
        from dlang.typecheck import elsewhere
        from dlang.typecheck.messages import did_you_mean

        name = ".".join(path)
        other = elsewhere.of_module(name)
        if other is not None:
            return (other,)
        *above, last = path
        if above and self.find(tuple(above), importing) is not None:
            return (f"to import a name of a module, write `import {'.'.join(above)} {{ {last} }}`",)
        return did_you_mean(name, self.known(importing))

    def known(self, importing: Path) -> list[str]:
        """Modules that could have been meant."""
        folders = (importing.parent, *self.search_path, *library_folders())
        return sorted(
            {
                f.stem
                for d in folders
                if d.is_dir()
                for f in d.glob("*.dl")
                if f.stem != "prelude" and not f.stem.startswith("_")
            }
        )


def read(path: str | Path, at: Span | None = None) -> str:
    """The text of a file. One that can't be read is a `DlangError`, at the import that asks for it."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        raise error("E0952", f"`{path}` is not UTF-8 text: byte {e.start} cannot be decoded", at) from None
    except (OSError, ValueError) as e:  # a name that the system can't have is a ValueError
        raise error("E0951", f"cannot read `{path}`: {getattr(e, 'strerror', None) or e}", at) from None


def is_file(path: Path) -> bool:
    """Whether there is a readable file; a name that the system can't have is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def library_folders() -> tuple[Path, ...]:
    """The standard library: inside an installed package, or beside it in the repository."""
    package = Path(dlang.__file__).parent
    return (package / "stdlib", package.parent / "stdlib")
