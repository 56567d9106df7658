"""`dlc lsp`: a language server on the standard input and output, for editors."""

from __future__ import annotations

import argparse
import logging
import os
import sys

from dlang.diagnostics import error
from dlang.tools.arguments import Parser
from dlang.tools.report import report


def options(parser: Parser) -> None:
    parser.add_argument("--log", metavar="FILE", help="write what goes wrong into a file; to the standard error if not")


def main(args: argparse.Namespace) -> int:
    """Serves until the editor ends it; 1 if pygls is not installed."""
    try:
        from dlang.tools.language_server.server import make_server
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        help = ("install it with `pip install 'dlang[lsp]'`",)
        message = "the language server needs pygls, which is not installed"
        report(error("E0977", message, None, help=help).diagnostics, False)
        return 1
    level = logging.DEBUG if os.environ.get("DLANG_DEBUG") else logging.WARNING
    logging.basicConfig(filename=args.log, level=level, format="%(asctime)s %(name)s: %(message)s")
    output, sys.stdout = sys.stdout.buffer, sys.stderr  # what anyone else prints is not part of the conversation
    make_server().start_io(stdout=output)
    return 0
