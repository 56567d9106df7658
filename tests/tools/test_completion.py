"""`dlc completion`: the scripts, in the shells that are there."""

import shutil
import subprocess

import pytest

COMPLETE = """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_dlc
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def script(dlc, tmp_path):
    """Writes the script of a shell, and skips where there is no such shell."""

    def script(shell):
        if shutil.which(shell) is None:
            pytest.skip(f"there is no {shell}")
        (tmp_path / f"dlc.{shell}").write_text(dlc("completion", shell)[1])
        return tmp_path / f"dlc.{shell}"

    return script


def answer(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.stderr == "", done.stderr
    return done.stdout.split()


CASES = [
    ("dlc che", ["check", "check-grad"]),
    ("dlc --color never ex", ["explain"]),
    ("dlc --co", ["--color"]),
    ("dlc ir --st", ["--stage"]),
    ("dlc ir program.dl --stage lo", ["loops"]),
    ("dlc check --color a", ["auto", "always"]),
    ("dlc run pr", ["program.dl"]),
    ("dlc run --profile-out no", ["notes.txt"]),
    ("dlc explain E082", [f"E082{k}" for k in range(1, 10)]),
    ("dlc cache cl", ["clear"]),
    ("dlc completion b", ["bash"]),
]


@pytest.mark.parametrize("line, expected", CASES)
def test_bash_completes(script, write, line, expected):
    write("", "program.dl")
    write("", "notes.txt")
    assert answer("bash", "-c", COMPLETE.format(script=script("bash"), words=line)) == expected


def test_bash_completes_what_stands_behind_an_equals_sign(script):
    assert answer("bash", "-c", COMPLETE.format(script=script("bash"), words="dlc ir --stage = lo")) == ["loops"]


def test_bash_offers_folders_and_names_with_spaces(script, write):
    write("", "a folder/x.dl")
    write("", "a file.dl")
    command = COMPLETE.format(script=script("bash"), words="dlc run a")
    lines = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30).stdout.splitlines()
    assert lines == ["a folder", "a file.dl"]


@pytest.mark.parametrize("line, expected", CASES)
def test_fish_completes(script, write, line, expected):
    write("", "program.dl")
    write("", "notes.txt")
    found = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script('fish')}; complete -C '{line}'"], capture_output=True, text=True
    )
    assert sorted(x.split("\t")[0] for x in found.stdout.splitlines()) == sorted(expected), found.stderr


def test_zsh_reads_its_script(script):
    assert answer("zsh", "-n", str(script("zsh"))) == []
