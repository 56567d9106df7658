"""`python -m benchmarks spellings`: how much the speed of a program depends on how it is spelled.

    python -m benchmarks spellings                        # all kernels: a table each, and one of all
    python -m benchmarks spellings rms_norm ridge         # some of them
    python -m benchmarks spellings --quick                # fewer samples

Each kernel is one function in six to eight spellings, which are checked to agree in value and gradient, and timed on
one thread at two sizes: the processor's time, in samples that are taken in turn. Fails if a spelling fails, or gives
something else than most do.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.spellings.kernels import KERNELS
from benchmarks.spellings.measure import measure
from benchmarks.spellings.report import overview, summary, table
from benchmarks.workers import cpu_model

QUICK = ("--budget=1.5", "--rounds=7")


def main(argv: Sequence[str] | None = None) -> int:
    names = [kernel.name for kernel in KERNELS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks spellings", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kernels", nargs="*", help=f"of {', '.join(names)}; default all")
    parser.add_argument("--quick", action="store_true", help="fewer samples")
    parser.add_argument("--json", type=Path, default=Path("build/spellings.json"), help="where the numbers go")
    options = parser.parse_args(argv)
    if unknown := [name for name in options.kernels if name not in names]:
        parser.error(f"unknown kernels: {', '.join(unknown)}")
    results = []
    for kernel in KERNELS:
        if not options.kernels or kernel.name in options.kernels:
            results.append(measure(kernel, QUICK if options.quick else ()))
            print(table(results[-1]), flush=True)
    print(overview(results))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    numbers = {"machine": {"cpu": cpu_model()}, "kernels": [asdict(r) for r in results], "summary": summary(results)}
    options.json.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    print(f"\nnumbers in {options.json}")
    return int(any(result.failures for result in results))


if __name__ == "__main__":
    sys.exit(main())
