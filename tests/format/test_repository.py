"""The programs of the repository, of its pages and of the tour are written in the style."""

import contextlib
import re
from pathlib import Path

import pytest

from dlang.diagnostics import DlangError, Source
from dlang.format.formatting import format_source

ROOT = Path(__file__).parents[2]
TOUR = ROOT.parent / "shared" / "tour"
FOLDERS = ["stdlib", "examples", "benchmarks", "tests/programs", "tests/stdlib"]
TEMPLATES = sorted((ROOT / "dlang/tools/templates").rglob("*.dl.template"))
PROGRAMS = [*TEMPLATES, *(file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.dl")))]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```dlang[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def unchanged(path, text):
    assert format_source(Source(str(path), text)) == text, "`dlc fmt` writes it in the style"


@pytest.mark.parametrize("file", PROGRAMS, ids=lambda f: str(f.relative_to(ROOT)))
def test_a_program_is_written_in_the_style(file):
    unchanged(file, file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda f: str(f.relative_to(ROOT)))
def test_the_programs_of_a_page_are_written_in_the_style(page):
    for text in BLOCK.findall(page.read_text(encoding="utf-8")):
        with contextlib.suppress(DlangError):  # a program that is wrong on purpose
            unchanged(page, text)


@pytest.mark.skipif(not TOUR.is_dir(), reason="there is no tour beside the repository")
def test_the_tour_is_written_in_the_style():
    files = [f for f in sorted(TOUR.rglob("*.dl")) if f.name != "syntax.dl"]
    assert files
    for file in files:
        unchanged(file, file.read_text(encoding="utf-8"))
