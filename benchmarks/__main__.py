"""`python -m benchmarks`: times the language beside its peers and prints what comes out.

    python -m benchmarks                                   # everything: make bench
    python -m benchmarks --dtype f32 --batch 32 --rounds 5
    python -m benchmarks --peer-python /path/to/python     # peers from another environment

The peers are `pip install 'dlang[bench]'`; one that isn't there is reported as such. A ratio is a tool's time over
dlang's: above 1, dlang is faster. Fails if dlang does, or if losses that should agree do not.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import digits_step as digits
from benchmarks.workers import Worker, cpu_model, idle_core, ratio, run_in_turn, start


def disagreement(workers: Sequence[Worker], tolerance: float) -> str | None:
    """What is wrong if the losses of two workers are apart by more than the tolerance."""
    base, *others = workers
    for other in others:
        for step, (a, b) in enumerate(zip(base.losses, other.losses, strict=True)):
            if not abs(a - b) <= tolerance * abs(a):
                return f"the losses of step {step} differ: {base.tool} has {a!r}, {other.tool} has {b!r}"
    return None


def time_digits(options: argparse.Namespace, dtype: str, batch: int, core: int | None) -> dict[str, Any]:
    """One line of the table for each tool, printed, and the same as data."""
    arguments = ["--dtype", dtype, "--batch", str(batch), "--min-time", str(options.min_time)]
    workers = []
    for tool in options.tools:
        python = sys.executable if tool == "dlang" else options.peer_python
        workers.append(start(tool, python, digits.MODULE, ["--tool", tool, *arguments], core))
        # Started one after another: while one compiles, no other is at work.
        workers[-1].prepare()
    run_in_turn(workers, options.rounds)
    ran = [w for w in workers if w.problem is None]
    base = ran[0] if ran else None
    results: list[dict[str, Any]] = []
    for w in workers:
        label = f"digits_step  {dtype}  batch {batch:<4} {w.tool:<14}"
        if w.problem is not None or base is None:
            print(f"{label} {w.problem}", flush=True)
            results.append({"tool": w.tool, "problem": w.problem, "missing": w.missing})
            continue
        relative = ratio(w, base)
        times = f"{w.median_s * 1e6:9.1f} µs  (least {min(w.samples) * 1e6:9.1f})  first call {w.first_s:6.2f} s"
        print(f"{label} {times}  {relative:6.2f} × {base.tool}", flush=True)
        results.append(
            {
                "tool": w.tool,
                "median_s": w.median_s,
                "least_s": min(w.samples),
                "first_call_s": w.first_s,
                "ratio": relative,
                "relative_to": base.tool,
                "last_checked_loss": w.losses[-1],
            }
        )
    problem = disagreement(ran, digits.TOLERANCE[dtype]) if ran else None
    if problem:
        print(f"digits_step  {dtype}  batch {batch}: {problem}", flush=True)
    return {
        "benchmark": "digits_step",
        "dtype": dtype,
        "batch": batch,
        "losses_agree": problem is None,
        "tools": results,
    }


def failed(run: dict[str, Any]) -> bool:
    """Whether a tool that is installed gave no times, or losses differ."""
    return not run["losses_agree"] or any(t.get("problem") and not t["missing"] for t in run["tools"])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tools", type=lambda text: text.split(","), default=list(digits.TOOLS),
                        help=f"default {','.join(digits.TOOLS)}; also {','.join(digits.MORE_TOOLS)}")  # fmt: skip
    parser.add_argument("--dtype", action="append", choices=digits.DTYPES)
    parser.add_argument("--batch", action="append", type=int)
    parser.add_argument("--rounds", type=int, default=15, help="samples of each tool, taken in turn")
    parser.add_argument("--min-time", type=float, default=0.05, help="seconds in a sample, at least")
    parser.add_argument("--peer-python", default=sys.executable, help="the Python that has the peers")
    parser.add_argument("--json", type=Path, default=Path("build/benchmarks.json"), help="where the numbers go")
    options = parser.parse_args(argv)
    if unknown := [tool for tool in options.tools if tool not in (*digits.TOOLS, *digits.MORE_TOOLS)]:
        parser.error(f"unknown tools: {', '.join(unknown)}")

    core = idle_core()
    machine = {"cpu": cpu_model(), "system": platform.platform(), "core": core}
    print(f"{machine['cpu']}, {machine['system']}, {'not pinned' if core is None else f'pinned to core {core}'}")
    runs = [
        time_digits(options, dtype, batch, core)
        for dtype in options.dtype or digits.DTYPES
        for batch in options.batch or digits.BATCHES
    ]
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"machine": machine, "runs": runs}, indent=2) + "\n", encoding="utf-8")
    print(f"numbers in {options.json}")
    return int(any(failed(run) for run in runs))


if __name__ == "__main__":
    sys.exit(main())
