"""`dlc repl`, through a pipe and through a terminal's input."""

import io
import signal
import subprocess
import sys

import pytest

from dlang.diagnostics import Diagnostic, DlangError
from dlang.tools.repl.commands import Conversation, type_of
from dlang.tools.repl.conversation import answered, repl
from dlang.tools.repl.session import Session, uninterrupted
from tests.patience import PATIENCE


@pytest.fixture
def talk(monkeypatch, capsys):
    """What is answered to the lines of a pipe, and the messages."""

    def talk(*lines):
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
        assert repl("interp") == 0
        out, err = capsys.readouterr()
        return out.splitlines(), err

    return talk


def test_a_conversation_through_a_pipe():
    lines = [
        "let x = [1.0, 2.0, 3.0]",
        "x * 2.0",
        "fn f(a) =",
        "  2.0 * a",
        "f(x)",
        "fn total(v: f64[n]) -> f64 {",
        "  var s = 0.0",
        "  for i < n { s += v[i] }",
        "  s",
        "}",
        "total(f(x))",
        ":quit",
        "1 + 1",
    ]
    command = [sys.executable, "-m", "dlang.tools.dlc", "repl"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, ["[2. 4. 6.]", "[2. 4. 6.]", "12.0"], "")


def said(*lines, session=None):
    conversation = Conversation(session or Session("interp"))
    answers = [conversation.session.submit(line) for line in lines]
    return [conversation.value(a.value) for a in answers if a.value is not None]


def refused(session, line):
    return refuse_all(session, line)[0]


def refuse_all(session, line):
    with pytest.raises(DlangError) as e:
        session.submit(line)
    return e.value.diagnostics


def test_the_last_value_is_an_underscore():
    assert said("1 + 2", "_ * 2", "_ + 1") == ["3", "6", "7"]


def test_a_variable_changes_and_keeps_its_value():
    assert said("var y = [1.0, 2.0]", "y[0] = 5.0", "for i < 2 { y[i] += 1.0 }", "y") == ["[6. 3.]"]


def test_an_effect_happens_once(capsys):
    assert said('let x = { print("once"); 3 }', "x", "x + 1") == ["3", "4"]
    assert capsys.readouterr().out == "once\n"


def test_a_function_that_is_redefined_updates_what_depends_on_it():
    lines = ["fn f(x) = 2.0 * x", "fn g(x) = f(x) + 1.0", "g(1.0)", "fn f(x) = 3.0 * x", "g(1.0)"]
    assert said(*lines) == ["3.0", "4.0"]


def test_a_redefinition_that_breaks_another_function_is_refused_and_nothing_changes():
    session = Session("interp")
    said("fn f(x: f64) -> f64 = x", "fn g(x) = f(x) + 1.0", session=session)
    assert refused(session, "fn f(x: f64) -> bool = true").code == "E0979"
    assert said("g(1.0)", session=session) == ["2.0"]


def test_a_mistake_is_shown_where_it_is_and_the_session_goes_on(talk):
    out, err = talk("1 + nope", "let a = 2", "[1, 2][a + 3]", "a")
    assert out == ["2"]
    assert " --> <input 1>:1:5" in err and "1 + nope" in err and "E0201" in err
    assert "error[E0801]: index 5 is out of range" in err and "input`" not in err


def test_a_failed_input_leaves_every_value_as_it_was():
    session = Session("interp")
    said("var x = 1", session=session)
    assert refused(session, "x = 2; assert x == 3").code == "E0800"
    assert said("x", session=session) == ["1"]


def test_a_lambda_keeps_the_values_that_it_saw():
    assert said("let a = 1", "let f = |t| t + a", "let a = 10", "f(1)", "let g = |t| f(t) + a", "g(1)") == ["2", "12"]


def test_structs_whose_sizes_are_known_only_when_they_are_made_are_kept():
    lines = ["struct P<n> { b: f64[n + 1], k: i64 }", "let x: f64[?] = [v for v in [1.0, -1.0, 2.0] if v > 0.0]",
             "fn made(x: f64[n]) -> P<n> = P(zeros(n + 1), 7)", "let p = made(x)", "let e = Some(x)"]  # fmt: skip
    session = Session("cpu")
    assert said(*lines, "(p.k, p)", "[e, None]", session=session) == [
        "(7, P(b = [0. 0. 0.], k = 7))", "[Some([1. 2.]), None]"]  # fmt: skip
    assert session.submit("(p, 1)").value.type == "(P<2>, i64)"


def test_a_function_or_tree_is_kept_with_the_values_of_its_own_input():
    lines = [
        "let a = 2.0; var b = 1.0; b = 3.0; let f = |x: f64| a * x + b; let l = Cons(a, Nil)",
        "let a = 0.0; b = 0.0",
    ]
    assert said(*lines, "f(1.0)", "l") == ["5.0", "Cons(2.0, Nil)"]
    assert said("let (y, pull) = vjp(|x: f64| x ** 2, 3.0)", "(y, pull(1.0))") == ["(9.0, 6.0)"]
    assert said('let g = |x: f64| x + 1.0; print("{g(1.0)}")', "let h = |x: f64| g(g(x)); h(1.0)") == ["3.0"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("var f = |x: f64| x", "a `var` can't keep a function, a list or a tree"),
        ("var a = 1.0; let f = |x: f64| a * x; a = 2.0",
         "a function, a list or a tree can't be kept here: `a` changes after it"),
        ('print("never"); let l = Cons(1, Nil)', "a list or a tree can't be kept from an input with effects"),
    ],
)  # fmt: skip
def test_what_can_not_be_kept_is_said_before_anything_runs(text, message, capsys):
    d = refused(Session("interp"), text)
    assert (d.code, d.message) == ("E0970", message) and capsys.readouterr().out == ""


def test_sizes_are_values_that_types_know_and_are_bound_again_with_their_array():
    lines = ["let n = 2", "zeros(n + 1) + [1.0, 2.0, 3.0]", "let z: f64[n] = zeros(n)", "z + [1.0, 2.0]"]
    assert said(*lines) == ["[1. 2. 3.]", "[1. 2.]"]
    session = Session("interp")
    assert said("let v: f64[k] = [1.0, 2.0]", "let v: f64[k] = [1.0, 2.0, 3.0]; k", "k", session=session) == ["3", "3"]
    assert len(refuse_all(session, "let u: f64[k] = [1.0]")) == len(refuse_all(session, "let v: f64[j] = nope")) == 1


def test_functions_that_saw_earlier_meanings_of_names_are_used_beside_the_later_ones():
    session = Session("interp")
    said("let h = |x: f64| x + 1.0", "let f = |x: f64| 2.0 * h(x)", "let h = |x: f64| x + 100.0", session=session)
    assert said("f(1.0) + h(1.0)", "h(1.0) + f(1.0)", session=session) == ["105.0", "105.0"]
    said("let g = 2.0", "let k = |x: f64| g * x", "fn g(x: f64) -> f64 = x + 1.0", session=session)
    assert said("k(g(1.0))", session=session) == ["4.0"]
    assert type_of(session, "|g: f64[3]| k(g[0])") == "(f64[3]) -> f64"
    said("let s = |v: f64[n]| sum(v)", "let pair = |x: f64| s([x, x])", session=session)
    assert said("(pair(2.0), s([1.0]), s([1.0, 2.0]))", session=session) == ["(4.0, 1.0, 3.0)"]  # for all sizes still
    said(
        "let a = |x: f64| x", "let b = |x: f64| a(x)", "let a = |x: f64| b(x)", "let b = |x: f64| a(x)", session=session
    )
    assert refused(session, "a(1.0) + b(1.0)").message.startswith("`a` and `b` can't be used in one input")


def test_values_of_every_kind_are_kept():
    lines = [
        "struct P { a: f64, b: f64[2] }",
        "enum Shape { Dot, Round(f64) }",
        "let p = P(1.0, [1.0, 2.0])",
        "p.b",
        "let s = Round(2.0)",
        "s",
        "let (i, t) = (1, (2.5, true))",
        "t",
        "let xs = Cons(1, Cons(2, Nil))",
        "match xs { Cons(x, _) => x + i, Nil => 0 }",
        'let words = "a{i}"',
        "words",
        "let kept: f64[k] = [v for v in [1.0, -1.0] if v > 0.0]",
        "(k, kept)",
    ]
    assert said(*lines) == ["[1. 2.]", "Round(2.0)", "(2.5, true)", "2", '"a1"', "(1, [1.])"]


def test_what_has_parts_of_different_kinds_is_kept_with_all_sizes():
    lines = [
        "struct P { a: f64, b: f64[n] }".replace("P {", "P<n> {"),
        'let t = (1, [true, false], "x", [1.0], [(2, [3.0, 4.0])])',
        "let u = (P(1.0, [2.0]), [5])",
        "let v = (Some(2.0), [7])",
        "t",
        "(u.0.b, u.1)",
        "v",
    ]
    texts = ['(1, [true false], "x", [1.], [(2, [3. 4.])])', "([2.], [5])", "(Some(2.0), [7])"]
    session = Session("cpu")
    assert said(*lines, session=session) == [t.replace("[true ", "[ true ") for t in texts]
    assert session.state.values["t"].shown == "(i64, bool[2], str, f64[1], (i64, f64[2])[1])"
    session.submit(
        "let some = [x for x in [1.0, -1.0] if x > 0.0]; let w = (1, [(k, some) for k < 2], [3.0 for k < 2])"
    )
    assert session.submit("w").value.type == "(i64, (i64, f64[1])[2], f64[2])"


def test_values_of_an_earlier_and_of_the_present_type_of_a_name_are_used_together():
    lines = ["struct P { a: f64 }", "let p = P(1.0)", "struct P { b: f64 }", "let q = P(2.0)", "let t = (p, q)"]
    session = Session("interp")
    assert said(*lines, "t", "_.0 + p", "t.1 + q", session=session) == [
        "(P(a = 1.0), P(b = 2.0))",
        "P(a = 2.0)",
        "P(b = 4.0)",
    ]
    said("import nn", "struct Dense { z: f64 }", "let ours = Dense(1.0)", session=session)
    assert said("(nn.Dense([[1.0]], [2.0]), ours)", "_.1.z + _.0.b[0]", session=session)[1:] == ["3.0"]
    said("fn g(p: P) -> f64 = p.b", session=session)
    assert refused(session, "g(p)").help == ("a value was made with an earlier `P`: make it again",)


def test_messages_do_not_show_how_values_are_given_to_an_input():
    session = Session("interp")
    said("var z = [1.0, 2.0]", "let f = |t: f64| z[0] * t", session=session)
    for line in ("z = [1.0]", "z[5] = 1.0", "let w: f64[3] = z; f(1.0)"):
        d = refused(session, line)
        assert "`2` is a size of `z`" in [n.text for n in d.notes], line
        assert all(n.span is None or n.span.source.path.startswith("<input") for n in d.notes)
    said("let k = 4", session=session)
    d = refused(session, "let w: f64[k] = z")
    assert (d.message, d.notes[1].text) == ("expected f64[4], found f64[2]: size 2 is not 4", "`4` is the value of `k`")
    for line in ("return z", "if true { return }"):
        assert refused(session, line).message == "`return` outside of a function"
    deep = Diagnostic("E0805", "the stack is exhausted: `<session>.f` is 9 calls deep", None)
    assert session.state.located(deep, session.path).message == "the stack is exhausted: `f` is 9 calls deep"


def test_a_value_without_a_known_type_is_shown_but_has_no_name():
    session = Session("interp")
    assert said("None", "[]", "_", "[[], []]", session=session) == ["None", "[]", "[]", "[[], []]"]
    assert refused(session, "let x = None").code == "E0970"


def test_types_are_shown():
    session = Session("interp")
    said("let x = [1.0, 2.0]", "fn double(v: f64[n]) = 2.0 * v", session=session)
    assert type_of(session, "[x, x]") == "f64[2, 2]"
    assert type_of(session, "double") == "(f64[n]) -> f64[n]"
    assert said("grad(|t: f64| t * t)", session=session) == ["(f64) -> f64"]


def test_types_have_the_sizes_and_dtypes_of_their_values():
    session = Session("interp")
    for line in ["var z: f64[?] = [1.0]", "z = [1.0, 2.0]", "import random"]:
        session.submit(line)
    assert session.submit("z").value.type == "f64[2]"
    assert session.submit("[v for v in [1.0, -1.0] if v > 0.0]").value.type == "f64[1]"
    assert session.submit("random.normal()").value.type == "f64"
    session.submit("let k = 2; fn made(n: size) -> f64[n] = zeros(n)")
    assert session.submit("(made(k), 1)").value.type == "(f64[2], i64)"
    assert session.submit("None").value.type == "Option<a>"


def test_what_has_no_value_or_can_not_be_assigned_is_told():
    session = Session("interp")
    assert refused(session, "_ + 1").message == "there is no last value yet"
    session.submit("let a = 1")
    d = refused(session, "a = 2")
    assert d.message == "`a` was named by `let` and can't be assigned: only a `var` can" and not d.notes


def test_modules_are_imported_and_draws_differ():
    first, second = said("import random", "let a = random.normal()", "a", "random.normal()")
    assert first != second


def test_imports_are_added_to_those_before_and_take_the_place_of_what_has_their_name():
    session = Session("interp")
    said("import nn {relu}", "import nn {gelu, sigmoid}", "import nn {relu}", "let a = relu([-1.0])", session=session)
    assert said("relu([1.0]) + gelu([0.0])", session=session) == ["[1.]"]
    said("fn relu(x: f64[n]) -> f64[n] = 2.0 * x", "let math = 1", session=session)
    assert said("relu([-1.0])", "import nn {relu}", "relu([-1.0])", session=session) == ["[-2.]", "[0.]"]
    assert said("import math", "math.pi > 3.0", session=session) == ["true"]
    said("import nn as math", "import stats { variance }", "fn variance(x: f64[n]) -> f64 = 7.0", session=session)
    assert said("math.relu([-1.0])", "variance([1.0])", session=session) == ["[0.]", "7.0"]
    d = refused(session, "import nn {elu, nothing}")
    assert d.code == "E0206" and d.span.text == "nothing"


def test_documentation_goes_on_to_what_it_is_of(talk):
    assert talk("## Twice.", "##", "## Or more.", "fn f(x: f64) -> f64 = 2.0 * x", ":doc f", "# a remark", "1")[0] == [
        "fn f(x: f64) -> f64", "", "Twice.", "", "Or more.", "1"]  # fmt: skip


def test_a_constructor_of_another_enum_is_told_how_it_becomes_free():
    session = Session("interp")
    said("enum A { First, Second }", session=session)
    assert refused(session, "enum B { First, Third }").help[0].startswith("it is one of `A`: declare that anew")
    assert said("enum A { Second }", "enum B { First, Third }", "First", session=session) == ["First"]


def test_a_function_that_mentions_a_value_is_told_what_to_do():
    session = Session("interp")
    said("let x = 1", session=session)
    assert "parameter" in refused(session, "fn f() = x").help[0]


def test_commands(talk):
    out, err = talk(":help", ":type 1.0", ":type", ":nothing")
    assert out[0].startswith("An input is") and out[-1] == "f64"
    assert "E0971" in err and "no command `:nothing`" in err


def test_a_terminal_edits_lines_with_prompt_toolkit(monkeypatch, capsys):
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    from dlang.tools.repl.prompt import prompt_of

    monkeypatch.setenv("DLANG_HISTORY", "")
    with create_pipe_input() as keys:
        keys.send_text("let x = 20\rx + 1\x7f2\r:quit\r")
        assert repl("interp", editor=lambda c: prompt_of(c, input=keys, output=DummyOutput())) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["22 : i64"]


def test_input_without_a_terminal_needs_no_prompt_toolkit(monkeypatch, talk):
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    assert talk("1 + 1") == (["2"], "")


def test_states_that_hold_much_memory_are_forgotten(monkeypatch):
    monkeypatch.setattr("dlang.tools.repl.session.REMEMBERED_BYTES", 100_000)
    session = Session("interp")
    for k in range(6):
        session.submit(f"let x = full({k}.0, 5000)")
    assert len(session.past) == 3  # 40 kB each; the last is what there is
    session.submit("let x = 1.0")
    session.undo()
    assert session.submit("x[0]").value.leaves == (5.0,)


def test_files_are_loaded_first(monkeypatch, capsys, write):
    name = write("fn f(x: f64) -> f64 = 2.0 * x\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("f(2.0)\n"))
    assert repl("interp", [name, "none.dl"]) == 0
    out, err = capsys.readouterr()
    assert out == "program.dl: 1 function\n4.0\n" and "E0951" in err


def test_ctrl_c_waits_for_the_checker_and_a_second_one_does_not():
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        done = True
    assert done
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("not reached")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_wants_to_leave_is_told_how(capsys):
    conversation = Conversation(Session("cpu"))
    for text in ("quit", "exit()"):
        answered(conversation, text)
    assert capsys.readouterr().err.count("help: `:quit` ends the session") == 2


@pytest.mark.parametrize("line", ["1 = 2", "[] = 3.0", "-1 -= 1", "for i < 3 { 3 += i }", "f(1) = 2"])
def test_what_has_no_name_is_not_assigned(talk, line):
    out, err = talk("fn f(k: i64) -> i64 = k", line, "f(3)")
    assert out == ["3"] and "E0208" in err and "bug" not in err
