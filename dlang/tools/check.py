"""`dlc check`: everything that is known before a program runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from dlang.diagnostics import Diagnostic, DlangError
from dlang.driver import check, read_source
from dlang.tools.arguments import Parser, add_json
from dlang.tools.report import report


def options(parser: Parser) -> None:
    add_json(parser)
    parser.add_argument("files", nargs="+", metavar="FILE")


def main(args: argparse.Namespace) -> int:
    return check_files(args.files, args.json)


def check_files(paths: Sequence[str], as_json: bool) -> int:
    """Checks files, each with what it imports; a mistake in a module that several import is told once."""
    told: set[tuple[object, ...]] = set()
    errors = 0
    for path in paths:
        try:
            found = check(read_source(path)).diagnostics
        except DlangError as e:
            found = e.diagnostics
        errors += report([d for d in found if _new(d, told)], as_json)
    if errors and not as_json:
        print(f"{errors} error{'s' if errors > 1 else ''}", file=sys.stderr)
    return 1 if errors else 0


def _new(d: Diagnostic, told: set[tuple[object, ...]]) -> bool:
    key = (d.code, d.message, repr(d.span))
    if key in told:
        return False
    told.add(key)
    return True
