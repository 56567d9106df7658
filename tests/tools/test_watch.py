"""`dlc check --watch`: what it sees, what it says, and how it ends."""

import json
import os
import signal
import subprocess
import sys

import pytest

from dlang.tools.check import Watcher, watch
from tests.patience import PATIENCE


@pytest.fixture
def edit(write, tmp_path):
    """Writes a file, and makes sure that its time differs from that of the one before."""
    seconds = iter(range(1_000_000_000, 2_000_000_000))

    def edit(text, name="program.dl"):
        write(text, name)
        os.utime(tmp_path / name, (next(seconds),) * 2)
        return name

    return edit


def test_a_mistake_and_its_repair_are_seen(edit, capsys):
    watcher = Watcher([edit("fn f(x: f64) -> f64 = y\n")])
    assert watcher.check() == (1, 1) and not watcher.changed()
    assert "E0201" in capsys.readouterr().err
    edit("fn f(x: f64) -> f64 = x\n")
    assert watcher.changed() and watcher.check() == (1, 0) and not watcher.changed()
    assert capsys.readouterr().err == ""


def test_imports_are_watched_from_when_they_are_imported_to_when_they_are_not(edit):
    edit("fn g(x: f64) -> f64 = x\n", "other.dl")
    watcher = Watcher([edit("import other\nfn f(x: f64) -> f64 = other.g(x)\n")])
    assert watcher.check() == (1, 0)
    edit("fn g(x: f64, y: f64) -> f64 = x\n", "other.dl")
    assert watcher.changed() and watcher.check()[1] > 0
    edit("fn f(x: f64) -> f64 = x\n")
    assert watcher.changed() and watcher.check() == (1, 0) and not watcher.changed()
    edit("fn g( =\n", "other.dl")
    assert not watcher.changed()


def test_a_module_that_was_missing_is_seen_when_it_appears(edit, tmp_path):
    watcher = Watcher([edit("import other\nfn f(x: f64) -> f64 = other.g(x)\n")])
    assert watcher.check()[1] > 0
    (tmp_path / "notes.txt").write_text("of no interest")
    assert not watcher.changed()
    edit("fn g(x: f64) -> f64 = x\n", "other.dl")
    assert watcher.changed() and watcher.check() == (1, 0)


def test_files_come_and_go_in_a_folder(edit, tmp_path):
    edit("fn f(x: f64) -> f64 = x\n", "sub/a.dl")
    watcher = Watcher(["."])
    assert watcher.check() == (1, 0)
    edit("fn f( = x\n", "sub/deep/b.dl")
    assert watcher.changed() and watcher.check()[0] == 2
    (tmp_path / "sub/deep/b.dl").unlink()
    assert watcher.changed() and watcher.check() == (1, 0)


def test_a_file_that_is_not_there_is_a_message_until_it_is(edit, capsys):
    watcher = Watcher(["program.dl"])
    assert watcher.check() == (0, 1) and "E0951" in capsys.readouterr().err
    edit("fn f(x: f64) -> f64 = x\n")
    assert watcher.changed() and watcher.check() == (1, 0)


def test_a_terminal_has_the_last_check_alone(edit, capsys, monkeypatch):
    file = edit("fn f(x: f64) -> f64 = x\n")
    assert watch([file], False, lambda: True) == 0
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    watch([file], False, lambda: True)
    assert capsys.readouterr().out.startswith("\x1b[H\x1b[2J")


def test_a_process_checks_again_after_a_change_and_ends_with_0_at_ctrl_c(edit, tmp_path):
    command = [sys.executable, "-m", "dlang.tools.dlc", "check", "--watch", "--json", edit("fn f(x: f64) = x + tru\n")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        first = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert first[0]["code"] == "E0201" and first[1]["errors"] == 1
        edit("fn f(x: f64) = x\n")
        assert json.loads(process.stdout.readline())["errors"] == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE) == 0


def test_of_a_long_file_what_an_edit_touches_alone_is_checked_again(edit):
    functions = [
        f"fn part{k}(x: f64[n], y: f64[n]) -> f64 {{\n  let r = x - {k}.0 * y\n  sum(r * r) / f64(len(r))\n}}\n"
        for k in range(250)
    ]
    file = edit("".join(functions))
    watcher = Watcher([file])
    assert watcher.check() == (1, 0)
    for k in range(5):
        edit("".join(functions).replace("x - 100.0", f"x + {k}.5"))
        assert watcher.changed() and watcher.check() == (1, 0)
        assert watcher.workspaces[file].rechecked == ("part100",)
