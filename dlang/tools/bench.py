"""`dlc bench`: times the `bench` blocks of files, and compares them with times that were saved."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from dlang import __version__
from dlang.diagnostics import DlangError, error, shown
from dlang.driver import Backend, check, errors_of, read_source
from dlang.host.effects import Host
from dlang.lazy_modules import lazy_module
from dlang.python.function import Function
from dlang.python.instances import Program
from dlang.tools.arguments import Parser, add_backend, add_json, add_paths, positive
from dlang.tools.files import programs, refuse_unwritable, replace_file
from dlang.tools.machine import processor_name
from dlang.tools.report import failed_in, report
from dlang.tools.subject import subject_of
from dlang.tools.terminal import coloured, painted
from dlang.tools.timing import ROUNDS, Times, timed
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.modules import unreadable

if TYPE_CHECKING:
    from dlang.runtime import threads
else:
    threads = lazy_module("dlang.runtime.threads")

UNITS = ((1.0, "s "), (1e-3, "ms"), (1e-6, "µs"), (0.0, "ns"))
COLOURS = {"slower": "red", "faster": "green", "same": "dim", "unclear": "yellow"}


TIERS = "DLANG_TIERS"
T = TypeVar("T")


def options(parser: Parser) -> None:
    add_backend(parser)
    add_json(parser)
    parser.add_argument("--filter", metavar="TEXT", default="", help="only benchmarks with this text in their name")
    parser.add_argument("--seconds", metavar="S", type=positive, default=1.0, help="for each benchmark, 1 unless given")
    parser.add_argument("--rates", action="store_true", help="also the memory moved and the arithmetic done per second")
    parser.add_argument("--save", metavar="FILE", help="write the times, for later comparison")
    parser.add_argument("--compare", metavar="FILE", help="compare with times that were saved; 1 if one is slower")
    parser.add_argument(
        "--threshold", metavar="PERCENT", type=positive, default=10.0, help="changes that count, 10 unless given"
    )
    add_paths(parser)


def main(args: argparse.Namespace) -> int:
    before = os.environ.get(TIERS)
    os.environ[TIERS] = "off"  # the best code from the start
    try:
        saved = read_saved(args.compare) if args.compare is not None else None
        if args.save is not None:
            refuse_unwritable(args.save)
        session = _Session(args.backend, args.seconds, args.rates, args.json, saved, args.threshold / 100)
        session.announce()
        for path in programs(args.paths):
            session.file(path, args.filter)
        if args.save is not None:
            save(args.save, session.times)
    except DlangError as e:
        report(e.diagnostics, args.json)
        return 1
    finally:
        if before is None:
            del os.environ[TIERS]
        else:
            os.environ[TIERS] = before
    return session.end()


@dataclass
class _Benchmark:
    """A benchmark that is compiled. ready: the seconds until it was, in its first call. arguments: of the last
    two rounds, so that they lie elsewhere than those before.
    """

    program: Program
    name: str
    setup: FnDecl
    function: Function
    ready: float | None = None
    arguments: list[Any] = field(default_factory=list)
    times: Times = field(default_factory=lambda: Times((), 0))

    def round(self, seconds: float) -> bool:
        arguments = self.program.prepare(self.setup, {})([]) or ()  # `None` stands for the empty tuple
        self.arguments = [*self.arguments[-1:], arguments]
        start = time.perf_counter()
        self.function(*arguments)
        first = time.perf_counter() - start
        self.times = self.times.joined(timed(partial(self.function, *arguments), seconds))
        if self.ready is None:
            self.ready = max(0.0, first - self.times.median)
        return True

    def again(self, seconds: float) -> Times:
        """Times as many rounds as before, by themselves."""
        first, self.times = self.times, Times((), 0)
        for _ in first.rounds:
            self.round(seconds / len(first.rounds))
        return self.times


def _benchmark(program: Program, bench: FnDecl) -> _Benchmark:
    subject = subject_of(bench)
    return _Benchmark(program, bench.name, subject.setup, Function(program, subject.timed, bench.name, False))


@dataclass
class _Session:
    """One call of the command. failed: whether something could not be timed; slower: how many have become so."""

    backend: Backend
    seconds: float
    rates: bool
    as_json: bool
    saved: Saved | None
    threshold: float
    times: dict[Key, Times] = field(default_factory=dict)
    failed: bool = False
    slower: int = 0

    def announce(self) -> None:
        if self.saved is not None and (other := differences(self.saved.machine)):
            print(f"dlc: the saved times are of another machine: {'; '.join(other)}", file=sys.stderr)

    def file(self, path: str, wanted: str) -> None:
        try:
            checked = check(read_source(path))
        except DlangError as e:
            self._complain(e)
            return
        if errors_of(checked):
            self._complain(DlangError(checked.diagnostics))
            return
        benches = [b for b in checked.module.benches if wanted in b.name]
        if not benches:
            return
        width = max(len(b.name) for b in benches)
        self._say("\n".join([path, *self._head(width)]))
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # for what a benchmark prints
            program = Program(checked, self.backend, host=Host(nowhere))
            made = [self._attempt(bench, partial(_benchmark, program, bench)) for bench in benches]
            for _ in range(ROUNDS):
                for k, b in enumerate(made):
                    if b is not None and not self._attempt(b.setup, partial(b.round, self.seconds / ROUNDS)):
                        made[k] = None
            for b in made:
                if b is not None:
                    self._tell(path, b, width)

    def _attempt(self, bench: FnDecl, work: Callable[[], T]) -> T | None:
        """Returns the result of some work for a benchmark; reports a failure and returns None."""
        try:
            return work()
        except DlangError as e:
            self._say(f"  FAILED  {bench.name}")
            self._complain(DlangError(failed_in(bench.span, e.diagnostics)))
            return None

    def _tell(self, path: str, b: _Benchmark, width: int) -> None:
        times = b.times
        found: dict[str, Any] = {"file": path, "name": b.name}
        if self.saved is not None and (before := self.saved.times.get((path, b.name))) is not None:
            if verdict(before, times, self.threshold) == "slower":  # or was it the machine, just then?
                times = min(times, b.again(self.seconds), key=lambda t: t.median)
            found |= {"before": before.median, "verdict": verdict(before, times, self.threshold)}
            self.slower += found["verdict"] == "slower"
        self.times[path, b.name] = times
        found |= {"median": times.median, "min": times.least, "mad": times.deviation, "calls": times.calls,
                  "ready": b.ready}  # fmt: skip
        if self.rates:
            rows = b.function.profile(*b.arguments[-1]).rows
            found["bytes_per_second"] = sum(row.bytes for row in rows) / times.median
            found["operations_per_second"] = sum(row.operations or 0 for row in rows) / times.median
        if self.as_json:
            print(json.dumps(found, ensure_ascii=False), flush=True)
        else:
            print(f"  {shown(b.name):<{width}}  {'  '.join(self._cells(found))}", flush=True)

    def _head(self, width: int) -> Iterator[str]:
        rates = "    GB/s  GFLOP/s" if self.rates else ""
        against = "  against before" if self.saved is not None else ""
        yield f"  {'':<{width}}  {'median':>9}  {'± MAD':>9}  {'min':>9}  {'calls':>9}  {'ready in':>9}{rates}{against}"

    def _cells(self, found: dict[str, Any]) -> Iterator[str]:
        for name in ("median", "mad", "min"):
            yield f"{duration(found[name]):>9}"
        yield f"{found['calls']:>9,}"
        yield f"{duration(found['ready']):>9}"
        if self.rates:
            yield f"{found['bytes_per_second'] / 1e9:6.2f}  {found['operations_per_second'] / 1e9:7.2f}"
        if "verdict" in found:
            word = found["verdict"]
            text = f"{found['median'] / found['before']:.2f} × {duration(found['before']).strip()}: {word}"
            yield painted(text, COLOURS[word], coloured(sys.stdout))
        elif self.saved is not None:
            yield "new"

    def _say(self, text: str) -> None:
        if not self.as_json:
            print(shown(text), flush=True)

    def _complain(self, e: DlangError) -> None:
        self.failed = True
        report(e.diagnostics, self.as_json)

    def end(self) -> int:
        if not self.times and not self.failed:
            print("dlc: there are no such `bench` blocks", file=sys.stderr)
        if self.slower:
            many = "benchmarks are" if self.slower > 1 else "benchmark is"
            print(f"dlc: {self.slower} {many} slower than before", file=sys.stderr)
        return 1 if self.failed or self.slower else 0


def duration(seconds: float) -> str:
    """Three digits and a unit: `1.25 ms`."""
    scale, unit = next((s, u) for s, u in UNITS if seconds >= s)
    value = seconds / (scale or 1e-9)
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"


FORMAT = 1
SURE = 3.0
"""Standard errors that two medians have to be apart."""

Verdict = Literal["slower", "faster", "same", "unclear"]
Key = tuple[str, str]
"""The file of a benchmark, and its name."""


@dataclass(frozen=True, slots=True)
class Saved:
    """machine: on which the times were measured."""

    machine: Mapping[str, Any]
    times: Mapping[Key, Times]


def this_machine() -> dict[str, Any]:
    return {"dlang": __version__, "processor": processor_name(), "threads": threads.default_pool().threads}


def save(path: str, times: Mapping[Key, Times]) -> None:
    """Writes times for `read_saved`. E0822 where that is impossible."""
    found = [
        {"file": file, "name": name, "calls": t.calls, "median": t.median, "min": t.least, "mad": t.deviation,
         "rounds": [list(samples) for samples in t.rounds]}
        for (file, name), t in times.items()
    ]  # fmt: skip
    content = {"format": FORMAT, "machine": this_machine(), "benchmarks": found}
    replace_file(path, json.dumps(content, indent=1) + "\n")


def read_saved(path: str) -> Saved:
    """Reads a file that `save` has written. E0951 if there is no such file, E0993 if it is something else."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as e:
        raise unreadable(path, e) from None
    except ValueError:
        raise _not_saved(path) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _not_saved(path)
    try:
        times = {(b["file"], b["name"]): Times(tuple(tuple(map(float, r)) for r in b["rounds"]), int(b["calls"]))
                 for b in content["benchmarks"]}  # fmt: skip
        if not all(t.rounds and all(r and min(r) > 0 for r in t.rounds) for t in times.values()):
            raise _not_saved(path)
        return Saved(dict(content["machine"]), times)
    except (KeyError, TypeError, ValueError):
        raise _not_saved(path) from None


def _not_saved(path: str) -> DlangError:
    help = ("write such a file by `dlc bench --save FILE PATH`",)
    return error("E0993", f"`{path}` does not hold benchmarks that this version has saved", None, help=help)


def verdict(before: Times, now: Times, threshold: float) -> Verdict:
    """Compares times: they differ if it is by more than a part of them, and by more than their noise.

    The least times, which a busy neighbour can only make longer, have to agree with the medians.
    """
    ratio, least = now.median / before.median, now.least / before.least
    apart = abs(now.median - before.median) > SURE * math.hypot(before.uncertainty, now.uncertainty)
    most = 1 + threshold
    if 1 / most <= ratio <= most:
        return "same"
    if apart and min(ratio, least) > most:
        return "slower"
    if apart and max(ratio, least) < 1 / most:
        return "faster"
    return "unclear"


def differences(machine: Mapping[str, Any]) -> Sequence[str]:
    """Lists the differences of a machine from this one."""
    here = this_machine()
    return [f"{name} {machine.get(name)}, now {value}" for name, value in here.items() if machine.get(name) != value]
