"""`dlc check-grad`: what it compares, what it finds, and how it ends."""

import re
import textwrap
import time
from pathlib import Path

import pytest

from dlang.tools.dlc import main
from dlang.tools.gradients import TooLong, within

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
    assert code == 0 and out.count("agree") == 5


def test_a_function_is_as_precise_as_what_it_computes_with(check):
    code, out, _ = check(
        """
        fn half(w: f32[n, m], x: f32[m]) -> f32 = f32(sum((f16(w) @ f16(x)) ** 2))
        fn brain(w: f64[n, m], x: f64[m]) -> f64 = f64(sum((bf16(w) @ bf16(x)) ** 2))
        """
    )
    assert code == 0 and out.count("agree") == 2, out


def test_each_variant_of_an_enum_is_checked(check):
    code, out, _ = check(
        """
        enum Shape { Empty, Circle(f64), Box(f64, f64) }
        fn square(x: f64) -> f64 = x * x
        pullback square(x) -> y = |g| g * x
        fn area(s: Shape) -> f64 = match s { Empty => 0.0, Circle(r) => 3.0 * square(r), Box(a, b) => a * b }
        """,
        "--fn", "area",
    )  # fmt: skip
    heads = [line.partition(", seed")[0] for line in out.splitlines() if line.startswith("`area`")]
    assert heads == [f"`area` at s = {name}" for name in ("Empty", "Circle", "Box")]
    assert code == 1 and out.count("all 3 derivatives agree") == 2 and "`s.Circle.0`: reverse mode gives" in out


def test_what_cannot_be_checked_is_said(check):
    code, _, err = check("fn f(x: i64) -> i64 = x", "--fn", "f")
    assert code == 1 and "E0957" in err
    code, _, err = check("fn f(x: i64) -> i64 = x")
    assert code == 1 and "E0957" in err
    code, _, err = check("fn f<p: Vector>(make: () -> p) -> p = make()", "--fn", "f")
    assert code == 1 and "what `make` is made of is a `p`" in err
    code, _, err = check("fn f(nodiff x: f64) -> f64 = x", "--fn", "f")
    assert code == 1 and "E0957" in err
    code, _, err = check("fn f(x: f64) -> f64 = x", "--fn", "g")
    assert code == 1 and "E0955" in err
    code, _, err = check("fn f(x: f64) -> f64 = x", "--size", "many")
    assert code == 1 and "E0957" in err
    code, _, err = check("fn f(x: f64[n]) -> f64 = sum(x)", "--size", "m=2")
    assert code == 1 and "no function that is checked has a size `m`" in err and "there are `n`" in err
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


@pytest.mark.parametrize("value", ["1.0 / 0.0", "0.0 / 0.0"])
def test_where_the_value_is_not_finite_nothing_is_checked(check, value):
    code, out, err = check(f"fn f(x: f64) -> f64 = if x < 1e9 {{ {value} }} else {{ x }}")
    assert code == 1 and "the value is not finite" in out and "agree" not in out
    assert "error[E0957]: no derivative of `f` could be checked where its value is not finite" in err


def test_a_variant_whose_value_is_not_finite_is_not_hidden_by_others(check):
    code, out, err = check(
        """
        enum Shape { Line(f64), Circle(f64) }
        fn density(s: Shape) -> f64 = match s { Line(l) => l / 0.0, Circle(r) => 1.0 / (r * r + 1.0) }
        """
    )
    assert code == 1 and out.count("derivatives agree") == 1 and "E0957" in err


def test_differences_that_are_noise_are_no_agreement(check):
    large = """
fn f(x: f64, y: f64) -> f64 = 1e40 * x + 1e12 * y
fn g(y: f64) -> f64 = 1e40 + 1e12 * y
fn h(x: f64, y: f64) -> f64 = 1e40 * x + 0.0 * y
"""
    code, out, _ = check(large, "--fn", "f")
    assert code == 0 and "all 2" not in out
    assert "differences say nothing of 1 of 2 derivatives" in out and "the other 1 agree" in out
    code, out, _ = check(large, "--fn", "g")
    assert code == 1 and "differences say nothing of 1 of 1 derivative:" in out and "agree" not in out
    code, out, _ = check(large, "--fn", "h")
    assert code == 0 and "all 2 derivatives agree" in out


def test_edges_at_which_a_derivative_is_a_convention_are_shown(check):
    code, out, _ = check("""
fn roots(x: f64) -> f64 = sqrt(x) * sqrt(x)
fn half(p: f64[n]) -> f64 = sum(exp(0.5 * log(p)))
fn mixed(p: f64[n], a: f64[n]) -> f64 = logsumexp(a + log(p))
fn kinks(x: f64[n]) -> f64 = sum(abs(x) + maximum(x, 0.0) + x ** 3)
fn defined(p: f64) -> f64 = log(p) + asin(p)
""")
    assert code == 0 and out.count("derivatives agree") == 5
    edges = [line.strip() for line in out.splitlines() if "at the boundary" in line]
    assert len(edges) == 4 and "reverse mode gives 0, forward mode nan, differences 1" in edges[0]
    assert "at the boundary `p[1]` = 0:" in out and all(line.endswith("differences inf") for line in edges[1:])


def test_functions_are_drawn_and_differentiated_in_what_they_capture(check):
    code, out, err = check(
        """
        struct Net<n> { w: f64[n], act: f64 -> f64 }
        fn total(f: f64 -> f64, x: f64[n]) -> f64 = sum(map(f, x))
        fn vectors(f: f64[n] -> f64[n, 2], g: i64 -> f64, x: f64[n]) -> f64 = sum(f(x)) * g(3)
        fn twice(f: f64 -> f64 -> f64, x: f64) -> f64 = f(x)(x)
        fn run(net: Net<n>, x: f64[n]) -> f64 = net.act(net.w @ x)
        fn kept(f: f64 -> bool, x: f64[n]) -> f64 = sum(v for v in x if f(v))
        fn chosen(f: f64 -> Option<f64>, x: f64) -> f64 = match f(x) { Some(y) => y * y, None => x }
        fn sized(f: i64 -> f64[?], x: f64) -> f64 = sum(f(3)) * x
        fn made<p: Vector>(make: () -> p, like: p) -> f64 = sum_floats(make() + like)
        """
    )
    assert (code, err) == (0, "") and out.count("derivatives agree") == 8
    assert "drawn by weights: `f`, `g`" in out and "f's weights[" in out and "net's weights[" in out


def test_a_wrong_rule_of_a_function_of_functions_is_found(check):
    code, out, _ = check(
        """
        fn twice(f: f64 -> f64, x: f64) -> f64 = f(f(x))
        pullback twice(f, x) -> y = |g| {
          let (_, pull) = vjp(|x: f64| f(f(x)), x)
          (f, 1.01 * pull(g))
        }
        """
    )
    assert code == 1 and "`x`: reverse mode gives" in out


def test_data_that_contains_itself_is_drawn(check):
    code, out, _ = check(
        """
        enum Tree { Leaf(f64), Node(Tree, f64[2], Tree) }
        fn value(t: Tree) -> f64 = match t { Leaf(x) => x * x, Node(a, v, b) => value(a) * v[0] + sin(value(b) * v[1]) }
        fn product(l: List<f64>) -> f64 = match l { Nil => 1.0, Cons(x, r) => x * product(r) }
        """
    )
    assert code == 0 and "all 7 derivatives agree" in out and "l's weights[1]" in out


def test_open_types_are_chosen_where_every_function_is_checked(check):
    text = """
        fn step<y: Vector>(f: (f64, y) -> y, t: f64, state: y) -> y = state + 0.1 * f(t, state)
        fn rows(x: f64[..s, n]) -> f64[..s] = sum(x * x, axis = -1)
    """
    code, out, _ = check(text, "--all", "--size", "y=2", "--size", "s=4")
    assert code == 0 and "`step` at y = f64[2], seed 0" in out and "`rows` at ..s = 4, n = 3, seed 0" in out
    assert check(text)[0] == 1  # neither gives one float


def test_arguments_that_are_refused_are_drawn_otherwise(check):
    code, out, _ = check("fn f(x: f64[n], scale: f64 = 2.0) -> f64 { assert all(x > 0.0); scale * sum(log(x)) }")
    assert code == 0 and "floats are drawn positive" in out and "scale" in out


def test_a_default_is_the_argument(check):
    _, out, _ = check("fn f(x: f64, power: i64 = 5, scale: f64 = -2.0) -> f64 = scale * (x / x) ** power")
    assert "`f` at seed 0: -2\n" in out and "scale" in out


def test_differences_say_nothing_where_a_derivative_is_stopped(check):
    code, out, _ = check("fn f(x: f64[n]) -> f64 = sum(x * stop_gradient(x))")
    assert code == 0 and "it stops derivatives, so differences are others" in out
    code, out, _ = check("fn g(x: f64, nodiff tol: f64) -> f64 = x * tol\nfn f(x: f64) -> f64 = g(x, 2.0 * x)", "--all")
    assert code == 0 and out.count("it stops derivatives") == 1


@pytest.mark.parametrize(
    "body",
    ["logsumexp(2.0 * x)", "math.hypot(x[0], x[1])", "math.logaddexp(x[0], x[1])", "sum(hessian(logsumexp)(x) ** 2)"],
)
def test_what_is_stopped_and_does_not_count_leaves_differences_as_they_are(check, body):
    code, out, _ = check(f"import math\nfn f(x: f64[n]) -> f64 = {body}")
    assert code == 0 and "stops derivatives" not in out and "all 3 derivatives agree" in out


@pytest.mark.parametrize(
    ("bounds", "given", "why", "help"),
    [
        ("i: Idx<n - 5>", "n=5", "`i` is an index below `n - 5`, which is 0 here", "give another size: `--size n=6`"),
        ("i: Idx<n // 2 - 4>, j: Idx<n - 3>", "2", "below `n // 2 - 4`, which is -3", "another size: `--size n=10`"),
        ("i: Idx<n - n>", "n=5", "which is 0 here", "with sizes for which there is an index"),
    ],
)
def test_where_there_is_no_index_another_size_is_named(check, bounds, given, why, help):
    text = f"fn f(x: f64[n], {bounds}) -> f64 = x[0] * f64(i)"
    code, _, err = check(text, "--size", given)
    assert code == 1 and why in err and help in err
    if named := re.search("--size (.*)`", err):
        assert check(text, "--size", named[1])[0] == 0


def test_time_is_bounded_and_what_was_compared_is_said(check):
    text = "fn f(w: f64[n, n], x: f64[n]) -> f64 { var h = x; for k < 40 { h = sin(0.05 * w @ h) }; sum(h) }"
    code, out, _ = check(text, "--size", "100", "--seconds", "1")
    assert code == 0 and "no reference: it takes more than 0.5 s" in out and "a direction" in out
    assert "of 10100 were compared in 1 s, and all together along a direction" in out
    endless = "fn f(x: f64) -> f64 { var y = x; while y < 1e300 { y = 0.5 * y }; y }"
    code, _, err = check(endless, "--seconds", "0.2")
    assert code == 1 and "a gradient of `f` takes more than 0.2 s" in err


@pytest.mark.parametrize("options", [["--seconds", "0"], ["--seconds", "nan"], ["--seed", "-1"]])
def test_numbers_that_make_no_sense_are_a_wrong_command_line(check, options):
    assert check("fn f(x: f64) -> f64 = x", *options)[0] == 2


def test_what_an_end_of_the_time_makes_fail_is_that():
    with pytest.raises(TooLong), within(0.01):
        try:
            while True:
                pass
        except TooLong as e:
            raise RuntimeError("an import has failed") from e


def test_an_end_of_the_time_that_python_loses_is_not_shown(capfd):
    class Kept:
        def __del__(self):
            end = time.monotonic() + 10.0
            while time.monotonic() < end:
                pass

    with pytest.raises(TooLong), within(0.01):
        Kept()
        while True:
            pass
    assert "TooLong" not in capfd.readouterr().err


def test_data_without_an_end_is_refused(check):
    code, _, err = check(
        """
        enum Stream { More(f64, () -> Stream) }
        fn first(s: Stream) -> f64 = match s { More(v, _) => v * v }
        """,
        "--fn",
        "first",
    )
    assert code == 1 and "E0957" in err and "what `s` is made of has no end" in err


@pytest.mark.parametrize(
    "program",
    [
        "fn f(x: f64[n // 2], y: f64[n]) -> f64 = sum(x * x) + sum(y)",
        "fn f(x: f64[..s, n // 2, n]) -> f64 = sum(x * x)",
        """
        struct Half<n> { w: f64[n // 2, n], k: f64 }
        fn f(halves: Half<n>[m // 2]) -> f64 = sum(sum(h.w ** 2) * h.k for h in halves)
        """,
    ],
)
def test_a_size_that_is_a_floor_follows_from_the_sizes_in_it(check, program):
    code, out, err = check(program, "--size", "5")
    assert (code, err) == (0, "")
    assert "derivatives agree" in out


def test_a_function_that_gives_floats_only_in_a_list_is_not_said_to_agree(check):
    program = "fn squares(x: f64) -> List<f64> = Cons(x * x, Nil)\n"
    code, out, err = check(program, "--fn", "squares")
    assert code == 1 and out == "" and "E0957" in err and "gives none outside of lists and trees" in err
    code, out, _ = check(program + "fn square(x: f64) -> f64 = x * x\n", "--all")
    assert code == 0 and "`square`" in out and "squares" not in out
