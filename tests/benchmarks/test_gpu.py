"""What is measured on a GPU: what calls must do, what is judged and what is not, and a rehearsal without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu.__main__ import ahead_of, main
from benchmarks.gpu.devices import SAMPLES, TAIL, Device, environment, placed, sampled
from benchmarks.gpu.instances import INSTANCES, NAMES, chosen, programs
from benchmarks.gpu.marks import marks
from benchmarks.gpu.report import in_rate, joined, text
from benchmarks.gpu.work import WIDTHS, Ceilings, Work, work_of
from benchmarks.tools import workload_of
from benchmarks.workers import Worker

GPU, EMULATED = {"name": "a GPU", "gpu": True}, {"name": "a GPU emulated on a processor", "gpu": False}
DEVICE = Ceilings("a GPU", 4e12, dict.fromkeys(WIDTHS, 50e12))


# ---- what calls must do ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_the_work_of_every_call_is_known(name: str) -> None:
    for instance in chosen([name], []):
        workload = workload_of(name)
        calls = workload.dlang(workload.data(instance.small, instance.dtype))
        assert instance.call in calls and instance.dtype in workload.TOLERANCE
        for size in (instance.size, instance.small):
            work = work_of(name, size, instance.dtype)
            assert set(work) == set(calls)
            assert all(w.bytes > 0 and w.operations > 0 for w in work.values())


def test_arguments_are_read_once_and_results_written_once() -> None:
    assert work_of("elementwise", "1000", "f32")["value"].bytes == 8000
    assert work_of("reductions", "2x3x5", "f64")["middle"].bytes == (30 + 10) * 8
    assert work_of("matmul", "8192", "bf16")["value"] == Work(3 * 8192**2 * 2, 2 * 8192**3)
    mlp = work_of("mlp", "1", "f64")
    parameters = 784 * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10
    assert mlp["value"].bytes == (parameters + 784) * 8 + 8
    assert mlp["step"].bytes == mlp["value"].bytes + parameters * 8
    # three products for one, without that for the images
    assert mlp["step"].operations == 3 * mlp["value"].operations - 2 * 784 * 512


def test_the_ceiling_that_is_lower_is_the_limit() -> None:
    copied, multiplied = Work(8_000_000, 1000), Work(12, 10**9)
    assert DEVICE.bound_by_memory(copied, "f32") and DEVICE.least(copied, "f32") == pytest.approx(2e-6)
    assert not DEVICE.bound_by_memory(multiplied, "f32") and DEVICE.least(multiplied, "f32") == pytest.approx(2e-5)


def test_a_program_is_compiled_once_for_all_sizes() -> None:
    found = programs(INSTANCES)
    assert len(found) == len({(i.workload, i.dtype) for i in INSTANCES}) < len(INSTANCES)
    assert [i.size for i in found if i.workload == "mlp"] == ["128"]


# ---- arguments and results -------------------------------------------------------------------------------------------
def test_arrays_are_placed_wherever_they_are_in_the_data() -> None:
    device = Device("a device", True, lambda result: None, place=lambda array: array + 1)
    layers, dtype = placed(device, ([(np.zeros(2), np.ones(1))], "bf16"))
    assert dtype == "bf16" and [a.tolist() for a in layers[0]] == [[1.0, 1.0], [2.0]]


def test_of_large_results_samples_and_the_end_are_compared() -> None:
    large = np.zeros((4, SAMPLES))
    before = sampled((1.5, large))
    assert [a.size for a in before] == [1, -(-4 * SAMPLES // 5), TAIL]
    large[-1, -1] = 1.0
    assert not np.array_equal(sampled(large)[1], before[2])
    assert sampled(np.ones((2, 3)))[0].shape == (2, 3)


def test_numbers_that_cupy_does_not_know_are_compared_as_well() -> None:
    ml_dtypes: Any = pytest.importorskip("ml_dtypes")

    class OnDevice(np.ndarray[Any, Any]):
        """An array whose elements are copied to the host by `get`, those of bf16 only if they are side by side."""

        __cuda_array_interface__: dict[str, Any] = {}

        def get(self) -> Any:
            assert self.dtype.name != "bfloat16" or self.flags.c_contiguous
            return np.asarray(self)

    large = np.arange(4 * SAMPLES).astype(ml_dtypes.bfloat16)
    evenly, last = sampled(large.view(OnDevice))
    assert np.array_equal(evenly, large[::5].astype(np.float64))
    assert np.array_equal(last, large[-TAIL:].astype(np.float64))


def test_nobody_uses_lower_precision_than_that_of_arguments() -> None:
    assert environment(small=False)["JAX_DEFAULT_MATMUL_PRECISION"] == "highest"
    assert environment(small=False)["NVIDIA_TF32_OVERRIDE"] == "0"


# ---- what is judged --------------------------------------------------------------------------------------------------
def measured(device: dict[str, Any], speed: float = 1.0) -> dict[str, Any]:
    """Numbers at 95 % of the bandwidth, four times PyTorch's speed and 1.2 times that of JAX; less by `speed`."""

    def of(workload: str, size: str, call: str, ahead: dict[str, float]) -> dict[str, Any]:
        amount, seconds = 4_000_000, 1e-6 / 0.95 / speed
        row = {
            "tool": "dlang", "call": call, "median_s": seconds, "least_s": seconds, "bytes": amount,
            "operations": amount, "share": 0.95 * speed, "bound": "copy",
        }  # fmt: skip
        rows = [row, *({**row, "tool": tool, "median_s": seconds * by} for tool, by in ahead.items())]
        return {"workload": workload, "size": size, "dtype": "f32", "rows": rows, "ahead": {call: ahead}}

    return {
        "devices": {"dlang": device},
        "ceilings": {"device": GPU["name"], "copy": DEVICE.copy, "products": dict(DEVICE.products)},
        "runs": [
            of("elementwise", "10", "value", {}), of("softmax", "2x2", "gradient", {}),
            of("mlp", "128", "step", {"torch": 4.0 * speed, "jax": 1.2 * speed}),
            of("mlp", "8192", "step", {"torch": 0.1, "jax": 0.1}),
        ],
        "compile": [
            {"case": "mlp f32", "tool": "dlang", "cold_s": 0.6 / speed, "loaded_s": 0.3, "warm_s": 0.03 / speed}
        ],
    }  # fmt: skip


def test_marks_are_met_or_missed() -> None:
    assert [mark.met for mark in marks(measured(GPU))] == [True] * 6
    assert [mark.met for mark in marks(measured(GPU, 0.5))] == [False] * 6
    assert [mark.found for mark in marks(measured(GPU, 0.5))] == [
        "48% at least, by `elementwise` 10 f32 value", "48% at least, by `softmax` 2x2 f32 gradient",
        "2.00 ×", "0.60 ×", "1.2 s at most, by `mlp f32`", "60 ms at most, by `mlp f32`",
    ]  # fmt: skip


def test_nothing_is_judged_without_a_gpu_or_without_numbers() -> None:
    assert {mark.met for mark in marks(measured(EMULATED))} == {None}
    assert {mark.found for mark in marks(measured(EMULATED))} == {"dlang ran on a GPU emulated on a processor"}
    empty = {**measured(GPU), "runs": [], "compile": []}
    assert {(mark.met, mark.found) for mark in marks(empty)} == {(None, "not measured")}
    elsewhere = {**measured(GPU), "ceilings": {**measured(GPU)["ceilings"], "device": "another GPU"}}
    assert [mark.met for mark in marks(elsewhere)] == [None, None, True, True, True, True]


def test_only_tools_on_the_same_device_are_compared() -> None:
    nobody: Any = None
    workers = [
        Worker(tool, nobody, nobody, samples={"value": [seconds]}, device=device)
        for tool, seconds, device in (("dlang", 1.0, GPU), ("jax", 2.0, GPU), ("torch", 3.0, {"name": "a processor"}))
    ]
    assert ahead_of(workers, "value") == {"jax": 2.0}
    assert ahead_of(workers[1:], "value") == {}


# ---- the report ------------------------------------------------------------------------------------------------------
def test_a_report_names_devices_rates_and_the_fastest_peer() -> None:
    lines = text(measured(GPU)).splitlines()
    assert lines[0] == "dlang: a GPU"
    assert "| copy | 4 TB/s |" in lines
    assert "| `softmax` 2x2 f32 | gradient | 1.05 µs | 3.8 TB/s | 95% of copy | – | – | – |" in lines
    assert any(line.startswith("| `mlp` 128 f32 | step |") and "| jax, 1.26 µs |" in line for line in lines)
    assert "  met         row operations at 80% or more of the bandwidth of a copy: 95% at least" in text(measured(GPU))
    assert text(measured(EMULATED)).startswith("dlang: a GPU emulated on a processor, which is no GPU")


def test_runs_are_joined_if_they_are_of_one_device() -> None:
    assert len(joined([measured(GPU), measured(GPU)])["runs"]) == 8
    with pytest.raises(ValueError, match="dlang was measured on a GPU and on a GPU emulated"):
        joined([measured(GPU), measured(EMULATED)])


def test_rates_are_in_units_that_suit_them() -> None:
    assert [in_rate(r, "B/s") for r in (4.3e12, 2e9, 999.0)] == ["4.3 TB/s", "2 GB/s", "999 B/s"]


# ---- the command -----------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_rehearsal_needs_no_gpu_and_judges_nothing(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "numbers.json"
    words = ["elementwise", "softmax", "--dtype", "f32", "--small", "--tools", "dlang", "--only", "steady"]
    assert main([*words, "--rounds", "1", "--min-time", "0", "--json", str(path)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("a rehearsal") and "which is no GPU" in shown and shown.count("not judged") == 6
    numbers = json.loads(path.read_text())
    assert numbers["small"] and not numbers["devices"]["dlang"]["gpu"] and numbers["ceilings"] is None
    assert [(r["workload"], [row["call"] for row in r["rows"]]) for r in numbers["runs"]] == [
        ("elementwise", ["value", "gradient"]), ("softmax", ["value", "gradient"]),
    ]  # fmt: skip
    assert all(row["median_s"] > 0 for r in numbers["runs"] for row in r["rows"])


def test_unknown_names_are_refused(capsys: Any) -> None:
    for words in (["softmacks"], ["--tools", "numba"], ["--only", "warm"], ["gmm", "--dtype", "f16"]):
        with pytest.raises(SystemExit):
            main(words)
    assert "unknown workloads: softmacks" in capsys.readouterr().err
