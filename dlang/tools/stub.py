"""`dlc stub`: what a module has, for checkers of types and for editors of Python, as a `.pyi`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, error, shown
from dlang.drafts import write
from dlang.driver import check, errors_of, read_source
from dlang.lazy_modules import lazy_module
from dlang.tools.arguments import Parser, add_json, add_paths, programs, programs_of, writing
from dlang.tools.report import report

if TYPE_CHECKING:
    from dlang.python import stubs
else:
    stubs = lazy_module("dlang.python.stubs")


def options(parser: Parser) -> None:
    add_json(parser)
    parser.add_argument("-o", "--output", metavar="DIR", help="the folder for them; beside the files unless given")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a stub is not what it should be")
    add_paths(parser)


def main(args: argparse.Namespace) -> int:
    failed = False
    try:
        programs(args.paths)
        targets = {file: _target(Path(file), path, args.output) for path in args.paths for file in programs_of(path)}
    except DlangError as e:
        report(e.diagnostics, args.json)
        return 1
    for file, target in targets.items():
        try:
            _stub(file, target, args.check)
            if not (args.check or args.json):
                print(shown(str(target)))
        except DlangError as e:
            failed = True
            report(e.diagnostics, args.json)
    return 1 if failed else 0


def _target(file: Path, given: str, folder: str | None) -> Path:
    """The stub of a file: beside it, or in a folder where it is as in the one that was given."""
    stub = file.with_suffix(".pyi")
    if folder is None:
        return stub
    return Path(folder) / (stub.relative_to(given) if Path(given).is_dir() else stub.name)


def _stub(file: str, target: Path, only_check: bool) -> None:
    """Writes a stub. E0994 if it is only to be checked, and is another."""
    checked = check(read_source(file))
    if errors_of(checked):
        raise DlangError(checked.diagnostics)
    text = stubs.stub(checked).encode()
    with writing(target):
        if not only_check:
            target.parent.mkdir(parents=True, exist_ok=True)
            write(target, text)
        elif not target.is_file() or target.read_bytes() != text:
            help = (f"write it by `dlc stub {file}`",)
            raise error("E0994", f"`{target}` is not the stub of `{file}`", None, help=help)
