"""What has been measured as tables, and two runs side by side."""

from __future__ import annotations

from typing import Any

from benchmarks.busy import table
from benchmarks.memory import peak_of, tape_of
from benchmarks.report import comparison, compiling, in_bytes, in_time, memory, times


def row(tool: str, call: str, seconds: float, peak: int = 0, tape: int | None = None) -> dict[str, Any]:
    return {
        "tool": tool, "call": call, "median_s": seconds, "least_s": seconds, "times_value": 1.0, "first_call_s": 0.5,
        "peak_bytes": peak, "tape_bytes": tape,
    }  # fmt: skip


def run(scale: float) -> dict[str, Any]:
    rows = [row("dlang", "value", 1e-3 * scale), row("jax", "value", 2e-3), row("c", "value", 5e-4)]
    rows += [row("dlang", "gradient", 4e-3, 3 << 20, 1 << 20), row("torch", "gradient", 6e-3, 2 << 20, 1 << 10)]
    return {"workload": "w", "size": "10", "dtype": "f64", "rows": rows, "ahead": {"value": 2.0, "gradient": 1.5}}


def test_the_fastest_peer_stands_beside_dlang_and_c_apart() -> None:
    assert times([run(1.0)]).splitlines()[2:] == [
        "| `w` 10 f64 | value | 1 ms | 1.00 | jax, 2 ms | 2.00 × | 500 µs |",
        "| `w` 10 f64 | gradient | 4 ms | 1.00 | torch, 6 ms | 1.50 × | – |",
        "",
        "Geometric mean of the ratios: 1.73.",
    ]


def test_memory_is_that_of_derivatives() -> None:
    assert memory([run(1.0)]).splitlines()[2:] == ["| `w` 10 f64 | gradient | 3 MiB | – | 2 MiB | 1 MiB | – | 1 KiB |"]


def test_first_calls_are_rows() -> None:
    rows = [{"case": "GMM", "tool": "jax", "cold_s": 1.5, "loaded_s": 0.5, "warm_s": 0.25}]
    assert compiling(rows).splitlines()[2:] == ["| GMM | jax | 1.5 s | 500 ms | 250 ms |"]


def test_two_runs_are_compared_by_their_least_times() -> None:
    text = comparison({"one": [run(2.0)]}, {"one": [run(1.0)]})
    assert "| one core | `w` 10 f64 | value | 2 ms | 1 ms | 0.50 |" in text
    assert text.endswith("1 of 2 calls within a tenth; geometric mean 0.71.")
    assert comparison({}, {"one": [run(1.0)]}) == "nothing to compare"


def test_threads_are_shown_alone_and_beside_another_process() -> None:
    rows = [
        {"workload": "w", "size": "10", "dtype": "f64", "busy": busy, "ratios": {"value": ratio}}
        for busy, ratio in ((False, 1.9), (True, 1.2))
    ]
    assert table(rows).splitlines()[2:] == ["| `w` 10 f64 | value | 1.90 × | 1.20 × |"]


def test_amounts_are_in_units_that_suit_them() -> None:
    assert [in_time(s) for s in (2.0, 2e-3, 2.5e-6)] == ["2 s", "2 ms", "2.5 µs"]
    assert [in_bytes(n) for n in (None, 512, 3 << 20, 5 << 30)] == ["–", "0.5 KiB", "3 MiB", "5 GiB"]


def test_the_memory_of_a_call_is_counted_with_and_without_its_results() -> None:
    import numpy as np

    import dlang

    module = dlang.compile(
        "fn f(x: f64[n]) -> f64[n] { let y = cumsum(x)\n let z = cumsum(y)\n [a + z[n - 1] for a in cumsum(z)] }"
    )
    x = np.ones(1 << 17)
    peak = peak_of("dlang", lambda: module.f(x))
    assert peak in (2 << 20, 3 << 20)
    assert tape_of("dlang", lambda: module.f(x)) == peak - (1 << 20)
