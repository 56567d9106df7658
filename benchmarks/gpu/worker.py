"""`python -m benchmarks.gpu.worker`: one tool at one instance of a workload on a device, in a process of its own.

As `benchmarks.worker`, but calls of a sample follow one another without waiting, and the clock stops when all that they
asked of the device is done.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu.devices import placed, ready, sampled, unwaited
from benchmarks.tools import NotInstalled, another, calls, workload_of
from benchmarks.worker import answering, save, steps_for, timed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.worker", description=main.__doc__)
    parser.add_argument("workload")
    parser.add_argument("tool")
    parser.add_argument("size")
    parser.add_argument("dtype")
    parser.add_argument("results", type=Path, help="where the results of the first calls go, a file of NumPy's")
    parser.add_argument("--min-time", type=float, default=0.05, help="seconds in a sample, at least")
    parser.add_argument("--call", help="do no more than this call, once")
    parser.add_argument("--after-another", action="store_true", help="compile and run another program before")
    parser.add_argument("--small", action="store_true", help="a rehearsal without a GPU")
    options = parser.parse_args()

    answer = answering()
    workload = workload_of(options.workload)
    try:
        device = ready(options.tool, options.small)
        data = placed(device, workload.data(options.size, options.dtype))
        with device.within():
            if options.after_another:
                another(options.tool, options.dtype)
            start = time.perf_counter()
            prepared = unwaited(calls(workload, options.tool, data))
            prepare_s = time.perf_counter() - start
    except NotInstalled as e:
        answer(missing=str(e))
        return
    first: dict[str, float] = {}
    results: dict[str, Any] = {}
    for name, call in prepared.items():
        if options.call not in (None, name):
            continue
        start = time.perf_counter()
        result = call()
        device.finish(result)
        first[name] = time.perf_counter() - start
        results |= {f"{name}/{k}": leaf for k, leaf in enumerate(sampled(result))}
        del result
    save(options.results, results)
    described = {"name": device.name, "gpu": device.gpu}
    if options.call is not None:
        answer(first_s=first, prepare_s=prepare_s, device=described)
        return
    answer(first_s=first, prepare_s=prepare_s, device=described)
    gc.collect()
    gc.disable()
    steps: dict[str, int] = {}
    for _ in sys.stdin:
        # Counted when the others are idle, which they are from the first sample on.
        steps = steps or {name: steps_for(call, options.min_time, device.finish) for name, call in prepared.items()}
        answer(step_s={name: timed(call, steps[name], device.finish) for name, call in prepared.items()})


if __name__ == "__main__":
    main()
