"""`dlc run --profile`, `--profile-out` and `--memory`."""

import json

from dlang.runtime.profile import Ceilings

WORK = """
    fn main(n: i64 = 100000) {
      let x = cumsum([f64(i) for i < n])
      print("{sum(x):.0f}")
    }
"""


def test_a_profile_is_printed_behind_the_errors(write, dlc, monkeypatch):
    monkeypatch.setattr("dlang.runtime.profile.measured_ceilings", lambda threads: Ceilings(threads, 1e10, 1e11, 1e11))
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


def test_a_trace_that_cannot_be_written_is_an_error_before_the_program_runs(write, dlc):
    code, out, err = dlc("run", write(WORK), "--profile-out", "no/such/trace.json")
    assert (code, out) == (1, "") and "E0822" in err


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
    monkeypatch.setattr("dlang.runtime.profile.measured_ceilings", lambda threads: Ceilings(threads, 1e10, 1e11, 1e11))
    file = write('fn main() { let x = cumsum([1.0 for i < 1000]); assert sum(x) < 0.0, "no" }')
    code, _, err = dlc("run", file, "--profile")
    assert code == 1 and "E0800" in err and "loop in `main`" in err
