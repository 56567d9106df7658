"""`dlc costs`: what it counts, which surplus it finds and where, and how it ends."""

import json
import textwrap

import pytest

from dlang.tools import law
from dlang.tools.dlc import main
from dlang.tools.law import Costs, Counts, breaches

SUMS = """
    fn running(x: f64[n]) -> f64[n] = cumsum(x)
    {rule}
    fn total(w: f64[n], v: f64[m]) -> f64 = sum(running(w) ** 2) + sum(v)
"""
QUADRATIC = "pullback running(x) -> y = |g| [sum(g[j] for j in i..n) for i < n]"
LINEAR = "pullback running(x) -> y = |g| reverse(cumsum(reverse(g)))"


@pytest.fixture
def costs(tmp_path, monkeypatch, capsys):
    """Runs the command on a text; gives its code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(text, *options):
        (tmp_path / "p.dl").write_text(textwrap.dedent(text))
        code = main(["costs", "p.dl", *options])
        return code, *capsys.readouterr()

    return run


def test_each_size_grows_for_itself_and_a_surplus_is_found_in_its_line(costs):
    code, out, err = costs(SUMS.format(rule=QUADRATIC), "--fn", "total", "--grad", "--size", "8")
    assert (code, err) == (1, "")
    together, first, second = out.split("`total` at ")[1:]
    assert together.startswith("n = 8 to 32, m = 8 to 32\n") and first.startswith("n = 8 to 32, m = 8\n")
    assert "the gradient: operations grow with the exponent" in first and "p.dl:3: " in first
    assert second.startswith("n = 8, m = 8 to 32\n") and "exponent" not in second.split("times\n")[1]
    assert out.endswith("the law of cost is broken\n")


def test_the_bytes_that_a_loop_saves_stand_with_its_line_below_the_gradient(costs):
    text = """
        fn f(x: f64[n]) -> f64 {
            var s = 0.0
            for i < n {
                s = sin(s * x[i]) + x[i]
            }
            s
        }
    """
    code, out, _ = costs(text, "--fn", "f", "--grad", "--size", "8")
    assert code == 0 and "8 bytes in each of n.0 iterations of a loop  # p.dl:4:5\n" in out
    assert "bytes in each" not in costs(text, "--fn", "f", "--jvp", "--size", "8")[1]


def test_a_function_within_the_law_ends_with_0(costs):
    code, out, err = costs(SUMS.format(rule=LINEAR), "--fn", "total", "--size", "n=16", "--hessian")
    assert (code, err) == (0, "")
    ways = [line.split()[0] for line in out.splitlines()[2:8]]
    assert ways == ["as", "value", "gradient", "tangent", "second", "twice"]
    assert out.endswith("the law of cost holds\n")


def test_costs_are_the_numbers_that_one_would_count_by_hand(costs):
    """A dot product reads 2n numbers of 8 bytes, multiplies and adds n times, and holds nothing."""
    code, out, _ = costs("fn dot(x: f64[n], y: f64[n]) -> f64 = sum(x * y)", "--fn", "dot", "--json", "--size", "10")
    (scan,) = map(json.loads, out.splitlines())
    assert code == 0 and scan["sizes"] == [{"n": 10}, {"n": 20}, {"n": 40}]
    assert scan["costs"]["value"] == {
        "operations": {"counts": [40, 80, 160], "exponent": 1.0},
        "moved": {"counts": [160, 320, 640], "exponent": 1.0},
        "memory": {"counts": [0, 0, 0], "exponent": 0.0},
    }


def counts(operations, peak):
    return Counts(operations, operations, 0, peak, peak, 0, 0, {}, {})


@pytest.mark.parametrize(
    ("written", "optimised", "kinds"),
    [
        ([(9_000, 0), (18_000, 0), (36_000, 0)], [(100, 0), (10_000, 0), (50_000, 0)], ["faster"]),
        ([(9_000, 0), (9_000, 0), (9_000, 0)], [(100, 0), (1_000, 0), (8_000, 0)], ["faster"]),
        ([(9_000, 0), (800, 0), (7_000, 0)], [(100, 0), (1_000, 0), (8_000, 0)], []),
        ([(9_000, 0), (9_800, 0), (7_000, 0)], [(100, 0), (1_000, 0), (8_000, 0)], []),
        ([(0, 5_000), (0, 5_000), (0, 5_000)], [(0, 500), (0, 2_000), (0, 8_000)], ["faster"]),
        ([(0, 8_000), (0, 8_000), (0, 8_000)], [(0, 500), (0, 2_000), (0, 8_000)], []),
    ],
)
def test_growth_is_that_of_a_power_beside_what_does_not_fall_and_hides_nothing(written, optimised, kinds):
    pairs = zip(written, optimised, strict=True)
    found = breaches([Costs({"as written": counts(*a), "value": counts(*b)}, 0, 0, 0) for a, b in pairs])
    assert [breach.kind for breach in found] == kinds


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("if k // 7 % 5 == 2 { k } else { 0 }", "the law of cost holds"),
        ("k * k // 20", "operations grow with the exponent"),
    ],
)
def test_growth_has_to_be_seen_from_two_sizes(costs, more, said):
    """The branch is taken at the last of 31, 62 and 124, and at none of 38, 76 and 152."""
    text = f"""
        fn steps(x: f64, k: i64) -> f64 {{ var s = x; for i < k {{ s = sin(s) }}; s }}
        fn twice(x: f64, nodiff k: i64) -> f64 = 2.0 * x
        pullback twice(x, k) -> y = |g| 2.0 * g + steps(g, {more})
        fn f(x: f64, k: i64) -> f64 = twice(steps(x, k), k)
    """
    _, out, _ = costs(text, "--fn", "f", "--grad", "--size", "k=31")
    assert said in out


def test_whole_numbers_are_sizes_and_indices_are_not(costs):
    text = "fn f(x: f64[n], steps: i64, i: Idx<n>) -> f64 { var s = x[i]; for t < steps { s = sin(s) }; s }"
    code, out, _ = costs(text, "--fn", "f", "--jvp", "--size", "steps=6")
    assert code == 0 and "steps = 6 to 24" in out and "i = " not in out


def test_floats_are_drawn_for_which_the_value_is_finite(costs):
    text = """
        fn filtered(y: f64[n], widths: f64[k], moves: f64[k, k]) -> f64 {
            var (p, total) = (full(1.0 / f64(k), k), 0.0)
            for v in y {
                let joint = (p @ moves) * exp(-v * v / widths) / sqrt(widths)
                total += log(sum(joint))
                p = joint / sum(joint)
            }
            total
        }
    """
    code, out, _ = costs(text, "--fn", "filtered", "--jvp", "--size", "n=8", "--size", "k=32")
    assert code == 0 and out.endswith("the law of cost holds\n")


def test_sizes_are_chosen_for_which_there_is_memory(costs):
    code, out, _ = costs("fn wide(t: f64[n, n, n, n, n, n]) -> f64 = sum(t)", "--fn", "wide")
    assert code == 0 and "`wide` at n = 2 to 8" in out
    code, _, err = costs(
        "fn wide(x: f64[n]) -> f64 = sum([x[i] for i < n, j < n ** 12])", "--fn", "wide", "--size", "99"
    )
    assert code == 1 and "E0957" in err and "too much memory" in err


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--fn", "lost"), "E0955", "no function or test `lost`"),
        (("--fn", "name"), "", ""),
        (("--fn", "name", "--grad"), "E0957", "`name` has no derivative to count: it takes or gives no float"),
        (("--fn", "kept", "--grad"), "E0957", "how many floats it gives is known only when it has run"),
        (("--fn", "total", "--size", "k=3"), "E0957", "no function that is counted has a size `k`"),
        (("--fn", "total", "--size", "few"), "E0957", "expected a number"),
        (("--fn", "slow", "--size", "3000"), "E0957", "counting takes too long"),
        (("--fn", "never"), "E0800", "never"),
    ],
)
def test_what_cannot_be_counted_is_said(costs, options, code, said, monkeypatch):
    monkeypatch.setattr(law, "MOST", 5_000)
    text = """
        fn name(k: i64) -> str = "{k}"
        fn total(w: f64[n]) -> f64 = sum(w)
        fn slow(steps: i64) -> f64 { var s = 0.5; for t < steps { s = sin(s) }; s }
        fn never(x: f64) -> f64 = if x < 1e9 { fail("never") } else { x }
        fn kept(x: f64[n]) -> f64[?] = [v * v for v in x if v > 0.0]
    """
    status, _, err = costs(text, *options)
    assert status == (1 if code else 0) and code in err and said in err
