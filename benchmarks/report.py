"""`python -m benchmarks.report [NUMBERS]`: what `python -m benchmarks` has measured, as tables for a page.

python -m benchmarks.report build/benchmarks.json                   # all tables
python -m benchmarks.report build/benchmarks.json --compare OLD     # what has changed
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FLOORS = ("c",)  # what nobody would pick instead: the hand-written derivative in C
COLUMNS = ("workload", "call", "dlang", "÷ value", "fastest peer", "dlang is ahead", "C")
MEMORY_COLUMNS = ("workload", "call", "dlang", "JAX", "PyTorch", "beside results: dlang", "JAX", "saved by PyTorch")
COMPILE_COLUMNS = ("program", "tool", "cold", "loaded", "warm")
COMPARISON_COLUMNS = ("where", "workload", "call", "before", "now", "now ÷ before")
NOTABLE = 1.1  # times that differ by less are not shown as changed


def times(runs: Sequence[dict[str, Any]]) -> str:
    """A row for each call; the last line has the geometric mean of the ratios."""
    lines = table_head(COLUMNS)
    ratios: list[float] = []
    for run, call, rows in calls_of(runs):
        own = rows.pop("dlang", None)
        if own is None:
            continue
        floors = [rows.pop(tool) for tool in FLOORS if tool in rows]
        best = min(rows.values(), key=lambda row: row["median_s"], default=None)
        ahead = run["ahead"][call]
        ratios += [ahead] if ahead is not None else []
        lines.append(table_row(
            title_of(run), call, in_time(own["median_s"]), f"{own['times_value']:.2f}",
            "–" if best is None else f"{best['tool']}, {in_time(best['median_s'])}",
            "–" if ahead is None else f"{ahead:.2f} ×",
            in_time(floors[0]["median_s"]) if floors else "–",
        ))  # fmt: skip
    if ratios:
        lines.append(f"\nGeometric mean of the ratios: {statistics.geometric_mean(ratios):.2f}.")
    return "\n".join(lines)


def memory(runs: Sequence[dict[str, Any]]) -> str:
    """What derivatives need at most, and what of that is neither argument nor result."""
    lines = table_head(MEMORY_COLUMNS)
    for run, call, rows in calls_of(runs):
        own = rows.get("dlang")
        if own is None or call == "value":
            continue
        tools = [rows.get(tool) for tool in ("dlang", "jax", "torch")]
        cells = [in_bytes(row["peak_bytes"] if row else None) for row in tools]
        cells += [in_bytes(row["tape_bytes"] if row else None) for row in tools]
        lines.append(table_row(title_of(run), call, *cells))
    return "\n".join(lines)


def compiling(rows: Sequence[dict[str, Any]]) -> str:
    """What first calls take."""
    lines = table_head(COMPILE_COLUMNS)
    for row in rows:
        seconds = [in_time(row[f"{kind}_s"]) for kind in ("cold", "loaded", "warm")]
        lines.append(table_row(row["case"], row["tool"], *seconds))
    return "\n".join(lines)


def comparison(old: dict[str, Any], new: dict[str, Any]) -> str:
    """What dlang takes now, over what it took then; calls that have hardly changed are counted only."""
    lines = table_head(COMPARISON_COLUMNS)
    ratios: list[float] = []
    for part in ("one", "all"):
        before = {
            (title_of(run), call): rows["dlang"]["least_s"]
            for run, call, rows in calls_of(old.get(part, []))
            if "dlang" in rows
        }
        for run, call, rows in calls_of(new.get(part, [])):
            then, own = before.get((title_of(run), call)), rows.get("dlang")
            if then is None or own is None:
                continue
            change = own["least_s"] / then
            ratios.append(change)
            if not 1 / NOTABLE < change < NOTABLE:
                cells = in_time(then), in_time(own["least_s"]), f"{change:.2f}"
                lines.append(table_row("one core" if part == "one" else "all cores", title_of(run), call, *cells))
    if not ratios:
        return "nothing to compare"
    same = len(ratios) - (len(lines) - 2)
    mean = statistics.geometric_mean(ratios)
    return "\n".join([*lines, f"\n{same} of {len(ratios)} calls within a tenth; geometric mean {mean:.2f}."])


# ---- cells -----------------------------------------------------------------------------------------------------------
def calls_of(runs: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], str, dict[str, dict[str, Any]]]]:
    """Each call of each run with its rows by tool."""
    return [
        (run, call, {row["tool"]: row for row in run["rows"] if row["call"] == call})
        for run in runs
        for call in dict.fromkeys(row["call"] for row in run["rows"])
    ]


def title_of(run: dict[str, Any]) -> str:
    return " ".join(part for part in (f"`{run['workload']}`", run["size"], run["dtype"]) if part)


def table_head(columns: Sequence[str]) -> list[str]:
    return [table_row(*columns), "| --- " * len(columns) + "|"]


def table_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def in_time(seconds: float) -> str:
    """A time with three digits, in a unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def in_bytes(count: int | None) -> str:
    if count is None:
        return "–"
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count / 1024:.3g} KiB"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("numbers", type=Path, nargs="?", default=Path("build/benchmarks.json"))
    parser.add_argument("--compare", type=Path, metavar="OLD.json")
    options = parser.parse_args(argv)
    numbers = json.loads(options.numbers.read_text(encoding="utf-8"))
    if options.compare is not None:
        print(comparison(json.loads(options.compare.read_text(encoding="utf-8")), numbers))
        return 0
    machine = numbers["machine"]
    print(f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}")
    for part, title in (("one", "On one core"), ("all", "On all cores")):
        if part in numbers:
            print(f"\n## {title}\n\n{times(numbers[part])}")
    for part in ("one", "all"):
        if part in numbers:
            print(f"\n## Memory\n\n{memory(numbers[part])}")
            break
    if "compile" in numbers:
        print(f"\n## The first call\n\n{compiling(numbers['compile'])}")
    if "busy" in numbers:
        from benchmarks.busy import table

        print(f"\n## Beside another process\n\n{table(numbers['busy'])}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
