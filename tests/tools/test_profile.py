"""`dlc profile`: the time of a program, and that of the compiler."""

import json

import pytest

from dlang.timings import timed, timings_of

TEXT = """
    fn loss(w: f64[n], x: f64[n]) -> f64 = sum((w - x) ** 2)
    fn main(n: i64 = 1000) {
      let x = [f64(i) for i < n]
      print("{sum(grad(loss)(x, 2.0 * x)):.1f}")
    }
"""


def test_laps_inside_of_others_do_not_count_for_these():
    with timed("unheard"):
        pass
    with timings_of() as timings:
        with timed("outer"), timed("inner"), timed("innermost"):
            pass
        with pytest.raises(ValueError), timed("failing"):
            raise ValueError
    assert [x.name for x in timings] == ["outer", "inner", "innermost", "failing"]
    outer, inner, innermost, _ = timings
    assert outer.inner == inner.seconds and inner.inner == innermost.seconds and innermost.inner == 0
    assert outer.own + inner.own + innermost.own == pytest.approx(outer.seconds)
    with timed("unheard"):
        pass
    assert len(timings) == 4


def test_a_program_is_run_and_measured(write, dlc, tmp_path):
    code, out, err = dlc("profile", "--trace", "trace.json", write(TEXT), "--n", "10")
    assert (code, out) == (0, "-90.0\n")
    assert err.splitlines()[0].split()[:3] == ["time", "share", "calls"]
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_the_passes_of_the_compiler_are_measured_and_nothing_runs(write, dlc, tmp_path):
    code, out, err = dlc("profile", "--compile", "--trace", "trace.json", write(TEXT))
    assert (code, err) == (0, "")
    head, *rows, total = out.splitlines()
    assert head.split() == ["time", "share", "times", "of", "the", "compiler"] and total.endswith(" ms in all")
    names = {row.split(maxsplit=5)[5] for row in rows}
    assert {"parse", "check", "specialise", "inline", "derivatives", "fuse", "loops", "text for LLVM", "LLVM"} <= names
    times = [float(row.split()[0]) for row in rows]
    assert times == sorted(times, reverse=True) and float(total.split()[0]) == pytest.approx(sum(times), abs=0.3)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert names == {e["name"] for e in events} and all(e["dur"] >= 0 and e["ts"] >= 0 for e in events)


def test_a_function_can_be_chosen_and_tests_are_compiled_where_there_is_no_main(write, dlc):
    code, out, _ = dlc("profile", "--compile", "--fn", "loss", write(TEXT))
    assert code == 0 and len(out.splitlines()) > 5
    assert "E0955" in dlc("profile", "--compile", "--fn", "lost", "program.dl")[2]
    code, out, _ = dlc("profile", "--compile", write('test "t" { assert 1 + 1 == 2 }', "only.dl"))
    assert code == 0 and "LLVM" in out


def test_what_cannot_be_measured_is_said(write, dlc):
    assert "E0958" in dlc("profile", "--backend", "interp", write(TEXT))[2]
    assert "E0958" in dlc("profile", "--compile", "--backend", "interp", "program.dl")[2]
    assert dlc("profile", "--compile", write("fn f( = 1\n", "bad.dl"))[0] == 1
    assert "E0822" in dlc("profile", "--compile", "--trace", "no/x.json", "program.dl")[2]
