"""The command `dlc`: what it prints, and how it ends."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from dlang import __version__
from dlang.runtime import threads
from dlang.tools.command_line import COMMANDS, parser_of
from dlang.tools.dlc import main
from tests.patience import PATIENCE


# ---- check -----------------------------------------------------------------------------------------------------------
def test_check_is_silent_about_a_good_file(write, dlc):
    assert dlc("check", write("fn f(x: f64) -> f64 = 2.0 * x")) == (0, "", "")


def test_check_reports_every_mistake_of_every_file(write, dlc):
    one = write("fn f(x: f64) -> f64 = y\nfn g(x: f64) -> bool = x\n", "one.dl")
    two = write("fn h( = 1\n", "two.dl")
    code, out, err = dlc("check", one, two)
    assert code == 1 and out == ""
    assert "one.dl:1:" in err and "one.dl:2:" in err and "two.dl:1:" in err
    assert "errors" in err.splitlines()[-1]


def test_check_as_json_is_one_object_a_line(write, dlc):
    code, out, err = dlc("check", "--json", write("fn f(x: f64) -> f64 = y\nfn g(x: f64) -> bool = x\n"))
    objects = [json.loads(line) for line in out.splitlines()]
    assert code == 1 and err == ""
    assert [o["line"] for o in objects] == [1, 2]
    keys = {"file", "line", "column", "end_line", "end_column", "code", "severity", "message", "notes", "help", "fixes"}
    assert all(set(o) == keys and o["file"] == "program.dl" for o in objects)


@pytest.mark.parametrize("command", [["check"], ["run"], ["test"], ["ir", "--stage", "core"]])
def test_a_missing_file_is_a_message(dlc, command):
    code, _, err = dlc(*command, "no/such.dl")
    assert code == 1 and "E0951" in err and "no/such.dl" in err


def test_a_name_that_is_not_quite_that_of_a_file_is_told_what_it_may_have_meant(write, dlc):
    write("fn f(x: f64) -> f64 = x", "a/model.dl")
    for command in ("check", "run"):
        assert "help: did you mean `a/model.dl`?" in dlc(command, "a/modle.dl")[2]
    assert "help: it is a folder; name a file in it, such as `a/model.dl`" in dlc("run", "a")[2]


def test_a_file_that_is_no_text_is_a_message(dlc, tmp_path):
    (tmp_path / "x.dl").write_bytes(b"# x\r\nfn f\xff")
    code, _, err = dlc("check", tmp_path / "x.dl")
    assert code == 1 and "x.dl` is not UTF-8 text: byte 0xff in line 2 cannot be decoded" in err


# ---- paths -----------------------------------------------------------------------------------------------------------
PATHS = ["check", "test", "bench", "fmt", "doc", "stub"]


@pytest.mark.parametrize("command", PATHS)
def test_a_folder_without_programs_is_a_message(write, dlc, command):
    write("no program", "empty/notes.txt")
    code, _, err = dlc(command, "empty")
    assert code == 1 and "E0973" in err and "`empty`" in err


@pytest.mark.parametrize("command", ["check", "fmt", "stub"])
def test_without_a_path_it_is_the_folder_one_is_in(write, dlc, command):
    write("fn f( = 1", "bad.dl")
    code, _, err = dlc(command)
    assert code == 1 and "bad.dl:1:" in err


def test_what_is_hidden_or_installed_is_not_part_of_a_folder(write, dlc, tmp_path):
    places = [".venv/lib/x.dl", "env/lib/site-packages/x.dl", ".x/x.dl", "__pycache__/x.dl"]
    for place in places:
        write("fn  f() = 1\n", place)
    write("fn  f() = 1\n", "a/x.dl")
    assert dlc("fmt", ".")[:2] == (0, "a/x.dl\n1 of 1 file formatted\n")
    assert all((tmp_path / place).read_text() == "fn  f() = 1\n" for place in places)
    assert dlc("fmt", "--check", ".venv")[0] == 1  # which is named


def test_a_file_that_is_named_twice_is_read_once(write, dlc, tmp_path):
    write('test "one" { assert true }', "a.dl")
    assert "1 passed" in dlc("test", "a.dl", "./a.dl", tmp_path / "a.dl", "../" + tmp_path.name, ".")[1]


# ---- test ------------------------------------------------------------------------------------------------------------
TESTS = """
    test "sums" { assert 1 + 1 == 2 }
    test "wrong" { assert 2 + 3 == 6 }
    test "products" { assert 2 * 3 == 6 }
"""


def test_tests_are_listed_and_counted(write, dlc):
    code, out, err = dlc("test", write(TESTS))
    lines = out.splitlines()
    assert code == 1
    assert lines[:4] == ["program.dl", "  ok      sums", "  FAILED  wrong", "  ok      products"]
    assert lines[-1].startswith("2 passed, 1 failed")
    assert "program.dl:2:" in err and "5" in err and "6" in err and "called here" not in err


def test_what_became_of_tests_is_told_in_colours_if_they_are_asked_for(write, dlc, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = dlc("test", write(TESTS))[1]
    assert "  \x1b[32mok\x1b[0m      sums\n" in out and "  \x1b[31mFAILED\x1b[0m  wrong\n" in out


def test_outcomes_as_json_are_objects_among_the_messages(write, dlc):
    code, out, err = dlc("test", "--json", write(TESTS + 'test "talks" { print("hello") }\n'))
    found = [json.loads(line) for line in out.splitlines()]
    assert [(o["test"], o["passed"]) for o in found if "test" in o] == [
        ("sums", True), ("wrong", False), ("products", True), ("talks", True)
    ]  # fmt: skip
    assert code == 1 and [o["code"] for o in found if "code" in o] == ["E0800"] and err == "hello\n"


def test_a_filter_chooses_tests_by_name(write, dlc):
    code, out, _ = dlc("test", "--filter", "product", write(TESTS))
    assert code == 0 and "products" in out and "wrong" not in out and "1 passed, 2 left out" in out


def test_a_folder_is_searched(write, dlc):
    write(TESTS, "a/one.dl")
    write(TESTS, "a/b/two.dl")
    code, out, _ = dlc("test", "a")
    assert code == 1 and "4 passed, 2 failed" in out


def test_a_file_that_does_not_check_fails_and_the_others_run(write, dlc):
    write("fn f(x: f64) -> f64 = y", "a/bad.dl")
    write('test "fine" { assert true }', "a/good.dl")
    code, out, err = dlc("test", "a")
    assert code == 1 and "ok      fine" in out and "1 passed, 1 file with errors" in out and "bad.dl:1:" in err


def test_files_are_tested_in_processes_and_told_in_order(write, dlc):
    for k in range(3):
        write(TESTS.replace("sums", f"sums {k}"), f"a/{k}.dl")
    write("fn f(x: f64) -> f64 = y", "a/9.dl")
    alone, apart = dlc("test", "a"), dlc("test", "--jobs", "2", "a")
    assert alone[0] == apart[0] == 1 and alone[2] == apart[2]
    assert alone[1].splitlines()[:-1] == apart[1].splitlines()[:-1]
    assert "6 passed, 3 failed, 1 file with errors" in apart[1]
    assert dlc("test", "--jobs", "0", "a")[0] == 2


def test_a_process_that_ends_does_not_end_the_tests_of_other_files(write, dlc):
    write('extern "c:c:abort" fn abort() -> i64\ntest "aborts" { assert abort() == 0 }\n', "a/0.dl")
    write('test "fine" { assert true }\n', "a/1.dl")
    code, out, err = dlc("test", "--jobs", "2", "a")
    assert code == 1 and "ok      fine" in out and "1 passed, 1 file with errors" in out
    assert "error[E0976]: the process that tested `a/0.dl` has ended" in err


def test_what_tests_in_processes_reach_is_put_together(write, dlc):
    write("fn half(x: f64) -> f64 = x / 2.0\nfn third(x: f64) -> f64 = x / 3.0\n", "part.dl")
    for name in ("half", "third"):
        write(f'import part\ntest "{name}" {{ assert part.{name}(6.0) > 1.0 }}\n', f"{name}.dl")
    code, out, _ = dlc("test", "--jobs", "2", "--coverage", ".")
    assert code == 0 and out.splitlines()[-1].split()[:4] == ["part.dl", "2", "2", "100.0"]


# ---- eval ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "expression, printed",
    [
        ("1 + 2 * 3", "7"),
        ("1.0 / 4.0", "0.25"),
        ('"a{1 + 1}"', "a2"),
        ("[1, 2, 3]", "[1 2 3]"),
        ("(1, 2.5)", "(1, 2.5)"),
        ("1 < 2", "true"),
        ("grad(|x: f64| x ** 3)(2.0)", "12.0"),
        ("nn.relu(-1.0)", "0.0"),
        ("f16(0.1) + f16(0.2)", "0.2998"),
        ("(1, bf16(2.5))", "(1, 2.5)"),
        ('print("once")', "once"),
        ("let x = 3; x * 2", "6"),
    ],
)
def test_eval_prints_a_value(dlc, expression, printed):
    assert dlc("eval", expression)[:2] == (0, printed + "\n")


def test_eval_reports_mistakes(dlc):
    code, out, err = dlc("eval", "1 + tru")
    assert (code, out) == (1, "") and "tru" in err
    assert "did you mean `linalg`?" in dlc("eval", "linlag.det([[1.0]])")[2]
    assert "<expression>:1:9\n" in dlc("eval", "let x = (")[2] and "expected an expression" in dlc("eval", "")[2]
    err = dlc("eval", "1 // 0")[2]
    assert "E0803" in err and "imports" not in err
    err = dlc("eval", "sum([6 // k for k < 3])")[2]
    assert "E0803" in err and "imports" not in err


# ---- ir, explain -----------------------------------------------------------------------------------------------------
SLOPE = "fn f(x: f64[n]) -> f64 = sum(x * x)\nfn g(x: f64[n]) -> f64[n] = grad(f)(x)\n"


@pytest.mark.parametrize("stage", ["syntax", "core", "mono", "normal", "ad", "opt", "loops", "llvm"])
def test_a_program_can_be_seen_after_every_stage(write, dlc, stage):
    code, out, err = dlc("ir", write(SLOPE), "--stage", stage)
    assert code == 0, err
    assert "f" in out and len(out.splitlines()) > 2


def test_one_function_can_be_chosen(write, dlc):
    code, out, _ = dlc("ir", write(SLOPE), "--stage", "syntax", "--fn", "g")
    assert code == 0 and "name='g'" in out and "name='sum'" not in out
    code, _, err = dlc("ir", write(SLOPE), "--stage", "core", "--fn", "h")
    assert code == 1 and "E0955" in err


def test_a_function_for_any_type_is_seen_before_types_are_chosen(write, dlc):
    file = write("fn twice(f: (a) -> a, x: a) -> a = f(f(x))\n")
    code, out, _ = dlc("ir", file, "--stage", "core")
    assert code == 0 and out.startswith("# fn twice: ((a) -> a, a) -> a") and "serial" not in out
    for command in (["ir", "--stage", "opt"], ["graph"], ["profile", "--compile"]):
        code, out, err = dlc(*command, file)
        assert (code, out) == (1, "") and "E0955" in err


def test_costs_are_what_derivatives_save(write, dlc):
    text = "fn f(x: f64[n]) -> f64 = sum(exp(sin(x)))\nfn g(x: f64[n]) -> f64[n] = grad(f)(x)\n"
    code, out, err = dlc("ir", write(text), "--stage", "ad", "--fn", "g", "--costs")
    assert code == 0, err
    head, *lines = [line for line in out.splitlines() if line.startswith("#")]
    assert head.endswith("f(n.0: i64, x.1: f64[n.0]) saves") and lines[-1] == "#   8*n.0 bytes in all"


def test_explain_prints_the_page_of_a_code(dlc):
    code, out, _ = dlc("explain", "E0801")
    assert code == 0 and out.startswith("# E0801: an index is out of range")
    assert dlc("explain", "801")[1] == out


def test_explain_of_an_unknown_code_is_a_usage_error(dlc):
    code, _, err = dlc("explain", "E9999")
    assert code == 2 and "E9999" in err


def test_explain_lists_all_codes(dlc):
    code, out, _ = dlc("explain")
    lines = out.splitlines()
    assert code == 0 and lines[0].startswith("E0101: ") and lines == sorted(lines) and len(lines) > 100


# ---- the command itself ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("argv", [[], ["fly"], ["ir", "x.dl"], ["run", "--backend", "gpu", "x.dl"]])
def test_a_wrong_command_line_ends_with_2(dlc, argv):
    assert dlc(*argv)[0] == 2


def test_without_a_command_it_says_what_there_is(dlc):
    code, out, err = dlc()
    assert code == 2 and out == "" and err == dlc("--help")[1] == dlc("help")[1]
    assert dlc("help", "run") == dlc("run", "--help") and dlc("-V") == dlc("--version")
    assert "error: expected COMMAND\n" in dlc("--color", "never")[2]


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_stream_may_be_closed(dlc, monkeypatch, tmp_path, stream):
    (tmp_path / "bad.dl").write_text("fn f( = 1")
    monkeypatch.setattr(f"sys.{stream}", None)
    assert main(["check", "bad.dl"]) == 1
    assert main(["fmt", "--stdin"] if stream == "stdin" else ["explain", "E0801"]) == 0


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | environment, timeout=PATIENCE
    )


def test_the_version_needs_the_command_line_and_nothing_else():
    done = python(
        "import atexit, sys; from dlang.tools.dlc import main;"
        "atexit.register(lambda: print(*sorted(m for m in sys.modules if m.startswith('dlang'))));"
        "main(['--version'])"
    )
    version, modules = done.stdout.splitlines()
    assert version == f"dlc {__version__}"
    assert modules.split() == [
        "dlang",
        "dlang.lazy_modules",
        "dlang.spelling",
        "dlang.tools",
        "dlang.tools.arguments",
        "dlang.tools.command_line",
        "dlang.tools.dlc",
    ]


def test_a_command_is_looked_for_in_its_own_module_only():
    done = python(
        "import sys; from dlang.tools.dlc import main; main(['explain', 'E0801']);"
        "print(*sorted(m for m in sys.modules if m.startswith('dlang.tools.')))"
    )
    modules = done.stdout.splitlines()[-1].split()
    assert modules == [f"dlang.tools.{name}" for name in ("arguments", "command_line", "dlc", "explain")]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_of_its_own(dlc, command):
    code, out, _ = dlc(command, "--help")
    assert code == 0 and out.startswith(f"usage: dlc {command} ") and COMMANDS[command].help[1:] in dlc("--help")[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_of_a_command_is_one(dlc, name):
    command = COMMANDS[name]
    assert command.examples
    for example in command.examples:
        parser_of(command).parse_args(shlex.split(example))
        assert f"\n  dlc {name} {example}".rstrip() in dlc(name, "--help")[1]


def test_checking_loads_neither_numpy_nor_llvm(write):
    file = write("import nn\nfn f(x: f64[n]) -> f64 = sum(nn.softmax(x))")
    done = python(
        f"import sys; from dlang.tools.dlc import main; code = main(['check', {file!r}]);"
        "print(code, sorted({'numpy', 'llvmlite'} & set(sys.modules)))"
    )
    assert done.stdout == "0 []\n", done.stderr


def test_a_defect_of_the_compiler_is_not_blamed_on_the_user(monkeypatch, dlc):
    def broken(*_):
        raise IndexError("tuple index out of range")

    monkeypatch.setattr("dlang.tools.check.check_files", broken)
    monkeypatch.delenv("DLANG_DEBUG", raising=False)
    code, _, err = dlc("check", "x.dl")
    assert code == 70 and "bug in dlang" in err and "Traceback" not in err
    monkeypatch.setenv("DLANG_DEBUG", "1")
    code, _, err = dlc("check", "x.dl")
    assert code == 70 and "Traceback" in err


def test_a_wrong_setting_is_not_a_defect(write, dlc, monkeypatch):
    monkeypatch.setenv("DLANG_THREADS", "many")
    monkeypatch.setattr("dlang.runtime.threads.default_pool", threads.wanted)
    code, _, err = dlc("run", "--threads", "2", write('fn main() { print("x") }'))
    assert code == 1 and err.startswith("error[E0972]")


def test_an_interrupt_is_quiet(monkeypatch, dlc):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dlang.tools.check.check_files", interrupted)
    assert dlc("check", "x.dl") == (130, "", "")


def test_messages_are_coloured_only_on_a_terminal(write, monkeypatch, capsys):
    file = write("fn f(x: f64) -> f64 = y")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    main(["check", file])
    assert "\x1b[" in capsys.readouterr().err
    monkeypatch.setenv("NO_COLOR", "1")
    main(["check", file])
    assert "\x1b[" not in capsys.readouterr().err


def test_colours_are_asked_for_and_refused(write, monkeypatch, capsys):
    file = write("fn f(x: f64) -> f64 = y")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "")

    def coloured(*argv):
        main([*argv, file])
        return "\x1b[" in capsys.readouterr().err

    assert not coloured("check")
    assert coloured("check", "--color", "always") and coloured("check")  # what is started by this sees it too
    assert not coloured("--color", "never", "check")
    assert not coloured("--color", "always", "check", "--color", "auto")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert coloured("check")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured("check")


# ---- clumsy use ------------------------------------------------------------------------------------------------------
def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path, dlc):
    (tmp_path / "crlf.dl").write_bytes(b'\xef\xbb\xbffn main() {\r\n  print("here")\r\n}\r\n')
    assert dlc("run", tmp_path / "crlf.dl") == (0, "here\n", "")


def test_an_imported_module_that_is_no_text_is_reported_at_the_import(write, tmp_path, dlc):
    (tmp_path / "binary.dl").write_bytes(b"fn f() = 1 # \xff")
    code, _, err = dlc("run", write("import binary\nfn main() { print(binary.f()) }\n"))
    assert code == 1 and err.startswith("error[E0952]: `binary.dl` is not UTF-8 text") and "program.dl:1:1" in err


def test_a_folder_with_the_name_of_a_program_is_searched_and_not_read(write, dlc):
    write('test "one" { assert true }\n', "inner.dl/program.dl")
    assert dlc("test", ".")[0] == 0
