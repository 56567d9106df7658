"""`python -m tests.robustness [MINUTES] [SEED]`: ill-formed programs, until the time is over. See `make fuzz-front`."""

from __future__ import annotations

import random
import sys
import time

from dlang.diagnostics import Source, render
from dlang.driver import check
from tests.robustness.programs import TEXTS, mutation, scramble


def main(minutes: float = 1.0, seed: int = 0) -> int:
    end, number, total, most = time.monotonic() + 60 * minutes, seed, 0, (0, 0)
    while time.monotonic() < end:
        rng = random.Random(number)
        name, text = rng.choice(sorted(TEXTS.items()))
        changed = rng.choice([mutation, mutation, scramble])(text, rng)
        begun = time.monotonic()
        try:
            found = check(Source(f"{name}.dl", changed)).diagnostics
            for d in found:
                render(d)
        except Exception as e:
            print(f"seed {number}: {type(e).__name__}: {e}\n{changed}")
            return 1
        if time.monotonic() - begun > 5:
            print(f"seed {number}: {time.monotonic() - begun:.1f} s\n{changed}")
            return 1
        total, most, number = total + len(found), max(most, (len(found), number)), number + 1
    count = max(1, number - seed)
    print(f"{count} programs, {total / count:.2f} messages each, at most {most[0]} (seed {most[1]})")
    return 0


if __name__ == "__main__":
    sys.exit(main(*[kind(a) for kind, a in zip((float, int), sys.argv[1:])]))
