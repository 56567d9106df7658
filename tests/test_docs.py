"""What the documents show is true: programs check or are refused as they say, and commands exist."""

import re
import shlex
from pathlib import Path

import pytest

from dlang.diagnostics import Source
from dlang.driver import check, errors_of
from dlang.tools.dlc import main

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "dlang/explain").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language):
    return [
        pytest.param(document, info.strip(), text, id=f"{document.name}:{number}")
        for document in DOCUMENTS
        for number, (tag, info, text) in enumerate(BLOCK.findall(document.read_text()), 1)
        if tag == language
    ]


@pytest.mark.parametrize("document, info, text", blocks("dlang"))
def test_a_program_in_a_document_checks_or_is_refused_as_it_says(document, info, text):
    codes = [d.code for d in errors_of(check(Source(str(document), text)))]
    if info == "":
        assert not codes
    elif info == "refused":
        assert codes
        assert not document.stem.startswith("E0") or document.stem in codes
    else:  # the page of an error that only a run can show
        assert info == "stops" and not codes


def test_every_code_that_the_compiler_can_give_has_a_page():
    given = {code for file in (ROOT / "dlang").rglob("*.py") for code in re.findall(r'"(E0\d{3})"', file.read_text())}
    pages = {page.stem for page in (ROOT / "dlang/explain").glob("*.md")}
    assert pages == given


def readme_commands():
    lines = "".join(
        text for tag, _, text in BLOCK.findall((ROOT / "README.md").read_text()) if tag == "sh"
    ).splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def test_the_make_targets_of_the_readme_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wanted = {command[1] for command in readme_commands() if command[0] == "make"}
    assert wanted and wanted <= targets


def test_the_dlc_commands_of_the_readme_run(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    commands = [command[1:] for command in readme_commands() if command[0].endswith("dlc")]
    assert commands
    for command in commands:
        assert main(command) == 0, capsys.readouterr().err
    assert "w = [2.000 3.000]" in capsys.readouterr().out


def test_the_program_of_the_readme_is_the_example():
    first = next(text for tag, info, text in BLOCK.findall((ROOT / "README.md").read_text()) if tag == "dlang")
    assert first in (ROOT / "examples/fit.dl").read_text()


def test_the_versions_of_the_package_and_the_changelog_agree():
    import dlang

    assert re.fullmatch(r"\d+\.\d+\.\d+", dlang.__version__)
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()
