"""A normalising flow comes close to the density of half moons, and not beyond it."""

from __future__ import annotations

from tests.examples.running import numbers, printed, thorough


@thorough
def test_the_flow_explains_new_points_nearly_as_well_as_the_truth() -> None:
    out = printed("flow", "--seed", "1", "--steps", "800")
    (flow,) = numbers(out, r"5,000 new points: (-\d\.\d+)")
    (truth,) = numbers(out, r"come from: +(-\d\.\d+)")
    (normal,) = numbers(out, r"normal distribution: +(-\d\.\d+)")
    assert normal + 0.6 < flow < truth
    assert truth - flow < 0.15
