"""A cart swings its pole up, and can answer to the wind."""

from __future__ import annotations

import pytest

from tests.examples.running import numbers, printed


def test_the_pole_is_up_and_stays_on_its_path_in_wind() -> None:
    out = printed("swing_up", "--seed", "1", "--steps", "30")
    assert numbers(out, r"step 24: the plan costs (\d+\.\d+)")[0] < 3.0
    place, angle = numbers(out, r"3\.0 s: +(-?\d+\.\d+) m, +(\d+\.\d)°")
    assert place == pytest.approx(0.0, abs=0.1) and angle % 360.0 == pytest.approx(360.0, abs=5.0)
    (alone,) = numbers(out, r"plan alone +brings the pole up in +(\d+) of 100")
    (with_answers,) = numbers(out, r"with its answers +brings the pole up in +(\d+) of 100")
    assert alone < 50 and with_answers > 90
