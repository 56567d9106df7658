"""`for i < progress(n)`: what a loop shows of itself, and that it computes what it would without."""

import fcntl
import io
import os
import re
import struct
import termios

import pytest

import dlang
from dlang.host.effects import Progress, described, duration


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def run(out, iterations, seconds, label="training"):
    """A loop whose iterations take so many seconds each; gives how often it has asked."""
    clock = Clock()
    meter = Progress(out, clock)
    asked, upcoming = 0, 0
    for done in range(iterations):
        if done >= upcoming:
            upcoming, asked = meter.report(done, iterations, label), asked + 1
        clock.now += seconds
    meter.report(iterations, -1, label)
    return asked


def test_a_terminal_has_one_line_that_ends_as_a_summary():
    out = Terminal()
    run(out, 10, 1.0)
    lines = out.getvalue().split("\r\x1b[K")
    assert lines[0] == "" and lines[5] == "training [############············] 50 % 5/10, 1/s, 5 s left"
    assert lines[-1] == "training: 10 in 10 s\n" and out.getvalue().count("\n") == 1


@pytest.mark.parametrize("columns, shown", [
    (120, "all [######··················] 25 % 1/4 · each one [############············] 50 % 1/2"),
    (56, "all [#·····] 25 % 1/4 · each one [###···] 50 % 1/2"),
    (48, "all 25 % 1/4 · each one 50 % 1/2"),
    (20, "all 25 % 1/4 · each"),
])  # fmt: skip
def test_the_line_is_as_long_as_the_terminal_at_most(columns, shown):
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(theirs, "w") as out:
        clock = Clock()
        meter = Progress(out, clock)
        meter.report(0, 4, "all")
        meter.report(0, 2, "each\none")
        meter.loops[0].done = 1
        meter.loops[0].start = meter.loops[1].start = clock.now = 1.0
        meter.report(1, 2, "each\none")
        assert os.read(ours, 1000).decode() == f"\r\x1b[K{shown}"
    os.close(ours)


def test_elsewhere_there_is_a_line_now_and_then():
    out = io.StringIO()
    run(out, 100, 1.0)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("training [##") and "10/100, 1/s, 1:30 min left" in lines[0]
    assert len(lines) == 10 and lines[-1] == "training: 100 in 1:40 min"


def test_short_iterations_do_not_ask():
    assert run(io.StringIO(), 1_000_000, 1e-6) < 40
    assert run(Terminal(), 100, 1.0) == 100


def test_what_is_printed_stands_on_a_line_of_its_own():
    out, clock = Terminal(), Clock()
    meter = Progress(out, clock)
    meter.report(0, 10, "")
    clock.now = 1.0
    meter.report(1, 10, "")
    meter.erase()
    meter.erase()
    assert out.getvalue().endswith("left\r\x1b[K")


def test_a_loop_that_failed_is_forgotten(capsys):
    f = dlang.compile(
        "fn f(n: i64, bad: i64) -> i64 {\n  var t = 0\n"
        '  for i in 0..progress(n, "f") { assert i < bad\n    t += i }\n  t\n}\n'
    ).f
    for bad in (9, 2, 9):  # the last of them without a detour
        try:
            assert f(5, bad) == 10
        except dlang.DlangError:
            assert bad == 2
    assert re.fullmatch(r"(f: 5 in \S+ s\n){2}", capsys.readouterr().err)


def test_loops_in_loops_share_the_line_and_those_that_were_left_are_forgotten():
    out, clock = Terminal(), Clock()
    meter = Progress(out, clock)
    meter.report(0, 3, "epochs")
    meter.report(0, 5, "batches")
    clock.now = 1.0
    meter.report(2, 5, "batches")
    assert "epochs [" in out.getvalue() and " · batches [" in out.getvalue()
    clock.now = 2.0
    meter.report(1, 3, "epochs")
    assert "batches" not in out.getvalue().split("\r\x1b[K")[-1]
    assert [x.label for x in meter.loops] == ["epochs"]


@pytest.mark.parametrize(
    "seconds, text",
    [(0.531, "0.53 s"), (42.4, "42 s"), (59.7, "1:00 min"), (187, "3:07 min"), (7500, "2:05:00 h")],
)
def test_times_are_as_long_as_they_are_exact(seconds, text):
    assert duration(seconds) == text


def test_slow_iterations_are_told_in_seconds():
    assert described("", 2, 4, 8.0) == "[############············] 50 % 2/4, 4 s each, 8 s left"
    assert described("", 0, 0, 0.0).endswith("100 % 0/0")


PROGRAM = """
    fn first(limit: i64) -> i64 ! io {
      for i < progress(100, "search") {
        if i * i > limit { return i }
      }
      return -1
    }
    fn main() {
      var total = 0.0
      let n = 7
      let xs = [f64(k) for k < n]
      for i < progress(n, "rows {n}") { total += xs[i] }
      for x in progress(xs) { if x == 2.0 { continue }
        total += x }
      for k in 1 .. progress(n) { if k == 4 { break }
        total += f64(k) }
      for k in 0 .. progress(10, "by two") by 2 { total += f64(k) }
      for (a, b) in progress(zip(xs, xs)) { total += a * b }
      for i < progress(2), j < 3 { for k < progress(j) { total += 1.0 } }
      print("{total} {first(50)}")
    }
"""


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_a_loop_computes_what_it_would_without(write, dlc, backend):
    without = re.sub(r'progress\((zip\(.*?\)|\w+)(?:, ".*?")?\)', r"\1", PROGRAM)
    assert "progress" not in without
    expected = dlc("run", "--backend", "interp", write(without, "without.dl"))[1]
    code, out, err = dlc("run", "--backend", backend, write(PROGRAM))
    assert (code, out) == (0, expected) and out.endswith(" 8\n")
    assert "rows 7: 7 in " in err and "by two: 5 in " in err
    assert err.splitlines()[-1].startswith("search: 9 of 100 in ") and "4 of 6 in " in err


def test_a_name_of_ones_own_hides_it(write, dlc):
    text = "fn progress(n: i64) -> i64 = 2 * n\nfn main() {\n  for i < progress(2) { print(i) }\n}\n"
    assert dlc("run", write(text)) == (0, "0\n1\n2\n3\n", "")


@pytest.mark.parametrize(
    "body, code",
    [
        ("let xs = [i for i < progress(3)]", "E0421"),
        ("for i < 3, j < progress(2) { print(i) }", "E0421"),
        ("let n = progress(3)", "E0421"),
        ('for i < progress(3, "a", "b") { print(i) }', "E0307"),
        ("for i < progress(3, 4) { print(i) }", "E0301"),
        ("for i < progress(1.5) { print(i) }", "E0301"),
    ],
)
def test_elsewhere_it_is_refused(write, dlc, body, code):
    ended, _, err = dlc("check", write(f"fn main() {{\n  {body}\n}}\n"))
    assert ended == 1 and f"error[{code}]" in err and "program.dl:2:" in err


def test_it_is_an_effect(write, dlc):
    text = "fn f(x: f64) -> f64 ! () {\n  var y = x\n  for i < progress(3) { y *= x }\n  y\n}\n"
    code, _, err = dlc("check", write(text))
    assert code == 1 and "io" in err
