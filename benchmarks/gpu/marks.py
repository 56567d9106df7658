"""What programs should reach on a GPU, and whether they do: judged by measurements of one device, and only of a GPU."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from benchmarks.report import in_time, title_of

ELEMENTWISE, ROWS = ("elementwise",), ("reductions", "softmax", "layer_norm")
STEP = ("mlp", "128", "f32", "step")
"""The step whose speed counts: one of a batch so small that launches are most of it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """met is None where nothing tells; found says what was found, or why nothing was."""

    title: str
    found: str
    met: bool | None


def marks(numbers: dict[str, Any]) -> list[Mark]:
    """All marks, judged by what has been measured."""
    return [
        _share(numbers, "fused elementwise", ELEMENTWISE, 0.9),
        _share(numbers, "row operations", ROWS, 0.8),
        _ahead(numbers, "torch", "PyTorch", 3.0),
        _ahead(numbers, "jax", "jax.jit", 1.0),
        _compile(numbers, "cold", 1.0),
        _compile(numbers, "warm", 0.05),
    ]


def listed(found: Collection[Mark]) -> str:
    """A line for each mark."""
    words = {True: "met", False: "missed", None: "not judged"}
    return "\n".join(f"  {words[mark.met]:<12}{mark.title}: {mark.found}" for mark in found)


def _unjudged(numbers: dict[str, Any]) -> str | None:
    """Why nothing can be said of dlang on a GPU, if so."""
    device = numbers["devices"].get("dlang")
    if device is None:
        return "dlang was not measured"
    return None if device["gpu"] else f"dlang ran on {device['name']}"


def _share(numbers: dict[str, Any], what: str, workloads: Collection[str], wanted: float) -> Mark:
    """The lowest share of what a copy reaches."""
    title = f"{what} at {wanted:.0%} or more of the bandwidth of a copy"
    if reason := _unjudged(numbers):
        return Mark(title, reason, None)
    ceilings = numbers["ceilings"]
    if ceilings is None or ceilings["device"] != numbers["devices"]["dlang"]["name"]:
        return Mark(title, "no copy was measured on this device", None)
    found = [
        (row["bytes"] / row["median_s"] / ceilings["copy"], f"{title_of(run)} {row['call']}")
        for run in numbers["runs"]
        if run["workload"] in workloads
        for row in run["rows"]
        if row["tool"] == "dlang"
    ]
    if not found:
        return Mark(title, "not measured", None)
    share, where = min(found)
    return Mark(title, f"{share:.0%} at least, by {where}", share >= wanted)


def _ahead(numbers: dict[str, Any], tool: str, name: str, wanted: float) -> Mark:
    """How much faster a step of training is."""
    workload, size, dtype, call = STEP
    title = f"a step of `{workload}` {size} {dtype} at {wanted:g} × or more the speed of {name}"
    if reason := _unjudged(numbers):
        return Mark(title, reason, None)
    for run in numbers["runs"]:
        if (run["workload"], run["size"], run["dtype"]) == (workload, size, dtype):
            ratio = run["ahead"].get(call, {}).get(tool)
            if ratio is not None:
                return Mark(title, f"{ratio:.2f} ×", ratio >= wanted)
    return Mark(title, "not measured", None)


def _compile(numbers: dict[str, Any], kind: str, wanted: float) -> Mark:
    """The longest first call."""
    title = f"a first call that {'compiles' if kind == 'cold' else 'finds its code kept'} in {in_time(wanted)} or less"
    if reason := _unjudged(numbers):
        return Mark(title, reason, None)
    found = [(row[f"{kind}_s"], row["case"]) for row in numbers["compile"] if row["tool"] == "dlang"]
    if not found:
        return Mark(title, "not measured", None)
    seconds, where = max(found)
    return Mark(title, f"{in_time(seconds)} at most, by `{where}`", seconds <= wanted)
