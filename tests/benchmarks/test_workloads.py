"""What is timed is right: each program gives what NumPy or C gives, or its own central differences."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from benchmarks.__main__ import NAMES
from benchmarks.gpu.instances import NAMES as ON_A_GPU
from benchmarks.tools import NotInstalled, calls, disagreement, has, leaves, workload_of
from benchmarks.workers import Worker, differences

SMALL = {
    "elementwise": "1001", "logistic": "1000", "pairwise": "17", "black_scholes": "101", "softmax": "5x33",
    "layer_norm": "6x19", "digits_step": "32", "mlp": "3", "lstm": "4x3x5", "lenet": "2", "trees": "lstm",
    "gmm": "3x4x20", "bundle": "3x7x21", "diagonal_lstm": "2x6x5", "rosenbrock": "10", "one_line": "7x3",
    "products": "3x7", "cholesky": "9", "attention": "2x5x3", "convolutions": "6-16by5", "factorisations": "solvex6",
    "reductions": "3x4x5", "matmul": "7",
}  # fmt: skip
REFERENCE = ("numpy", "c")
POWERS = {"convolutions": 2, "factorisations": 2}  # whose gradients are of sums of powers of what the value is
ELSEWHERE = {"gmm", "bundle", "diagonal_lstm", "digits_step"}  # whose values have tests of their own


def test_all_workloads_are_tested() -> None:
    assert set(SMALL) == {*NAMES, *ON_A_GPU}


def references(name: str, data: Any) -> dict[str, Any]:
    """What another tool that is here gives for each call."""
    found: dict[str, Any] = {}
    for tool in REFERENCE:
        if has(workload_of(name), tool):
            with suppress(NotInstalled):
                found |= {call: leaves(run()) for call, run in calls(workload_of(name), tool, data).items()}
    return found


@pytest.mark.parametrize("name", SMALL)
def test_a_program_computes_what_other_tools_compute(name: str) -> None:
    data = workload_of(name).data(SMALL[name], "f64")
    own = {call: leaves(run()) for call, run in workload_of(name).dlang(data).items()}
    assert all(np.all(np.isfinite(a)) for arrays in own.values() for a in arrays)
    wanted = references(name, data)
    for call, arrays in wanted.items():
        assert disagreement(own[call], arrays, 1e-8) is None
    if "value" in own and "value" not in wanted and name not in ELSEWHERE:
        along_central_differences(name, data, own["gradient"])


def along_central_differences(name: str, data: Any, gradient: list[Any]) -> None:
    """The derivative in one direction, of all float arguments that the gradient is by, is that of differences."""
    random = np.random.default_rng(0)
    given = [a for a in flat(data) if isinstance(a, np.ndarray) and a.dtype == np.float64]
    slopes = gradient[len(gradient) - len([g for g in gradient if g.ndim]) :]
    moved = given[: len(slopes)]
    directions = [random.normal(size=a.shape) for a in moved]
    if name == "cholesky":
        directions[0] = directions[0] + directions[0].T
    step = 1e-6
    ends = []
    for sign in (1, -1):
        for a, d in zip(moved, directions, strict=True):
            a += sign * step * d
        value = leaves(workload_of(name).dlang(data)["value"]())[0]
        ends.append(float(np.sum(value ** POWERS.get(name, 1))))
        for a, d in zip(moved, directions, strict=True):
            a -= sign * step * d
    wanted = (ends[0] - ends[1]) / (2 * step)
    found = sum(float(np.sum(g * d)) for g, d in zip(slopes, directions, strict=True))
    assert found == pytest.approx(wanted, rel=1e-5, abs=1e-7)


def flat(data: Any) -> list[Any]:
    return [a for part in data for a in flat(part)] if isinstance(data, list | tuple) else [data]


def test_results_are_compared_with_those_of_dlang() -> None:
    nobody: Any = None
    own, same, other = (
        Worker(tool, nobody, nobody, results={"value": [np.array([1.0, last])]})
        for tool, last in (("dlang", 2.0), ("jax", 2.0), ("torch", 2.1))
    )
    assert differences([same, own, other], 1e-9) == ["value of torch is not that of dlang: array 0 is 5.0e-02 apart"]
    assert differences([same, other], 1e-9) == []


def test_results_that_differ_are_reported() -> None:
    one = [np.array([1.0, 2.0])]
    assert disagreement([np.array([1.0, 2.0 + 1e-12])], one, 1e-9) is None
    assert disagreement([np.array([1.0, 2.1])], one, 1e-9) == "array 0 is 5.0e-02 apart"
    assert disagreement([np.array([1.0, np.nan])], one, 1e-9) == "array 0 is nan apart"
    assert disagreement([], one, 1e-9) == "0 arrays instead of 1"
    assert disagreement([np.array([[1.0, 2.0]])], one, 1e-9) == "array 0 has the shape (1, 2) instead of (2,)"
