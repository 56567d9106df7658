"""Gaussian processes explain the flow of the Nile: with more water in the early years, and noise in every year."""

from __future__ import annotations

import numpy as np
import pytest

from tests.examples.running import ROOT, numbers, printed


def test_the_fit_has_the_evidence_of_its_scales() -> None:
    out = printed("nile")
    evidence, years, noise = numbers(
        out, r"rough +log evidence (-\d+\.\d+), remembers (\d+\.\d) years, noise of a year (\d+)"
    )
    table = np.loadtxt(ROOT / "examples/nile/nile.csv", delimiter=",", skiprows=1)
    t, flow = table[:, 0], table[:, 1]
    y = (flow - flow.mean()) / flow.std()
    powers, directions = np.linalg.eigh(np.exp(-np.abs(t[:, None] - t) / years))
    along = (directions.T @ y) ** 2

    def of(height: float) -> float:
        variances = height**2 * powers + (noise / flow.std()) ** 2
        return float(-0.5 * np.sum(along / variances + np.log(2 * np.pi * variances)))

    assert evidence == pytest.approx(max(of(h) for h in np.linspace(0.3, 1.5, 61)), abs=0.01)
    early, late = numbers(out, r"1885: +(\d+)[^\n]*\n(?:[^\n]*\n)*1945: +(\d+)")
    assert early > late + 100
