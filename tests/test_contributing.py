"""What CONTRIBUTING.md shows is so: its diffs are in the code, and its commands run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlang.tools.dlc import main
from tests.patience import PATIENCE

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DIFF = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def hunks() -> Iterator[tuple[str, str]]:
    """The parts of the diffs: a file, and what is in it afterwards."""
    for diff in DIFF.findall(PAGE):
        for part in re.split(r"^\+\+\+ ", diff, flags=re.MULTILINE)[1:]:
            path, _, rest = part.partition("\n")
            for hunk in re.split(r"^@@.*\n", rest, flags=re.MULTILINE)[1:]:
                assert all(line[:1] in ("+", " ") for line in hunk.splitlines()), "a diff only adds"
                yield path, "".join(f"{line[1:]}\n" for line in hunk.splitlines())


@pytest.mark.parametrize(("path", "after"), list(hunks()), ids=[path for path, _ in hunks()])
def test_a_diff_is_in_the_code(path: str, after: str) -> None:
    assert after in (ROOT / path).read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    return [shlex.split(line, comments=True) for block in COMMAND.findall(PAGE) for line in block.splitlines()]


def test_the_commands_run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for name, *words in commands():
        if name == ".venv/bin/dlc":
            assert main(words) == 0, capfd.readouterr().err
        elif name == ".venv/bin/python" and "tests.fuzz" in words:
            subprocess.run([sys.executable, *words], check=True, timeout=PATIENCE)
        elif name == ".venv/bin/python":
            assert all((ROOT / word).exists() for word in words if word.startswith("tests/"))
        else:
            assert name == "make" and re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "3 programs, 0 disagreements" in capfd.readouterr().out


def test_the_options_of_the_fuzzer_exist(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.fuzz.__main__ import main as fuzz

    with pytest.raises(SystemExit):
        fuzz(["--help"])
    known = capsys.readouterr().out
    section = PAGE.split("## A failure of the fuzzer")[1].split("\n## ")[0]
    assert not [option for option in re.findall(r"--[a-z]+", section) if option not in known]
