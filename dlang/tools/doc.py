"""`dlc doc`: pages about modules."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, shown
from dlang.lazy_modules import lazy_module
from dlang.tools.arguments import Parser, add_json, add_paths
from dlang.tools.report import report

if TYPE_CHECKING:
    from dlang.tools.documentation import pages
else:
    pages = lazy_module("dlang.tools.documentation.pages")


def options(parser: Parser) -> None:
    add_json(parser)
    parser.add_argument("-o", "--output", metavar="DIR", default="doc", help="where the pages go; doc if not given")
    parser.add_argument("--title", metavar="TEXT", help="of the first page; the name of the folder if not given")
    add_paths(parser)


def main(args: argparse.Namespace) -> int:
    try:
        first = make(args.paths, args.title, Path(args.output))
    except DlangError as e:
        report(e.diagnostics, args.json)
        return 1
    if not args.json:
        print(shown(str(first)))
    return 0


def make(paths: Sequence[str], title: str | None, folder: Path) -> Path:
    """Writes the pages, and gives the first."""
    from dlang.tools.documentation.pages import documented

    modules = documented(paths)
    pages.write(modules, title or Path(paths[0]).resolve().stem, folder)
    return folder / "index.html"
