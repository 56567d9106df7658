"""The orbit of three bodies along a figure eight is found, and closes."""

from __future__ import annotations

import pytest

from tests.examples.running import numbers, printed, thorough


@thorough
def test_the_figure_eight_is_found() -> None:
    out = printed("three_bodies", "--steps", "250")
    (missed,) = numbers(out, r"L-BFGS by (\d\.\de[+-]\d+)")
    assert missed < 1e-8
    across, up, period = numbers(out, r"velocity \[(\d\.\d+) (\d\.\d+)\], period (\d\.\d+)")
    # the published solution is (0.347111, 0.532728), 6.324449, with fewer digits right than written
    assert (across, up) == pytest.approx((0.347113, 0.532727), abs=2e-5)
    assert period == pytest.approx(6.3259, abs=2e-3)
    (back,) = numbers(out, r"back to (\d\.\de[+-]\d+)")
    assert back < 1e-6
