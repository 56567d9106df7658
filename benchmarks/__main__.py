"""`python -m benchmarks`: times the language beside its peers and prints what comes out.

    python -m benchmarks                                   # everything, on one core: make bench
    python -m benchmarks elementwise softmax --dtype f32 --rounds 5
    python -m benchmarks --threads all                     # on all cores
    python -m benchmarks --peer-python /path/to/python     # peers from another environment

The peers are `pip install 'dlang[bench]'`; one that isn't there is reported as such. A ratio is the time of the best
other tool that is not C over dlang's: above 1, dlang is ahead. Fails if dlang does, or if results that should agree do
not.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.tools import TOOLS, disagreement, has
from benchmarks.workers import Worker, all_cores, cpu_model, idle_core, ratio, run_in_turn, start

NAMES = (
    "elementwise", "logistic", "pairwise", "black_scholes", "softmax", "layer_norm", "digits_step", "mlp", "lstm",
    "lenet", "trees", "gmm", "bundle", "diagonal_lstm", "rosenbrock", "products", "cholesky",
)  # fmt: skip
FLOORS = ("c",)  # what nobody would pick instead: the hand-written derivative in C


def run(options: argparse.Namespace, name: str, size: str, dtype: str, cores: Sequence[int]) -> dict[str, Any]:
    """One instance of a workload in all tools: printed, and the same as data."""
    workload = importlib.import_module(f"benchmarks.workloads.{name}")
    workers: list[Worker] = []
    for tool in options.tools:
        if has(workload, tool):
            python = sys.executable if tool in ("dlang", "c") else options.peer_python
            worker = start(tool, python, (name, size, dtype), cores, ["--min-time", str(options.min_time)])
            # Started one after another: while one compiles, no other is at work.
            worker.prepare()
            workers.append(worker)
    run_in_turn(workers, options.rounds)
    ran = [w for w in workers if w.problem is None]
    title = " ".join(part for part in (name, size, dtype) if part)
    print(f"\n{title}: {workload.TITLE}")
    base = next((w for w in ran if w.tool == "dlang"), None)
    wrong = [] if base is None else [
        f"{call} of {w.tool} is not that of dlang: {difference}"
        for w in ran
        for call in w.results
        if call in base.results
        and (difference := disagreement(w.results[call], base.results[call], workload.TOLERANCE[dtype]))
    ]  # fmt: skip
    problems = [f"{w.tool}: {w.problem}" for w in workers if w.problem is not None] + wrong
    names = list(dict.fromkeys(call for w in ran for call in w.samples))
    rows = [row(w, call, names[0]) for call in names for w in ran if call in w.samples]
    best = {call: ahead(ran, call) for call in names}
    for r in rows:
        print(line(r, best[r["call"]] if r["tool"] == "dlang" else None))
    for p in problems:
        print(f"  {p}")
    failed = bool(wrong) or any(w.problem is not None and not w.missing for w in workers)
    return {
        "workload": name, "size": size, "dtype": dtype, "rows": rows, "ahead": best, "problems": problems,
        "failed": failed,
    }  # fmt: skip


def row(w: Worker, call: str, value: str) -> dict[str, Any]:
    seconds = w.median(call)
    return {
        "tool": w.tool, "call": call, "median_s": seconds, "least_s": min(w.samples[call]),
        "times_value": seconds / w.median(value) if value in w.samples else None,
        "first_call_s": w.first_s[call], "peak_bytes": w.peak_bytes[call],
    }  # fmt: skip


def ahead(ran: Sequence[Worker], call: str) -> float | None:
    """The time of the best peer over dlang's."""
    own = next((w for w in ran if w.tool == "dlang" and call in w.samples), None)
    peers = [w for w in ran if w.tool not in ("dlang", *FLOORS) and call in w.samples]
    if own is None or not peers:
        return None
    return ratio(min(peers, key=lambda w: w.median(call)), own, call)


def line(r: dict[str, Any], best: float | None) -> str:
    times = f"{r['times_value']:6.2f} × value" if r["times_value"] is not None else " " * 14
    shown = f"  {best:5.2f} × the best peer's speed" if best is not None else ""
    peak, first = f"{r['peak_bytes'] / 2**20:8.1f} MiB", f"first call {r['first_call_s']:6.2f} s"
    return f"  {r['call']:<10} {r['tool']:<14}{r['median_s'] * 1e3:11.4f} ms {times} {peak}  {first}{shown}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", help=f"of {', '.join(NAMES)}; default all")
    parser.add_argument("--tools", type=lambda text: text.split(","), default=list(TOOLS), help=",".join(TOOLS))
    parser.add_argument("--dtype", action="append", choices=("f32", "f64"))
    parser.add_argument("--threads", choices=("1", "all"), default="1")
    parser.add_argument("--rounds", type=int, default=9, help="samples of each tool, taken in turn")
    parser.add_argument("--min-time", type=float, default=0.05, help="seconds in a sample, at least")
    parser.add_argument("--peer-python", default=sys.executable, help="the Python that has the peers")
    parser.add_argument("--json", type=Path, default=Path("build/benchmarks.json"), help="where the numbers go")
    options = parser.parse_args(argv)
    if unknown := [n for n in options.workloads if n not in NAMES]:
        parser.error(f"unknown workloads: {', '.join(unknown)}")
    if unknown := [t for t in options.tools if t not in TOOLS]:
        parser.error(f"unknown tools: {', '.join(unknown)}")

    cores = idle_core() if options.threads == "1" else all_cores()
    where = f"core {cores[0]}" if len(cores) == 1 else f"{len(cores)} cores" if cores else "not pinned"
    machine = {"cpu": cpu_model(), "system": platform.platform(), "cores": cores}
    print(f"{machine['cpu']}, {machine['system']}, {where}", flush=True)
    runs = []
    for name in options.workloads or NAMES:
        workload = importlib.import_module(f"benchmarks.workloads.{name}")
        for size in workload.SIZES:
            for dtype in workload.DTYPES:
                if options.dtype is None or dtype in options.dtype:
                    runs.append(run(options, name, size, dtype, cores))
                    sys.stdout.flush()
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"machine": machine, "runs": runs}, indent=2) + "\n", encoding="utf-8")
    print(f"\nnumbers in {options.json}")
    return int(any(r["failed"] for r in runs))


if __name__ == "__main__":
    sys.exit(main())
