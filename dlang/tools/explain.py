"""`dlc explain`: the page of a code. The pages are `dlang/explain/*.md`."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from dlang.diagnostics import shown
from dlang.tools.arguments import Parser

PAGES = Path(__file__).parent.parent / "explain"


def options(parser: Parser) -> None:
    parser.add_argument("code", nargs="?", metavar="CODE", help="all codes are listed without one")


def main(args: argparse.Namespace) -> int:
    if args.code is not None:
        return explain(args.code)
    for code in codes():
        with open(PAGES / f"{code}.md", encoding="utf-8") as page:
            print(page.readline().removeprefix("# ").rstrip("\n"))
    return 0


def explain(code: str) -> int:
    """Prints the page of a code; if there is none, says which codes are near."""
    known = codes()
    wanted = code.upper() if code.upper().startswith("E") else f"E{code:0>4}"
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known, n=3)
        text = f"dlc: there is no code `{shown(code)}`"
        print(text + (f"; near it are {', '.join(near)}" if near else ""), file=sys.stderr)
        return 2
    print((PAGES / f"{wanted}.md").read_text(encoding="utf-8"), end="")
    return 0


def codes() -> list[str]:
    """All codes that have a page."""
    return sorted(p.stem for p in PAGES.glob("E*.md"))
