"""The tour of the compiler names files that exist, and says what every package is for."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = [f.relative_to(ROOT).as_posix() for f in ROOT.glob("dlang/**/*") if "__pycache__" not in f.parts]
TOUR = "docs/architecture.md"
PACKAGES = sorted({Path(f).parent.as_posix() for f in FILES if f.endswith(".py")} - {"dlang"})


@pytest.mark.parametrize("page", [TOUR, *[f for f in FILES if f.endswith("__init__.py")]])
def test_files_that_are_named_exist(page: str) -> None:
    named = re.findall(r"`([\w/.]+\.(?:py|c|h|lark))`", (ROOT / page).read_text(encoding="utf-8"))
    known = [*FILES, *[f.relative_to(ROOT).as_posix() for f in (ROOT / "tests").glob("*.py")]]
    assert [name for name in named if not any(f"/{f}".endswith(f"/{name}") for f in known)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_its_place_in_the_tour(package: str) -> None:
    assert f"{package.rpartition('/')[2]}/" in (ROOT / TOUR).read_text(encoding="utf-8")
