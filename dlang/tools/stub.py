"""`dlc stub`: what a module has, for checkers of types and for editors of Python, as a `.pyi`."""

from __future__ import annotations

import argparse
from pathlib import Path

from dlang.diagnostics import DlangError, error
from dlang.driver import check, errors_of, read_source
from dlang.tools.arguments import Parser, add_json
from dlang.tools.files import programs
from dlang.tools.report import report


def options(parser: Parser) -> None:
    add_json(parser)
    parser.add_argument("-o", "--output", metavar="DIR", help="the folder for them; beside the files unless given")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a stub is not what it should be")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, or a folder with all that is in it")


def main(args: argparse.Namespace) -> int:
    code = 0
    try:
        for path in programs(args.paths):
            code |= _stub(Path(path), Path(args.output) if args.output else None, args.check, args.json)
    except DlangError as e:
        report(e.diagnostics, args.json)
        return 1
    return code


def _stub(path: Path, folder: Path | None, only_check: bool, as_json: bool) -> int:
    from dlang.python.stubs import stub

    checked = check(read_source(str(path)))
    if errors_of(checked):
        report(checked.diagnostics, as_json)
        return 1
    target = (folder or path.parent) / f"{path.stem}.pyi"
    text = stub(checked)
    if only_check:
        if target.is_file() and target.read_text(encoding="utf-8") == text:
            return 0
        raise error("E0994", f"`{target}` is not the stub of `{path}`", None, help=(f"write it by `dlc stub {path}`",))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as e:
        raise error("E0822", f"cannot write `{target}`: {e.strerror}", None) from None
    return 0
