"""Keys, without a terminal; the splitting and the colours of what is typed."""

import stat
import sys

import pytest
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from dlang.tools.repl.commands import Conversation
from dlang.tools.repl.inputs import incomplete, indentation, pieces, split
from dlang.tools.repl.prompt import coloured, ends, history_file, kept_history, prompt_of
from dlang.tools.repl.session import Session


def typed(keys, history=None):
    """The input that keys make."""
    with create_pipe_input() as terminal:
        terminal.send_text(keys + CTRL_C)  # an input that goes on is an error, not a wait
        conversation = Conversation(Session("interp"))
        prompt = prompt_of(conversation, input=terminal, output=DummyOutput(), history=history or InMemoryHistory())
        return prompt.prompt()


ALT_ENTER, LEFT, UP, CTRL_C = "\x1b\r", "\x1b[D", "\x1b[A", "\x03"


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("1 + 1\r", "1 + 1"),
        ("f(\r1)\r", "f(\n  1)"),
        ("f(\r1\r)\r", "f(\n  1\n)"),
        ("fn f(x) {\rif x {\r1\r} else {\r2\r}\r}\r", "fn f(x) {\n  if x {\n    1\n  } else {\n    2\n  }\n}"),
        ("let x =\r3\r", "let x =\n  3"),
        ("f(" + ALT_ENTER, "f("),
        ("f(\r\r\r", "f(\n  \n  "),
        ("[1,\r\t2]\r", "[1,\n    2]"),
        ("{\r1\r}" + LEFT + "\r" + ALT_ENTER, None),
        ("\x1b[200~let a = 1\nlet b = 2\x1b[201~\r", "let a = 1\nlet b = 2"),
        ("lo\t\x15:ve\x15:lo\tx\r", ":load x"),
    ],
)
def test_keys_make_an_input(keys, text):
    found = typed(keys)
    if text is None:
        assert found.startswith("{\n  1\n")
    else:
        assert found.rstrip(" \n") == text.rstrip(" \n")


def test_an_input_of_several_lines_comes_back_whole():
    history = InMemoryHistory()
    history.append_string("[1,\n  2]")
    assert typed(UP + "\r", history) == "[1,\n  2]"


def test_a_defect_of_completion_does_not_end_what_is_typed(monkeypatch):
    monkeypatch.delenv("DLANG_DEBUG", raising=False)
    for name in ("hint", "candidates"):
        monkeypatch.setattr(f"dlang.tools.repl.prompt.{name}", lambda *_: 1 // 0)
    assert typed("1 +\t 1\r") == "1 + 1"


def test_ctrl_r_finds_an_earlier_input():
    history = InMemoryHistory()
    for text in ["let apples = 1", "let pears = 2", "let plums = 3"]:
        history.append_string(text)
    assert typed("\x12pears\r\r", history) == "let pears = 2"


@pytest.mark.parametrize(
    ("text", "cursor", "whole"),
    [
        ("1 + 1", 5, True),
        ("1 + 1", 2, True),  # a line ends wherever the cursor is in it
        ("f(", 2, False),
        ("{\n  1\n}", 7, True),
        ("{\n  1\n}", 4, False),
        ("f(\n\n", 4, True),
        ("f(\n  \n\n  ", 9, True),
    ],
)
def test_enter_ends_an_input_that_is_whole(text, cursor, whole):
    assert ends(text, cursor) == whole


@pytest.mark.parametrize(
    ("text", "goes_on"),
    [("f(", True), ("1 +", True), ("{\n1", True), ("1", False), ("f(1))", False), ("|x| x", False), ("x |>", True),
     ("## Of what follows", True), ("## A\n", True), ("# a remark", False), ("1 ## a remark", False),
     ("let f = |x|", False), ("1 + # not yet", True), ('"(', False), ("1 # (", False), (":load ../", False),
     (":type (", True)],
)  # fmt: skip
def test_an_input_goes_on_while_something_is_open(text, goes_on):
    assert incomplete(text) == goes_on


@pytest.mark.parametrize(
    ("text", "columns"),
    [("f(", 2), ("f(g(", 2), ("f(\n  g(", 4), ("f(\n  1)", 0), ("let x =", 2), ("f(1,", 2), ("{ [", 2), ("1", 0)],
)
def test_a_line_is_indented_by_the_lines_that_are_open(text, columns):
    assert indentation(text) == " " * columns


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("1\n2", ["1\n2"]),
        ("let a = 1\n:type a\na\nb\n\n:vars\n", ["let a = 1", ":type a", "a\nb\n", ":vars"]),
        (":type [\n  1\n]\n:vars", [":type [\n  1\n]", ":vars"]),
        ("f(\n:vars\n)", ["f(\n:vars\n)"]),
        ("> let a = [\n|   1]\n> a\n[1] : i64[1]\n> :vars", ["let a = [\n  1]", "a", ":vars"]),
        (" \n", []),
    ],
)
def test_a_text_that_is_pasted_may_be_several_inputs(text, inputs):
    assert list(pieces(text)) == inputs


def test_a_text_is_split_outside_of_brackets():
    assert split("f(a, b), [c, d], e", ",") == ["f(a, b)", " [c, d]", " e"]


@pytest.mark.parametrize(
    "text", ["", 'fn f(x: f64) = 2.0 * x  # doubled\nlet y = "a{x}"', ":type f(1)", ":q", '"open', "a $ b", "# only\n"]
)
def test_colours_change_no_character(text):
    assert "".join(part for _, part in coloured(text)) == text


def test_words_have_the_colours_of_what_they_are():
    styles = {part: style for style, part in coloured('fn f(x: f64[n]) -> Point = g("a", 1.5)  # why')}
    expected = {"fn": "keyword", "f64": "type", "Point": "type", "g": "function", '"a"': "string", "1.5": "number"}
    assert {k: styles[k] for k in expected} == {k: f"class:{v}" for k, v in expected.items()}
    assert styles["  # why"] == "class:comment" and styles["x"] == ""


def test_the_history_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("DLANG_HISTORY", str(tmp_path / "h"))
    assert history_file() == tmp_path / "h"
    monkeypatch.setenv("DLANG_HISTORY", "")
    assert history_file() is None and isinstance(kept_history(), InMemoryHistory)
    monkeypatch.delenv("DLANG_HISTORY")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert history_file() == tmp_path / "state/dlang/history"
    assert isinstance(kept_history(), FileHistory)
    assert stat.S_IMODE(history_file().stat().st_mode) == 0o600


def test_a_history_that_can_not_be_written_is_said_and_left_out(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DLANG_HISTORY", str(tmp_path / "file/history"))
    assert isinstance(kept_history(), InMemoryHistory)
    assert capsys.readouterr().err.startswith("the history isn't kept: cannot write")


def test_a_history_whose_file_is_lost_goes_on_without_it(monkeypatch, tmp_path):
    file = tmp_path / "state/history"
    monkeypatch.setenv("DLANG_HISTORY", str(file))
    history = kept_history()
    file.unlink()
    file.parent.rmdir()
    assert typed("1\r", history) == "1" and typed(UP + "\r", history) == "1"
    file.parent.mkdir()
    file.write_bytes(b"\n# then\n+let \xff = 1\n")
    assert "let" in typed(UP + "\r", kept_history())  # whatever stands in it


def test_windows_answer_while_nothing_is_typed(monkeypatch):
    from types import SimpleNamespace

    from dlang.tools.pictures import alive

    calls = []
    canvas = SimpleNamespace(flush_events=lambda: calls.append("flushed"))
    pyplot = SimpleNamespace(get_fignums=lambda: [1], figure=lambda number: SimpleNamespace(canvas=canvas))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)
    alive(lambda: len(calls) < 3)
    assert calls == ["flushed"] * 3
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", SimpleNamespace(get_fignums=list))
    alive(lambda: True)  # returns, since there are none
