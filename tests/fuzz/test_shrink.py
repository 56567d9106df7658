"""Programs on which something is wrong are made as small as they can be, in every mode, and can be run again."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from dlang.diagnostics import Source
from dlang.driver import check
from dlang.ops.primitives import PRIMITIVES
from dlang.runtime.engine import CHECKS
from dlang.tools.law import prepared
from tests.fuzz.__main__ import FOUND, main
from tests.fuzz.compare import Disagreement
from tests.fuzz.costly import costly
from tests.fuzz.costs import broken_law
from tests.fuzz.modes import WAYS, Mode, pools
from tests.fuzz.programs import program
from tests.fuzz.shrink import Shrinker, well_typed
from tests.fuzz.threads import different_bits

LONG = """
struct Pair { a: f64, b: f64 }
fn scale(v: f64, factor: f64, unused: i64) -> f64 = v * factor
fn middle(p: f64[n], at: Pair) -> f64 {
  var s = at.a
  for i < n {
    if p[i] > 0.0 { s += scale(sin(s), p[i], i) } else { s *= 0.5 }
    s = tanh(s)
  }
  s + at.b
}
fn main(p: f64[n], q: f64[k], m: f64[n, k], x: f64, j: i64) -> f64 {
  let a = middle(p, Pair(x, 0.5))
  var u = q
  while u[0] < 2.0 { u[0] = 1.6 * abs(u[0]) + 0.5 }
  a + sum(u) * 0.25 + sum([cos(v) for v in p])
}
"""


def wrong_in_x(text: str) -> bool:
    """Whether the derivative in x that is compiled is not what differences give."""
    function = prepared(check(Source("p.dl", text)).module.functions["main"], ("value", "gradient"))
    if "gradient" not in function.ways or "j: i64) -> f64" not in text:
        return False
    rng = np.random.default_rng(0)
    args = [3, 2, rng.standard_normal(3), rng.standard_normal(2), rng.standard_normal((3, 2)), 0.7, 1]

    def value(x: float) -> float:
        return float(function.run(function.program, function.entry.name, [*args[:5], x, 1], 10**6)[1][-1])

    slopes = function.run(function.program, "values and cotangents", [*args, 1.0], 10**6)[1]
    slope = (value(0.7 + 1e-6) - value(0.7 - 1e-6)) / 2e-6
    return abs(float(slopes[-1]) - slope) > 1e-3


def test_a_wrong_derivative_is_found_again_in_five_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not wrong_in_x(LONG)
    planted = replace(PRIMITIVES["sin"], derivative=("zero_safe_mul(g, 1.0 + cos(x))",))
    monkeypatch.setitem(PRIMITIVES, "sin", planted)
    assert wrong_in_x(LONG)
    small = Shrinker(wrong_in_x, tries=60).shrunk(LONG)
    assert wrong_in_x(small) and "sin(" in small and len(small.strip().splitlines()) <= 5, small


def test_a_program_that_breaks_the_law_of_cost_is_found() -> None:
    head = "fn main(p: f64[n], q: f64[k], x: f64) -> f64"
    rule = "fn own(v: f64[n]) -> f64[n] = cumsum(v)\npullback own(v) -> y = |g| [sum(g[t] for t in i..n) for i < n]\n"
    found = broken_law(f"{rule}{head} = sum(sin(own(q))) * x + p[0]\n")
    assert found is not None and found.kind == "faster operations of the gradient" and "line 2" in str(found)
    assert broken_law(f"{head} = sum(cumsum(q) * x) + p[0]\n") is None


@pytest.mark.parametrize("make", [program, costly])
def test_what_is_left_is_well_typed_and_no_part_can_go(make: object) -> None:
    def fails(text: str) -> bool:
        return "for " in text and "cumsum(" in text

    seed = next(s for s in range(200) if fails(make(Random(s))))  # type: ignore[operator]
    small = Shrinker(fails).shrunk(make(Random(seed)))  # type: ignore[operator]
    assert well_typed(small) and fails(small)
    assert len(small.strip().splitlines()) <= 5, small


def test_a_function_loses_the_parameters_that_nothing_needs() -> None:
    main = "fn main(x: f64, y: f64[n]) -> f64 = f(x, 3, y) + f(1.0, 4, y)"
    text = f"fn f(a: f64, b: i64, c: f64[n]) -> f64 = a + c[0]\n{main}\n"
    small = Shrinker(lambda t: t.count("f(") >= 2 and "c[0]" in t).shrunk(text)
    assert "fn f(c: f64[n])" in small and "f(y)" in small, small


def test_a_program_in_a_file_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = replace(WAYS["calls"], wrong=lambda text, seed: Disagreement("by name", 1, 2) if "sin(" in text else None)
    monkeypatch.setitem(WAYS, "calls", wrong)
    monkeypatch.setattr("tests.fuzz.__main__.in_a_process", lambda path, mode, seed: FOUND)
    seed = next(s for s in range(100) if "sin(" in Mode("calls").program(s))
    assert main(["--calls", "--shrink", str(seed), "--out", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    (path,) = tmp_path.iterdir()
    checks = " --sanitize" if CHECKS in os.environ else ""
    assert f"python -m tests.fuzz --calls{checks} --seed {seed} --file {path}" in out and "sin(" in path.read_text()
    assert main(["--calls", "--file", str(path)]) == FOUND
    assert len(path.read_text().strip().splitlines()) <= 5


def test_runs_that_fail_say_the_same_on_any_number_of_threads() -> None:
    head = "fn main(p: f64[n], q: f64[k], m: f64[n, k], x: f64, j: i64) -> f64"
    text = f'fn f(v: f64, d: i64) -> f64 {{ assert d < 3, "deep"; f(v, d + 1) + v }}\n{head} = f(x, 0) + sum(p)\n'
    assert different_bits(text, pools()[:2]) is None


def test_a_program_that_is_made_smaller_keeps_what_broke_whatever_its_names() -> None:
    def broken(error: str) -> str:
        return Disagreement("compile", "a program that compiles", f"IRError: {error}").kind

    assert broken("main.6.entry: t.682 is computed too often") == broken("main.1.entry: k.41 is computed too often")
    assert broken("main.6.entry: t.682 is computed too often") != broken("main.1.entry takes 9 arguments, not 7")
