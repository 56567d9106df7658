"""What commands write is there as a whole, or what was there before."""

import pytest

from dlang.tools.repl.commands import save
from dlang.tools.repl.session import Session
from tests.limits import file_limit

SQUARE = "fn square(x: f64) -> f64 = x * x\n"
COMMANDS = {
    "square.pyi": ("stub", "square.dl"),
    "graph.dot": ("graph", "square.dl", "--fn", "square", "-o", "graph.dot"),
    "trace.json": ("profile", "--compile", "--trace", "trace.json", "square.dl"),
    "ugly.dl": ("fmt", "ugly.dl"),
    "site/index.html": ("doc", "square.dl", "-o", "site"),
    "coverage.lcov": ("test", "square.dl", "--coverage-out", "coverage.lcov"),
}


@pytest.mark.parametrize("file", COMMANDS)
def test_a_command_that_can_not_write_leaves_the_old_file(file, dlc, write, tmp_path):
    write(SQUARE + 'test "it" { assert square(3.0) == 9.0 }\n', "square.dl")
    old = "fn   f( x:f64 )->f64=x\n" if file == "ugly.dl" else "old"
    write(old, file)
    with file_limit(2):
        code, _, err = dlc(*COMMANDS[file])
    assert code == 1 and "File too large" in err, err
    assert (tmp_path / file).read_text() == old and not list(tmp_path.rglob("*.part"))


def test_a_session_that_can_not_be_saved_leaves_the_old_file(write, tmp_path):
    write("old", "saved.dl")
    session = Session()
    session.submit(SQUARE)
    with file_limit(2), pytest.raises(Exception, match="E0822"):
        save(session, "saved.dl")
    assert (tmp_path / "saved.dl").read_text() == "old"


def test_a_project_that_can_not_be_written_is_not_begun(dlc, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("wave", "deep/er/wave", "empty"):
        with file_limit(60):
            assert dlc("new", name)[0] == 1
    assert [f.name for f in tmp_path.rglob("*")] == ["empty"]


def test_what_is_built_into_a_place_that_is_no_folder_is_refused(dlc, write):
    file = write("fn f(x: f64) -> f64 = x * x\n")
    code, out, err = dlc("build", file, "-o", f"{file}/built")
    assert (code, out) == (1, "")
    assert "error[E0822]: cannot write to `program.dl/built`" in err and "help: choose a place" in err
