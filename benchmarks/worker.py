"""`python -m benchmarks.worker`: one tool at one instance of a workload, in a process of its own.

It prepares the calls, does each once and saves what they give, then times a sample of each for every line that comes
in. Answers are lines of JSON on what was the standard output; what the tools print goes to the standard error.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.memory import peak_of, tape_of
from benchmarks.tools import NotInstalled, another, calls, leaves, load, workload_of


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worker", description=main.__doc__)
    parser.add_argument("workload")
    parser.add_argument("tool")
    parser.add_argument("size")
    parser.add_argument("dtype")
    parser.add_argument("results", type=Path, help="where the results of the first calls go, a file of NumPy's")
    parser.add_argument("--min-time", type=float, default=0.05, help="seconds in a sample, at least")
    parser.add_argument("--call", help="do no more than this call, once")
    parser.add_argument("--after-another", action="store_true", help="compile and run another program before")
    options = parser.parse_args()

    answer = answering()
    workload = workload_of(options.workload)
    data = workload.data(options.size, options.dtype)
    try:
        load(options.tool)
        if options.after_another:
            another(options.tool, options.dtype)
        start = time.perf_counter()
        prepared = calls(workload, options.tool, data)
        prepare_s = time.perf_counter() - start
    except NotInstalled as e:
        answer(missing=str(e))
        return
    first, peak, results = {}, {}, {}
    value = next(iter(prepared), None)  # a tool may have no program for this size
    for name, call in prepared.items():
        if options.call not in (None, name):
            continue
        start = time.perf_counter()
        result = call()
        first[name] = time.perf_counter() - start
        results |= {f"{name}/{k}": leaf for k, leaf in enumerate(leaves(result))}
        del result
        peak[name] = peak_of(options.tool, call)
    save(options.results, results)
    if options.call is not None:
        answer(first_s=first, peak_bytes=peak, tape_bytes={}, prepare_s=prepare_s)
        return
    tape = {name: tape_of(options.tool, call) for name, call in prepared.items() if name != value}
    steps = {name: steps_for(call, options.min_time) for name, call in prepared.items()}
    answer(first_s=first, peak_bytes=peak, tape_bytes=tape, prepare_s=prepare_s)
    gc.collect()
    gc.disable()
    for _ in sys.stdin:
        answer(step_s={name: timed(call, steps[name]) for name, call in prepared.items()})


def answering() -> Callable[..., None]:
    """Sends its keywords to the parent; from now on nobody else writes to what was the standard output."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**fields: Any) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    return answer


def save(path: Path, arrays: dict[str, Any]) -> None:
    import numpy as np

    np.savez(path, **arrays)


def steps_for(call: Callable[[], Any], min_time: float, finish: Callable[[Any], None] = lambda result: None) -> int:
    """How many calls take `min_time` seconds; finish: as `timed` has it."""
    steps = 1
    while (elapsed := timed(call, steps, finish) * steps) < min_time:
        steps = max(2 * steps, int(steps * min(50.0, 1.1 * min_time / max(elapsed, 1e-9))))
    return steps


def timed(call: Callable[[], Any], steps: int, finish: Callable[[Any], None] = lambda result: None) -> float:
    """Seconds for a call, the mean of `steps`. finish: waits until the last result is complete."""
    start = time.perf_counter()
    for _ in range(steps - 1):
        call()
    finish(call())
    return (time.perf_counter() - start) / steps


if __name__ == "__main__":
    main()
