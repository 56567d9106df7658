"""`python -m benchmarks.spellings.worker KERNEL`: measures all spellings of one kernel, in a process of its own.

Answers are lines of JSON. A spelling that takes more than `LIMIT` seconds of the processor ends the process by a
signal; the parent then knows from the last line what was at work, and starts another process that leaves it out.
"""

from __future__ import annotations

import argparse
import gc
import json
import signal
import statistics
import sys
from collections.abc import Callable, Sequence
from time import thread_time
from typing import Any

from benchmarks.spellings.agreement import Answer, answer, finite, outliers
from benchmarks.spellings.kernel import GROWTH, Kernel, differentiated, spellings
from benchmarks.spellings.kernels import KERNELS

LIMIT = 30.0
"""Seconds of the processor for one spelling at one size, with its compilation."""
SAMPLE = 2e-3
"""Seconds that a sample takes at least, where one call takes less."""

Call = Callable[..., Any]
KINDS = ("value", "gradient")


def say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def limit(seconds: float) -> None:
    """Ends the process when it has taken so many more seconds of the processor; the last limit counts, 0 is none."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def tried(kernel: Kernel, function: Any, arguments: Sequence[Any]) -> tuple[dict[str, Call], Answer] | str:
    """The calls of a spelling with its answer, once both have run; or why it has none."""
    both = differentiated(kernel, function)
    try:
        value, found = float(function(*arguments)), answer(both(*arguments))
    except Exception as error:
        return (str(error).strip().splitlines() or [type(error).__name__])[0]
    if not finite(found):
        return "the value or the gradient is not finite"
    if not abs(value - found.value) <= kernel.tolerance * abs(value):
        return f"the value is {value!r}, and {found.value!r} where the gradient is taken"
    return {"value": function, "gradient": both}, found


def agreeing(
    kernel: Kernel, functions: dict[str, Any], arguments: Sequence[Any], scale: int
) -> dict[str, dict[str, Call]]:
    """The calls of those spellings that run and agree; the others are reported as failures."""
    calls: dict[str, dict[str, Call]] = {}
    answers: dict[str, Answer] = {}
    for name, function in functions.items():
        say(begin=name, scale=scale)
        limit(LIMIT)
        match tried(kernel, function, arguments):
            case str() as why:
                say(failed=name, scale=scale, why=why)
            case made, found:
                calls[name], answers[name] = made, found
    limit(0)
    for name, why in outliers(answers, kernel.tolerance).items():
        say(failed=name, scale=scale, why=why)
        del calls[name]
    return calls


def seconds(call: Call, arguments: Sequence[Any], times: int) -> float:
    """The time of the processor for one call, the mean of so many, by the clock of the one thread that there is.

    Linux lets the clock of the process stand still from tick to tick while, and for a moment after, there is a limit.
    """
    start = thread_time()
    for _ in range(times):
        call(*arguments)
    return (thread_time() - start) / times


def measured(
    calls: dict[str, dict[str, Call]], arguments: Sequence[Any], budget: float, rounds: int
) -> dict[str, dict[str, float]]:
    """The median times by spelling and kind: samples are taken in turn, so that a disturbance meets all alike."""
    tasks = [(name, kind) for name in calls for kind in KINDS]
    once = {(name, kind): seconds(calls[name][kind], arguments, 1) for name, kind in tasks}
    times = {task: max(1, int(SAMPLE / max(t, 1e-7))) for task, t in once.items()}
    one_round = sum(once[task] * times[task] for task in tasks)
    samples: dict[tuple[str, str], list[float]] = {task: [] for task in tasks}
    gc.collect()
    gc.disable()
    for _ in range(max(3, min(rounds, int(budget / max(one_round, 1e-9))))):
        for name, kind in tasks:
            samples[name, kind].append(seconds(calls[name][kind], arguments, times[name, kind]))
    gc.enable()
    return {name: {kind: statistics.median(samples[name, kind]) for kind in KINDS} for name in calls}


def main(argv: Sequence[str] | None = None) -> None:
    import dlang

    parser = argparse.ArgumentParser(prog="python -m benchmarks.spellings.worker", description=__doc__)
    parser.add_argument("kernel")
    parser.add_argument("--budget", type=float, default=8.0, help="seconds of samples at each size, about")
    parser.add_argument("--rounds", type=int, default=31, help="samples of each call, at most")
    parser.add_argument("--skip", action="append", default=[], metavar="SPELLING:SCALE")
    options = parser.parse_args(argv)
    kernel = next(k for k in KERNELS if k.name == options.kernel)
    say(begin="", scale=0)
    functions = spellings(dlang.load(kernel.path))
    say(names=list(functions))
    for scale in (1, GROWTH):
        arguments = list(kernel.made(kernel.grown(scale)).values())
        wanted = {name: f for name, f in functions.items() if f"{name}:{scale}" not in options.skip}
        calls = agreeing(kernel, wanted, arguments, scale)
        say(begin="", scale=scale)
        for name, times in measured(calls, arguments, options.budget, options.rounds).items():
            say(measured=name, scale=scale, **times)


if __name__ == "__main__":
    sys.exit(main())
