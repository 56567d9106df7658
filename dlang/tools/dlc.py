"""The command `dlc`: reads the command line and leaves the rest to the module of the command."""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence

from dlang import __version__
from dlang.tools.arguments import Parser, add_colour, use_colour, use_threads
from dlang.tools.commands import COMMANDS, implementation, overview, parser_of

UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG)
FINE, USER_ERROR, MISUSED, INTERNAL, INTERRUPTED = 0, 1, 2, 70, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command. 0: fine; 1: the program is wrong or failed; 2: the command line is wrong; 130: Ctrl-C."""
    _open_all()
    try:
        code = _dispatch(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as e:
        for note in getattr(e, "__notes__", ()):
            print(f"dlc: interrupted {note}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except Exception as e:
        if isinstance(e, OSError) and e.errno in UNWRITABLE:
            print(f"dlc: cannot write the output: {e.strerror}", file=sys.stderr)
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return USER_ERROR
        from dlang.diagnostics import DlangError
        from dlang.tools.report import report, report_defect

        if isinstance(e, DlangError):  # of what every command looks at, such as DLANG_THREADS
            report(e.diagnostics, as_json=False)
            return USER_ERROR
        report_defect(e)
        return INTERNAL


def _open_all() -> None:
    """Gives what whoever started this has closed an end, and what can't show all letters a way to show them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() not in ("utf-8", "utf8"):
        sys.stdout.reconfigure(errors="backslashreplace")


def parser_of_all() -> Parser:
    """What reads the words before the name of a command, and that."""
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
        return implementation(command).main(args)
    except SystemExit as e:  # help, a version, or a wrong command line
        return int(e.code or 0)


if __name__ == "__main__":
    sys.exit(main())
