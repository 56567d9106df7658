"""A cart learns to balance a pole."""

from __future__ import annotations

from tests.examples.running import numbers, printed, thorough


@thorough
def test_the_pole_stands_longer_and_longer() -> None:
    out = printed("cartpole", "--rounds", "40", "--seed", "1")
    assert numbers(out, r"round +4: .* (\d+\.\d) steps")[0] < 100.0
    assert numbers(out, r"100 trials: (\d+\.\d) steps")[0] > 350.0
