"""Edits that messages suggest: what they make of a program, and which of them `dlc check --fix` makes."""

from pathlib import Path

import pytest

from dlang.diagnostics import Source
from dlang.tools.check import fixed
from dlang.typecheck.program import check_source
from tests.diagnostics import goldens, habits

PROGRAMS = [(f"{g.code} {g.title}", g.program) for g in goldens.goldens()]
PROGRAMS += [(h.title, h.program) for h in habits.read()]


def after(text, fix):
    return text[: fix.span.first] + fix.text + text[fix.span.last :]


def suggested(text):
    return [fix for d in check_source(Source("program.dl", text)).diagnostics for fix in d.fixes]


@pytest.mark.parametrize(
    "text, edited",
    [
        ("fn f(x: f64) -> bool = x > 0.0 && x < 1.0\n", "fn f(x: f64) -> bool = x > 0.0 and x < 1.0\n"),
        ("fn f(x: f64) -> f64 = sqr(x)\n", "fn f(x: f64) -> f64 = sqrt(x)\n"),
        ("fn f(x: f46) -> f64 = 1.0\n", "fn f(x: f64) -> f64 = 1.0\n"),
        ("fn f(x) = x[1:3]\n", "fn f(x) = x[1..3]\n"),
        ("struct P { x: f64 }\nfn f() = P { x: 1.0 }\n", "struct P { x: f64 }\nfn f() = P (x = 1.0)\n"),
        ("fn f(x) {\n  let y = x\n  y = 2.0\n  y\n}\n", "fn f(x) {\n  var y = x\n  y = 2.0\n  y\n}\n"),
        ("## Doc.\n\nfn f(x) = nn.relu(x)\n", "## Doc.\n\nimport nn\n\nfn f(x) = nn.relu(x)\n"),
        ("import nn\n\nfn f(x) = x * pi\n", "import nn\nimport math { pi }\n\nfn f(x) = x * pi\n"),
        ("fn f(x: f64[n], y: f64[m]) -> f64[n] = y\n", "fn f(x: f64[n], y: f64[m]) -> f64[n] = y as f64[n]\n"),
        ("fn f(x: f64, n: i64) = x * n\n", "fn f(x: f64, n: i64) = x * f64(n)\n"),
        ("fn f(s) {\n  s++\n}\n", "fn f(s) {\n  s += 1\n}\n"),
        ("from nn import relu, gelu\n", "import nn { relu, gelu }\n"),
        ("fn f(x: f64[n]) = map((v) => v + 1.0, x)\n", "fn f(x: f64[n]) = map(|v| v + 1.0, x)\n"),
        ("pub fn f() = 1\n", "fn f() = 1\n"),
    ],
)  # fmt: skip
def test_the_edit_is_what_the_message_says(text, edited):
    (fix,) = suggested(text)
    assert after(text, fix) == edited


@pytest.mark.parametrize(
    "text",
    [
        "fn f(x, y) = x << y\n",  # what lets parsing go on is not what was meant
        "fn f(x: f64) -> f64 = x if x > 0.0 else -x\n",
        "fn f(x, xs) = x in xs\n",
        "fn f(in) = 1\n",
    ],
)
def test_a_repair_that_is_not_what_was_meant_is_no_edit(text):
    assert check_source(Source("program.dl", text)).diagnostics
    assert suggested(text) == []


def test_what_is_done_without_asking_is_certain_and_helps():
    done = 0
    for name, program in PROGRAMS[::3]:
        before = check_source(Source("program.dl", program)).diagnostics
        text, left, made = fixed("program.dl", program)
        assert len(left) <= len(before), name
        assert [d.message for d in check_source(Source("program.dl", text)).diagnostics] == [d.message for d in left]
        done += len(made)
    assert done > 20


def test_check_fix_edits_the_file_and_says_what_is_left(dlc, write):
    write("""
        fn f(x: f46) -> bool = x > 0.0 && x < 1.0

        fn g(x: i64, y: i64) -> i64 = x ^ y

        fn main() { print("{f(0.5)}") }
    """)
    code, out, err = dlc("check", "--fix", "program.dl")
    assert code == 1
    assert out == "program.dl: line 1: write `and`\nprogram.dl: line 1: write `f64`\n"
    assert "error[E0115]: `^` is no operator here" in err and err.rstrip().endswith("1 error")
    with open("program.dl") as file:
        assert file.readline() == "fn f(x: f64) -> bool = x > 0.0 and x < 1.0\n"


def test_a_name_that_two_others_are_as_close_to_is_not_written_without_asking(dlc, write):
    path = Path(write("fn f(x: f64[n]) -> f64 = sun(x)\n"))  # sum, or sin
    assert dlc("check", "--fix", str(path))[:2] == (1, "")
    assert "sun(x)" in path.read_text()


def test_lines_end_as_they_did_and_a_file_that_cannot_be_written_is_told(dlc, write):
    path = Path(write("fn f(x: f46) = x\n")).absolute()
    path.write_bytes(b"fn f(x: f46) = x\r\nfn g() = 1\r\n")
    assert dlc("check", "--fix", "program.dl")[0] == 0
    assert path.read_bytes() == b"fn f(x: f64) = x\r\nfn g() = 1\r\n"
    code, _, err = dlc("check", "--fix", "nothing.dl")
    assert code == 1 and "E0951" in err
    assert dlc("check", "--fix", "--watch", "program.dl")[0] == 2
