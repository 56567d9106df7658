"""`python -m benchmarks.gpu.report [NUMBERS…]`: what `python -m benchmarks.gpu` has measured, as tables for a page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.marks import listed, marks
from benchmarks.report import calls_of, compiling, in_time, table_head, table_row, title_of

COLUMNS = ("workload", "call", "dlang", "rate", "of the ceiling", "fastest peer", "its share", "dlang is ahead")
CALIBRATION = ("what", "rate")


def devices(numbers: dict[str, Any]) -> str:
    """What each tool computed on, a line for each device."""
    if not numbers["devices"]:
        return "nothing was measured"
    by_name: dict[str, list[str]] = {}
    for tool, device in numbers["devices"].items():
        by_name.setdefault(device["name"] + ("" if device["gpu"] else ", which is no GPU"), []).append(tool)
    return "\n".join(f"{', '.join(tools)}: {name}" for name, tools in by_name.items())


def ceilings(found: dict[str, Any] | None) -> str:
    """What the device can do."""
    if found is None:
        return "no ceilings were measured"
    rows = [table_row("copy", in_rate(found["copy"], "B/s"))]
    rows += [table_row(f"product, {dtype}", in_rate(rate, "FLOP/s")) for dtype, rate in found["products"].items()]
    return "\n".join([*table_head(CALIBRATION), *rows])


def times(runs: Sequence[dict[str, Any]]) -> str:
    """A row for each call; peers are those on the device that dlang is on."""
    lines = table_head(COLUMNS)
    for run, call, rows in calls_of(runs):
        own = rows.get("dlang")
        if own is None:
            continue
        ahead = run["ahead"].get(call, {})
        tool = min(ahead, key=lambda tool: rows[tool]["median_s"], default=None)
        best = rows[tool] if tool is not None else None
        lines.append(table_row(
            title_of(run), call, in_time(own["median_s"]), rate(own), in_share(own),
            "–" if best is None else f"{tool}, {in_time(best['median_s'])}",
            "–" if best is None else in_share(best),
            "–" if tool is None else f"{ahead[tool]:.2f} ×",
        ))  # fmt: skip
    return "\n".join(lines)


def rate(row: dict[str, Any]) -> str:
    """What a call does in a second of what it must do: bytes where memory is the limit, operations elsewhere, and both
    where the limits are not known."""
    moved, done = (
        in_rate(row[what] / row["median_s"], unit) for what, unit in (("bytes", "B/s"), ("operations", "FLOP/s"))
    )
    match row["bound"]:
        case "copy":
            return moved
        case "product":
            return done
        case _:
            return f"{moved}, {done}"


def in_rate(amount: float, unit: str) -> str:
    """A rate with three digits, in a unit that suits it."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if amount >= scale:
            return f"{amount / scale:.3g} {prefix}{unit}"
    return f"{amount:.3g} {unit}"


def in_share(row: dict[str, Any]) -> str:
    """How much of the ceiling a call reaches, and which one it is."""
    return "–" if row["share"] is None else f"{row['share']:.0%} of {row['bound']}"


def joined(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The numbers of several runs on one machine, each of some workloads; raises `ValueError` if devices differ."""
    found: dict[str, Any] = {"devices": {}, "ceilings": None, "runs": [], "compile": []}
    for numbers in runs:
        for tool, device in numbers["devices"].items():
            if found["devices"].setdefault(tool, device) != device:
                raise ValueError(f"{tool} was measured on {found['devices'][tool]['name']} and on {device['name']}")
        found["ceilings"] = found["ceilings"] or numbers["ceilings"]
        found["runs"] += numbers["runs"]
        found["compile"] += numbers["compile"]
    return found


def text(numbers: dict[str, Any]) -> str:
    """All of it."""
    parts = [
        devices(numbers),
        f"## What the device can do\n\n{ceilings(numbers['ceilings'])}",
        f"## Times\n\n{times(numbers['runs'])}",
        f"## The first call\n\n{compiling(numbers['compile'])}",
        f"## Marks\n\n{listed(marks(numbers))}",
    ]
    return "\n\n".join(parts)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.report", description=__doc__)
    parser.add_argument("numbers", type=Path, nargs="*", default=[Path("build/gpu.json")])
    options = parser.parse_args(argv)
    print(text(joined([json.loads(path.read_text(encoding="utf-8")) for path in options.numbers])))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
