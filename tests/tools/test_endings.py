"""How commands end: where nobody reads what they print, where that has no place, and where Ctrl-C comes."""

import json
import os
import subprocess
import sys

import pytest

from dlang.tools.command_line import COMMANDS
from dlang.tools.dlc import main
from tests.patience import PATIENCE

WORDS = {
    "check": ("none.dl",), "cache": ("path",), "completion": ("bash",), "explain": ("E0301",),
    "eval": ("1",), "fmt": ("--check", "none.dl"),
}  # fmt: skip
PRINTING = [(name, "--help") for name in COMMANDS] + [(name, *words) for name, words in WORDS.items()]


def full():
    return open("/dev/full", "w", encoding="utf-8")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
@pytest.mark.parametrize("words", [("--help",), ("--version",), *PRINTING], ids=" ".join)
def test_output_that_has_no_place_is_a_message(words, capsys, monkeypatch):
    with full() as out:
        monkeypatch.setattr("sys.stdout", out)
        assert main(list(words)) == 1
    err = capsys.readouterr().err
    assert "cannot write the output" in err or "none.dl" in err
    with full() as out, full() as errors:
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.stderr", errors)
        assert main(list(words)) == 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), errors.fileno())


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_a_reader_that_has_seen_enough_ends_a_command(words, capsys, monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as nobody:
        monkeypatch.setattr("sys.stdout", nobody)
        assert main(list(words)) == (1 if "none.dl" in words else 0)
        assert "cannot write" not in capsys.readouterr().err


INTERRUPTED = """
import json, os, signal, sys
for name, number in json.loads(sys.argv[1]):
    left = number
    def count(frame, event, argument):
        global left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGINT)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(writing, 1), os.dup2(writing, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["dlc", name, "none.dl"]
        from dlang.tools.dlc import main
        sys.setprofile(count)
        sys.exit(main())
    os.close(writing)
    said = os.fdopen(reading, errors="replace").read()
    print(json.dumps([name, number, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), left, said]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that are copies")
def test_ctrl_c_ends_a_command_in_silence_from_its_first_moments_on():
    """The signal comes at some call of a function of Python, of which there are thousands until a command works."""
    moments = [("run", 3**k) for k in range(1, 9)] + [(name, 300 + 150 * k) for k, name in enumerate(COMMANDS)]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, json.dumps(moments)], capture_output=True, text=True, timeout=PATIENCE
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(moments), done.stderr
    wrong = [f for f in found if f[2] != 130 or (f[-1] and "E0951" not in f[-1]) or "Traceback" in f[-1]]
    assert wrong == []


def test_too_little_memory_is_not_a_defect(capsys, monkeypatch):
    for e in (MemoryError(), OSError("Could not find/load shared object file"), SystemError("no exception set")):

        def fails(*_, e=e):
            raise e

        monkeypatch.setattr("dlang.tools.check.check_files", fails)
        monkeypatch.setattr("dlang.tools.command_line.SHORT", 1 << 60)
        assert main(["check", "x.dl"]) == 1
        assert "too little memory" in capsys.readouterr().err
        monkeypatch.setattr("dlang.tools.command_line.SHORT", 1)
        assert main(["check", "x.dl"]) == (1 if isinstance(e, MemoryError) else 70)
        capsys.readouterr()
