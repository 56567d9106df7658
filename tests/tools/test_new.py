"""`dlc new`: what it makes runs, is tested, and is called from Python."""

import subprocess
import sys

import pytest

from tests.patience import PATIENCE


def made(dlc, tmp_path, monkeypatch, *argv):
    monkeypatch.chdir(tmp_path)
    code, out, err = dlc("new", *argv)
    assert (code, err) == (0, "")
    folder = tmp_path / argv[-1]
    monkeypatch.chdir(folder)
    return out, {p.name for p in folder.iterdir()}


def test_a_program_runs_is_tested_and_is_called_from_python(dlc, tmp_path, monkeypatch):
    out, files = made(dlc, tmp_path, monkeypatch, "my-wave")
    assert files == {"main.dl", "use.py", "README.md", ".gitignore"}
    assert out.splitlines()[-1] == "next: cd my-wave && dlc run main.dl"
    assert dlc("check", "main.dl") == (0, "", "")
    assert dlc("run", "main.dl")[:2] == (0, "w = [2.000 3.000]\n")
    assert dlc("test", ".")[0] == 0
    used = subprocess.run([sys.executable, "use.py"], capture_output=True, text=True, timeout=PATIENCE)
    assert used.stdout.startswith("w = [2. 3.]"), used.stderr


def test_a_library_is_tested_and_is_imported_by_python(dlc, tmp_path, monkeypatch):
    out, files = made(dlc, tmp_path, monkeypatch, "--lib", "my-splines")
    assert files == {"my_splines.dl", "use.py", "README.md", ".gitignore"}
    assert out.splitlines()[-1] == "next: cd my-splines && dlc test my_splines.dl"
    assert dlc("check", ".") == (0, "", "")
    code, out, _ = dlc("test", ".")
    assert code == 0 and "2 passed" in out
    used = subprocess.run([sys.executable, "use.py"], capture_output=True, text=True, timeout=PATIENCE)
    assert used.stdout.splitlines()[1] == "0.5: 0.500, steepness 1.500", used.stderr


def test_no_file_of_a_project_mentions_its_template(dlc, tmp_path, monkeypatch):
    for argv in (["one"], ["--lib", "two"]):
        made(dlc, tmp_path, monkeypatch, *argv)
    for file in [*tmp_path.glob("one/*"), *tmp_path.glob("two/*")]:
        assert "MODULE" not in file.read_text() and "PROJECT" not in file.read_text()


@pytest.mark.parametrize("argv", [["1x"], ["a b"], ["--lib", "nn"], ["--lib", "let"], ["--lib", "class"], ["full"]])
def test_what_cannot_be_made_is_left_alone(dlc, write, tmp_path, argv):
    write("something", "full/file")
    code, out, err = dlc("new", *argv)
    assert (code, out) == (1, "") and err.startswith("error[E0990]") and "help: " in err
    assert [p.name for p in tmp_path.rglob("*")] == ["full", "file"]


def test_an_empty_folder_is_filled_and_one_in_a_file_cannot_be_made(dlc, write, tmp_path):
    write("something", "file")
    (tmp_path / "empty").mkdir()
    assert dlc("new", "empty")[0] == 0 and (tmp_path / "empty/main.dl").exists()
    code, _, err = dlc("new", "file/inner")
    assert code == 1 and "E0822" in err
