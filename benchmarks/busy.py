"""What threads gain and lose while another process is at work on one of the cores.

Two processes run dlang, one with all threads and one with a single thread, in turn; the ratio is the median over the
pairs of the time on one thread over that on all. It is reported for a machine that has nothing else to do, and while
another process computes without end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.tools import workload_of
from benchmarks.workers import Worker, all_cores, ratio, run_in_turn, start

WORKLOADS = (
    "elementwise", "pairwise", "black_scholes", "softmax", "layer_norm", "attention", "digits_step", "mlp", "lstm",
    "lenet", "convolutions", "trees", "gmm", "bundle", "diagonal_lstm", "products", "cholesky",
)  # fmt: skip
PAIRS = 15
SPIN = "x = 1.0\nwhile True: x = x * 1.0000001 + 1e-9"


@contextmanager
def somebody_else(core: int | None) -> Iterator[None]:
    """Another process at work on a core, or nobody."""
    if core is None:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", SPIN])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(process.pid, [core])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def compared(name: str, size: str, dtype: str, rounds: int, core: int | None) -> dict[str, Any]:
    """How much faster each call is on all threads; core: of the other process, None for nobody."""
    cores = all_cores()
    workers: list[Worker] = []
    for threads in (len(cores) or os.cpu_count() or 1, 1):
        variables = {"DLANG_THREADS": str(threads)}
        worker = start("dlang", sys.executable, (name, size, dtype), cores, [], variables)
        worker.prepare()
        workers.append(worker)
    with somebody_else(core):
        run_in_turn(workers, rounds)
    threaded, serial = workers
    for worker in workers:
        if worker.problem is not None:
            raise SystemExit(f"{name}: {worker.problem}")
    ratios = {call: ratio(serial, threaded, call) for call in threaded.samples}
    return {"workload": name, "size": size, "dtype": dtype, "busy": core is not None, "ratios": ratios}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Threads over a single one, alone and beside another process."""
    lines = ["| workload | call | alone | beside another process |", "| --- | --- | --- | --- |"]
    found: dict[tuple[str, str], dict[bool, float]] = {}
    for row in rows:
        for call, value in row["ratios"].items():
            found.setdefault((f"`{row['workload']}` {row['size']} {row['dtype']}", call), {})[row["busy"]] = value
    for (title, call), values in found.items():
        cells = [f"{values[b]:.2f} ×" if b in values else "–" for b in (False, True)]
        lines.append(f"| {title} | {call} | {' | '.join(cells)} |")
    return "\n".join(lines)


def beside_others(names: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """A row for each workload, alone and not; those of `WORKLOADS` that are named, or all."""
    rows = []
    for name in WORKLOADS:
        if names and name not in names:
            continue
        workload = workload_of(name)
        for core in (None, (all_cores() or [0])[-1]):
            row = compared(name, workload.SIZES[0], workload.DTYPES[0], PAIRS if rounds > 3 else rounds, core)
            rows.append(row)
            beside = "beside another process" if row["busy"] else "alone"
            shown = ", ".join(f"{call} {value:.2f} ×" for call, value in row["ratios"].items())
            print(f"  {name:<14}{beside:<24}{shown}", flush=True)
    return rows
