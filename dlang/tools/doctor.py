"""`dlc doctor`: whether everything is there that dlang uses on this machine, and what to do where it is not."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from dlang.tools.arguments import Parser
from dlang.tools.checkup import Finding, findings
from dlang.tools.terminal import coloured, painted

SIGNS = {"ok": ("ok", "green"), "absent": ("–", "dim"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}
WIDTH = 18


def options(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="an object for each line")


def main(args: argparse.Namespace) -> int:
    failed = False
    for finding in findings():
        failed |= finding.state == "fail"
        print(json.dumps(asdict(finding), ensure_ascii=False) if args.json else _line(finding), flush=True)
    return 1 if failed else 0


def _line(f: Finding) -> str:
    sign, style = SIGNS[f.state]
    line = f"{painted(f'{sign:<4}', style, coloured(sys.stdout))}  {f.what:<{WIDTH}}{f.found}"
    return f"{line}\n      {'':<{WIDTH}}→ {f.advice}" if f.advice else line
