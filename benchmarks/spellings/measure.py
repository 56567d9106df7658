"""Measures the spellings of a kernel in a process of its own, and starts another where one of them ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.spellings.kernel import GROWTH, Kernel
from benchmarks.spellings.worker import LIMIT
from benchmarks.tools import ROOT
from benchmarks.workers import THREADS

ALONE = {**dict.fromkeys(THREADS, "1"), "DLANG_TIERS": "off"}
"""One thread, and the best code from the start."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A spelling that gives no times at a size, and why."""

    spelling: str
    scale: int
    why: str


@dataclass(slots=True)
class Result:
    """The measurements of a kernel. times: seconds by spelling, scale, and `value` or `gradient`."""

    name: str
    title: str
    spellings: list[str] = field(default_factory=list)
    times: dict[str, dict[int, dict[str, float]]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


def measure(kernel: Kernel, options: Sequence[str]) -> Result:
    """options: those of the worker beside the spellings that it leaves out."""
    result = Result(kernel.name, kernel.title)
    skipped: list[str] = []
    while True:
        command = [sys.executable, "-m", "benchmarks.spellings.worker", kernel.name, *options]
        command += [f"--skip={each}" for each in skipped]
        ended = subprocess.run(command, cwd=ROOT, env={**os.environ, **ALONE}, capture_output=True, text=True)
        spelling, scale = noted(
            result, (json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{"))
        )
        if ended.returncode == 0:
            return result
        result.failures.append(Failure(spelling, scale, reason(ended.returncode, ended.stderr)))
        if not spelling:
            return result
        # what is too slow at the smaller size is not tried at the larger one
        skipped += [f"{spelling}:{s}" for s in (1, GROWTH) if s >= scale]


def noted(result: Result, messages: Iterable[Mapping[str, Any]]) -> tuple[str, int]:
    """Takes down what a worker says; gives the spelling that it was at in the end, and the scale."""
    at = "", 0
    for message in messages:
        match message:
            case {"begin": spelling, "scale": scale}:
                at = spelling, scale
            case {"names": names}:
                result.spellings = names
            case {"failed": spelling, "scale": scale, "why": why}:
                if (failure := Failure(spelling, scale, why)) not in result.failures:
                    result.failures.append(failure)
            case {"measured": spelling, "scale": scale, "value": value, "gradient": gradient}:
                result.times.setdefault(spelling, {})[scale] = {"value": value, "gradient": gradient}
    return at


def reason(status: int, log: str) -> str:
    if status == -getattr(signal, "SIGPROF", 0):
        return f"it took more than {LIMIT:.0f} s"
    last = [line.strip() for line in log.splitlines() if line.strip()]
    return f"the process ended with {status}" + (f": {last[-1]}" if last else "")
