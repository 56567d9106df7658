"""The law of spellings, what breaks it, and the tables of what was measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.report import in_time
from benchmarks.spellings.kernel import GROWTH, RECURSIVE
from benchmarks.spellings.measure import Result
from benchmarks.spellings.worker import KINDS

ALLOWED = 1.5
"""Times the best spelling that any other may take."""
ALLOWED_TO_RECURSION = 3.0
ALLOWED_GROWTH = 0.3
"""How much larger the exponent of a spelling may be than that of the best one at the larger size."""
SIZES = {1: "n", GROWTH: f"{GROWTH}n"}
LAW = (
    f"A spelling takes at most {ALLOWED} times the best one, with recursion or lists {ALLOWED_TO_RECURSION:.0f} times,"
    f" in value and gradient, at n and {GROWTH}n; and its exponent is at most {ALLOWED_GROWTH} above that of the best."
)


@dataclass(frozen=True, slots=True)
class Breach:
    """A spelling that takes too long, grows too fast, or fails. excess: the most that it takes of what is allowed."""

    kernel: str
    spelling: str
    what: str
    excess: float


def allowed(spelling: str) -> float:
    return ALLOWED_TO_RECURSION if spelling.startswith(RECURSIVE) else ALLOWED


def known(result: Result, kind: str, scale: int) -> dict[str, float]:
    """The seconds of each spelling that was measured at a size."""
    return {name: at[scale][kind] for name, at in result.times.items() if scale in at}


def ratios(result: Result, kind: str, scale: int) -> dict[str, float]:
    """The times of the best spelling that each takes."""
    times = known(result, kind, scale)
    best = min(times.values(), default=math.nan)
    return {name: seconds / best for name, seconds in times.items()}


def spread(result: Result, kind: str, scale: int) -> float | None:
    """The time of the worst spelling over that of the best."""
    return max(ratios(result, kind, scale).values(), default=None)


def exponents(result: Result, kind: str) -> dict[str, float]:
    """The exponents with which the times of spellings grow, of those that were measured at both sizes."""
    small, large = known(result, kind, 1), known(result, kind, GROWTH)
    return {name: math.log(large[name] / small[name]) / math.log(GROWTH) for name in small if name in large}


def breaches(result: Result) -> Iterator[Breach]:
    """One for each spelling that breaks the law, with all that it breaks."""
    found: dict[str, list[tuple[float, str]]] = {}
    for failure in result.failures:
        at = f" at {SIZES[failure.scale]}" if failure.scale in SIZES else ""
        found.setdefault(failure.spelling, []).append((math.inf, f"fails{at}: {failure.why}"))
    for scale, size in SIZES.items():
        for kind in KINDS:
            for name, ratio in ratios(result, kind, scale).items():
                if ratio > allowed(name):
                    found.setdefault(name, []).append((ratio / allowed(name), f"{kind} {size} {ratio:.2f} ×"))
    for kind in KINDS:
        grown, times = exponents(result, kind), known(result, kind, GROWTH)
        best = min(grown, key=lambda name: times[name], default=None)
        for name, exponent in grown.items():
            if best is not None and exponent > grown[best] + ALLOWED_GROWTH:
                what = f"{kind} grows with {exponent:.2f} ({grown[best]:.2f})"
                found.setdefault(name, []).append((GROWTH ** (exponent - grown[best] - ALLOWED_GROWTH), what))
    for name, reasons in found.items():
        yield Breach(result.name, name, ", ".join(text for _, text in reasons), max(excess for excess, _ in reasons))


def table(result: Result) -> str:
    """The spellings of a kernel, a row each: value and gradient at both sizes, times the best, and exponents."""
    head = [f"{kind} {size}" for size in SIZES.values() for kind in KINDS]
    columns = "".join(f"{text:>13}{'× best':>8}" for text in head)
    lines = [f"\n{result.name}: {result.title}", f"  {'':<26}{columns}{'growth':>9}{'(grad.)':>9}"]
    for name in result.spellings:
        row = f"  {name:<26}"
        for scale in SIZES:
            for kind in KINDS:
                times, over = known(result, kind, scale), ratios(result, kind, scale)
                row += f"{in_time(times[name]):>13}{over[name]:>8.2f}" if name in times else f"{'–':>13}{'–':>8}"
        for kind in KINDS:
            found = exponents(result, kind)
            row += f"{found[name]:>9.2f}" if name in found else f"{'–':>9}"
        lines.append(row)
    lines += [f"  {f.spelling or 'the kernel'} fails: {f.why}" for f in result.failures]
    return "\n".join(lines)


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """The geometric means and maxima over kernels, and the spellings that break the law, the worst first."""
    found = sorted((b for result in results for b in breaches(result)), key=lambda b: -b.excess)
    out: dict[str, Any] = {"spellings": sum(len(r.spellings) for r in results), "breaking": len(found)}
    for kind in KINDS:
        for scale, size in SIZES.items():
            spreads = [s for r in results if (s := spread(r, kind, scale)) is not None]
            if spreads:
                out[f"{kind} {size}"] = {"mean": statistics.geometric_mean(spreads), "max": max(spreads)}
    out["breaches"] = [{"kernel": b.kernel, "spelling": b.spelling, "what": b.what} for b in found]
    return out


def overview(results: Sequence[Result]) -> str:
    """The time of the worst spelling over that of the best for all kernels, the law, and what breaks it."""
    calls = [(kind, scale) for scale in SIZES for kind in KINDS]
    head = "".join(f"{kind + ' ' + SIZES[scale]:>13}" for kind, scale in calls)
    lines = [f"\n{'worst over best':<26}{'spellings':>10}{head}"]
    for result in results:
        spreads = [spread(result, kind, scale) for kind, scale in calls]
        cells = "".join(f"{'–' if s is None else f'{s:.2f}':>13}" for s in spreads)
        lines.append(f"{result.name:<26}{len(result.spellings):>10}{cells}")
    total = summary(results)
    for what in ("mean", "max"):
        cells = "".join(f"{total[call][what]:>13.2f}" for k, s in calls if (call := f"{k} {SIZES[s]}") in total)
        lines.append(f"{'geometric mean' if what == 'mean' else 'maximum':<36}{cells}")
    lines.append(f"\n{LAW}\n{total['breaking']} of {total['spellings']} spellings break it:")
    lines += [f"  {b['kernel'] + '.' + b['spelling']:<46}{b['what']}" for b in total["breaches"]]
    return "\n".join(lines)
