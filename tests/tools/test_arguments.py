"""A wrong command line is told what is expected, and what may have been meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlang.tools.dlc import main

MAIN = "fn main(epochs: i64 = 3, rate: f64 = 0.1) { print(rate) }\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnu", "m.dl"], "there is no command `rnu`; did you mean `run`?"),
        (["sing", "m.dl"], "there is no command `sing`; `dlc --help` lists them"),
        (["ir", "m.dl", "--stage", "optt"], "llvm, asm, cuda; did you mean `opt`?"),
        (["check", "m.dl", "--jsn"], "there is no option `--jsn`; did you mean `--json`?"),
        (["run", "m.dl", "--epoch", "5"], "there is no option `--epoch`; did you mean `--epochs`?"),
        (["run", "m.dl", "--rate", "x"], "--rate: expected a number, found `x`"),
        (["run", "m.dl", "--epochs", "2.5"], "--epochs: expected i64, found `2.5`"),
        (["run", "m.dl", "--epochs"], "--epochs: expected a value"),
        (["profile", "m.dl", "--epoch"], "profile m.dl: error: there is no option `--epoch`; did you mean `--epochs`?"),
        (["profile", "--fn", "main", "m.dl"], "--fn: only together with --compile"),
        (["run"], "error: expected FILE"),
        (["ir"], "error: expected FILE"),
        (["ir", "m.dl"], "error: expected --stage, --after or --changed"),
        (["bench", "--seconds", "-1"], "--seconds: `-1` is not a positive number"),
        (["build", "--exe", "--shared", "m.dl"], "--shared: not together with --exe"),
        (["fmt", "--stdin", "m.dl"], "--stdin takes no PATH"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_told_what_is_expected(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.dl").write_text(MAIN)
    assert main(arguments) == 2
    assert capsys.readouterr().err.strip().endswith(said)


def test_a_function_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.dl").write_text(MAIN)
    assert main(["ir", "m.dl", "--stage", "mono", "--fn", "man"]) == 1
    assert "no function or test `man`\n  = help: did you mean `main`?" in capsys.readouterr().err
