"""Draws from the posterior of the eight schools have its means."""

from __future__ import annotations

import pytest

from tests.examples.running import numbers, printed, thorough


@thorough
def test_draws_have_the_means_of_the_posterior() -> None:
    out = printed("eight_schools", "--draws", "4000", "--seed", "1")
    (taken,) = numbers(out, r"(\d+) of 100 paths taken")
    assert 85 <= taken <= 99
    mean, deviation = numbers(out, r"mean effect +(\d+\.\d+) ± (\d+\.\d+)")
    # long runs of other samplers find a mean effect of 4.4 ± 3.3 and a spread of 3.6 ± 3.2
    assert mean == pytest.approx(4.4, abs=0.4) and deviation == pytest.approx(3.3, abs=0.4)
    mean, deviation = numbers(out, r"spread +(\d+\.\d+) ± (\d+\.\d+)")
    assert mean == pytest.approx(3.6, abs=0.5) and deviation == pytest.approx(3.2, abs=0.7)
