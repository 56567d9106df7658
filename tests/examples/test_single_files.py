"""The examples that are one file."""

from __future__ import annotations

import re

import pytest

from dlang.tools.dlc import main
from tests.examples.running import ROOT, numbers, thorough


@thorough
def test_a_line_through_points_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(ROOT / "examples/fit.dl")]) == 0
    assert numbers(capsys.readouterr().out, r"w = \[(\d\.\d+) (\d\.\d+)\]") == [2.0, 3.0]


@thorough
def test_polynomials_of_higher_degree_come_closer_to_a_function_of_c(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(ROOT / "examples/foreign.dl")]) == 0
    errors = [float(e) for e in re.findall(r"error (\S+),", capsys.readouterr().out)]
    assert len(errors) == 5 and errors == sorted(errors, reverse=True) and errors[-1] < 1e-7
