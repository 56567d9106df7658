"""`python -m benchmarks.report [NUMBERS]`: what `python -m benchmarks` has measured, as a table for a page."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.__main__ import FLOORS

COLUMNS = ("workload", "call", "dlang", "÷ value", "fastest peer", "dlang is ahead", "C")


def table(runs: Sequence[dict[str, Any]]) -> str:
    """A row for each call; the last line has the geometric mean of the ratios."""
    lines = [f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|"]
    ratios: list[float] = []
    for run in runs:
        title = " ".join(part for part in (f"`{run['workload']}`", run["size"], run["dtype"]) if part)
        for call in dict.fromkeys(row["call"] for row in run["rows"]):
            rows = {row["tool"]: row for row in run["rows"] if row["call"] == call}
            own = rows.pop("dlang", None)
            if own is None:
                continue
            floors = [rows.pop(tool) for tool in FLOORS if tool in rows]
            best = min(rows.values(), key=lambda row: row["median_s"], default=None)
            ahead = run["ahead"][call]
            ratios += [ahead] if ahead is not None else []
            cells = [
                title, call, shown(own["median_s"]), f"{own['times_value']:.2f}",
                "–" if best is None else f"{best['tool']}, {shown(best['median_s'])}",
                "–" if ahead is None else f"{ahead:.2f} ×",
                shown(floors[0]["median_s"]) if floors else "–",
            ]  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    if ratios:
        lines.append(f"\nGeometric mean of the ratios: {statistics.geometric_mean(ratios):.2f}.")
    return "\n".join(lines)


def shown(seconds: float) -> str:
    """A time with three digits, in a unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def main(argv: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if argv is None else argv
    path = Path(given[0] if given else "build/benchmarks.json")
    numbers = json.loads(path.read_text(encoding="utf-8"))
    print(f"{numbers['machine']['cpu']}, {numbers['machine']['system']}\n")
    print(table(numbers["runs"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
