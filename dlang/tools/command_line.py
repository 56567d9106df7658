"""Reads the command line, calls the module of the command, and says what went wrong where that did not."""

from __future__ import annotations

import argparse
import errno
import io
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from dlang import __version__
from dlang.lazy_modules import lazy_module
from dlang.tools.arguments import Parser, add_colour, use_checks, use_colour, use_threads
from dlang.tools.commands import COMMANDS, implementation, overview, parser_of

if TYPE_CHECKING:
    from dlang import diagnostics
else:
    diagnostics = lazy_module("dlang.diagnostics")


FINE, USER_ERROR, MISUSED, INTERNAL = 0, 1, 2, 70
UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG)
SHORT = 256 << 20  # bytes: LLVM alone, whose library is 180 MB, may not be loaded where there are fewer
SOON = 5.0  # seconds after Ctrl-C in which what fails may have failed because of that


def run(argv: Sequence[str] | None) -> int:
    """Runs a command of this process, or one with other words; gives the exit code. Raises KeyboardInterrupt."""
    at = -SOON

    def interrupted(number: int, frame: object) -> None:
        nonlocal at
        at = time.monotonic()
        raise KeyboardInterrupt

    own = argv is None and signal.getsignal(signal.SIGINT) == signal.default_int_handler
    if own:
        signal.signal(signal.SIGINT, interrupted)
    try:
        _open_all()
        code = _dispatch(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read our output has seen enough
        _close_output()
        return FINE
    except Exception as e:
        if time.monotonic() - at < SOON:  # something has taken the interruption for a failure of its own
            raise KeyboardInterrupt from e
        return _failed(e)


def _failed(e: Exception) -> int:
    """Says what went wrong; gives the exit code."""
    if isinstance(e, OSError) and e.errno in UNWRITABLE:
        _say(f"cannot write the output: {e.strerror}")
        _close_output()
        return USER_ERROR
    if _is_short_of_memory(e):
        _say("there is too little memory to go on: more is needed, or a higher limit (`ulimit -v`)")
        return USER_ERROR
    from dlang.tools.report import report, report_defect

    if isinstance(e, diagnostics.DlangError):  # of what every command looks at, such as DLANG_THREADS
        report(e.diagnostics, as_json=False)
        return USER_ERROR
    report_defect(e)
    return INTERNAL


def _is_short_of_memory(e: BaseException) -> bool:
    """Tells whether something failed because there was no memory, which libraries say in many ways."""
    if isinstance(e, MemoryError) or (isinstance(e, OSError) and e.errno == errno.ENOMEM):
        return True
    if not isinstance(e, OSError | ImportError | SystemError | RuntimeError):
        return False
    import mmap

    try:
        mmap.mmap(-1, SHORT).close()
    except (OSError, MemoryError):
        return True
    return False


def _say(line: str) -> None:
    """Prints where errors go, if there is such a place."""
    with suppress(OSError, ValueError):
        print(f"dlc: {line}", file=sys.stderr)


def _close_output() -> None:
    """Lets what is still to be printed go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_all() -> None:
    """Gives what whoever started this has closed an end, and what can't show all letters a way to show them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() not in ("utf-8", "utf8"):
        sys.stdout.reconfigure(errors="backslashreplace")


def parser_of_all() -> Parser:
    """Returns the parser of the arguments before the name of a command, and of that name."""
    form = argparse.RawDescriptionHelpFormatter
    parser = Parser(
        prog="dlc",
        usage="dlc [-h] [--version] [--color WHEN] COMMAND ...",
        description="The compiler of the array language dlang.",
        epilog=overview(),
        formatter_class=form,
    )
    parser.add_argument("-V", "--version", action="version", version=f"dlc {__version__}")
    add_colour(parser)
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _dispatch(words: Sequence[str]) -> int:
    if not words:
        parser_of_all().print_help(sys.stderr)
        return MISUSED
    if words[0] == "help":  # as other commands have it
        words = [*words[1:2], "--help"]
    try:
        asked = parser_of_all().parse_args(words)
        command = COMMANDS[asked.command]
        use_colour(asked.color)
        args = parser_of(command).parse_args(asked.rest)
        use_colour(args.color)
        use_threads(getattr(args, "threads", None))
        use_checks(getattr(args, "sanitize", False))
        return implementation(command).main(args)
    except SystemExit as e:  # help, a version, or a wrong command line
        return int(e.code or 0)
