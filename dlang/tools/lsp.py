"""`dlc lsp`: a language server on the standard input and output, for editors."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys

from dlang.diagnostics import DlangError, error
from dlang.tools.arguments import Parser
from dlang.tools.report import report


def options(parser: Parser) -> None:
    parser.add_argument("--stdio", action="store_true", help="as always; some editors say it")
    parser.add_argument("--log", metavar="FILE", help="write what goes wrong into a file; to the standard error if not")


def main(args: argparse.Namespace) -> int:
    """Serves until the editor ends it; 1 if pygls is not installed, or there can be no log."""
    try:
        from dlang.tools.language_server.server import make_server
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        help = ("install it with `pip install 'dlang[lsp]'`",)
        message = "the language server needs pygls, which is not installed"
        report(error("E0977", message, None, help=help).diagnostics, False)
        return 1
    try:
        _open_log(args.log)
    except DlangError as e:
        report(e.diagnostics, False)
        return 1
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # pygls reads in a thread that nothing else can wake
    if sys.stdin.isatty():
        print("dlc lsp: this speaks with editors, see docs/editors.md; Ctrl-C ends it", file=sys.stderr)
    output, sys.stdout = sys.stdout.buffer, sys.stderr  # what anyone else prints is not part of the conversation
    make_server().start_io(stdout=output)
    return 0


def _open_log(path: str | None) -> None:
    level = logging.DEBUG if os.environ.get("DLANG_DEBUG") else logging.WARNING
    try:
        handler = logging.FileHandler(path, encoding="utf-8") if path is not None else logging.StreamHandler()
    except OSError as e:
        raise error("E0822", f"cannot write `{path}`: {e.strerror}", None) from None
    logging.basicConfig(handlers=[handler], level=level, format="%(asctime)s %(name)s: %(message)s")
