"""`dlc fmt`."""

import io
import os
import stat
import sys

import pytest

UGLY, NICE = "fn f(x)=x   # same\n", "fn f(x) = x   # same\n"


def test_files_are_written_anew_and_named(write, dlc, tmp_path):
    ugly, nice = write(UGLY, "ugly.dl"), write(NICE, "nice.dl")
    assert dlc("fmt", ugly, nice) == (0, "ugly.dl\n1 of 2 files formatted\n", "")
    assert (tmp_path / ugly).read_text() == (tmp_path / nice).read_text() == NICE
    assert dlc("fmt", ugly, nice) == (0, "", "")


def test_check_names_files_and_writes_nothing(write, dlc, tmp_path):
    write(UGLY, "a/ugly.dl"), write(NICE, "a/b/nice.dl")
    assert dlc("fmt", "--check", "a") == (1, "a/ugly.dl\n1 of 2 files would be formatted\n", "")
    assert (tmp_path / "a/ugly.dl").read_text() == UGLY
    assert dlc("fmt", "--check", "a/b") == (0, "", "")


def test_a_file_with_syntax_errors_is_left_as_it_is_and_others_are_not(write, dlc, tmp_path):
    wrong, ugly = write("fn f( = 1\n", "wrong.dl"), write(UGLY, "ugly.dl")
    code, out, err = dlc("fmt", wrong, ugly)
    assert code == 1 and "wrong.dl:1:" in err and out.startswith("ugly.dl\n")
    assert (tmp_path / wrong).read_text() == "fn f( = 1\n" and (tmp_path / ugly).read_text() == NICE


def test_errors_as_json(write, dlc):
    code, out, err = dlc("fmt", "--json", write("fn f( = 1\n"))
    assert code == 1 and out.startswith('{"file": "program.dl"') and err == ""


def test_files_as_json(write, dlc):
    ugly = write(UGLY)
    assert dlc("fmt", "--json", "--check", ugly) == (1, '{"file": "program.dl", "written": false}\n', "")
    assert dlc("fmt", "--json", ugly) == (0, '{"file": "program.dl", "written": true}\n', "")
    assert dlc("fmt", "--json", ugly) == (0, "", "")


@pytest.mark.parametrize(
    "argv, text, result",
    [
        (["--stdin"], UGLY, (0, NICE)),
        (["--stdin", "--check"], UGLY, (1, "")),
        (["--stdin", "--check"], NICE, (0, "")),
        (["--stdin"], "fn f(x)=θ\r\n", (0, "fn f(x) = θ\r\n")),
    ],
)
def test_the_standard_input_is_filtered(dlc, monkeypatch, argv, text, result):
    source, sink = io.TextIOWrapper(io.BytesIO(text.encode())), io.TextIOWrapper(io.BytesIO(), newline="")
    monkeypatch.setattr(sys, "stdin", source)
    monkeypatch.setattr(sys, "stdout", sink)
    code = dlc("fmt", *argv)[0]
    assert (code, sink.buffer.getvalue().decode()) == result


def test_an_input_that_is_wrong_is_a_message(dlc, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"fn f( = 1")))
    code, out, err = dlc("fmt", "--stdin")
    assert code == 1 and out == "" and "<stdin>:1:" in err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    code, out, err = dlc("fmt", "--stdin")
    assert code == 1 and out == "" and "E0952" in err


def test_the_mode_of_a_file_its_line_ends_and_links_stay(dlc, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.dl").write_bytes(b"fn f(x)=x\r\n")
    (tmp_path / "a.dl").chmod(0o640)
    (tmp_path / "link.dl").symlink_to("a.dl")
    assert dlc("fmt", "link.dl")[0] == 0
    assert (tmp_path / "link.dl").is_symlink()
    assert (tmp_path / "a.dl").read_bytes() == b"fn f(x) = x\r\n"
    assert stat.S_IMODE((tmp_path / "a.dl").stat().st_mode) == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.dl", "link.dl"]


def test_a_file_that_is_missing_or_no_text_or_cannot_be_written_is_a_message(write, dlc, tmp_path, monkeypatch):
    assert "E0951" in dlc("fmt", "none.dl")[2]
    (tmp_path / "bytes.dl").write_bytes(b"fn f\xff")
    assert "E0952" in dlc("fmt", tmp_path / "bytes.dl")[2]
    ugly = write(UGLY)

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    code, _, err = dlc("fmt", ugly)
    assert code == 1 and "E0822" in err and "No space left" in err
    assert (tmp_path / ugly).read_text() == UGLY
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bytes.dl", "program.dl"]


def test_a_change_of_meaning_is_a_defect_and_nothing_is_written(write, dlc, tmp_path, monkeypatch):
    monkeypatch.setattr("dlang.format.formatting._formatted", lambda source: "fn f(x) = 2\n")
    code, out, err = dlc("fmt", write(UGLY))
    assert code == 70 and out == "" and "this is a bug in dlang" in err
    assert (tmp_path / "program.dl").read_text() == UGLY
