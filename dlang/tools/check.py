"""`dlc check`: everything that is known before a program runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dlang.diagnostics import Diagnostic, DlangError
from dlang.driver import check, read_source
from dlang.lazy_modules import lazy_module
from dlang.spelling import plural
from dlang.tools.arguments import Parser, add_json, add_paths
from dlang.tools.files import programs
from dlang.tools.report import report

if TYPE_CHECKING:
    from dlang.tools import fixes
else:
    fixes = lazy_module("dlang.tools.fixes")


def options(parser: Parser) -> None:
    add_json(parser)
    then = parser.add_mutually_exclusive_group()
    then.add_argument("--watch", action="store_true", help="check again whenever a file or an import changes")
    then.add_argument("--fix", action="store_true", help="make the edits that messages suggest and that are certain")
    add_paths(parser)


def main(args: argparse.Namespace) -> int:
    if args.watch:
        from dlang.tools.watch import watch

        return watch(args.paths, args.json)
    if args.fix:
        return fixes.fix_files(args.paths, args.json)
    return check_files(args.paths, args.json)


def check_files(paths: Sequence[str], as_json: bool) -> int:
    """Checks files, each with what it imports. 0, or 1 if there is an error."""
    try:
        files = programs(paths)
    except DlangError as e:
        report(e.diagnostics, as_json)
        return 1
    errors = report_all(files, lambda path: check(read_source(path)).diagnostics, as_json)
    if errors and not as_json:
        print(plural(errors, "error"), file=sys.stderr)
    return 1 if errors else 0


def report_all(files: Sequence[str], found_in: Callable[[str], list[Diagnostic]], as_json: bool) -> int:
    """Reports what is found in files, and gives the number of errors; a mistake in a module that several import is
    told once."""
    told: set[tuple[object, ...]] = set()
    errors = 0
    for path in files:
        try:
            found = found_in(path)
        except DlangError as e:
            found = e.diagnostics
        errors += report([d for d in found if _new(d, told)], as_json)
    return errors


def _new(d: Diagnostic, told: set[tuple[object, ...]]) -> bool:
    key = (d.code, d.message, repr(d.span))
    if key in told:
        return False
    told.add(key)
    return True
