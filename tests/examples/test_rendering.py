"""Balls are found by their photographs."""

from __future__ import annotations

import pytest

from tests.examples.running import numbers, printed, thorough


@thorough
def test_the_balls_are_found() -> None:
    out = printed("rendering", "--seed", "1", "--n", "16", "--steps", "150")
    assert numbers(out, r"in the end: error of a pixel (\d\.\de[+-]\d+)")[0] < 0.01
    ball = r"Ball\(centre = \[ *(\S+) +(\S+) +(\S+)\], size = +(\d\.\d+), colour = \[ *(\S+) +(\S+) +(\S+)\]\)"
    true_and_found = numbers(out, rf"{ball}\n +found: {ball}")
    assert true_and_found[7:] == pytest.approx(true_and_found[:7], abs=0.05)
