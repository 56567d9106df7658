"""Recurrent networks guess the sunspots of the next year better than what is linear."""

from __future__ import annotations

from tests.examples.running import numbers, printed, thorough


@thorough
def test_networks_guess_better_than_a_linear_model() -> None:
    out = printed("sunspots", "--seed", "1", "--steps", "300")
    same, linear, simple, long = [
        numbers(out, rf"{name} +\d+\.\d +(\d+\.\d)")[0]
        for name in ("the same as this year", "linear in .* the last", "recurrent network", "long short-term memory")
    ]
    assert same > linear > max(simple, long)
    for maximum in numbers(out, r"maximum in (\d+) and (\d+)"):
        assert 2010 <= maximum <= 2015
