"""`dlc test`: runs the `test` blocks of files, and of every `.dl` file in folders.

An example in the `##` lines of a file, between ```` ```dlang ```` and ```` ``` ````, is a test too.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dlang.diagnostics import DEFECTS, DlangError, Source, error, shown
from dlang.driver import Backend, Request, Runner, call, check, load, lower, read_source
from dlang.grammar import syntax as s
from dlang.grammar.lexer import KEYWORDS, NAME
from dlang.grammar.parser import parse
from dlang.host.effects import Host
from dlang.lazy_modules import json, lazy_module
from dlang.passes import verified_by_default
from dlang.specialize.specialize import Entry
from dlang.spelling import plural
from dlang.tools.arguments import (
    Parser,
    add_backend,
    add_json,
    add_paths,
    add_sanitize,
    programs,
    refuse_unwritable,
    whole,
)
from dlang.tools.command_line import FINE, INTERNAL, USER_ERROR
from dlang.tools.report import coloured, failed_in, painted, report, report_defect
from dlang.typecheck import core

if TYPE_CHECKING:
    from dlang.tools import coverage
    from dlang.tools.coverage import Coverage, Spot
else:
    coverage = lazy_module("dlang.tools.coverage")


MOST_JOBS = 256


@dataclass
class Totals:
    """left_out: tests without the text that was asked for. defects: failures of which
    the compiler is guilty. broken: files that do not check. reached: of places in the
    sources, whether a test came there."""

    passed: int = 0
    failed: int = 0
    defects: int = 0
    left_out: int = 0
    broken: list[str] = field(default_factory=list)
    reached: dict[Spot, bool] = field(default_factory=dict)

    def add(self, other: Totals) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.defects += other.defects
        self.left_out += other.left_out
        self.broken += other.broken
        for spot, hit in other.reached.items():
            self.reached[spot] = self.reached.get(spot, False) or hit


@dataclass(frozen=True)
class TestOptions:
    """The tests to run, and how. filter: a text in their names. doc: with the examples in `##` lines. colour: results
    are printed in colours."""

    filter: str
    backend: Backend
    as_json: bool
    doc: bool = False
    coverage: bool = False
    colour: bool = False


def options(parser: Parser) -> None:
    add_backend(parser)
    add_json(parser)
    add_sanitize(parser)
    parser.add_argument("--filter", metavar="TEXT", default="", help="only tests with this text in their name")
    parser.add_argument("--doc", action="store_true", help="also the examples in `##` lines, between ```dlang and ```")
    parser.add_argument("--coverage", action="store_true", help="which lines and branches the tests reach, as a table")
    parser.add_argument("--coverage-out", metavar="FILE", help="write that in the format of LCOV")
    jobs = whole("a number of processes", 1, MOST_JOBS)
    parser.add_argument("--jobs", metavar="N", type=jobs, default=1, help="test so many files at once")
    add_paths(parser)


def main(args: argparse.Namespace) -> int:
    covers = args.coverage or args.coverage_out is not None
    wanted = TestOptions(args.filter, args.backend, args.json, args.doc, covers, coloured(sys.stdout))
    start = time.monotonic()
    try:
        if args.coverage_out is not None:
            refuse_unwritable(args.coverage_out)
        with verified_by_default():
            totals = run_tests(programs(args.paths), wanted, args.jobs)
        _tell(totals, args.json, time.monotonic() - start)
        if covers:
            _tell_coverage(totals, args)
    except DlangError as e:
        report(e.diagnostics, args.json)
        return 1
    return INTERNAL if totals.defects else USER_ERROR if totals.failed or totals.broken else FINE


def run_tests(files: Sequence[str], wanted: TestOptions, jobs: int = 1) -> Totals:
    """Runs the tests of files, and reports their results as they end."""
    totals = Totals()
    if jobs == 1 or len(files) < 2:
        for path in files:
            totals.add(test_file(wanted, path))
    else:
        for part in in_processes(files, min(jobs, len(files)), partial(test_file, wanted), partial(_ended, wanted)):
            totals.add(part)
    return totals


def _ended(wanted: TestOptions, path: str) -> Totals:
    """A file whose tests have brought their process to an end."""
    _say(path, wanted.as_json)
    help = ("a foreign function may do so: `dlc test --filter` finds out which test calls it",)
    report(error("E0976", f"the process that tested `{path}` has ended before the tests", None, help=help).diagnostics,
           wanted.as_json)  # fmt: skip
    return Totals(broken=[path])


def test_file(wanted: TestOptions, path: str) -> Totals:
    """Runs the tests of one file."""
    totals = Totals()
    coverage: Coverage | None = None
    if wanted.coverage:
        from dlang.tools.coverage import Coverage

        coverage = Coverage()
    _test_source(path, None, wanted, totals, coverage)
    if wanted.doc and path not in totals.broken and (examples := _examples(path)) is not None:
        _test_source(examples.path, examples, wanted, totals, coverage)
    if coverage is not None:
        totals.reached = coverage.reached()
    return totals


def _tell(totals: Totals, as_json: bool, seconds: float) -> None:
    if as_json:
        return
    parts = [f"{totals.passed} passed", *([f"{totals.failed} failed"] if totals.failed else [])]
    if totals.broken:
        parts.append(f"{plural(len(totals.broken), 'file')} with errors")
    if totals.left_out:
        parts.append(f"{totals.left_out} left out")
    print(f"{', '.join(parts)} ({seconds:.2f} s)")


def _tell_coverage(totals: Totals, args: argparse.Namespace) -> None:
    files = coverage.by_file(dict(sorted(totals.reached.items())))
    if args.coverage and files:
        print(coverage.table(files), file=sys.stderr if args.json else sys.stdout)
    if args.coverage_out is not None:
        coverage.write_lcov(files, args.coverage_out)


def _examples(path: str) -> Source | None:
    return examples(read_source(path))


def _test_source(
    path: str, source: Source | None, wanted: TestOptions, totals: Totals, coverage: Coverage | None
) -> None:
    as_json = wanted.as_json
    try:
        checked = check(source or read_source(path))
        tests = [t for t in checked.module.tests if wanted.filter in t.name]
        totals.left_out += len(checked.module.tests) - len(tests)
        diagnostics = checked.diagnostics
    except DlangError as e:
        tests, diagnostics = [], e.diagnostics
    if any(d.severity == "error" for d in diagnostics):
        _say(path, as_json)
        report(diagnostics, as_json)
        totals.broken.append(path)
        return
    if coverage is not None:
        coverage.instrument(checked)
    if not tests:
        return
    _say(path, as_json)
    report(diagnostics, as_json)
    host = Host(sys.stderr if as_json else None)
    try:
        runs = _prepared(tests, wanted.backend, host, coverage)
    except DlangError:
        runs = _alone(tests, wanted.backend, host)
    except Exception as e:  # which none of them may show alone
        report_defect(e)
        totals.broken.append(path)
        runs = _alone(tests, wanted.backend, host)
    for test, run in zip(tests, runs, strict=True):
        try:
            run()
        except Exception as e:
            totals.failed += 1
            _tell_test(path, test.name, False, wanted)
            if isinstance(e, DlangError):
                totals.defects += any(d.code in DEFECTS for d in e.diagnostics)
                report(failed_in(test.span, e.diagnostics), as_json)
            else:
                totals.defects += 1
                report_defect(e)
        else:
            totals.passed += 1
            _tell_test(path, test.name, True, wanted)


def _tell_test(path: str, name: str, passed: bool, wanted: TestOptions) -> None:
    if wanted.as_json:
        print(json.dumps({"file": path, "test": name, "passed": passed}, ensure_ascii=False), flush=True)
    else:
        outcome, style = ("ok", "green") if passed else ("FAILED", "red")
        blank = " " * (len("FAILED") - len(outcome))
        print(f"  {painted(outcome, style, wanted.colour)}{blank}  {shown(name)}", flush=True)


def _prepared(
    tests: list[core.FnDecl], backend: Backend, host: Host, coverage: Coverage | None
) -> list[Callable[[], object]]:
    """Each test as a function that raises what a person should read. They are compiled together."""
    if coverage is not None:
        return [partial(coverage.run, test, host) for test in tests]
    runner, entries = _compiled(tests, backend, host)
    return [partial(call, runner, entry) for entry in entries]


def _alone(tests: list[core.FnDecl], backend: Backend, host: Host) -> list[Callable[[], object]]:
    """The same where that fails: each is compiled alone, so that one of them can't hide the others."""
    return [partial(_compile_and_run, test, backend, host) for test in tests]


def _compiled(tests: list[core.FnDecl], backend: Backend, host: Host) -> tuple[Runner, list[Entry]]:
    program, entries = lower([Request(t) for t in tests])
    return load(program, entries, backend, host), entries


def _compile_and_run(test: core.FnDecl, backend: Backend, host: Host) -> None:
    runner, (entry,) = _compiled([test], backend, host)
    call(runner, entry)


def _say(text: str, as_json: bool) -> None:
    """Progress, for a person; flushed, so that it stays in order with messages on the standard error."""
    if not as_json:
        print(shown(text), flush=True)


# ---- processes -------------------------------------------------------------------------------------------------------
# `dlc test --jobs`: files are tested in processes of their own, and told in their order.

T = TypeVar("T")


def in_processes(files: Sequence[str], jobs: int, test: Callable[[str], T], ended: Callable[[str], T]) -> Iterator[T]:
    """Applies a function to each file in processes; its output is printed when that of the files before has been.

    The function and what it gives must be such that `pickle` knows them. Processors are shared out among processes.
    ended: gives what stands for a file whose process has come to a sudden end, as a foreign function may bring about.
    """
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    threads = max(1, (os.cpu_count() or 1) // jobs)
    settings = {"DLANG_THREADS": os.environ.get("DLANG_THREADS", str(threads))}
    if coloured(sys.stderr):
        settings["FORCE_COLOR"] = "1"
    pool_of = partial(ProcessPoolExecutor, mp_context=get_context("spawn"), initializer=_begin, initargs=(settings,))
    work = partial(_captured, test)
    with pool_of(jobs) as pool:
        for file, future in [(file, pool.submit(work, file)) for file in files]:
            try:
                out, errors, result = future.result()
            except BrokenProcessPool:  # by this file, or by another at the same time
                try:
                    with pool_of(1) as alone:
                        out, errors, result = alone.submit(work, file).result()
                except BrokenProcessPool:
                    yield ended(file)
                    continue
            print(out, end="", flush=True)
            print(errors, end="", file=sys.stderr, flush=True)
            yield result


def _begin(settings: dict[str, str]) -> None:
    os.environ.update(settings)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the process that waits says that it was interrupted


def _captured(test: Callable[[str], T], file: str) -> tuple[str, str, T]:
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        result = test(file)
    return out.getvalue(), errors.getvalue(), result


_WORDS = re.compile(r"[ \t]*##(.*)")
_FENCE = re.compile(r"\s*```\s*(\w*)\s*")
_IMPORT = re.compile(r"\s*import\b.*")


def examples(source: Source) -> Source | None:
    """A file of tests, one for each example and on the same lines; None if there are none.

    In it the source's module and its public names are imported, and what the examples import.
    """
    lines = [""] * (source.text.count("\n") + 1)
    imports = list(_imports(source))
    blocks = list(_blocks(source.text))
    for first, last, texts in blocks:
        for number, text in enumerate(texts, first + 1):
            if _IMPORT.fullmatch(text):
                imports.append(text.strip())
            else:
                lines[number] = text
        lines[first] = "; ".join([*imports, f'test "the example in line {first + 1}" {{'])
        lines[last] = lines[last] + "}"
        imports = []
    return Source(f"{source.path} (examples)", "\n".join(lines)) if blocks else None


def _blocks(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """The lines, counted from 0, between which examples are, and what is between these. A block ends with the words
    that it is in, if not before."""
    first, language = 0, ""
    texts: list[str] = []
    for number, line in enumerate([*text.split("\n"), ""]):
        words = _WORDS.fullmatch(line)
        fence = _FENCE.fullmatch(words[1]) if words else None
        if language and (fence or words is None):
            if language == "dlang":
                yield first, number if fence else number - 1, texts
            language = ""
        elif fence:
            first, language, texts = number, fence[1] or "text", []
        elif language and words:
            texts.append(" " * words.start(1) + words[1])


def _imports(source: Source) -> Iterator[str]:
    """Yields an import of the module that a source is, if it can be imported."""
    module = Path(source.path).stem
    if not re.fullmatch(NAME, module) or module in KEYWORDS or module == "prelude":
        return
    yield f"import {module}"
    items = parse(source)[0].items
    declared = [i.name for i in items if isinstance(i, s.Fn | s.Extern | s.Const | s.Struct | s.Enum | s.Alias)]
    constructors = [c.name for i in items if isinstance(i, s.Enum) for c in i.constructors]
    if names := [n for n in dict.fromkeys([*declared, *constructors]) if not n.startswith("_")]:
        yield f"import {module} {{ {', '.join(names)} }}"
