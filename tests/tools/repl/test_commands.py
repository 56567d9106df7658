"""What the commands of a session do, and what they say where they can't."""

import re
import sys

import pytest

from dlang.tools.repl.commands import COMMANDS, program_of


def first(text):
    return text.splitlines()[0]


def test_help_has_every_command_in_a_line(say):
    for width in (80, 20):
        say(f":set width {width}")
        lines = say(":help").splitlines()
        for command in COMMANDS:
            assert any(line.startswith(f"  {command.name}") for line in lines)
        assert width < 80 or max(map(len, lines)) <= width
    assert first(say(":help load")) == ":load FILE"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (":typ 1", "error[E0971]: there is no command `:typ`"),
        (":vars x", "error[E0971]: `:vars` takes nothing"),
        (":type", "error[E0971]: `:type` takes an expression"),
        (":type 1; 2", "error[E0971]: `:type` takes one expression"),
        (":graph", "error[E0971]: `:graph` takes an expression"),
        (":graph nope", "error[E0201]: unknown name `nope`"),
        (":grad", "error[E0971]: `:grad` takes a function"),
        (":load", "error[E0971]: `:load` takes a file"),
        (":load none.dl", "error[E0951]: cannot read `none.dl`: No such file or directory"),
        (":save", "error[E0971]: `:save` takes a file"),
        (":save no/folder.dl", "error[E0822]: cannot write `no/folder.dl`: No such file or directory"),
        (":reload", "error[E0971]: no file has been loaded or imported"),
        (":doc", "error[E0971]: `:doc` takes a name"),
        (":doc nowhere", "error[E0201]: unknown name `nowhere`"),
        (":time", "error[E0971]: `:time` takes an input"),
        (":ir 1.0 lops", "error[E0971]: `:ir`: there is no stage `lops`"),
        (":set colour on", "error[E0980]: there is no setting `colour`"),
        (":set width 3", "error[E0980]: `width` is a number from 20 to 10000, not `3`"),
        (":set seed one", "error[E0980]: `seed` is a number from"),
        (":set seed --5", "error[E0980]: `seed` is a number from"),
        (":set backend gpu", "error[E0980]: `backend` is one of interp, cpu, cuda, cuda-emulated, not `gpu`"),
        (":plot", "error[E0971]: `:plot` takes expressions, separated by commas"),
        (":plot [1.0] as point", "error[E0971]: `:plot`: there is no kind `point`"),
        (":plot [1.0] as map", "error[E0981]: a map is of one array with two axes"),
        (":plot [1.0, 2.0] against [1.0]", "error[E0981]: `[1.0, 2.0]` has the shape [2]"),
        (":plot [1.0, 2.0] > window", "error[E0981]: "),
    ],
)
def test_a_command_that_can_not_be_done_says_why(say, monkeypatch, command, message):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert first(say(command)).startswith(message)


# ---- looking ---------------------------------------------------------------------------------------------------------
def test_the_gradient_of_a_function_for_all_sizes_has_a_type_and_a_program(say):
    say("fn loss(w: f64[k], x: f64[n, k]) -> f64 = sum((x @ w) ** 2)")
    assert say(":grad loss") == "grad(loss): (f64[k], f64[n, k]) -> f64[k]"
    assert say(":type value_and_grad(loss)") == "(f64[k], f64[n, k]) -> (f64, f64[k])"
    assert say(":grad loss, wrt = x") == "grad(loss, wrt = x): (f64[k], f64[n, k]) -> f64[n, k]"
    assert "contract" in say(":grad loss ir opt")
    assert say("import nn", ":type nn.relu") == say("nn.relu") == "<a: Float> (a[..s]) -> a[..s]"
    assert say("import linalg", ":grad linalg.det") == "grad(linalg.det): <t: Float> (t[n, n]) -> t[n, n]"
    assert say(":grad |v: f64[n]| sum(v ** 2)").endswith(": (f64[n]) -> f64[n]")
    say("let c = 3.0", "let h = grad(|v: f64[n]| c * sum(v ** 2))", "let c = 0.0")
    assert say("h") == "(f64[n]) -> f64[n]" and say("h([1.0, 2.0])") == "[ 6. 12.]"
    assert say("grad(loss)") == "(f64[k], f64[n, k]) -> f64[k]"
    assert say("let g = grad(loss)", "g([1.0], [[2.0]])") == "[8.]"


def test_code_is_shown_at_every_stage(say):
    say("fn f(x: f64[n]) -> f64 = sum(2.0 * x)", "let x = [1.0, 2.0]")
    for stage in ("mono", "normal", "ad", "opt", "loops", "llvm", "asm", "cuda"):
        assert "f" in say(f":ir f {stage}")
    assert "comp" in say(":ir f(x)")
    assert " # <input 1>:1:30\n" in say(":ir f") and "<session>" not in say(":grad f ir")
    assert re.search(r"\bret", say(":asm |a: f64| 2.0 * a"))
    assert "__global__" in say(":cuda f") and "__global__" not in say(
        ":cuda 2.0 * x"
    )  # three iterations are the host's
    assert "x.0: f64[2], t.1: f64" in say(":ir |t: f64| t + x[0]")
    assert "x.0: f64[2], t.1: f64" in say(":ir grad(|t: f64| t * x[0])")
    shown = say(":ir { |t: f64| t * x[0] }")
    assert first(shown) == "error[E0971]: the code of this function depends on the value `x`"


def test_the_graph_of_a_program_is_shown_or_written(say, tmp_path):
    say("fn f(x: f64[n]) -> f64 = sum(2.0 * x)")
    assert say(":graph f").startswith("digraph") and "f64[2]" in say(":graph f([1.0, 2.0])")
    assert say(":graph grad f") != say(":graph f")
    assert say(":graph f > f.dot") == "written to f.dot" and (tmp_path / "f.dot").read_text().startswith("digraph")


def test_a_lambda_for_all_sizes_is_a_value_with_a_type_and_code(say):
    say("let a = 2.0", "let f = |v: f64[n]| a * v")
    assert say("f") == say(":type f") == "(f64[n]) -> f64[n]"
    assert say("let g = f", "g") == "(f64[n]) -> f64[n]"
    assert say("f([1.0, 2.0])") == "[2. 4.]"
    assert say("let a = 5.0", "f([1.0])") == "[2.]"
    assert say("g([1.0])") == "[2.]"
    assert say("let v = 1.0", "let h = |v: f64[n]| a * v", "h([1.0])") == "[5.]"  # a parameter hides a value
    assert say("sum") == say(":type sum") == "<a: Num>(x: a[..s]) -> a"
    assert say("|v: f64[n], w: f64[n]| v + w") == "(f64[n], f64[n]) -> f64[n]"
    assert say(":type |v: f64[n]| a * v") == "(f64[n]) -> f64[n]"
    assert "__global__" in say(":cuda |v: f64[n]| a * v")


def test_names_have_documentation(say):
    say("## Twice.\nfn twice(a: f64, by: f64 = 2.0) -> f64 = by * a".replace("by", "k"))
    assert say(":doc twice") == "fn twice(a: f64, k: f64 = …) -> f64\n\nTwice."
    say("## A place.\nstruct Place<n> { name: str, at: f64[n] }", "enum Way { Up, Along(f64) }")
    assert say(":doc Place") == "struct Place<n> { name: str, at: f64[n] }\n\nA place."
    assert say(":doc Along") == "enum Way { Up, Along(f64) }"
    assert say(":doc nn.relu").startswith("fn relu<a: Float>(x: a[..s]) -> a[..s]\n\n")
    assert say(":doc random").startswith("module random\n\nRandom numbers")
    assert say(":doc where").startswith("fn where(mask: bool[..s], x: a[..s], y: a[..s]) -> a[..s]\n\n")
    assert "did you mean `twice`" in say(":doc twise")
    assert say("let v = [1.0]", ":doc v") == "v: f64[1]"


# ---- times -----------------------------------------------------------------------------------------------------------
def test_time_runs_once_and_keeps_what_it_computes(say):
    shown = say(':time let y = { print("once"); 2.0 }').splitlines()
    assert shown[0] == "once" and re.fullmatch(r"\S+ \S+ to compile, \S+ \S+ to run", shown[1])
    assert say("y") == "2.0"
    assert re.fullmatch(r"\S+ \S+ to compile", say(":time fn f(x: f64) -> f64 = x")) and say("f(1.0)") == "1.0"


def test_bench_runs_many_times_and_keeps_nothing(say, monkeypatch):
    monkeypatch.setattr("dlang.tools.repl.commands.SECONDS", 0.02)
    shown = say("let x = [1.0, 2.0]", ":bench sum(x)")
    runs = re.search(r"middle of ([\d,]+) runs", shown)
    assert runs is not None and int(runs[1].replace(",", "")) > 1
    assert say("_").startswith("error")
    assert say(":set backend cpu", ":bench zeros(1000, 1000)").splitlines()[1] == "8 MiB of memory at most"


# ---- files -----------------------------------------------------------------------------------------------------------
def test_a_file_is_loaded_edited_and_loaded_again(say, tmp_path):
    file = tmp_path / "model.dl"
    file.write_text('fn f(x: f64) -> f64 = 2.0 * x\nfn old(x: f64) -> f64 = x\ntest "t" { assert f(1.0) == 2.0 }\n')
    assert say(":load model.dl") == "model.dl: 2 functions"
    say("fn g(x: f64) -> f64 = f(x) + 1.0", "let y = g(1.0)")
    file.write_text("fn f(x: f64) -> f64 = 5.0 * x\nlet z = f(1.0)\n")
    shown = say(":reload").splitlines()
    assert shown[0].startswith("model.dl: 1 function; 1 statement of it not run")
    assert shown[1] == "note: `y` was computed with the earlier `f`, and keeps its value"
    assert say("g(1.0)") == "6.0"
    assert first(say("old(1.0)")).startswith("error[E0201]: unknown name `old`")
    assert say(":undo", ":undo", "g(1.0) + old(1.0)") == "4.0"
    say(":undo", ":undo", ":undo", ":undo")  # the loading too
    assert first(say(":reload")) == "error[E0971]: no file has been loaded or imported"


def test_a_file_that_would_break_the_session_changes_nothing(say, tmp_path):
    file = tmp_path / "model.dl"
    file.write_text("fn f(x: f64) -> f64 = 2.0 * x\n")
    say(":load model.dl", "fn g(x: f64) -> f64 = f(x) + 1.0")
    file.write_text('fn f(x: f64) -> str = "no"\n')
    assert first(say(":reload")) == "error[E0979]: `g` would no longer be right with this `f`"
    assert say("g(1.0)") == "3.0"
    file.write_text("fn f(x: f64) -> f64 = 2.0 *\n")
    assert " --> model.dl:1:" in say(":reload")
    assert say("g(1.0)") == "3.0"


def test_several_files_are_loaded_again_together_or_not_at_all(say, tmp_path):
    (tmp_path / "a.dl").write_text("fn a() -> i64 = 1\n")
    (tmp_path / "b.dl").write_text("fn b() -> i64 = 1\n")
    say(":load a.dl", ":load b.dl")
    (tmp_path / "a.dl").write_text("fn a() -> i64 = 2\n")
    (tmp_path / "b.dl").write_text("fn b() -> i64 = nope\n")
    assert " --> b.dl:1:" in say(":reload") and say("a()") == "1"
    (tmp_path / "b.dl").write_text("fn b() -> i64 = 2\n")
    assert say(":reload") == "a.dl: 1 function\nb.dl: 1 function" and say("a() + b()") == "4"
    assert say(":undo", ":undo") == "taken back: _, a, b" and say("a() + b()") == "2"


def test_modules_are_found_beside_a_loaded_file_and_read_anew(say, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/scale.dl").write_text("fn times(x: f64) -> f64 = 10.0 * x\n")
    (tmp_path / "lib/model.dl").write_text("import scale\nfn f(x: f64) -> f64 = scale.times(x)\n")
    say(":load lib/model.dl")
    assert say("f(1.0)") == "10.0"
    (tmp_path / "lib/scale.dl").write_text("fn times(x: f64) -> f64 = 20.0 * x\n")
    say(":reload")
    assert say("f(1.0)") == "20.0"
    (tmp_path / "lib/scale.dl").write_text("fn times(x: f64) -> str = x\n")
    assert "error" in say(":reload")
    assert say("f(1.0)") == "20.0"


def test_imports_alone_are_read_again(say, tmp_path):
    (tmp_path / "scale.dl").write_text("fn times(x: f64) -> f64 = 10.0 * x\n")
    say("import scale")
    (tmp_path / "scale.dl").write_text("fn times(x: f64) -> f64 = 20.0 * x\n")
    assert say(":reload") == "1 import read again" and say("scale.times(1.0)") == "20.0"


def test_a_session_is_saved_as_a_program_that_does_the_same(say, dlc, tmp_path):
    say(
        "import math", "## Doc.\nfn f(x: f64) -> f64 = 2.0 * x", "let a = f(3.0)", "a + 1.0", "_ * 2.0", "let b = _ + a"
    )
    say("var c = b", "c += math.pi", 'print("{c:.2f}")', ":type c", "1 + nope", "a")
    assert say(":save session.dl") == "session.dl: 12 lines"
    text = (tmp_path / "session.dl").read_text()
    assert "## Doc.\nfn f" in text and "nope" not in text and ":type" not in text and text.count("let last") == 2
    assert dlc("run", "session.dl")[1] == "23.14\n"


def test_a_program_that_is_no_longer_right_is_saved_with_a_warning(say):
    say("fn f(x: f64) -> f64 = x", "let a = f(1.0)", 'fn f(x: f64) -> str = "x"', "let b = a + 1.0")
    shown = say(":save session.dl").splitlines()
    assert shown[0] == "session.dl: 4 lines" and "refused as a program" in shown[1] and "error[E03" in shown[2]


def test_what_was_only_looked_at_is_not_saved(conversation, say):
    say("1 + 1", "2 + 2", "let x = 3", "_ + 1", "x")
    assert program_of(conversation.session.state) == "let x = 3\n"


# ---- settings --------------------------------------------------------------------------------------------------------
def test_settings_are_shown_and_changed(say):
    names = [line.split()[0] for line in say(":set").splitlines()]
    assert names == ["backend", "precision", "seed", "threads", "width"]
    assert say(":set precision 2", "[1.0 / 3.0]") == "[0.33]"
    assert say("1.0 / 3.0") == "0.33"
    assert say(":set precision auto", "1.0 / 3.0") == "0.3333333333333333"
    assert len(say(":set width 40", "[f64(i) for i < 30]").splitlines()) == 4
    assert say(":set backend cpu") == "backend = cpu"
    assert say("1.0 / 4.0") == "0.25"


def test_a_seed_makes_draws_the_same_again(say):
    a = say("import random", ":set seed 7", "random.normal()")
    b = say("random.normal()")
    assert say(":set seed 7", "random.normal()") == a != b


def test_the_number_of_threads_is_set(say):
    from dlang.runtime.threads import default_pool

    before = default_pool().threads
    try:
        assert say(":set threads 1") == "threads = 1" and default_pool().threads == 1
    finally:
        default_pool().limit(before)


# ---- undo ------------------------------------------------------------------------------------------------------------
def test_undo_takes_back_declarations_and_values(say):
    say("let x = 1", "var y = 2", "y = 5", "fn f() -> i64 = 3", "struct P { a: f64 }")
    assert say(":undo") == "taken back: P"
    assert say(":undo") == "taken back: f"
    assert say(":undo") == "taken back: y" and say("y", ":undo", "y") == "2"
    assert say(":undo") == "taken back: _"
    assert say(":undo") == "taken back: y"
    assert say(":undo") == "taken back: x"
    assert first(say(":undo")) == "error[E0980]: there is nothing to take back"
    assert first(say("x")) == "error[E0201]: unknown name `x`"


def test_undo_after_a_struct_was_declared_anew_brings_its_values_back(say):
    say("struct P { a: f64 }", "let p = P(1.0)", "fn g(p: P) -> f64 = p.a", "struct P { a: f64, b: f64 }")
    assert "a value was made with an earlier `P`: make it again" in say("g(p)")
    assert say("p.a") == "1.0"
    assert say(":undo", ":undo", "g(p)") == "1.0"


def test_an_input_that_fails_half_way_declares_nothing(say):
    say('fn f() -> i64 = 1\nassert f() == 2, "no"')
    assert first(say("f()")) == "error[E0201]: unknown name `f`"
    assert first(say(":undo")) == "error[E0980]: there is nothing to take back"


# ---- what is computed with what is replaced --------------------------------------------------------------------------
def test_values_know_what_they_were_computed_with(say):
    say("fn f(x: f64) -> f64 = x", "fn g(x: f64) -> f64 = f(x)", "let a = g(1.0)", "let b = a + 1.0", "let c = 5.0")
    assert say("fn f(x: f64) -> f64 = 2.0 * x") == (
        "note: `a`, `b` were computed with the earlier `f`, and keep their values"
    )
    assert "a : f64 = 1.0  (computed with an earlier f)" in say(":vars")
    assert say("let a = g(1.0)", "a") == "2.0"
    assert "a : f64 = 2.0\n" in say(":vars") + "\n"
    assert say("fn f(x: f64) -> f64 = 2.0 * x") == ""  # the same again
    say("fn q(x: f64) -> f64 = x", "let h = |x: f64| q(x)", "let i = |x: f64| h(x)", "let j = i(1.0)")
    assert say("fn q(x: f64) -> f64 = 3.0 * x").startswith("note: `j` was computed with the earlier `q`")
    assert say("g(1.0)", "fn f(x: f64) -> f64 = 3.0 * x") == (
        "note: `a` was computed with the earlier `f`, and keeps its value"
    )
    assert "_ : f64 = 2.0  (computed with an earlier f)" in say(":vars")
    say("struct P { a: f64 }", "enum E { First, Second(f64) }", "const k = 2", "let p = P(1.0)", "let e = Second(1.0)")
    assert say("let d = [0.0 for i < k]", "const k = 3").startswith("note: `d` was computed with the earlier `k`")
    assert say("struct P { a: f64, b: f64 }").startswith("note: `p` was")
    assert say("import nn", "let l = nn.Dense([[1.0]], [2.0])", "import nn { Dense }") == ""
    assert (
        say("enum E { First, Second(f64), Third }")
        == "note: `e` was computed with the earlier `E`, and keeps its value"
    )


# ---- plots -----------------------------------------------------------------------------------------------------------
def test_plots_in_the_terminal(say):
    say(":set width 60", "let x = linspace(0.0, 1.0, 50)")
    lines = say(":plot x ** 2 against x").splitlines()
    assert len(lines) == 18 and lines[0].startswith("1 ┤") and lines[15].startswith("0 ┤")
    assert lines[-1].split() == ["0", "1"] and max(map(len, lines)) < 60
    assert say(":plot x, 2.0 * x").splitlines()[-1].split("   ")[-2:] == ["x", "2.0 * x"]
    assert "from 0 to 6" in say(":plot [[f64(i * j) for i < 4] for j < 3]")
    assert say(":plot [[1.0, 2.0], [3.0, 4.0]] as lines").count("┤") == 2
    assert say(":plot [0.0 / 0.0]") == "nothing to plot: no point is finite"
    assert first(say(":plot nope")) == "error[E0201]: unknown name `nope`"


def test_plots_in_a_file(say, tmp_path, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    pytest.importorskip("matplotlib")
    assert say("let x = [1.0, 3.0, 2.0]", ":plot x, 2.0 * x as points > two.png") == "written to two.png"
    assert (tmp_path / "two.png").read_bytes().startswith(b"\x89PNG")
    assert say(":plot [[1.0, 2.0]] > map.svg") == "written to map.svg"
    assert "<svg" in (tmp_path / "map.svg").read_text()
    assert say(":plot x > none/x.png").startswith("error[E0822]")
    assert say(":plot x > window").startswith("error[E0981]: there is no display")
    monkeypatch.setenv("DISPLAY", ":none")
    monkeypatch.setenv("MPLBACKEND", "agg")
    assert say(":plot x > window").startswith("error[E0981]: matplotlib has found no toolkit")


def test_without_matplotlib_it_is_said_what_to_install(say, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'dlang[plots]'" in say(":plot [1.0] > x.png")


# ---- mistakes of the compiler ----------------------------------------------------------------------------------------
def test_a_defect_is_reported_and_the_session_goes_on(say, monkeypatch):
    monkeypatch.delenv("DLANG_DEBUG", raising=False)
    monkeypatch.setattr("dlang.tools.repl.session.Session.submit", lambda *_: 1 // 0)
    assert say("1").startswith("dlc: this is a bug in dlang")
    monkeypatch.undo()
    assert say("let x = 2", "x") == "2"
