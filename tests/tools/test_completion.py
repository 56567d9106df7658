"""`dlc completion`: the scripts, in the shells that are there."""

import os
import pty
import select
import shutil
import subprocess
import sys

import pytest

from tests.patience import PATIENCE

PROGRAM = """
    fn loss(w: f64) -> f64 = w * w
    fn main(steps: i64 = 3, learning_rate: f64 = 0.1) { print(steps) }
    test "slope" { assert grad(loss)(1.0) == 2.0 }
    test "it's a \\"square\\"" { assert loss(3.0) == 9.0 }
    bench "loss" { loss(2.0) }
    fn not yet finished(
"""

COMPLETE = """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_dlc
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def script(dlc, write, tmp_path, monkeypatch):
    """Writes the script of a shell, which finds a `dlc`, two files and a folder; skips where there is no such shell."""
    write(f'#!/bin/sh\nexec {sys.executable} -m dlang.tools.dlc "$@"\n', "bin/dlc")
    (tmp_path / "bin/dlc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    write(PROGRAM, "program.dl")
    write("", "notes.txt")

    def script(shell):
        if shutil.which(shell) is None:
            pytest.skip(f"there is no {shell}")
        (tmp_path / f"dlc.{shell}").write_text(dlc("completion", shell)[1])
        return tmp_path / f"dlc.{shell}"

    return script


def answer(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stderr == "", done.stderr
    return done.stdout.split()


CASES = [
    ("dlc che", ["check", "check-grad"]),
    ("dlc --color never ex", ["explain"]),
    ("dlc --co", ["--color"]),
    ("dlc ir --st", ["--stage"]),
    ("dlc ir program.dl --stage lo", ["loops"]),
    ("dlc ir program.dl --after slice", ["slice_writes"]),
    ("dlc check --color a", ["auto", "always"]),
    ("dlc run pr", ["program.dl"]),
    ("dlc run --profile-out no", ["notes.txt"]),
    ("dlc explain E082", [f"E082{k}" for k in range(1, 10)]),
    ("dlc cache cl", ["clear"]),
    ("dlc completion b", ["bash"]),
    ("dlc plot no", ["notes.txt"]),
    ("dlc ir program.dl --fn l", ["loss"]),
    ("dlc test --filter s", ["slope"]),
    ("dlc run program.dl --learn", ["--learning-rate"]),
]


@pytest.mark.parametrize("line, expected", CASES)
def test_bash_completes(script, line, expected):
    assert answer("bash", "-c", COMPLETE.format(script=script("bash"), words=line)) == expected


def test_bash_completes_what_stands_behind_an_equals_sign(script):
    assert answer("bash", "-c", COMPLETE.format(script=script("bash"), words="dlc ir --stage = lo")) == ["loops"]


def test_bash_offers_folders_and_names_with_spaces(script, write):
    write("", "a folder/x.dl")
    write("", "a file.dl")
    command = COMPLETE.format(script=script("bash"), words="dlc run a")
    lines = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE
    ).stdout.splitlines()
    assert lines == ["a folder", "a file.dl"]


@pytest.mark.parametrize("line, expected", CASES)
def test_fish_completes(script, line, expected):
    found = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script('fish')}; complete -C '{line}'"], capture_output=True, text=True
    )
    assert sorted(x.split("\t")[0] for x in found.stdout.splitlines()) == sorted(expected), found.stderr


def test_zsh_completes(script, write):
    """In a terminal: each line is typed with a Tab behind it, and given up by Ctrl-G."""
    begin = 'autoload -U compinit; compinit -D -u; source {}; bindkey "^I" complete-word; setopt NO_BEEP\n'
    write(begin.format(script("zsh")), "begin")
    terminal, end = pty.openpty()
    os.set_blocking(terminal, False)

    def wait_for(text):
        seen = ""
        for _ in range(120):
            if select.select([terminal], [], [], 0.5)[0]:
                seen += os.read(terminal, 4096).decode()
            if text in seen:
                return
        raise AssertionError(seen)

    environment = os.environ | {"TERM": "dumb", "PS1": "READY"}
    with subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=end, stdout=end, stderr=end, env=environment, start_new_session=True
    ) as shell:
        try:
            wait_for("READY")
            os.write(terminal, b". ./begin\n")
            for line, expected in CASES:
                if len(expected) == 1:
                    wait_for("READY")
                    os.write(terminal, f"{line}\t".encode())
                    wait_for(" ".join(line.split()[:-1] + expected))
                    os.write(terminal, b"\x07")
        finally:
            shell.kill()
            os.close(terminal)
            os.close(end)


def test_names_that_a_shell_would_take_apart_are_quoted(script):
    command = COMPLETE.format(script=script("bash"), words="dlc test --filter it")
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE).stdout
    assert found == 'it\\\'s\\ a\\ \\"square\\"\n'


# ---- what the scripts ask --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "words, found",
    [
        (["fn", "ir", "program.dl"], ["loss", "main"]),
        (["bench", "bench", "."], ["loss"]),
        (["option", "run", "program.dl"], ["--steps", "--learning-rate"]),
        (["fn", "ir", "none.dl"], []),
        (["fn", "ir"], []),
    ],
)
def test_names_of_programs(dlc, write, words, found):
    write(PROGRAM, "program.dl")
    write(PROGRAM, "test/again.dl")
    code, out, err = dlc("completion", "names", *words)
    assert (code, out.splitlines(), err) == (0, found, "")


@pytest.mark.parametrize("words", [["names"], ["names", "no kind"], ["bash", "more"]])
def test_what_no_script_asks_is_a_wrong_command_line(dlc, words):
    assert dlc("completion", *words)[0] == 2
