"""`make fuzz`: random well-typed programs, run in every way; prints those on which the ways disagree, by seed.

python -m tests.fuzz --programs 10000 --seed 0
python -m tests.fuzz --derivatives …       functions of one float, differentiated in four ways
python -m tests.fuzz --threads …           every loop in pieces, on 1, 2 and 5 threads and in quick code: the same bits
python -m tests.fuzz --calls …         called from Python, also directly and with some arguments bound
python -m tests.fuzz --sanitize …      each access to memory is checked; with each of these
python -m tests.fuzz --show 4711           the text of one program, and what is wrong with it
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from random import Random

from dlang.runtime.observers import CHECKS
from dlang.runtime.platform.threads import Pool, new_pool
from tests.fuzz.bound import differing_calls
from tests.fuzz.compare import Disagreement, disagreement
from tests.fuzz.derivatives import wrong_derivative
from tests.fuzz.programs import differentiable, program
from tests.fuzz.threads import different_bits, gradient_of

AT_ONCE = 50  # programs of one process
PATIENCE = 20.0  # seconds for each program, on average


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int, metavar="SEED")
    parser.add_argument("--derivatives", action="store_true", help="differentiate the programs")
    parser.add_argument("--threads", action="store_true", help="compare numbers of threads")
    parser.add_argument("--calls", action="store_true", help="compare ways to call from Python")
    parser.add_argument("--sanitize", action="store_true", help="check each access to memory")
    parser.add_argument("--only", action="store_true", help="in this process")
    options = parser.parse_args()
    if options.sanitize:
        os.environ[CHECKS] = "1"  # of the processes that this one starts, too
    if options.show is not None:
        text, found = compared(options.show, options.derivatives, options.threads, options.calls)
        print(text)
        print(found or "all ways to run it agree")
        return 0
    seeds = range(options.seed, options.seed + options.programs)
    if options.only:
        for seed in seeds:
            _, found = compared(seed, options.derivatives, options.threads, options.calls)
            if found is not None:
                print(f"{seed}: {' '.join(str(found).split())}", flush=True)
        return 0
    start = time.monotonic()
    count = 0
    pieces = [seeds[k : k + AT_ONCE] for k in range(0, len(seeds), AT_ONCE)]
    with ThreadPoolExecutor(options.jobs) as pool:
        for lines in pool.map(partial(outcome, options=options), pieces):
            for line in lines:
                count += 1
                print(line, flush=True)
    print(f"{len(seeds)} programs, {count} disagreements ({time.monotonic() - start:.0f} s)")
    return 1 if count else 0


def compared(seed: int, derivatives: bool, threads: bool, calls: bool) -> tuple[str, Disagreement | None]:
    """A program, and what is wrong with it."""
    if calls:
        text = differentiable(Random(seed)) if derivatives else program(Random(seed))
        text = gradient_of(text) if derivatives else text
        return text, differing_calls(text, seed)
    if threads:
        text = differentiable(Random(seed)) if derivatives else program(Random(seed))
        return text, different_bits(gradient_of(text) if derivatives else text, pools())
    if derivatives:
        text = differentiable(Random(seed))
        return text, wrong_derivative(text, verify=seed % 4 == 0)
    text = program(Random(seed))
    return text, disagreement(text)


@cache
def pools() -> list[Pool]:
    return [new_pool(threads) for threads in (1, 2, 5)]


def outcome(seeds: range, options: argparse.Namespace) -> list[str]:
    """A line for each program on which something is wrong; a crash or a hang is found by running them one by one."""
    command = [sys.executable, "-m", "tests.fuzz", "--only", "--seed", str(seeds[0]), "--programs", str(len(seeds))]
    for mode in ("derivatives", "threads", "calls"):
        command += [f"--{mode}"] if getattr(options, mode) else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * len(seeds))
        if done.returncode == 0:
            return done.stdout.splitlines()
        what = f"the process ended with {done.returncode}: {done.stderr.strip()[-300:]}"
    except subprocess.TimeoutExpired:
        what = f"no result after {PATIENCE * len(seeds):.0f} s"
    if len(seeds) == 1:
        return [f"{seeds[0]}: {what}"]
    return list(one_by_one(seeds, options))


def one_by_one(seeds: range, options: argparse.Namespace) -> Iterator[str]:
    for seed in seeds:
        yield from outcome(range(seed, seed + 1), options)


if __name__ == "__main__":
    sys.exit(main())
