"""`dlc check-grad`: what it compares, what it finds, and how it ends."""

import textwrap
from pathlib import Path

import pytest

from dlang.tools.dlc import main

ROOT = Path(__file__).parents[2]

SMOOTH = """
    fn soft(x: f64[n]) -> f64[n] = sqrt(x * x + 0.01)
    pullback soft(x) -> y = |g| {rule}
    fn loss(w: f64[n]) -> f64 = sum(soft(w - 1.0))
"""


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Runs the command on a text; gives its code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(text, *options):
        (tmp_path / "p.dl").write_text(textwrap.dedent(text))
        code = main(["check-grad", "p.dl", *options])
        return code, *capsys.readouterr()

    return run


def test_functions_that_give_one_float_are_checked_in_all_their_floats(check):
    code, out, err = check(
        """
        struct Line { a: f64, b: f64 }
        fn at(line: Line, x: f64) -> f64 = line.a * x + line.b
        fn loss(line: Line, x: f64[n], y: f64[n]) -> f64 = sum((at(line, x[i]) - y[i]) ** 2 for i)
        fn name(k: i64) -> str = "{k}"
        fn squares(x: f64[n]) -> f64[n] = x * x
        """
    )
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines() if line.startswith("`")] == ["`at`", "`loss`"]
    assert "line.a" in out and "line.b" in out and "all 8 derivatives agree" in out


def test_a_wrong_pullback_is_found_at_its_worst_element(check):
    code, out, _ = check(SMOOTH.replace("{rule}", "[if i == 1 { 2.0 * g[i] } else { g[i] * x[i] / y[i] } for i]"))
    assert code == 1
    assert "`x[1]`: reverse mode gives" in out
    assert "`w[1]`: reverse mode gives" in out


def test_a_wrong_pushforward_is_found(check):
    code, out, _ = check(
        """
        fn cube(x: f64) -> f64 = x ** 3
        pushforward cube(x) -> y = |d| 3.01 * x * x * d
        """
    )
    assert code == 1 and "forward mode gives" in out


def test_a_right_rule_agrees(check):
    code, out, _ = check(SMOOTH.replace("{rule}", "g * x / y"))
    assert code == 0 and "reverse mode gives" not in out


def test_a_function_can_be_named_with_sizes_and_a_seed(check):
    text = "fn f(x: f64[n], y: f64[k]) -> f64[n, k] = [sin(a) * b for a in x, b in y]"
    code, out, _ = check(text, "--fn", "f", "--size", "k=2", "--size", "4", "--seed", "7")
    assert code == 0 and "`f` at n = 4, k = 2, seed 7" in out and "all 6 derivatives agree" in out
    _, other, _ = check(text, "--fn", "f", "--size", "k=2", "--size", "4", "--seed", "8")
    assert out.splitlines()[0] != other.splitlines()[0]


def test_enums_integers_halves_draws_and_prints_are_no_obstacle(check):
    code, out, _ = check(
        """
        import random
        enum Shape { Circle(f64), Box(f64, f64) }
        fn area(s: Shape, scale: f64) -> f64 = match s { Circle(r) => scale * r * r, Box(a, b) => scale * a * b }
        fn pick(x: f32[n], i: Idx<n>, k: size) -> f32 = sum(x[i] ** 2 * f32(j) for j < k)
        fn noisy(x: f64[n]) -> f64 = sum(x * random.normal() for i < n)
        fn loud(x: f64) -> f64 { print("at {x}"); x * x }
        """
    )
    assert code == 0 and out.count("agree") == 4


def test_what_cannot_be_checked_is_said(check):
    code, _, err = check("fn f(x: i64) -> i64 = x", "--fn", "f")
    assert code == 1 and "E0957" in err
    code, _, err = check("fn f(x: i64) -> i64 = x")
    assert code == 1 and "E0957" in err
    code, _, err = check("fn f(x: List<f64>) -> f64 = 1.0", "--fn", "f")
    assert code == 1 and "E0957" in err
    code, _, err = check("fn f(x: f64) -> f64 = x", "--fn", "g")
    assert code == 1 and "E0955" in err
    code, _, err = check("fn f(x: f64) -> f64 = x", "--size", "many")
    assert code == 1 and "E0957" in err
    code, _, err = check("fn f(x: f64[n]) -> f64 = x[5]")
    assert code == 1 and "E0801" in err


def test_the_body_of_a_foreign_function_has_no_reference(check):
    code, out, _ = check(
        """
        extern "c:m:cbrt" fn cbrt(x: f64) -> f64
        fn root(x: f64) -> f64 = cbrt(2.0 + x * x)
        pullback root(x) -> y = |g| g * 2.0 * x / (3.0 * y * y)
        pushforward root(x) -> y = |d| d * 2.0 * x / (3.0 * y * y)
        """
    )
    assert code == 0 and "no reference: it can't differentiate the foreign function `c:" in out


def test_the_page_shows_what_the_command_prints(check):
    page = (ROOT / "docs/derivatives.md").read_text()
    program = page.split("```dlang\n")[1].split("```")[0]
    shown = page.split("    $ dlc check-grad rules.dl --fn soft\n")[1].split("\n\n")[0]
    code, out, _ = check(program, "--fn", "soft")
    assert code == 1 and out.split() == shown.split()


def test_where_the_value_is_infinite_there_are_no_differences_to_compare(check):
    code, out, _ = check("fn f(x: f64) -> f64 = if x < 1e9 { 1.0 / 0.0 } else { x }")
    assert code == 0 and "the value is not finite" in out and "derivatives agree" in out
