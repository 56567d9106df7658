"""`dlc debug` as a process: on a terminal, and with commands from a pipe."""

import io

import pytest

from dlang.tools.dlc import main
from tests.tools.repl.terminal import Terminal

TAB, CTRL_D = "\t", "\x04"
ENDLESS = """\
fn main(most: i64 = 1000000000) {
  var count = 0
  while count < most {
    count += 1
  }
  print("counted {count}")
}
"""
SLOPE = """\
fn length(p: f64[n]) -> f64 {
  let q = sum(p ** 2)
  sqrt(q)
}
fn main(x: f64 = 0.0) {
  print("{grad(length)([x, 0.0])}")
}
test "of a length" {
  assert close(grad(length)([3.0, 4.0]), [0.6, 0.8])
}
test "of nothing" { assert length([0.0]) == 0.0 }
"""


@pytest.fixture
def endless(tmp_path):
    file = tmp_path / "endless.dl"
    file.write_text(ENDLESS)
    return str(file)


@pytest.fixture
def slope(tmp_path):
    file = tmp_path / "slope.dl"
    file.write_text(SLOPE)
    return str(file)


def test_a_person_steps_interrupts_and_goes_back(endless):
    with Terminal(endless, command="debug", prompt="(debug)") as t:
        assert "#0  endless.dl:2 in main" in t.lines()[-3]
        assert t.say("next")[-1] == "   3 ▸   while count < most {"
        assert t.say("next")[-1] == "   4 ▸     count += 1"
        t.type("conti" + TAB)
        t.until(lambda: "(debug) continue" in t.lines()[-1])
        t.type("\r")
        t.interrupt()
        assert t.say("print count > 100") == ["count > 100 = true"]
        assert t.say("goto 2")[-1] == "   4 ▸     count += 1"
        assert t.say("print count") == ["count = 0"]
        t.type("quit\r")
        assert t.ended() == 0


def test_a_person_goes_on_after_the_end(slope):
    with Terminal(slope, command="debug", prompt="(debug)") as t:
        assert t.say("continue")[-1] == "the program has ended"
        assert t.say("run to 3") == ["the program has ended"]
        assert t.say("break 3") == ["breakpoint 1 at slope.dl:3"]
        assert "   3 ▸   sqrt(q)" in t.say("rcontinue")
        t.type("quit\r")
        assert t.ended() == 0


def test_ctrl_d_ends_the_conversation(slope):
    with Terminal("--break-nan", slope, command="debug", prompt="(debug)") as t:
        assert any("inf in the backward pass of `sqrt(q)`" in line for line in t.lines())
        assert t.say("where")[0].startswith("▸ 0  slope.dl:3 in length  (backward pass)")
        t.type(CTRL_D)
        assert t.ended() == 0


# ---- without a terminal ----------------------------------------------------------------------------------------------
def run(monkeypatch, capsys, *args, commands=""):
    monkeypatch.setattr("sys.stdin", io.StringIO(commands))
    code = main(["debug", *args])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_commands_come_from_a_pipe(monkeypatch, capsys, endless):
    code, out, _ = run(
        monkeypatch, capsys, endless, "--most", "3", commands="break 4\ncontinue\nprint count\n\nc\nc\nc\n"
    )
    assert code == 0
    assert out.splitlines()[-2:] == ["counted 3", "the program has ended"]
    assert "count = 0" in out


def test_a_nan_is_looked_for_without_a_terminal(monkeypatch, capsys, slope):
    code, out, _ = run(monkeypatch, capsys, "--break-nan", slope)
    assert code == 1 and out.startswith("inf in the backward pass of `sqrt(q)` at slope.dl:3 in length\n")
    code, out, _ = run(monkeypatch, capsys, slope, "--break-nan", "--x", "2.0")
    assert code == 0 and out == "[1. 0.]\nno NaN and no infinity is made\n"


def test_a_zero_by_convention_is_looked_for_without_a_terminal(monkeypatch, capsys, tmp_path):
    (tmp_path / "root.dl").write_text(
        'fn root(x: f64) -> f64 = sqrt(x) * sqrt(x)\nfn main(x: f64) { print("{grad(root)(x)}") }\n'
    )
    code, out, _ = run(monkeypatch, capsys, str(tmp_path / "root.dl"), "--break-zero", "--x", "0.0")
    assert code == 1 and out.startswith("0 in the backward pass of `sqrt(x)` at root.dl:1 in root\n")
    code, out, _ = run(monkeypatch, capsys, str(tmp_path / "root.dl"), "--break-nan", "--break-zero", "--x", "2.0")
    assert code == 0 and out.endswith(
        "no NaN and no infinity is made\nno product of a derivative is 0 times what is not finite\n"
    )


def test_a_test_block_is_stepped_through(monkeypatch, capsys, slope):
    code, out, _ = run(monkeypatch, capsys, "--test", "length", slope, commands="step\nstep\n")
    assert code == 0 and "slope.dl:9" in out and "slope.dl:2 in length" in out
    code, _, err = run(monkeypatch, capsys, "--test", "widths", slope)
    assert code == 1 and "E0955" in err and "its tests are of a length, of nothing" in err
    code, _, err = run(monkeypatch, capsys, "--test", "of", slope)
    assert code == 1 and "several tests `of`" in err


def test_a_wrong_option_is_refused_in_the_name_of_the_command(monkeypatch, capsys, slope):
    for args, said in [
        ((slope, "--y", "1"), "dlc debug"),
        (("--memory", "0", slope), "expected a number from 1, found `0`"),
        (("--test", "length", slope, "--x", "1"), "there is no option `--x`"),
    ]:
        code, _, err = run(monkeypatch, capsys, *args)
        assert code == 2 and said in err


def test_a_program_that_is_wrong_is_not_run(monkeypatch, capsys, tmp_path):
    file = tmp_path / "wrong.dl"
    file.write_text("fn main() { print(1.0 + true) }")
    code, out, err = run(monkeypatch, capsys, str(file), commands="step\n")
    assert code == 1 and out == "" and err.startswith("error[")
