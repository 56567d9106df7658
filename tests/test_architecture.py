"""The tour of the compiler is short, drawn from the code as it is, and names every folder and files that exist."""

import re
from pathlib import Path

import pytest

from tools.picture import fresh

ROOT = Path(__file__).parent.parent
FILES = [f.relative_to(ROOT).as_posix() for f in ROOT.glob("dlang/**/*") if "__pycache__" not in f.parts]
TOUR = "docs/architecture.md"
FOLDERS = sorted({Path(f).parent.as_posix() for f in FILES if (ROOT / f).is_file()} - {"dlang"})
LONGEST = 220


@pytest.mark.parametrize("page", [TOUR, *[f for f in FILES if f.endswith("__init__.py")]])
def test_files_that_are_named_exist(page: str) -> None:
    named = re.findall(r"`([\w/.]+\.(?:py|c|h|lark))`", (ROOT / page).read_text(encoding="utf-8"))
    known = [*FILES, *[f.relative_to(ROOT).as_posix() for f in (ROOT / "tests").glob("*.py")]]
    assert [name for name in named if not any(f"/{f}".endswith(f"/{name}") for f in known)] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_has_its_place_in_the_tour(folder: str) -> None:
    assert f"{folder.rpartition('/')[2]}/" in (ROOT / TOUR).read_text(encoding="utf-8")


def test_the_tour_is_short() -> None:
    assert len((ROOT / TOUR).read_text(encoding="utf-8").splitlines()) <= LONGEST


def test_the_picture_shows_the_code_as_it_is() -> None:
    stale = [path.name for path, text in fresh().items() if path.read_text(encoding="utf-8") != text]
    assert not stale, "draw it anew: make picture"
