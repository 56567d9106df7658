"""`python -m benchmarks.adbench`: the objectives of ADBench and their derivatives, timed.

    python -m benchmarks.adbench                     # random instances of the sizes of the benchmark
    python -m benchmarks.adbench --data DIRECTORY    # its own files, and `reference.npz`, to compare with

Times are the least of several, of a call from Python, in seconds of the processor, on one thread. Beside them stands
what the first call took, compilation included, and with references how far objective and derivative are from them, by
the measure of the benchmark. Fails if that is above 1e-8.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.adbench.problems import INSTANCES, TOLERANCE, Instance, worst

HEADER = f"{'':<16}{'objective':>12}{'derivative':>12}{'ratio':>7}{'first calls':>13}{'error':>10}{'error':>10}"


def least(call: Callable[[], Any], seconds: float) -> float:
    """The least processor time of a call, of as many as fit into `seconds`, at least three."""
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def measured(instance: Instance, module: Any, data: Path | None, references: Any, seconds: float) -> bool:
    """Prints the line of an instance; whether it is as exact as it has to be."""
    problem = instance.problem
    args = problem.made(module, *instance.sizes) if data is None else problem.read(module, data / instance.file)
    objective, derivative = module.objective, getattr(module, problem.derivative_name)
    start = time.perf_counter()
    value, slope = objective(*args), derivative(*args)
    first = time.perf_counter() - start
    t, dt = least(lambda: objective(*args), seconds), least(lambda: derivative(*args), seconds)
    name = instance.reference or Path(instance.file).stem
    errors: list[float] = []
    if references is not None and instance.reference is not None:
        errors.append(worst(problem.value(value), references[f"{instance.reference}.F"]))
        errors.append(worst(problem.derivative(slope), references[f"{instance.reference}.J"]))
    shown = "".join(f"{e:>10.1e}" for e in errors)
    print(f"{name:<16}{t * 1e3:>9.3f} ms{dt * 1e3:>9.3f} ms{dt / t:>7.2f}{first:>11.2f} s{shown}", flush=True)
    return all(e <= TOLERANCE for e in errors)


def main(argv: Sequence[str] | None = None) -> int:
    import numpy as np

    import dlang

    os.environ["DLANG_TIERS"] = "off"  # calls are measured as they are in the long run

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.adbench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the directory of the benchmark's files")
    parser.add_argument("--only", default="", help="instances of which the file's name contains this")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each call is repeated")
    options = parser.parse_args(argv)
    chosen = [i for i in INSTANCES if options.only in i.file]
    has_references = options.data is not None and (options.data / "reference.npz").exists()
    references = np.load(options.data / "reference.npz") if has_references else None
    print(HEADER)
    modules = {i.problem.name: dlang.load(i.problem.path) for i in chosen}
    exact = [measured(i, modules[i.problem.name], options.data, references, options.seconds) for i in chosen]
    return int(not all(exact))


if __name__ == "__main__":
    sys.exit(main())
