"""`python -m benchmarks.gpu`: times the language on a GPU, beside JAX and PyTorch and beside what the device can do.

    python -m benchmarks.gpu                                 # everything; needs a GPU
    python -m benchmarks.gpu softmax mlp --dtype f32 --rounds 5
    python -m benchmarks.gpu --small                         # a rehearsal without a GPU
    python -m benchmarks.gpu --peer-python /path/to/python   # peers from another environment

The peers are `pip install 'dlang[bench]'`, built for CUDA; dlang needs `pip install 'dlang[cuda]'`. In a rehearsal the
sizes are small, dlang emulates a GPU and the others compute on the processor: the numbers say nothing of a GPU, so
nothing is compared but results. Fails if dlang does, or if results that should agree do not.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.compiling import Case, first_calls
from benchmarks.gpu import devices, report
from benchmarks.gpu.instances import CEILINGS, NAMES, Instance, chosen, programs
from benchmarks.gpu.marks import listed, marks
from benchmarks.gpu.report import in_share, rate
from benchmarks.gpu.work import Ceilings, Work, work_of
from benchmarks.report import in_time
from benchmarks.tools import has, workload_of
from benchmarks.workers import Worker, all_cores, cpu_model, differences, python_of, ratio, run_in_turn, start

TOOLS = ("copy", "dlang", "jax", "torch", "torch-compile")
PARTS = ("steady", "compile")


def launched(
    small: bool,
    tool: str,
    python: str,
    arguments: Sequence[str],
    cores: Sequence[int],
    options: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> Worker:
    """Starts a worker on the device; the arguments behind the first are those of `workers.start`."""
    more = ["--small"] if small else []
    variables = {**devices.environment(small), **(environment or {})}
    return start(tool, python, arguments, cores, [*options, *more], variables, "benchmarks.gpu.worker")


def measured(options: argparse.Namespace, instance: Instance, tools: Sequence[str]) -> list[Worker]:
    """The tools that know a workload, each prepared in a process of its own, and what they take in turn."""
    workload = workload_of(instance.workload)
    arguments = (instance.workload, instance.at(options.small), instance.dtype)
    more = ["--min-time", str(options.min_time)]
    # All get ready at once, which is not timed here; then one at a time is at work.
    workers = [
        launched(options.small, tool, python_of(options.peer_python, tool), arguments, all_cores(), more)
        for tool in tools
        if has(workload, tool)
    ]
    for worker in workers:
        worker.prepare()
    run_in_turn(workers, options.rounds)
    return workers


def measured_ceilings(options: argparse.Namespace) -> Ceilings | str:
    """What the device can do, measured by PyTorch, or why nobody knows."""
    (worker,) = measured(options, CEILINGS, ["torch"])
    if worker.problem is not None:
        return worker.problem
    work = work_of(CEILINGS.workload, CEILINGS.at(options.small), "")
    products = {name: work[name].operations / worker.median(name) for name in worker.samples if name != "copy"}
    return Ceilings(worker.device["name"], work["copy"].bytes / worker.median("copy"), products)


def run(options: argparse.Namespace, instance: Instance, limits: Ceilings | None) -> dict[str, Any]:
    """One instance in all tools: printed, and the same as data."""
    workload = workload_of(instance.workload)
    size, dtype = instance.at(options.small), instance.dtype
    work = work_of(instance.workload, size, dtype)
    workers = measured(options, instance, [tool for tool in options.tools if tool != "copy"])
    ran = [w for w in workers if w.problem is None]
    wrong = differences(ran, workload.TOLERANCE[dtype])
    problems = [f"{w.tool}: {w.problem}" for w in workers if w.problem is not None] + wrong
    names = list(dict.fromkeys(call for w in ran for call in w.samples))
    rows = [row(w, call, work[call], dtype, limits) for call in names for w in ran if call in w.samples]
    ahead = {call: ahead_of(ran, call) for call in names}
    for r in rows:
        print(line(r, ahead[r["call"]]))
    for problem in problems:
        print(f"  {problem}")
    failed = bool(wrong) or any(w.problem is not None and (not w.missing or w.tool == "dlang") for w in workers)
    return {
        "workload": instance.workload, "size": size, "dtype": dtype, "rows": rows, "ahead": ahead,
        "devices": {w.tool: w.device for w in ran}, "missing": [w.tool for w in workers if w.missing],
        "problems": problems, "failed": failed,
    }  # fmt: skip


def row(w: Worker, call: str, work: Work, dtype: str, limits: Ceilings | None) -> dict[str, Any]:
    """A call of a tool. share: of the ceiling that is lower for this call, if it was measured on the same device."""
    seconds = w.median(call)
    known = limits is not None and limits.device == w.device["name"]
    return {
        "tool": w.tool, "call": call, "median_s": seconds, "least_s": min(w.samples[call]),
        "bytes": work.bytes, "operations": work.operations,
        "share": limits.least(work, dtype) / seconds if limits is not None and known else None,
        "bound": None if limits is None else "copy" if limits.bound_by_memory(work, dtype) else "product",
    }  # fmt: skip


def ahead_of(ran: Sequence[Worker], call: str) -> dict[str, float]:
    """The time of each other tool over dlang's, of those that computed on the same device."""
    own = next((w for w in ran if w.tool == "dlang" and call in w.samples), None)
    if own is None:
        return {}
    peers = [w for w in ran if w is not own and call in w.samples and w.device == own.device]
    return {w.tool: ratio(w, own, call) for w in peers}


def line(r: dict[str, Any], ahead: dict[str, float]) -> str:
    shown = f"  {ahead[r['tool']]:7.2f} × dlang's time" if r["tool"] in ahead else ""
    return f"  {r['call']:<10} {r['tool']:<14}{in_time(r['median_s']):>9}  {rate(r):>14}  {in_share(r):>15}{shown}"


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )

    def words(text: str) -> list[str]:
        return text.split(",")

    parser.add_argument("workloads", nargs="*", help=f"of {', '.join(NAMES)}; default all")
    parser.add_argument("--tools", type=words, default=list(TOOLS), help=f"{','.join(TOOLS)}; copy: the ceilings")
    parser.add_argument("--dtype", action="append", default=[], choices=("f64", "f32", "f16", "bf16"))
    parser.add_argument("--only", type=words, default=list(PARTS), help=f"{','.join(PARTS)}; default both")
    parser.add_argument("--small", action="store_true", help="a rehearsal without a GPU, at small sizes")
    parser.add_argument("--rounds", type=int, help="samples of each tool, taken in turn; 9, or 2 if small")
    parser.add_argument("--min-time", type=float, help="seconds in a sample, at least; 0.05, or 0.01 if small")
    parser.add_argument(
        "--peer-python", action="append", default=[], metavar="[TOOL=]PYTHON", help="the Python that has the peers"
    )
    parser.add_argument("--json", type=Path, default=Path("build/gpu.json"), help="where the numbers go")
    options = parser.parse_args(argv)
    options.rounds = options.rounds or (2 if options.small else 9)
    if options.min_time is None:
        options.min_time = 0.01 if options.small else 0.05
    for given, known, what in (
        (options.workloads, NAMES, "workloads"),
        (options.tools, TOOLS, "tools"),
        (options.only, PARTS, "parts"),
    ):
        if unknown := [n for n in given if n not in known]:
            parser.error(f"unknown {what}: {', '.join(unknown)}")
    if not chosen(options.workloads, options.dtype):
        parser.error("no workload has these dtypes")
    return options


def keep(options: argparse.Namespace, numbers: dict[str, Any]) -> None:
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")


def steady(options: argparse.Namespace, instances: Sequence[Instance], numbers: dict[str, Any]) -> bool:
    """Adds the ceilings and the times of calls to the numbers, which are kept as they come; whether all went well."""
    limits: Ceilings | None = None
    if "copy" in options.tools:
        found = measured_ceilings(options)
        if isinstance(found, Ceilings):
            limits = found
            numbers["ceilings"] = {"device": found.device, "copy": found.copy, "products": found.products}
            print(f"\nwhat {found.device} can do\n\n{report.ceilings(numbers['ceilings'])}", flush=True)
        else:
            print(f"\nwhat the device can do is not known: {found}", flush=True)
    for instance in instances:
        print(f"\n{instance.workload} {instance.at(options.small)} {instance.dtype}", flush=True)
        made = run(options, instance, limits)
        numbers["runs"].append(made)
        numbers["devices"] |= made["devices"]
        options.tools = [tool for tool in options.tools if tool not in made["missing"]]  # said once
        keep(options, numbers)
        if not {*options.tools} - {"copy"}:
            break
    return not any(made["failed"] for made in numbers["runs"])


def compiled(options: argparse.Namespace, instances: Sequence[Instance], numbers: dict[str, Any]) -> bool:
    """Adds what first calls take, at small sizes: compiling depends on no size, or hardly. Whether dlang made all."""
    print("\nwhat the first call takes", flush=True)
    launch, python = partial(launched, options.small), partial(python_of, options.peer_python)
    for i in programs(instances):
        case = Case(f"{i.workload} {i.dtype}", i.workload, i.small, i.dtype, i.call)
        numbers["compile"] += first_calls(case, options.tools, python, all_cores(), launch)
        numbers["devices"] |= {row["tool"]: row["device"] for row in numbers["compile"]}
        keep(options, numbers)
    own = sum(row["tool"] == "dlang" for row in numbers["compile"])
    return "dlang" not in options.tools or own == len(programs(instances))


def main(argv: Sequence[str] | None = None) -> int:
    options = parsed(argv)
    if options.small:
        print("a rehearsal: no GPU is used, and the numbers say nothing of one")
    instances = chosen(options.workloads, options.dtype)
    numbers: dict[str, Any] = {
        "small": options.small,
        "machine": {"cpu": cpu_model(), "system": platform.platform(), "cores": len(all_cores())},
        "devices": {}, "ceilings": None, "runs": [], "compile": [],
    }  # fmt: skip
    parts = {"steady": steady, "compile": compiled}
    well = [parts[part](options, instances, numbers) for part in PARTS if part in options.only]
    print(f"\n{report.devices(numbers)}\n\nmarks\n{listed(marks(numbers))}")
    return int(not all(well))


if __name__ == "__main__":
    raise SystemExit(main())
