"""The command `dlc`: reads the command line and leaves the rest to one file for each command."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence

from dlang import __version__
from dlang.tools.arguments import Parser, add_measures, add_threads, use_threads

UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG)
FINE, USER_ERROR, INTERNAL, INTERRUPTED = 0, 1, 70, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command. 0: fine; 1: the program is wrong or failed; 2: the command line is wrong; 130: Ctrl-C."""
    if sys.stdout is None:  # closed by whoever started this
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    try:
        code = _dispatch(_parser().parse_args(argv))
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
        from dlang.tools.report import report_defect

        report_defect(e)
        return INTERNAL


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="dlc", description="The compiler of the array language dlang.")
    parser.add_argument("--version", action="version", version=f"dlc {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    backend = Parser(add_help=False)
    backend.add_argument(
        "--backend",
        choices=("cpu", "interp", "cuda", "cuda-emulated"),
        default="cpu",
        help="native code, the reference interpreter, or loops as kernels of a GPU, or of one that is emulated",
    )
    add_threads(backend)
    json = Parser(add_help=False)
    json.add_argument("--json", action="store_true", help="messages as JSON on the standard output, one a line")

    run = commands.add_parser(
        "run", parents=[backend, json], help="run a program", description="Calls `main`, or runs a file of statements."
    )
    add_measures(run)
    run.add_argument("--debug-info", action="store_true", help="compile with lines of the source, for gdb and perf")
    run.add_argument("file", metavar="FILE")
    run.add_argument("options", nargs=argparse.REMAINDER, metavar="--option value", help="the parameters of `main`")

    check = commands.add_parser("check", parents=[json], help="check types, sizes and effects, and run nothing")
    check.add_argument("files", nargs="+", metavar="FILE")

    test = commands.add_parser("test", parents=[backend, json], help="run the test blocks of files and folders")
    test.add_argument("--filter", metavar="TEXT", default="", help="only tests with this text in their name")
    test.add_argument("paths", nargs="+", metavar="PATH")

    evaluate = commands.add_parser("eval", parents=[backend, json], help="print the value of an expression")
    evaluate.add_argument("expression", metavar="EXPR")

    ir = commands.add_parser("ir", parents=[json], help="print a program after a stage of the compiler")
    ir.add_argument("file", metavar="FILE")
    ir.add_argument(
        "--stage",
        required=True,
        choices=("syntax", "core", "mono", "normal", "ad", "opt", "loops", "llvm", "cuda"),
    )
    ir.add_argument("--fn", metavar="NAME", help="only this function, and what it calls")
    ir.add_argument("--costs", action="store_true", help="also what derivatives save, in bytes")

    gradients = commands.add_parser(
        "check-grad",
        parents=[json],
        help="compare the derivatives of functions, computed in four ways",
        description="Differentiates functions at random arguments: compiled in reverse and forward mode, by the "
        "reference, and by differences. Without --fn or --all: those that give one float, and those with rules.",
    )
    gradients.add_argument("file", metavar="FILE")
    which = gradients.add_mutually_exclusive_group()
    which.add_argument("--fn", metavar="NAME", help="only this function")
    which.add_argument("--all", action="store_true", help="every function that takes and gives floats")
    gradients.add_argument("--seed", type=int, default=0, help="of the arguments, 0 unless given")
    gradients.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="[NAME=]SIZE",
        help="of all size variables, or of one; 3 if not given",
    )
    gradients.add_argument("--seconds", type=float, default=20.0, help="for each function; 20 if not given")

    commands.add_parser("repl", parents=[backend], help="a conversation: declarations, statements, expressions")

    cache = commands.add_parser(
        "cache",
        help="what is kept between runs: how much, where, and to remove it",
        description="Checked modules and machine code are kept in $DLANG_CACHE, or else in the user's cache directory, "
        "up to $DLANG_CACHE_SIZE (1G unless set; 0 keeps nothing).",
    )
    cache.add_argument("action", nargs="?", choices=("info", "clear", "path"), default="info")

    explain = commands.add_parser("explain", help="what a code such as E0301 means, with an example")
    explain.add_argument("code", metavar="CODE")
    return parser


def _dispatch(args: argparse.Namespace) -> int:
    use_threads(getattr(args, "threads", None))
    match args.command:
        case "run":
            if args.debug_info:
                os.environ["DLANG_DEBUG_INFO"] = "1"
            from dlang.tools.measuring import measures
            from dlang.tools.run import run_file

            return run_file(args.file, args.options, args.backend, args.json, measures(args))
        case "check":
            from dlang.tools.check import check_files

            return check_files(args.files, args.json)
        case "test":
            from dlang.tools.test import run_tests

            return run_tests(args.paths, args.filter, args.backend, args.json)
        case "eval":
            from dlang.tools.evaluate import evaluate

            return evaluate(args.expression, args.backend, args.json)
        case "ir":
            from dlang.tools.ir import print_ir

            return print_ir(args.file, args.stage, args.fn, args.costs, args.json)
        case "check-grad":
            from dlang.tools.check_grad import check_gradients

            return check_gradients(args.file, args.fn, args.all, args.seed, args.size, args.seconds, args.json)
        case "repl":
            from dlang.tools.repl import repl

            return repl(args.backend)
        case "cache":
            from dlang.tools.cache import manage_cache

            return manage_cache(args.action)
        case _:
            from dlang.tools.explain import explain

            return explain(args.code)


if __name__ == "__main__":
    sys.exit(main())
