"""`dlc bench`: times the `bench` blocks of files, and compares them with times that were saved."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from dlang import __version__
from dlang.diagnostics import DlangError, error, shown
from dlang.driver import Backend, check, errors_of, read_source
from dlang.host.effects import Host
from dlang.host.platform.machine import processor_name
from dlang.lazy_modules import lazy_module
from dlang.process import gc_paused
from dlang.python.function import Function
from dlang.python.instances import Program
from dlang.tools.arguments import (
    Parser,
    add_backend,
    add_json,
    add_paths,
    positive,
    programs,
    refuse_unwritable,
    replace_file,
)
from dlang.tools.report import coloured, failed_in, painted, report
from dlang.typecheck import core, types as ty
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.modules import unreadable
from dlang.typecheck.terms import variables
from dlang.typecheck.trees import Tree, pattern_locals, walk

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
            results = [self._attempt(bench, partial(_benchmark, program, bench)) for bench in benches]
            for _ in range(ROUNDS):
                for k, b in enumerate(results):
                    if b is not None and not self._attempt(b.setup, partial(b.round, self.seconds / ROUNDS)):
                        results[k] = None
            for b in results:
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
        record: dict[str, Any] = {"file": path, "name": b.name}
        if self.saved is not None and (before := self.saved.times.get((path, b.name))) is not None:
            if verdict(before, times, self.threshold) == "slower":  # or was it the machine, just then?
                times = min(times, b.again(self.seconds), key=lambda t: t.median)
            record |= {"before": before.median, "verdict": verdict(before, times, self.threshold)}
            self.slower += record["verdict"] == "slower"
        self.times[path, b.name] = times
        record |= {"median": times.median, "min": times.least, "mad": times.deviation, "calls": times.calls,
                  "ready": b.ready}  # fmt: skip
        if self.rates:
            rows = b.function.profile(*b.arguments[-1]).rows
            record["bytes_per_second"] = sum(row.bytes for row in rows) / times.median
            record["operations_per_second"] = sum(row.operations or 0 for row in rows) / times.median
        if self.as_json:
            print(json.dumps(record, ensure_ascii=False), flush=True)
        else:
            print(f"  {shown(b.name):<{width}}  {'  '.join(self._cells(record))}", flush=True)

    def _head(self, width: int) -> Iterator[str]:
        rates = "    GB/s  GFLOP/s" if self.rates else ""
        against = "  against before" if self.saved is not None else ""
        yield f"  {'':<{width}}  {'median':>9}  {'± MAD':>9}  {'min':>9}  {'calls':>9}  {'ready in':>9}{rates}{against}"

    def _cells(self, row: dict[str, Any]) -> Iterator[str]:
        for name in ("median", "mad", "min"):
            yield f"{duration(row[name]):>9}"
        yield f"{row['calls']:>9,}"
        yield f"{duration(row['ready']):>9}"
        if self.rates:
            yield f"{row['bytes_per_second'] / 1e9:6.2f}  {row['operations_per_second'] / 1e9:7.2f}"
        if "verdict" in row:
            word = row["verdict"]
            text = f"{row['median'] / row['before']:.2f} × {duration(row['before']).strip()}: {word}"
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
    rows = [
        {"file": file, "name": name, "calls": t.calls, "median": t.median, "min": t.least, "mad": t.deviation,
         "rounds": [list(samples) for samples in t.rounds]}
        for (file, name), t in times.items()
    ]  # fmt: skip
    content = {"format": FORMAT, "machine": this_machine(), "benchmarks": rows}
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
    current = this_machine()
    return [f"{name} {machine.get(name)}, now {value}" for name, value in current.items() if machine.get(name) != value]


# ---- the measured expression -----------------------------------------------------------------------------------------
# A `bench` block as two functions: what comes before, done once, and the expression, which is timed.
#
# The second takes the values that the first gives, so nothing of them is known when it is compiled but their types, and
# its result leaves it: neither can be optimised away. Functions do not cross; a `let` of one is done by both.


@dataclass(frozen=True, slots=True)
class Subject:
    """setup gives a tuple, whose items are the arguments of `timed`."""

    setup: core.FnDecl
    timed: core.FnDecl


def subject_of(bench: core.FnDecl) -> Subject:
    """The two functions of a checked `bench`. E0992 if the expression needs a value that cannot be passed to it."""
    body, result = bench.body, bench.result
    assert isinstance(body, core.BlockExpr) and result is not None
    again, needed = _needed(body)
    if wrong := next((local for local in needed if _holds_function(local.type, ())), None):
        help = ("make it a `let` of a function, or make it in the expression that is timed",)
        message = f"`{wrong.name}` holds a function, so it cannot be made ready for what is timed"
        raise error("E0992", message, wrong.span or bench.span, help=help)
    passed = [core.Local(x.name, x.type, size=None if x.mutable else x.size, span=x.span) for x in needed]
    begin = [
        (core.Declare if old.mutable else core.Let)(core.Bind(old), core.Ref(new.type, bench.span, new), (), bench.span)
        for old, new in zip(needed, passed, strict=True)
    ]
    values = core.TupleExpr(
        ty.TypeTuple(tuple(x.type for x in needed)) if needed else ty.UNIT,
        bench.span,
        tuple(core.Ref(x.type, bench.span, x) for x in needed),
    )
    setup = core.FnDecl(
        bench.name,
        bench.module,
        bench.span,
        result=values.type,
        tree=core.BlockExpr(values.type, bench.span, body.statements, values),
        effects=bench.effects,
        kind="bench",
    )
    opened = variables(*(x.type for x in passed)) | {x.size: None for x in passed if x.size is not None}
    timed = core.FnDecl(
        bench.name,
        bench.module,
        bench.span,
        tuple(core.Param(x) for x in passed),
        result,
        tuple(opened),
        tree=core.BlockExpr(result, body.result.span, (*begin, *again), body.result),
        effects=bench.effects,
        kind="bench",
    )
    return Subject(setup, timed)


def _needed(body: core.BlockExpr) -> tuple[list[core.Statement], list[core.Local]]:
    """The statements that both functions do, and what else the expression takes from those before it, in order."""
    again: list[core.Statement] = []
    used = set(_mentioned([body.result]))
    for statement in reversed(body.statements):
        if not used.isdisjoint(_functions(statement)):
            again.insert(0, statement)
            used |= set(_mentioned([statement]))
    functions = {x for s in again for x in _functions(s)}
    bound = [x for s in body.statements for x in _bound(s) if x not in functions]
    needed = [x for x in dict.fromkeys(bound) if x in used]
    sizes = _sizes([body.result, *again])
    names_told = {v for x in needed for v in _told(x)}
    for x in dict.fromkeys(bound):  # a size that is needed, and that no argument tells
        if x not in needed and not _holds_function(x.type, ()) and (sizes - names_told) & (new := set(_told(x))):
            needed.append(x)
            names_told |= new
    return again, needed


def _bound(s: core.Statement) -> Iterator[core.Local]:
    if isinstance(s, core.Let | core.Declare):
        yield from pattern_locals(s.pattern)
        yield from s.names


def _functions(s: core.Statement) -> Iterator[core.Local | core.FnDecl]:
    """Lists the functions that a statement binds; several names of one statement go together."""
    if isinstance(s, core.LocalFn):
        yield s.decl
    elif any(isinstance(ty.resolve(x.type), ty.TypeFn) for x in _bound(s)):
        yield from _bound(s)


def _mentioned(trees: Sequence[Tree]) -> Iterator[core.Local | core.FnDecl]:
    for tree in trees:
        for node in walk(tree):
            match node:
                case core.Ref():
                    yield node.local
                case core.FnRef() if node.decl.local:
                    yield node.decl
                case core.Assign():
                    yield node.place.local
                case core.AssignTuple():
                    yield from (place.local for place in node.places)


def _sizes(trees: Iterable[Tree]) -> set[ty.SizeVar]:
    """The sizes that expressions mention."""
    sizes: set[ty.SizeVar] = set()
    for tree in trees:
        for node in walk(tree):
            terms: list[ty.Type | ty.Size] = [node.type] if isinstance(node, core.Node) else []
            if isinstance(node, core.SizeValue):
                terms.append(node.size)
            sizes |= {v for v in variables(*terms) if isinstance(v, ty.SizeVar)}
    return sizes


def _told(x: core.Local) -> Iterator[ty.SizeVar]:
    """The sizes that a value says: that it is, or that its axes have."""
    if x.size is not None:
        yield x.size
    yield from (v for v in variables(x.type) if isinstance(v, ty.SizeVar))


def _holds_function(t: ty.Type | ty.Shape | ty.Size, within: tuple[ty.DataDecl, ...]) -> bool:
    if isinstance(t, ty.Shape | ty.Size):
        return False
    t = ty.resolve(t)
    if isinstance(t, ty.TypeFn):
        return True
    if isinstance(t, ty.TypeData) and t.decl not in within:
        fields = [f for v in t.decl.variants for _, f in v.fields]
        if any(_holds_function(f, (*within, t.decl)) for f in fields):
            return True
    return any(_holds_function(part, within) for part in ty.children(t))


# ---- times -----------------------------------------------------------------------------------------------------------
# How long a call takes: warmed up, repeated, and with what is known of the noise.
#
# What is timed is timed in several rounds, between which other things are timed and its arguments are made anew: where
# arrays lie, and what else the machine does for a while, changes times by more than what happens from call to call.

ROUNDS = 5
SAMPLE = 1e-3
"""Seconds that a sample takes at least: calls that are shorter are timed together."""
MOST = 200
"""Samples of a round; one at least."""
WARM_UP = 0.2
"""The part of the time of a round in which nothing is counted yet."""
FIRST = 3
"""Calls that are made one by one, since they may compile something."""
NORMAL = 1.4826
"""Standard deviations of what is distributed normally, in a median deviation."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of a call, in each sample of each round. calls: in all of them together."""

    rounds: tuple[tuple[float, ...], ...]
    calls: int

    @property
    def samples(self) -> list[float]:
        return [x for samples in self.rounds for x in samples]

    @property
    def least(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def deviation(self) -> float:
        """The median of the distances from the median (MAD)."""
        return deviation(self.samples)

    @property
    def uncertainty(self) -> float:
        """The standard error of the median, by how far rounds differ, or else by how far samples do."""
        middles = [statistics.median(samples) for samples in self.rounds]
        between, within = (_standard_error(x) for x in (middles, self.samples))
        return max(between, within)

    def joined(self, other: Times) -> Times:
        return Times(self.rounds + other.rounds, self.calls + other.calls)


def deviation(samples: Sequence[float]) -> float:
    middle = statistics.median(samples)
    return statistics.median(abs(x - middle) for x in samples)


def _standard_error(samples: Sequence[float]) -> float:
    """Returns the standard error of the median, which is that of a mean times the root of π/2."""
    return math.sqrt(math.pi / 2) * NORMAL * deviation(samples) / math.sqrt(len(samples))


def timed(call: Callable[[], object], seconds: float) -> Times:
    """One round of about so many seconds; Python collects no garbage meanwhile."""
    loop = _loop(call)
    with gc_paused():
        once = _warmed_up(loop, WARM_UP * seconds)
        count = max(1, round(SAMPLE / max(once, 1e-9)))
        samples: list[float] = []
        end = time.perf_counter() + (1 - WARM_UP) * seconds
        while not samples or (len(samples) < MOST and time.perf_counter() < end):
            samples.append(loop(count) / count)
    return Times((tuple(samples),), count * len(samples))


def _loop(call: Callable[[], object]) -> Callable[[int], float]:
    """Makes a function that calls so many times, and returns how long that took."""

    def loop(count: int) -> float:
        start = time.perf_counter()
        for _ in repeat(None, count):
            call()
        return time.perf_counter() - start

    return loop


def _warmed_up(loop: Callable[[int], float], seconds: float) -> float:
    """Calls until caches are warm, and all is compiled that only later calls need; gives the time of a call."""
    spent, once, count, calls = 0.0, 0.0, 1, 0
    while spent < seconds:
        took = loop(count)
        spent, once, calls = spent + took, took / count, calls + count
        if calls >= FIRST:
            count = min(2 * count, max(1, round(SAMPLE / max(once, 1e-9))))
    return once
