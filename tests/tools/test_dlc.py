"""The command `dlc`: what it prints, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from dlang import __version__
from dlang.runtime.ceilings import Ceilings
from dlang.tools.dlc import main


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a file into an empty working directory; gives its name."""
    monkeypatch.chdir(tmp_path)

    def write(text, name="program.dl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text).lstrip())
        return name

    return write


@pytest.fixture
def dlc(capsys):
    """Runs a command; gives its code, output and errors."""

    def run(*argv):
        try:
            code = main([str(a) for a in argv])
        except SystemExit as e:
            code = e.code
        out, err = capsys.readouterr()
        return code, out, err

    return run


GREET = """
    ## Greets.
    fn main(name: str = "you", times: i64 = 1, scale: f64 = 1.0, loud: bool = false) {
      for k in 0..times { print("hello {name} {scale} {loud}") }
    }
"""


# ---- run -------------------------------------------------------------------------------------------------------------
def test_run_calls_main_with_its_defaults(write, dlc):
    assert dlc("run", write(GREET)) == (0, "hello you 1.0 false\n", "")


def test_parameters_of_main_are_options(write, dlc):
    file = write(GREET)
    assert dlc("run", file, "--name", "Ada", "--times", "2", "--scale", "0.5", "--loud")[:2] == (
        0,
        "hello Ada 0.5 true\n" * 2,
    )
    assert dlc("run", "--backend", "interp", file, "--scale=2")[:2] == (0, "hello you 2.0 false\n")
    assert dlc("run", file, "--backend", "interp", "--loud", "true")[:2] == (0, "hello you 1.0 true\n")


@pytest.mark.parametrize(
    "options, words",
    [
        (["--nmae", "Ada"], "--nmae"),
        (["--times"], "expected one argument"),
        (["--times", "many"], "expected i64"),
        (["--times", "9223372036854775808"], "out of the range of i64"),
        (["--scale", "wide"], "expected a number"),
        (["--loud", "yes"], "neither true nor false"),
        (["stray"], "stray"),
    ],
)
def test_a_wrong_option_is_a_usage_error(write, dlc, options, words):
    code, out, err = dlc("run", write(GREET), *options)
    assert (code, out) == (2, "") and words in err


def test_a_parameter_without_a_default_must_be_given(write, dlc):
    file = write('fn main(n: i64) { print("{n}") }')
    code, _, err = dlc("run", file)
    assert code == 2 and "--n" in err
    assert dlc("run", file, "--n", "3")[:2] == (0, "3\n")


def test_help_lists_the_options_of_the_program(write, dlc):
    code, out, _ = dlc("run", write(GREET), "--help")
    assert code == 0 and "Greets." in out and "--times i64" in out and "1 unless given" in out


def test_the_value_of_main_is_printed(write, dlc):
    assert dlc("run", write("fn main() -> f64 = 2.5"))[:2] == (0, "2.5\n")


def test_a_size_can_be_an_option(write, dlc):
    file = write('fn main(n: size = 2) { print("{sum(f64(i) for i < n)}") }')
    assert dlc("run", file)[:2] == (0, "1.0\n")
    assert dlc("run", file, "--n", "4")[:2] == (0, "6.0\n")


@pytest.mark.parametrize("backend", ["interp", "cpu"])
def test_a_program_that_draws_takes_a_seed_which_is_0_unless_given(write, dlc, backend):
    main = 'fn main(n: i64 = 1) { for i < n { print("{random.uniform()}") } }'
    for text in (main, 'for i < 1 { print("{random.uniform()}") }'):
        file = write("import random\n" + text)
        outputs = [dlc("run", "--backend", backend, file, *seed) for seed in ((), ("--seed", "0"), ("--seed", "-5"))]
        assert all(code == 0 for code, _, _ in outputs)
        assert outputs[0] == outputs[1] != outputs[2]
        assert "--seed i64" in dlc("run", file, "--help")[1]
    assert dlc("eval", "--backend", backend, "random.uniform()")[1] == dlc("eval", "random.uniform()")[1]


def test_only_what_draws_takes_a_seed_and_a_parameter_of_that_name_comes_first(write, dlc):
    assert dlc("run", write("fn main() {}"), "--seed", "1")[0] == 2
    file = write('import random\nfn main(seed: i64 = 3) { print("{seed} {random.uniform() < 1.0}") }')
    assert dlc("run", file, "--seed", "4")[1] == "4 true\n"
    code, _, err = dlc("run", write("import random\nfn main() -> f64 = random.uniform()"), "--seed", "many")
    assert code == 2 and "expected i64" in err


def test_a_file_of_statements_runs(write, dlc):
    assert dlc("run", write('let x = 1 + 1\nprint("{x}")\n'))[:2] == (0, "2\n")


def test_a_file_with_nothing_to_run_is_an_error(write, dlc):
    code, _, err = dlc("run", write("fn f(x: f64) -> f64 = x"))
    assert code == 1 and "E0953" in err and "fn main()" in err


def test_an_array_as_a_parameter_of_main_is_an_error(write, dlc):
    code, _, err = dlc("run", write("fn main(x: f64[n]) { }"))
    assert code == 1 and "E0954" in err and "`x`" in err


def test_a_failed_run_shows_the_place_and_the_calls(write, dlc):
    file = write("""
        fn check(x: i64) { assert x < 3, "{x} is too large" }
        fn main() { check(5) }
    """)
    code, _, err = dlc("run", file, "--backend", "interp")
    assert code == 1
    assert "error[E0800]" in err and "5 is too large" in err and "program.dl:1:" in err


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
    keys = {"file", "line", "column", "end_line", "end_column", "code", "severity", "message", "notes", "help"}
    assert all(set(o) == keys and o["file"] == "program.dl" for o in objects)


@pytest.mark.parametrize("command", [["check"], ["run"], ["test"], ["ir", "--stage", "core"]])
def test_a_missing_file_is_a_message(dlc, command):
    code, _, err = dlc(*command, "no/such.dl")
    assert code == 1 and "E0951" in err and "no/such.dl" in err


def test_a_file_that_is_no_text_is_a_message(dlc, tmp_path):
    (tmp_path / "x.dl").write_bytes(b"fn f\xff")
    code, _, err = dlc("check", tmp_path / "x.dl")
    assert code == 1 and "E0952" in err


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
    assert "program.dl:2:" in err and "5" in err and "6" in err


def test_a_filter_chooses_tests_by_name(write, dlc):
    code, out, _ = dlc("test", "--filter", "product", write(TESTS))
    assert code == 0 and "products" in out and "wrong" not in out and "1 passed" in out


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
    ],
)
def test_eval_prints_a_value(dlc, expression, printed):
    assert dlc("eval", expression)[:2] == (0, printed + "\n")


def test_eval_reports_mistakes(dlc):
    code, out, err = dlc("eval", "1 + tru")
    assert (code, out) == (1, "") and "tru" in err


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


# ---- the command itself ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("argv", [[], ["fly"], ["check"], ["ir", "x.dl"], ["run", "--backend", "gpu", "x.dl"]])
def test_a_wrong_command_line_ends_with_2(dlc, argv):
    assert dlc(*argv)[0] == 2


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | environment, timeout=60
    )


def test_the_version_needs_the_command_line_and_nothing_else():
    done = python(
        "import atexit, sys; from dlang.tools.dlc import main;"
        "atexit.register(lambda: print(*sorted(m for m in sys.modules if m.startswith('dlang'))));"
        "main(['--version'])"
    )
    version, modules = done.stdout.splitlines()
    assert version == f"dlc {__version__}"
    assert modules.split() == ["dlang", "dlang.spelling", "dlang.tools", "dlang.tools.arguments", "dlang.tools.dlc"]


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


def test_an_interrupt_is_quiet(monkeypatch, dlc):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dlang.tools.check.check_files", interrupted)
    assert dlc("check", "x.dl") == (130, "", "")


@pytest.mark.parametrize("backend", ["interp", "cpu"])
def test_an_interrupt_ends_a_running_program(write, backend):
    file = write("""
        fn main() {
          print("started")
          var n = 1
          while n > 0 { n = n % 1000 + 1 }
          print("{n}")
        }
    """)
    command = [sys.executable, "-m", "dlang.tools.dlc", "run", "--backend", backend, file]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        place = "dlc: interrupted in `main`\n" if backend == "cpu" else ""
        assert process.communicate(timeout=30) == ("", place)
    finally:
        process.kill()
    assert process.returncode == 130


def test_a_deep_recursion_runs(write, dlc):
    file = write("""
        fn down(n: i64) -> i64 = if n == 0 { 0 } else { 1 + down(n - 1) }
        fn main() { print("{down(1000000)}") }
    """)
    assert dlc("run", file)[:2] == (0, "1000000\n")


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


# ---- clumsy use ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options, printed",
    [
        (["--scale", "-1e-3"], "hello you -0.001 false"),
        (["--scale", "-inf", "--name", "-x"], "hello -x -inf false"),
        (["--name=--times", "--loud"], "hello --times 1.0 true"),
        (["--loud", "--name", "--what"], "hello --what 1.0 true"),
    ],
)
def test_a_value_may_begin_with_a_minus(write, dlc, options, printed):
    assert dlc("run", write(GREET), *options) == (0, printed + "\n", "")


@pytest.mark.parametrize(
    "options", [["--name", "--times", "2"], ["--scale", "-h"], ["--times", "9" * 20], ["--loud=1"]]
)
def test_an_option_without_a_fitting_value_is_a_usage_error(write, dlc, options):
    code, out, err = dlc("run", write(GREET), *options)
    assert code == 2 and "dlc run program.dl: error: argument --" in err and not out


@pytest.mark.parametrize("redirected, code", [(">&-", 0), (">/dev/full", 1)])
def test_output_that_cannot_be_written_is_no_defect(write, redirected, code):
    if redirected.endswith("full") and not os.path.exists("/dev/full"):
        pytest.skip("there is no full device")
    command = f"{sys.executable} -m dlang.tools.dlc run {write(GREET)} {redirected}"
    run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert run.returncode == code and "bug" not in run.stderr


@pytest.mark.parametrize("cache", ["/dev/null", "file"])
def test_a_cache_that_cannot_be_written_is_done_without(write, cache):
    write("no folder", "file")
    env = {**os.environ, "DLANG_CACHE": cache}
    run = subprocess.run(
        [sys.executable, "-m", "dlang.tools.dlc", "run", write(GREET)],
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "hello you 1.0 false\n", "")


def test_a_cache_that_is_damaged_is_written_anew(write, tmp_path):
    for damage in (None, b"", b"junk"):
        for kept in (tmp_path / "cache").rglob("*.pickle") if damage is not None else ():
            kept.write_bytes(damage)
        env = {**os.environ, "DLANG_CACHE": str(tmp_path / "cache")}
        command = [sys.executable, "-m", "dlang.tools.dlc", "check", write(GREET)]
        run = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)
        assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert all(kept.stat().st_size > 10 for kept in (tmp_path / "cache").rglob("*.pickle"))


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


# ---- measuring -------------------------------------------------------------------------------------------------------
WORK = """
    fn main(n: i64 = 100000) {
      let x = cumsum([f64(i) for i < n])
      print("{sum(x):.0f}")
    }
"""


def test_a_profile_is_printed_behind_the_errors(write, dlc, monkeypatch):
    monkeypatch.setattr("dlang.runtime.ceilings.ceilings", lambda threads: Ceilings(threads, 1e10, 1e11, 1e11))
    file = write(WORK)
    for options in (("--profile", file), (file, "--profile"), (file, "--n", "100000", "--profile")):
        code, out, err = dlc("run", *options)
        assert (code, out) == (0, "166666666650000\n")
        assert "loop in `main`, program.dl:2:" in err and "in compiled code of" in err and "MiB at most" in err


def test_a_trace_is_written_as_json(write, dlc):
    code, _, err = dlc("run", write(WORK), "--profile-out", "trace.json")
    assert (code, err) == (0, "")
    with open("trace.json") as file:
        events = json.load(file)["traceEvents"]
    assert {e["cat"] for e in events} >= {"function", "loop", "host"}


def test_a_trace_that_cannot_be_written_is_an_error(write, dlc):
    code, out, err = dlc("run", write(WORK), "--profile-out", "no/such/trace.json")
    assert code == 1 and out and "E0822" in err


def test_what_memory_a_run_needed_is_printed(write, dlc):
    code, _, err = dlc("run", "--memory", write(WORK))
    assert code == 0 and err.startswith("memory: ") and "MiB at most" in err


def test_a_parameter_of_main_takes_the_name_of_an_option(write, dlc):
    file = write('fn main(memory: i64) { print("{memory}") }')
    assert dlc("run", file, "--memory", "3") == (0, "3\n", "")


def test_the_interpreter_has_no_profile(write, dlc):
    code, out, err = dlc("run", write(WORK), "--profile", "--backend", "interp")
    assert code == 1 and out == "" and "E0958" in err


def test_a_run_that_fails_shows_its_profile(write, dlc, monkeypatch):
    monkeypatch.setattr("dlang.runtime.ceilings.ceilings", lambda threads: Ceilings(threads, 1e10, 1e11, 1e11))
    file = write('fn main() { let x = cumsum([1.0 for i < 1000]); assert sum(x) < 0.0, "no" }')
    code, _, err = dlc("run", file, "--profile")
    assert code == 1 and "E0800" in err and "loop in `main`" in err
