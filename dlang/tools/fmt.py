"""`dlc fmt`: programs in the one style."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from dlang.diagnostics import DlangError, Source, shown
from dlang.format.formatting import format_source
from dlang.lazy_modules import json
from dlang.tools.arguments import HERE, Parser, add_json, add_paths, programs, replace_file
from dlang.tools.report import report
from dlang.typecheck.modules import decoded, read_exactly


def options(parser: Parser) -> None:
    add_json(parser)
    parser.add_argument("--check", action="store_true", help="only say which files are written otherwise")
    parser.add_argument("--stdin", action="store_true", help="from the standard input to the standard output")
    add_paths(parser)
    parser.set_defaults(paths=None, refuse=parser.error)


def main(args: argparse.Namespace) -> int:
    if args.stdin and args.paths:
        args.refuse("--stdin takes no PATH")
    try:
        if args.stdin:
            return _filter(args.check)
        files = programs(args.paths or HERE)
    except DlangError as e:
        report(e.diagnostics, args.json)
        return 1
    return format_files(files, args.check, args.json)


def format_files(files: Sequence[str], check: bool, as_json: bool) -> int:
    """Writes files in the style, or says which are not. 1 if one is not, or can't be read or written."""
    changed = failed = 0
    for path in files:
        try:
            if _format_file(path, check):
                changed += 1
                _say(path, not check, as_json)
        except DlangError as e:
            failed += 1
            report(e.diagnostics, as_json)
    if changed and not as_json:
        done = "would be formatted" if check else "formatted"
        print(f"{changed} of {len(files)} {'file' if len(files) == 1 else 'files'} {done}")
    return 1 if failed or (check and changed) else 0


def _format_file(path: str, check: bool) -> bool:
    """Tells whether formatting changes the file; then it is rewritten, unless it is only checked."""
    before = read_exactly(path)
    after = format_source(Source(path, before))
    if after == before:
        return False
    if not check:
        replace_file(path, after)
    return True


def _say(path: str, written: bool, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"file": path, "written": written}, ensure_ascii=False))
    else:
        print(shown(path))


def _filter(check: bool) -> int:
    before = decoded(sys.stdin.buffer.read(), "<stdin>")
    after = format_source(Source("<stdin>", before))
    if check:
        return 0 if after == before else 1
    sys.stdout.buffer.write(after.encode())
    return 0
