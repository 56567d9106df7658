"""The programs of others agree with loops of Python, and their gradients with differences."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.__main__ import parsed
from benchmarks.others import PROGRAMS
from benchmarks.others.peers import HERE
from benchmarks.tools import BACKEND, disagreement, leaves, loaded, workload_of

TINY = {
    "backprop": "7x3", "cfd": "40x1", "hotspot": "5x4x2", "kmeans": "20x3x3x2", "lavamd": "2x2", "lud": "6",
    "nn": "20x3", "particlefilter": "20x4x6", "srad": "6x5x2",
    "lbm": "3x4x3x2", "mri_q": "4x3", "sgemm": "3x4x5", "stencil": "5x4x6x2", "tpacf": "20",
    "locvol": "1x16x8x4", "option_pricing": "8",
    "crystal": "5x3", "fft": "4", "fluid": "6x2", "mandelbrot": "7x6x20", "nbody": "4x2", "pagerank": "20x50x3",
    "ray": "8x8x3", "smoothlife": "8x1", "tunnel": "4x6",
    "bfast": "2x20x16", "heston": "3x5", "series": "4x6", "tridiag": "3x5",
}  # fmt: skip
LONG = {"cfd", "fluid", "locvol", "smoothlife"}  # whose gradients take a second or more to compile
STEP = 1e-6


def test_a_family_is_run_by_its_name() -> None:
    assert parsed(["others", "softmax"]).workloads == [*(f"others.{name}" for name in PROGRAMS), "softmax"]
    assert set(TINY) == set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_what_loops_compute(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BACKEND, "interp")
    workload = workload_of(f"others.{name}")
    data = workload.data(TINY[name], "f64")
    m = loaded(HERE / f"{name}.dl")
    assert disagreement(leaves(m.value(*data)), leaves(workload.loops(*data)), workload.TOLERANCE["f64"]) is None


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in PROGRAMS])
def test_a_gradient_is_that_of_central_differences(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BACKEND, "interp")
    workload = workload_of(f"others.{name}")
    if not hasattr(workload, "WRT"):
        return  # its result is discrete
    data = workload.data(TINY[name], "f64")
    gradient = loaded(HERE / f"{name}.dl").gradient
    random = np.random.default_rng(1)
    directions = {k: random.normal(size=np.shape(data[k])) * np.abs(data[k]) for k in workload.WRT}
    loss, *slopes = leaves(gradient(*data))
    assert slopes and all(np.all(np.isfinite(slope)) for slope in slopes)
    ends = [
        leaves(gradient(*(a + sign * STEP * directions[k] if k in directions else a for k, a in enumerate(data))))[0]
        for sign in (1, -1)
    ]
    found = sum(float(np.sum(slope * d)) for slope, d in zip(slopes, directions.values(), strict=True))
    assert found == pytest.approx(float(ends[0] - ends[1]) / (2 * STEP), rel=1e-5, abs=1e-6 * abs(float(loss)))
