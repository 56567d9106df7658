"""`:time` and `:bench`: how long an input takes, once or many times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

from dlang.diagnostics import Source, error
from dlang.driver import call
from dlang.grammar import syntax as s
from dlang.runtime.memory import in_units, memory_use
from dlang.tools.repl.compose import RESULT, decide
from dlang.tools.repl.session import Session
from dlang.typecheck.types import UNIT

SECONDS, FEWEST_RUNS, MOST_RUNS = 0.5, 4, 10_000


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of one run. empty: of a run that computes nothing; memory: bytes held at most, if that is known."""

    runs: int
    least: float
    middle: float
    empty: float
    memory: int | None

    def __str__(self) -> str:
        times = f"{seconds(self.least)} at least, {seconds(self.middle)} in the middle of {self.runs:,} runs"
        memory = "" if self.memory is None else f"\n{in_units(self.memory)} of memory at most"
        return f"{times}; {seconds(self.empty)} of it is the call{memory}"


def bench(session: Session, text: str) -> Measured:
    """Runs an expression again and again, without keeping its value. Raises `DlangError`."""
    source, e = session.expression(text, ":bench")
    run = _prepared(session, source, e)
    empty_source, empty = session.expression("()", ":bench")
    nothing = _prepared(session, empty_source, empty)
    times = _timed(run, SECONDS)
    return Measured(len(times), min(times), median(times), min(_timed(nothing, SECONDS / 10)), _memory(session, run))


def _prepared(session: Session, source: Source, e: s.Expr) -> Callable[[], Any]:
    body = [s.Let(e.span, s.PatternName(e.span, RESULT), None, e)]
    decl, given = session.composed(session.checked, source, body, [RESULT])
    if effects := decl.effects - {"random"}:
        help = ("`:time` runs it once",)
        message = f"an expression with the effect {' and '.join(sorted(effects))} is not run again and again"
        raise error("E0982", message, e.span, help=help)
    decide(decl, {RESULT: decl.result or UNIT}, e.span)
    runner, entry = session.compiled(decl, tiers=False)
    leaves, seed = session.leaves(given), session.state.seed
    return lambda: call(runner, entry, leaves=leaves, seed=seed)


def _timed(run: Callable[[], Any], limit: float) -> list[float]:
    """Seconds of runs, for about so many seconds in all; the first is left out."""
    times: list[float] = []
    until = perf_counter() + limit
    while len(times) < MOST_RUNS:
        started = perf_counter()
        run()
        ended = perf_counter()
        times.append(ended - started)
        if ended > until and len(times) >= FEWEST_RUNS:
            break
    return times[1:]


def _memory(session: Session, run: Callable[[], Any]) -> int | None:
    if session.backend != "cpu":
        return None
    with memory_use() as used:
        run()
    return used.peak


def seconds(time: float) -> str:
    """A time for people."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if time >= scale:
            return f"{time / scale:.3g} {unit}"
    return f"{time / 1e-9:.3g} ns"
