"""`dlc test`: runs the `test` blocks of files, and of every `.dl` file in folders."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, Source
from dlang.driver import Backend, Request, Runner, call, check, load, lower, read_source
from dlang.runtime.host import Host
from dlang.specialize.specialize import Entry
from dlang.tools.arguments import Parser, add_backend, add_json
from dlang.tools.files import programs
from dlang.tools.report import report, report_defect
from dlang.typecheck import core

if TYPE_CHECKING:
    from dlang.tools.coverage import Coverage


@dataclass
class Totals:
    passed: int = 0
    failed: int = 0
    broken: list[str] = field(default_factory=list)  # files that do not check


def options(parser: Parser) -> None:
    add_backend(parser)
    add_json(parser)
    parser.add_argument("--filter", metavar="TEXT", default="", help="only tests with this text in their name")
    parser.add_argument("--doc", action="store_true", help="also the examples in `##` lines, between ```dlang and ```")
    parser.add_argument("--coverage", action="store_true", help="which lines and branches the tests reach, as a table")
    parser.add_argument("--coverage-out", metavar="FILE", help="write that in the format of LCOV")
    parser.add_argument("paths", nargs="+", metavar="PATH")


def main(args: argparse.Namespace) -> int:
    if args.coverage or args.coverage_out is not None:
        return _with_coverage(args)
    return run_tests(args.paths, args.filter, args.backend, args.json, args.doc)


def _with_coverage(args: argparse.Namespace) -> int:
    from dlang.tools.coverage import Coverage
    from dlang.tools.coverage_report import by_file, table, write_lcov

    coverage = Coverage()
    code = run_tests(args.paths, args.filter, args.backend, args.json, args.doc, coverage)
    files = by_file(coverage.reached())
    if args.coverage and files:
        print(table(files), file=sys.stderr if args.json else sys.stdout)
    try:
        if args.coverage_out is not None:
            write_lcov(files, args.coverage_out)
    except DlangError as e:
        report(e.diagnostics, args.json)
        return 1
    return code


def run_tests(
    paths: Sequence[str],
    wanted: str,
    backend: Backend,
    as_json: bool,
    doc: bool = False,
    coverage: Coverage | None = None,
) -> int:
    """0 if every test passed and every file checks; 1 otherwise. doc: with the examples in `##` lines. coverage: notes
    what the tests reach."""
    start = time.monotonic()
    totals = Totals()
    try:
        files = programs(paths)
    except DlangError as e:
        report(e.diagnostics, as_json)
        return 1
    for path in files:
        _test_file(path, None, wanted, backend, as_json, totals, coverage)
        if doc and path not in totals.broken and (found := _examples(path)) is not None:
            _test_file(found.path, found, wanted, backend, as_json, totals, coverage)
    if not as_json:
        parts = [f"{totals.passed} passed", *([f"{totals.failed} failed"] if totals.failed else [])]
        if totals.broken:
            parts.append(f"{len(totals.broken)} {'files' if len(totals.broken) > 1 else 'file'} with errors")
        print(f"{', '.join(parts)} ({time.monotonic() - start:.2f} s)")
    return 1 if totals.failed or totals.broken else 0


def _examples(path: str) -> Source | None:
    from dlang.tools.doc_examples import examples

    return examples(read_source(path))


def _test_file(
    path: str,
    source: Source | None,
    wanted: str,
    backend: Backend,
    as_json: bool,
    totals: Totals,
    coverage: Coverage | None,
) -> None:
    try:
        checked = check(source or read_source(path))
        tests = [t for t in checked.module.tests if wanted in t.name]
        found = checked.diagnostics
    except DlangError as e:
        tests, found = [], e.diagnostics
    if any(d.severity == "error" for d in found):
        _say(path, as_json)
        report(found, as_json)
        totals.broken.append(path)
        return
    if coverage is not None:
        coverage.instrument(checked)
    if not tests:
        return
    _say(path, as_json)
    for test, run in zip(tests, _prepared(tests, backend, coverage), strict=True):
        try:
            run()
        except Exception as e:
            totals.failed += 1
            _say(f"  FAILED  {test.name}", as_json)
            if isinstance(e, DlangError):
                report(e.diagnostics, as_json)
            else:
                report_defect(e)
        else:
            totals.passed += 1
            _say(f"  ok      {test.name}", as_json)


def _prepared(tests: list[core.FnDecl], backend: Backend, coverage: Coverage | None) -> list[Callable[[], object]]:
    """Each test as a function that raises what a person should read.

    They are compiled together; where that fails, each alone, so that one of them can't hide the others.
    """
    if coverage is not None:
        return [partial(coverage.run, test) for test in tests]
    try:
        runner, entries = _compiled(tests, backend)
    except Exception:
        return [partial(_compile_and_run, test, backend) for test in tests]
    return [partial(call, runner, entry) for entry in entries]


def _compiled(tests: list[core.FnDecl], backend: Backend) -> tuple[Runner, list[Entry]]:
    program, entries = lower([Request(t) for t in tests])
    return load(program, entries, backend, Host()), entries


def _compile_and_run(test: core.FnDecl, backend: Backend) -> None:
    runner, (entry,) = _compiled([test], backend)
    call(runner, entry)


def _say(text: str, as_json: bool) -> None:
    """Progress, for a person; flushed, so that it stays in order with messages on the standard error."""
    if not as_json:
        print(text, flush=True)
