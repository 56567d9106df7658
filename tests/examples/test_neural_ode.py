"""A network that is a differential equation learns how a pendulum moves."""

from __future__ import annotations

from tests.examples.running import numbers, printed, thorough


@thorough
def test_it_goes_on_by_itself() -> None:
    out = printed("neural_ode", "--steps", "1000", "--seed", "1")
    assert numbers(out, r"step  800: loss (\d\.\d+)")[0] < 0.002
    assert numbers(out, r"largest error .*: (\d\.\d+)")[0] < 0.4
    assert numbers(out, r"not seen: +(\d\.\d+)")[0] < 0.4
