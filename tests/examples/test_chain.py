"""Ten thousand operations: as a loop, and one by one."""

from __future__ import annotations

import math

import pytest

import dlang
from dlang.tools.dlc import main
from tests.counting import calls
from tests.examples.running import ROOT, numbers, thorough


def test_a_chain_and_its_derivatives_are_those_of_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(ROOT / "examples/chain.dl"), "--length", "100000"]) == 0
    out = capsys.readouterr().out
    end, slope, bend = [numbers(out, rf"{name} +(-?\d+\.\d+)")[0] for name in ("chain", "slope", "changes")]
    limits = numbers(out, r"endless chain has +(\d+\.\d+), (\d+\.\d+) and (-\d+\.\d+)")
    assert [end, slope, bend] == pytest.approx(limits, rel=1e-3)
    assert limits[0] == pytest.approx(2 * math.atan(math.exp(5) * math.tan(0.005)), abs=1e-6)


@thorough
def test_ten_thousand_operations_without_a_loop_compile_with_work_that_grows_with_their_number() -> None:
    def chain(statements: int) -> str:
        steps = [f"  let y{k + 1} = y{k} + 0.002 * sin(y{k}) - 0.001 * y{k}" for k in range(statements)]
        return "\n".join(["fn chain(y0: f64) -> f64 {", *steps, f"  y{statements}", "}"])

    def computed(statements: int) -> tuple[float, float]:
        value, slope = dlang.value_and_grad(dlang.compile(chain(statements)).chain)(1.0)
        return value, slope

    computed(10)  # what is made once
    few = calls(lambda: computed(500))
    many = calls(lambda: computed(2001))
    value, slope = computed(2000)  # five operations each
    y, expected = 1.0, 1.0
    for _ in range(2000):
        expected *= 1.0 + 0.002 * math.cos(y) - 0.001
        y += 0.002 * math.sin(y) - 0.001 * y
    assert value == pytest.approx(y, rel=1e-12) and slope == pytest.approx(expected, rel=1e-9)
    assert many < 5.0 * few
