"""`dlc run`: the options of a program, what it prints, and how it ends."""

import os
import signal
import subprocess
import sys

import pytest

from tests.patience import PATIENCE

GREET = """
    ## Greets.
    fn main(name: str = "you", times: i64 = 1, scale: f64 = 1.0, loud: bool = false) {
      for k in 0..times { print("hello {name} {scale} {loud}") }
    }
"""


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
        (["--times"], "expected a value"),
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


def test_help_says_defaults_as_they_are_written(write, dlc):
    text = 'fn main(n: i64 = -3, flag: bool = true, k: i64 = 2 + 1, name: str = "a b", m: f64 = 1e-7) { print(name) }'
    _, out, _ = dlc("run", write(text), "--help")
    for said in ("i64, -3 unless", "bool, true unless", "i64, 2 + 1 unless", "str, a b unless", "f64, 1e-7 unless"):
        assert said in out


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
    assert code == 2 and "dlc run program.dl: error: --" in err and not out


no_full_device = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")


@pytest.mark.parametrize("redirected, code", [(">&-", 0), pytest.param(">/dev/full", 1, marks=no_full_device)])
def test_output_that_cannot_be_written_is_no_defect(write, redirected, code):
    command = f"{sys.executable} -m dlang.tools.dlc run {write(GREET)} {redirected}"
    run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == code and "bug" not in run.stderr


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
        assert process.communicate(timeout=PATIENCE) == ("", place)
    finally:
        process.kill()
    assert process.returncode == 130


def test_a_deep_recursion_runs(write, dlc):
    file = write("""
        fn down(n: i64) -> i64 = if n == 0 { 0 } else { 1 + down(n - 1) }
        fn main() { print("{down(1000000)}") }
    """)
    assert dlc("run", file)[:2] == (0, "1000000\n")
