"""Options are worth what the books say, and so are the derivatives."""

from __future__ import annotations

import pytest

from tests.examples.running import numbers, printed

NUMBER = r"(-?\d+\.\d+)"


def test_prices_derivatives_and_implied_volatility() -> None:
    out = printed("options")
    price, delta, rho, vega, theta = numbers(
        out, rf"European call +{NUMBER} .*delta = {NUMBER}, rho = {NUMBER}, vega = {NUMBER}, theta = {NUMBER}"
    )
    # the formulas of the derivatives, with SciPy's normal distribution
    assert (price, delta, rho) == pytest.approx((5.5760, 0.4591, 20.1659), abs=1e-4)
    assert (vega, theta) == pytest.approx((28.0609, -8.2252), abs=1e-4)
    gamma, vanna, volga = numbers(out, rf"gamma = {NUMBER}, vanna = {NUMBER}, volga = {NUMBER}")
    assert (gamma, vanna, volga) == pytest.approx((0.0224, 0.4437, 3.2241), abs=1e-4)
    # the American put is worth a little more than the European one
    (put,) = numbers(out, rf"American put +{NUMBER}")
    european = 5.5760 - 100.0 + 105.0 * 2.718281828459045 ** (-0.015)
    assert european < put < european + 0.3
    (implied,) = numbers(out, rf"implies a volatility of {NUMBER}")
    assert 0.2 < implied < 0.25
