"""Carbon dioxide rises as least squares say, and faster and faster."""

from __future__ import annotations

import numpy as np
import pytest

from tests.examples.running import ROOT, numbers, printed


def test_both_regressions_are_those_of_least_squares() -> None:
    out = printed("co2", "--steps", "500")
    table = np.loadtxt(ROOT / "examples/co2/co2.csv", delimiter=",", skiprows=1, converters=lambda v: float(v or "nan"))
    seen = table[:, 0] <= 1990
    years, values = table[seen, 0], table[seen, 1:]

    def off(features: np.ndarray, y: np.ndarray) -> np.ndarray:
        known = ~np.isnan(y)
        x, y = features[known], y[known]
        return np.asarray((x @ np.linalg.lstsq(x, y, rcond=None)[0] - y) ** 2)

    t = (years - 1980) / 10
    parabola = np.stack([np.ones_like(t), t, t**2], axis=1)
    by_month = np.concatenate([off(parabola, values[:, month]) for month in range(12)])
    assert numbers(out, r"36 numbers:\n +off by (\d\.\d+) ppm")[0] == pytest.approx(by_month.mean() ** 0.5, abs=0.006)

    times = (years[:, None] + (np.arange(12) + 0.5) / 12).ravel()
    t, turn = (times - 1980) / 10, 2 * np.pi * times
    waves = [np.cos(turn), np.sin(turn), np.cos(2 * turn), np.sin(2 * turn)]
    linear = off(np.stack([np.ones_like(t), t, t**2, *waves], axis=1), values.ravel())
    assert numbers(out, r"7 numbers:\n +off by (\d\.\d+) ppm")[0] == pytest.approx(linear.mean() ** 0.5, abs=0.006)
    slow, fast = numbers(out, r"rises by (\d\.\d+) ppm a year in 1960, by (\d\.\d+) ppm")
    assert 0.5 < slow < 1.0 < 1.5 < fast < 2.0
