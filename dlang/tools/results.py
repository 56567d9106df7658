"""Benchmarks that were saved, and how later ones compare with them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dlang import __version__
from dlang.diagnostics import DlangError, error
from dlang.lazy_modules import lazy_module
from dlang.tools.files import replace_file
from dlang.tools.machine import processor_name
from dlang.tools.timing import Times
from dlang.typecheck.modules import unreadable

if TYPE_CHECKING:
    from dlang.runtime import threads
else:
    threads = lazy_module("dlang.runtime.threads")


FORMAT = 1
SURE = 3.0
"""Standard errors that two medians have to be apart."""

Verdict = Literal["slower", "faster", "same", "unclear"]
Key = tuple[str, str]
"""The file of a benchmark, and its name."""


@dataclass(frozen=True, slots=True)
class Saved:
    """machine: on which the times were measured."""

    machine: Mapping[str, Any]
    times: Mapping[Key, Times]


def this_machine() -> dict[str, Any]:
    return {"dlang": __version__, "processor": processor_name(), "threads": threads.default_pool().threads}


def save(path: str, times: Mapping[Key, Times]) -> None:
    """Writes times for `read_saved`. E0822 where that is impossible."""
    found = [
        {"file": file, "name": name, "calls": t.calls, "median": t.median, "min": t.least, "mad": t.deviation,
         "rounds": [list(samples) for samples in t.rounds]}
        for (file, name), t in times.items()
    ]  # fmt: skip
    content = {"format": FORMAT, "machine": this_machine(), "benchmarks": found}
    replace_file(path, json.dumps(content, indent=1) + "\n")


def read_saved(path: str) -> Saved:
    """Reads a file that `save` has written. E0951 if there is no such file, E0993 if it is something else."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as e:
        raise unreadable(path, e) from None
    except ValueError:
        raise _not_saved(path) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _not_saved(path)
    try:
        times = {(b["file"], b["name"]): Times(tuple(tuple(map(float, r)) for r in b["rounds"]), int(b["calls"]))
                 for b in content["benchmarks"]}  # fmt: skip
        if not all(t.rounds and all(r and min(r) > 0 for r in t.rounds) for t in times.values()):
            raise _not_saved(path)
        return Saved(dict(content["machine"]), times)
    except (KeyError, TypeError, ValueError):
        raise _not_saved(path) from None


def _not_saved(path: str) -> DlangError:
    help = ("write such a file by `dlc bench --save FILE PATH`",)
    return error("E0993", f"`{path}` does not hold benchmarks that this version has saved", None, help=help)


def verdict(before: Times, now: Times, threshold: float) -> Verdict:
    """Compares times: they differ if it is by more than a part of them, and by more than their noise.

    The least times, which a busy neighbour can only make longer, have to agree with the medians.
    """
    ratio, least = now.median / before.median, now.least / before.least
    apart = abs(now.median - before.median) > SURE * math.hypot(before.uncertainty, now.uncertainty)
    most = 1 + threshold
    if 1 / most <= ratio <= most:
        return "same"
    if apart and min(ratio, least) > most:
        return "slower"
    if apart and max(ratio, least) < 1 / most:
        return "faster"
    return "unclear"


def differences(machine: Mapping[str, Any]) -> Sequence[str]:
    """In what a machine differs from this one."""
    here = this_machine()
    return [f"{name} {machine.get(name)}, now {value}" for name, value in here.items() if machine.get(name) != value]
