"""`make fuzz`: random well-typed programs, run in every way; prints those on which the ways disagree, by seed.

python -m tests.fuzz --programs 10000 --seed 0
python -m tests.fuzz --derivatives …       functions of one float, differentiated in four ways
python -m tests.fuzz --threads …           every loop in pieces, on 1, 2 and 5 threads and in quick code: the same bits
python -m tests.fuzz --calls …             called from Python, also directly and with some arguments bound
python -m tests.fuzz --seams …             features that meet, in both modes of derivatives, and split
python -m tests.fuzz --edges …             at sizes 0 and 1, with indices from data, each access to memory checked
python -m tests.fuzz --costs …             counted at sizes that double, beside the law of cost
python -m tests.fuzz --spellings …         kernels in several spellings, whose counted costs have to be alike
python -m tests.fuzz --sanitize …          each access to memory is checked; with each of these
python -m tests.fuzz --show 4711           the text of one program, and what is wrong with it
python -m tests.fuzz --shrink 4711         made as small as it can be, written to a file
python -m tests.fuzz --file small.dl       what is wrong with a program in a file

The first programs on which something is wrong are made smaller in the end.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from dlang.runtime.engine import CHECKS
from tests.fuzz.modes import WAYS, Mode
from tests.fuzz.shrink import Shrinker

AT_ONCE = 50  # programs of one process
PATIENCE = 20.0  # seconds of processor time for each program, on average
WAITING = 30.0  # how many times as long it may take on a busy machine
SMALLER = 3  # how many programs are made smaller
FOUND = 3  # the exit code of a process that has found something


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program, or what was that of a file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int, metavar="SEED")
    parser.add_argument("--shrink", type=int, metavar="SEED")
    parser.add_argument("--file", type=Path, metavar="FILE", help="a program, in the place of one that is made")
    parser.add_argument(
        "--smaller", type=int, default=SMALLER, metavar="N", help="how many are made smaller in the end"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("build/fuzz"), metavar="FOLDER", help="where these are written"
    )
    parser.add_argument("--derivatives", action="store_true", help="differentiate the programs")
    ways = parser.add_mutually_exclusive_group()
    for name, way in WAYS.items():
        ways.add_argument(f"--{name}", action="store_const", dest="way", const=name, default="", help=way.help)
    parser.add_argument("--sanitize", action="store_true", help="check each access to memory")
    parser.add_argument("--only", action="store_true", help="in this process")
    options = parser.parse_args(argv)
    if options.sanitize:
        os.environ[CHECKS] = "1"  # of the processes that this one starts, too
    mode = Mode(options.way, options.derivatives)
    if options.only:
        limit_time(options.programs if options.file is None else 2)
    if options.file is not None:
        return show(options.file.read_text(), mode, options.seed)
    if options.show is not None:
        return show(mode.program(options.show), mode, options.show)
    if options.shrink is not None:
        return shrink(mode, options.shrink, options.out)
    seeds = range(options.seed, options.seed + options.programs)
    if options.only:
        for seed in seeds:
            found = mode.wrong(mode.program(seed), seed)
            if found is not None:
                print(f"{seed}: {' '.join(str(found).split())}", flush=True)
        return 0
    return run(seeds, mode, options)


def run(seeds: range, mode: Mode, options: argparse.Namespace) -> int:
    """Looks at the programs of some seeds in several processes."""
    start = time.monotonic()
    wrong: list[int] = []
    pieces = [seeds[k : k + AT_ONCE] for k in range(0, len(seeds), AT_ONCE)]
    with ThreadPoolExecutor(options.jobs) as pool:
        for lines in pool.map(partial(outcome, mode=mode), pieces):
            for line in lines:
                wrong.append(int(line.split(":")[0]))
                print(line, flush=True)
    print(f"{len(seeds)} programs, {len(wrong)} disagreements ({time.monotonic() - start:.0f} s)", flush=True)
    for seed in wrong[: options.smaller]:
        shrink(mode, seed, options.out)
    return 1 if wrong else 0


def limit_time(programs: int) -> None:
    """Ends this process when it has used more processor time than so many programs may."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(PATIENCE * programs), resource.RLIM_INFINITY))


def show(text: str, mode: Mode, seed: int) -> int:
    """Prints a program, and what is wrong with it."""
    print(text, flush=True)
    found = mode.wrong(text, seed)
    print(found or "all ways to run it agree")
    return 0 if found is None else FOUND


# ---- programs made smaller -------------------------------------------------------------------------------------------
def shrink(mode: Mode, seed: int, folder: Path) -> int:
    """Prints the smallest program that has what is wrong with that of a seed, and how to run it again."""
    text = mode.program(seed)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{'-'.join([*[o.strip('-') for o in mode.options], str(seed)])}.dl"
    path.write_text(text)
    ended = in_a_process(path, mode, seed)
    if ended == 0:
        print(f"nothing is wrong with the program of the seed {seed}")
        return 0
    if ended == FOUND:
        first = mode.wrong(text, seed)
        assert first is not None, "found a moment ago, in another process"
        kind = first.kind
        small = Shrinker(lambda t: (found := mode.wrong(t, seed)) is not None and found.kind == kind).shrunk(text)
        said = str(mode.wrong(small, seed))
    else:  # the process was ended: by a crash, or because it hangs

        def ends_alike(candidate: str) -> bool:
            path.write_text(candidate)
            return in_a_process(path, mode, seed) == ended

        small = Shrinker(ends_alike).shrunk(text)
        said = f"the process ends with {ended}"
    path.write_text(small)
    checks = ["--sanitize"] if CHECKS in os.environ else []
    again = ["python -m tests.fuzz", *mode.options, *checks, "--seed", str(seed), "--file", str(path)]
    print(f"{small}\n{said}\n{' '.join(again)}")
    return 1


def in_a_process(path: Path, mode: Mode, seed: int) -> int:
    """How a process ends that looks at a program in a file."""
    command = [sys.executable, "-m", "tests.fuzz", "--only", *mode.options, "--seed", str(seed), "--file", str(path)]
    try:
        return subprocess.run(command, capture_output=True, timeout=2 * PATIENCE * WAITING).returncode
    except subprocess.TimeoutExpired:
        return 124


def outcome(seeds: range, mode: Mode) -> list[str]:
    """A line for each program on which something is wrong; a crash or a hang is found by running them one by one."""
    command = [sys.executable, "-m", "tests.fuzz", "--only", "--seed", str(seeds[0]), "--programs", str(len(seeds))]
    try:
        time_out = PATIENCE * WAITING * len(seeds)
        done = subprocess.run([*command, *mode.options], capture_output=True, text=True, timeout=time_out)
        if done.returncode == 0:
            return done.stdout.splitlines()
        what = f"the process ended with {done.returncode}: {done.stderr.strip()[-300:]}"
        if done.returncode == -signal.SIGXCPU:
            what = f"no result after {PATIENCE * len(seeds):.0f} s of processor time"
    except subprocess.TimeoutExpired:
        what = f"no result after {time_out:.0f} s"
    if len(seeds) == 1:
        return [f"{seeds[0]}: {what}"]
    return list(one_by_one(seeds, mode))


def one_by_one(seeds: range, mode: Mode) -> Iterator[str]:
    for seed in seeds:
        yield from outcome(range(seed, seed + 1), mode)


if __name__ == "__main__":
    sys.exit(main())
