"""`dlc bench`: what is timed, what is said of it, and how it compares with what was saved."""

import json

import pytest

from dlang.diagnostics import DlangError, Source
from dlang.driver import check, errors_of
from dlang.python.function import Function
from dlang.python.instances import Program
from dlang.tools.bench import MOST, Times, read_saved, subject_of, timed, verdict


# ---- what is timed ---------------------------------------------------------------------------------------------------
def parts(text):
    """The arguments that a benchmark makes ready, and the value of its expression."""
    checked = check(Source("bench.dl", text))
    assert not errors_of(checked)
    (bench,) = checked.module.benches
    program = Program(checked, "interp")
    subject = subject_of(bench)
    arguments = program.prepare(subject.setup, {})([]) or ()
    return arguments, Function(program, subject.timed, bench.name, False)(*arguments)


@pytest.mark.parametrize(
    "text, ready, value",
    [
        ('bench "b" { 1.0 + 2.0 }', 0, 3.0),
        ('bench "b" { let x = [1.0, 2.0]\n  sum(x) }', 1, 3.0),
        ('bench "b" { let x = [1.0, 2.0]\n  let y = sum(x)\n  y + 1.0 }', 1, 4.0),
        ('bench "b" { let (x, y) = (1, 2.5)\n  let z = 3\n  f64(x) + y }', 2, 3.5),
        ('bench "b" { let x = 2.0\n  let f = |a: f64| a * x\n  f(3.0) }', 1, 6.0),
        ('bench "b" { let x = 2.0\n  fn f(a: f64) -> f64 = a * a\n  let g = |a: f64| f(a) + x\n  g(3.0) }', 1, 11.0),
        ('bench "b" { var x = [1.0, 2.0]\n  x[0] = 5.0\n  { x[1] += 1.0; sum(x) } }', 1, 8.0),
        ('struct P { a: f64[2], b: i64 }\nbench "b" { let p = P([1.0, 2.0], 3)\n  p.a[1] + f64(p.b) }', 1, 5.0),
        ('bench "b" { let e = Some(3.0)\n  match e { Some(x) => x, None => 0.0 } }', 1, 3.0),
        ('bench "b" { let x = [i for i < 20 if i % 3 == 0]\n  let y = zeros(len(x) + 1)\n  len(y[1..]) }', None, 7),
        ('bench "b" { let x: i64[k] = [i for i < 20 if i % 3 == 0]\n  k }', None, 7),
        ('bench "b" { let n = 4\n  let x = ones(n)\n  sum([f64(i) for i < n]) + sum(x) }', None, 10.0),
        ('fn f(x: f64[n]) -> f64 = sum(x ** 2)\nbench "b" { let x = [3.0]\n  grad(f)(x)[0] }', 1, 6.0),
    ],
)
def test_the_last_expression_takes_what_it_needs_of_what_comes_before(text, ready, value):
    arguments, result = parts(text)
    assert result == value
    assert ready is None or len(arguments) == ready


def test_a_value_that_holds_a_function_cannot_be_made_ready():
    checked = check(Source("b.dl", 'struct F { f: f64 -> f64 }\nbench "b" { let h = F(|x: f64| x)\n  (h.f)(2.0) }'))
    with pytest.raises(DlangError, match="E0992"):
        subject_of(checked.module.benches[0])


@pytest.mark.parametrize("body", ["", "let x = 1.0", "var x = 1\n  x = 2", "for i < 3 { print(i) }", "assert true"])
def test_a_block_without_a_last_expression_is_refused(body):
    checked = check(Source("b.dl", f'bench "b" {{ {body} }}'))
    assert "E0991" in [d.code for d in errors_of(checked)]


def test_the_word_is_a_name_elsewhere():
    assert not errors_of(check(Source("b.dl", "fn bench(x: f64) -> f64 = x\nfn f(bench: f64) -> f64 = bench + 1.0\n")))
    (found,) = errors_of(check(Source("b.dl", "bench sums { 1 }\n")))
    assert found.code == "E0115" and 'bench "sums" { … }' in found.help[0]


# ---- times -----------------------------------------------------------------------------------------------------------
def test_times_are_of_one_call_and_calls_are_counted():
    calls = []
    times = timed(lambda: calls.append(None), 0.02)
    assert 0 < times.least <= times.median < 1e-3 and 0 < len(times.samples) <= MOST
    assert times.calls < len(calls)  # some were warm-up


def test_the_statistics_are_those_of_the_field():
    times = Times(((1.0, 2.0, 3.0), (4.0, 10.0)), 5)
    assert (times.least, times.median, times.deviation) == (1.0, 3.0, 1.0)


STEADY = (1.0, 1.01, 0.99, 1.0, 1.005)


def rounds(scale, *shifts):
    return Times(tuple(tuple(x * scale * s for x in STEADY) for s in shifts or (1.0, 1.01, 0.995, 1.0)), 20)


@pytest.mark.parametrize(
    "now, expected",
    [
        (rounds(1.0), "same"),
        (rounds(1.05), "same"),
        (rounds(1.5), "slower"),
        (rounds(0.5), "faster"),
        (rounds(1.3, 1.0, 0.6, 1.7, 1.1), "unclear"),  # rounds that differ as much as the times
        (rounds(1.3, 0.77, 1.0, 1.0, 1.0), "unclear"),  # as fast as before in a round
    ],
)
def test_a_change_counts_if_it_is_larger_than_the_threshold_and_the_noise(now, expected):
    assert verdict(rounds(1.0), now, 0.1) == expected


# ---- the command -----------------------------------------------------------------------------------------------------
TEXT = """
    bench "small" {
      let x = [f64(i) for i < 1000]
      sum(x * x)
    }
    bench "large" {
      let x = [f64(i) for i < 200_000]
      print("dropped")
      sqrt(x)
    }
"""


def test_a_table_says_how_long_calls_take(write, dlc):
    code, out, err = dlc("bench", "--seconds", "0.05", "--rates", write(TEXT))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "program.dl" and lines[1].split()[:3] == ["median", "±", "MAD"] and lines[1].endswith("GFLOP/s")
    assert [line.split()[0] for line in lines[2:]] == ["small", "large"]


def test_times_are_saved_and_compared(write, dlc, tmp_path, monkeypatch):
    monkeypatch.setattr("dlang.tools.bench.SURE", 0.0)  # on a machine that does other things too
    file = write(TEXT)
    bench = ("bench", "--seconds", "0.05", "--json", file)
    code, out, _ = dlc(*bench, "--save", "now.json")
    small, large = map(json.loads, out.splitlines())
    assert code == 0 and small["name"] == "small" and 0 < small["min"] <= small["median"]
    assert large["median"] > 10e-6  # 200,000 roots: nothing was computed before, or left out
    assert set(read_saved("now.json").times) == {(file, "small"), (file, "large")}
    saved = json.loads((tmp_path / "now.json").read_text())
    for b, scale in zip(saved["benchmarks"], (100, 0.01), strict=True):
        b["rounds"] = [[x * scale for x in samples] for samples in b["rounds"]]
    saved["machine"]["processor"] = "another"
    (tmp_path / "other.json").write_text(json.dumps(saved))
    code, out, err = dlc(*bench, "--compare", "other.json")
    assert code == 1 and [json.loads(line)["verdict"] for line in out.splitlines()] == ["faster", "slower"]
    assert "processor another, now" in err and "1 benchmark is slower" in err
    code, out, _ = dlc(*bench, "--compare", "other.json", "--filter", "small")
    assert code == 0 and len(out.splitlines()) == 1


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"format": 1}', '{"format": 1, "machine": {}, "benchmarks": [{}]}'])
def test_a_file_of_something_else_is_refused(write, dlc, text):
    write(text, "x.json")
    code, _, err = dlc("bench", "--compare", "x.json", write(TEXT))
    assert code == 1 and "E0993" in err
    assert "E0951" in dlc("bench", "--compare", "missing.json", "program.dl")[2]
    for place in ("no/x.json", "."):  # told before anything is timed
        code, out, err = dlc("bench", "--save", place, "program.dl")
        assert (code, out) == (1, "") and "E0822" in err


def test_what_fails_is_told_and_the_others_are_timed(write, dlc):
    text = 'bench "bad" { let k = len([1.0]) + 4\n  [1.0, 2.0][k] }\nbench "good" { let x = 1.0\n  x + 1.0 }\n'
    code, out, err = dlc("bench", "--seconds", "0.01", write(text))
    assert code == 1 and "FAILED  bad" in out and "good" in out.splitlines()[-1] and "E0801" in err


def test_without_benchmarks_there_is_nothing_to_say(write, dlc):
    assert dlc("bench", write("fn f() = 1\n"))[:2] == (0, "")
    assert dlc("bench", "--seconds", "0", "program.dl")[0] == 2
    assert dlc("bench", write("fn f( = 1\n"))[0] == 1


def test_other_back_ends_are_timed(write, dlc):
    assert dlc("bench", "--backend", "interp", "--seconds", "0.01", "--filter", "small", write(TEXT))[0] == 0
