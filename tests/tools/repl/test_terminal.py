"""`dlc repl` on a real terminal: keys are typed, and the screen is read."""

import re

import pytest

from tests.tools.repl.terminal import Terminal

TAB, ENTER, ALT_ENTER, UP, RIGHT, CTRL_C, CTRL_D = "\t", "\r", "\x1b\r", "\x1b[A", "\x1b[C", "\x03", "\x04"


@pytest.fixture(scope="module")
def terminal(tmp_path_factory):
    with Terminal("--backend", "interp", HOME=str(tmp_path_factory.mktemp("home"))) as t:
        yield t


@pytest.fixture
def fresh(terminal):
    """The terminal at an empty prompt, whatever the test before has left."""
    if not terminal.waits():
        terminal.type(CTRL_C)
        terminal.until(terminal.waits)
    return terminal


def test_values_have_their_types_and_functions_theirs(fresh):
    assert fresh.lines()[0].startswith("dlang ")
    assert fresh.say("let x = [1.0, 2.0, 3.0]") == []
    assert fresh.say("x * 2.0") == ["[2. 4. 6.] : f64[3]"]
    assert fresh.say("fn double(a: f64) -> f64 = 2.0 * a") == ["double: (f64) -> f64"]
    assert fresh.say("double") == ["(f64) -> f64"]
    assert fresh.say("_") == ["(f64) -> f64"]
    assert fresh.say('(1, "a", true)') == ['(1, "a", true) : (i64, str, bool)']
    assert fresh.cell(": (i64").data == ":"


def test_enter_begins_a_line_inside_a_bracket_and_indents_it(fresh):
    fresh.type("fn total(v: f64[n]) -> f64 {" + ENTER)
    fresh.type("var s = 0.0" + ENTER)
    fresh.type("for i < n {" + ENTER)
    fresh.type("s += v[i]" + ENTER)
    fresh.type("}" + ENTER)
    fresh.type("s" + ENTER)
    assert fresh.say("}") == ["total: (f64[n]) -> f64"]
    written = [line for line in fresh.lines() if line.startswith("| ")]
    assert written[-6:] == ["|   var s = 0.0", "|   for i < n {", "|     s += v[i]", "|   }", "|   s", "| }"]
    assert fresh.say("total([1.0, 2.0])") == ["3.0 : f64"]


def test_enter_begins_a_line_behind_an_operator_and_alt_enter_ends_an_input(fresh):
    assert fresh.say("1 +" + ENTER + "2") == ["3 : i64"]
    answer = fresh.say("1 +", ALT_ENTER)
    assert answer[0].startswith("error[E01")


def test_a_text_of_several_lines_that_is_pasted_is_one_input(fresh):
    fresh.type("\x1b[200~let a = 1\nlet b = 2\na + b\x1b[201~")
    fresh.sees("| a + b")
    assert fresh.say("") == ["3 : i64"]
    fresh.type("\x1b[200~> let c = 4\n> :type c\ni64\n> c\x1b[201~")
    fresh.sees("| > c")
    assert fresh.say("") == ["i64", "4 : i64"]


def test_tab_completes_and_shows_types(fresh):
    fresh.say("struct Point { across: f64, up: f64 }")
    fresh.say("let p = Point(1.0, 2.0)")
    fresh.type("p." + TAB)
    fresh.sees("across")
    fresh.until(lambda: any(re.search(r"\bup +f64", line) for line in fresh.lines()))
    fresh.type(CTRL_C)
    fresh.until(fresh.waits)
    assert fresh.say("p.acr" + TAB) == ["1.0 : f64"]
    fresh.type("p." + TAB)
    fresh.sees("stop_gradient")
    fresh.type(TAB + TAB)
    fresh.sees("> p.up")
    fresh.type(ENTER)  # takes what is chosen
    fresh.until(lambda: not any("stop_gradient" in line for line in fresh.lines()[-6:]))
    fresh.type(" + 10.0" + ENTER)
    fresh.sees("12.0 : f64")
    fresh.until(fresh.waits)
    assert fresh.say(":ty" + TAB + "p.up") == ["f64"]


def test_the_line_below_shows_the_call_at_hand_or_the_type(fresh):
    fresh.say("fn scaled(x: f64[n], factor: f64 = 2.0) -> f64[n] = factor * x")
    fresh.type("scaled([1.0], ")
    fresh.sees("scaled(x: f64[n], factor: f64 = …) -> f64[n]")
    fresh.until(lambda: fresh.cell("factor: f64 = …").bold)
    assert not fresh.cell("x: f64[n]").bold
    fresh.type("factor = 3.0)")
    fresh.sees(": f64[1]")


def test_what_is_typed_is_coloured_and_brackets_are_matched(fresh):
    fresh.type('let text = ["a", 1.5]')
    fresh.sees("1.5]")
    fresh.until(lambda: fresh.cell("[", 0).reverse)
    assert fresh.cell("let text").fg == "magenta"
    assert fresh.cell('"a"').fg == "green"
    assert fresh.cell("1.5").fg == "cyan"
    assert fresh.cell("text =").fg == "default"


def test_messages_are_coloured(fresh):
    assert fresh.say("1 + nope")[0] == "error[E0201]: unknown name `nope`"
    assert fresh.cell("error[E0201]").fg == "red"


def test_an_earlier_input_comes_back_with_all_its_lines(fresh):
    fresh.say("[" + ENTER + "10, 20]")
    fresh.type(UP)
    fresh.sees("|   10, 20]")
    assert fresh.say("") == ["[10 20] : i64[2]"]


def test_ctrl_c_drops_what_is_written_and_stops_the_interpreter(fresh):
    fresh.type("not finished (")
    fresh.sees("finished (")
    fresh.type(CTRL_C)
    fresh.until(fresh.waits)
    fresh.say("let kept = 7")
    fresh.type("var s = 1.0; while s > 0.0 { s = s + 1.0 }; s" + ENTER)
    fresh.interrupt()
    assert fresh.say("kept") == ["7 : i64"]


def test_ctrl_c_stops_compiled_code_and_values_stay():
    with Terminal("--backend", "cpu", NO_COLOR="1") as t:
        t.say("let kept = [1.0, 2.0]")
        assert t.cell("let kept").fg == "default"
        t.say("fn spin(x: f64) -> f64 {\rvar s = x\rwhile s > 0.0 { s = s + 1.0 }\rs\r}")
        t.say(":set threads 2")
        t.say("let a = [[f64(i % 7) for i < 3000] for j < 3000]")
        for long in (
            "spin(1.0)",
            "[sum(sin(f64(i * j)) for j < 1000000) for i < 1000000]",
            "let b = a @ a @ a @ a @ a @ a",
        ):
            t.type(long + ENTER)
            t.interrupt()
        assert t.say("kept") == ["[1. 2.] : f64[2]"]
        assert t.say("kept + nope")[0].startswith("error[E0201]")
        assert t.cell("error[E0201]").fg == "default"
        t.type(":quit" + ENTER)
        assert t.ended() == 0


def test_the_history_outlives_the_process(tmp_path):
    file = str(tmp_path / "state" / "history")
    with Terminal("--backend", "interp", DLANG_HISTORY=file) as t:
        t.say("let remembered = 42")
        t.type(CTRL_D)
        t.ended()
    with Terminal("--backend", "interp", DLANG_HISTORY=file) as t:
        t.type("let rem")
        t.sees("let remembered = 42")  # in grey, from the history
        assert t.say(RIGHT + "; remembered") == ["42 : i64"]


def test_every_command_answers_on_a_terminal(fresh, tmp_path):
    said = [
        ("let ts = [0.0, 1.0, 2.0]", None),
        ("fn cube(t: f64) -> f64 = t ** 3", r"cube: \(f64\) -> f64"),
        (":type cube(2.0)", "f64"),
        (":doc cube", r"fn cube\(t: f64\) -> f64"),
        (":vars", r"ts +: f64\[3\] += \[0\. 1\. 2\.\]"),
        (":grad cube", r"grad\(cube\): \(f64\) -> f64"),
        (":grad cube ir opt", r'fn "input.*'),
        (":ir cube mono", r'fn "cube.*'),
        (":llvm cube", r"define .*"),
        (":asm cube", r".*\bret.*"),
        (":cuda |v: f64[n]| exp(v)", r".*__global__ .*"),
        (":time sum(ts)", r"\S+ [mµ]?s to compile, \S+ [mµ]?s to run"),
        (":bench sum(ts)", r"\S+ [mµ]?s at least, .*"),
        (":plot ts", r".*⣀.*"),
        (f":save {tmp_path}/session.dl", rf"{tmp_path}/session.dl: \d+ lines"),
        (f":load {tmp_path}/session.dl", rf"{tmp_path}/session.dl: \d+ functions?; .*"),
        (":reload", rf"{tmp_path}/session.dl: \d+ functions?; .*"),
        (":set precision 2", "precision = 2"),
        (":set precision auto", "precision = auto"),
        (":undo", "taken back: .*"),
        (":help :plot", r"  draws arrays .*"),
        (":help", r"  :quit .*"),
        (":plto ts", r"  = help: did you mean `:plot`\?"),
    ]
    for line, expected in said:
        answer = fresh.say(line)
        assert expected is None or any(re.fullmatch(expected, a) for a in answer), (line, answer)
