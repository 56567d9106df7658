"""Where the file of an imported module is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import dlang


@dataclass(frozen=True, slots=True)
class Finder:
    """Beside the importing file, then on the search path, then in the standard library."""

    search_path: tuple[Path, ...] = ()

    def places(self, path: tuple[str, ...], importing: Path) -> list[Path]:
        relative = Path(*path).with_suffix(".dl")
        return [d / relative for d in (importing.parent, *self.search_path, *library_folders())]

    def find(self, path: tuple[str, ...], importing: Path) -> Path | None:
        return next((p for p in self.places(path, importing) if is_file(p)), None)

    def standard(self, name: str) -> Path | None:
        return next((p for d in library_folders() if is_file(p := d / f"{name}.dl")), None)

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
