"""`python -m benchmarks`: times the language beside its peers and prints what comes out.

    python -m benchmarks                                   # everything, on one core and on all of them: make bench
    python -m benchmarks elementwise softmax --dtype f32 --rounds 5
    python -m benchmarks --quick --only one                # the usual size of each, on one core
    python -m benchmarks others                              # a family of workloads; others.nbody is one of it
    python -m benchmarks --compare build/before.json       # what has changed since those numbers
    python -m benchmarks --peer-python /path/to/python     # peers from another environment
    python -m benchmarks spellings --help                  # apart from these: one function in several spellings

The peers are `pip install 'dlang[bench]'`; one that isn't there is reported as such. A ratio is the time of the best
other tool that is not C over dlang's: above 1, dlang is ahead. Fails if dlang does, or if results that should agree do
not.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.busy import beside_others
from benchmarks.compiling import CASES, first_calls
from benchmarks.others import PROGRAMS
from benchmarks.report import FLOORS, comparison
from benchmarks.spellings import __main__ as spellings
from benchmarks.tools import TOOLS, has, workload_of
from benchmarks.workers import (
    REST,
    Worker,
    all_cores,
    cpu_model,
    differences,
    idle_core,
    python_of,
    ratio,
    run_in_turn,
    start,
)

NAMES = (
    "elementwise", "logistic", "pairwise", "black_scholes", "softmax", "layer_norm", "attention", "digits_step",
    "mlp", "lstm", "lenet", "convolutions", "trees", "gmm", "bundle", "diagonal_lstm", "rosenbrock", "one_line",
    "products", "cholesky", "factorisations",
)  # fmt: skip

FAMILIES = {"others": tuple(f"others.{name}" for name in PROGRAMS)}
"""Workloads that run only where they, or all of them, are named."""

PARTS = {"one": "one core", "all": "all cores", "compile": "first calls", "busy": "beside another process"}


def run(options: argparse.Namespace, name: str, size: str, dtype: str, cores: Sequence[int]) -> dict[str, Any]:
    """One instance of a workload in all tools: printed, and the same as data."""
    workload = workload_of(name)
    workers: list[Worker] = []
    for tool in options.tools:
        if has(workload, tool):
            worker = start(
                tool,
                python_of(options.peer_python, tool),
                (name, size, dtype),
                cores,
                ["--min-time", str(options.min_time)],
            )
            # Started one after another: while one compiles, no other is at work.
            worker.prepare()
            workers.append(worker)
    run_in_turn(workers, options.rounds, REST if len(cores) != 1 else 0.0)
    ran = [w for w in workers if w.problem is None]
    wrong = differences(ran, workload.TOLERANCE[dtype])
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
        "first_call_s": w.first_s[call], "peak_bytes": w.peak_bytes[call], "tape_bytes": w.tape_bytes.get(call),
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
    tape = f"beside results {r['tape_bytes'] / 2**20:8.1f} MiB" if r["tape_bytes"] is not None else " " * 27
    return f"  {r['call']:<10} {r['tool']:<14}{r['median_s'] * 1e3:11.4f} ms {times} {peak}  {tape}  {first}{shown}"


def instances(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Workload, size and dtype of what is to be run."""
    found = []
    for name in options.workloads or NAMES:
        workload = workload_of(name)
        for size in workload.SIZES[:1] if options.quick else workload.SIZES:
            for dtype in workload.DTYPES[:1] if options.quick and options.dtype is None else workload.DTYPES:
                if options.dtype is None or dtype in options.dtype:
                    found.append((name, size, dtype))
    return found


def parsed(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", help=f"of {', '.join(NAMES)}, the default; {', '.join(FAMILIES)}")
    parser.add_argument("--tools", type=lambda text: text.split(","), default=list(TOOLS), help=",".join(TOOLS))
    parser.add_argument("--dtype", action="append", choices=("f32", "f64"))
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=list(PARTS), metavar="one,all,compile,busy",
        help="on one core, on all cores, first calls, beside another process; default all",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="the usual size and dtype of each, fewer samples")
    parser.add_argument("--rounds", type=int, help="samples of each tool, taken in turn; 9, or 3 if quick")
    parser.add_argument("--min-time", type=float, default=0.05, help="seconds in a sample, at least")
    parser.add_argument(
        "--peer-python", action="append", default=[], metavar="[TOOL=]PYTHON", help="the Python that has the peers"
    )
    parser.add_argument("--json", type=Path, default=Path("build/benchmarks.json"), help="where the numbers go")
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="numbers of an earlier run to compare with")
    options = parser.parse_args(argv)
    options.workloads = [name for given in options.workloads for name in FAMILIES.get(given, (given,))]
    options.rounds = options.rounds or (3 if options.quick else 9)
    for given, known, what in (
        (options.workloads, (*NAMES, *chain(*FAMILIES.values())), "workloads"),
        (options.tools, TOOLS, "tools"),
        (options.only, PARTS, "parts"),
    ):
        if unknown := [n for n in given if n not in known]:
            parser.error(f"unknown {what}: {', '.join(unknown)}")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    match sys.argv[1:] if argv is None else argv:
        case ["spellings", *rest]:
            return spellings.main(rest)
        case given:
            return compared(parsed(given))


def compared(options: argparse.Namespace) -> int:
    """The parts that the options ask for, of dlang beside its peers."""
    where = {"one": idle_core(), "all": all_cores()}
    machine = {"cpu": cpu_model(), "system": platform.platform(), "cores": len(where["all"])}
    print(f"{machine['cpu']}, {machine['system']}", flush=True)
    numbers: dict[str, Any] = {"machine": machine}
    parts = [part for part in ("one", "all") if part in options.only]
    for name, size, dtype in instances(options) if parts else []:
        title = workload_of(name).TITLE
        print(f"\n{' '.join(part for part in (name, size, dtype) if part)}: {title}")
        for part in parts:
            cores = where[part]
            print(f" {PARTS[part]}" if cores else f" {PARTS[part]}, not pinned", flush=True)
            numbers.setdefault(part, []).append(run(options, name, size, dtype, cores))
            sys.stdout.flush()
    if "compile" in options.only:
        print("\nwhat the first call takes", flush=True)
        numbers["compile"] = [
            made
            for case in CASES
            if not options.workloads or case.workload in options.workloads
            for made in first_calls(
                case, options.tools, lambda tool: python_of(options.peer_python, tool), where["one"]
            )
        ]
    if "busy" in options.only:
        print("\nall threads over one, alone and beside another process", flush=True)
        numbers["busy"] = beside_others(options.workloads, options.rounds)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    print(f"\nnumbers in {options.json}")
    if options.compare is not None:
        print("\n" + comparison(json.loads(options.compare.read_text(encoding="utf-8")), numbers))
    return int(any(r["failed"] for part in parts for r in numbers[part]))


if __name__ == "__main__":
    sys.exit(main())
