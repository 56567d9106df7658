"""`dlc debug`: steps through a program, forward and backward."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, error
from dlang.driver import check, errors_of, read_source
from dlang.lazy_modules import lazy_module
from dlang.spelling import closest
from dlang.tools.arguments import Parser, add_program
from dlang.tools.report import report
from dlang.tools.run import own_options, printed, start_of
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.program import Checked

if TYPE_CHECKING:
    from dlang.tools.debugger import commands, showing
else:
    commands = lazy_module("dlang.tools.debugger.commands")
    showing = lazy_module("dlang.tools.debugger.showing")


def options(parser: Parser) -> None:
    _add_own(parser)
    add_program(parser)


def _add_own(parser: argparse.ArgumentParser, taken: frozenset[str] = frozenset()) -> None:
    """Options that may also stand behind the file, where no parameter of `main` has their names."""
    if "break_nan" not in taken:
        help = (
            "stop where a NaN or an infinity is made of finite numbers; without a terminal, say where, and end with 1"
        )
        parser.add_argument("--break-nan", action="store_true", help=help)
    if "break_zero" not in taken:
        help = "the same where a product in a derivative is 0 because a factor is, though the other is not finite"
        parser.add_argument("--break-zero", action="store_true", help=help)
    if "test" not in taken:
        parser.add_argument("--test", metavar="NAME", help="a test block, in place of `main`")
    if "library" not in taken:
        parser.add_argument("--library", action="store_true", help="step into functions of the standard library, too")
    if "memory" not in taken:
        help = "for states of the past, in MiB; 512 unless given"
        parser.add_argument("--memory", type=_number, metavar="N", help=help)


def _number(text: str) -> int:
    """Parses a number from 1 on."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number from 1, found `{text}`")
    return int(text)


def main(args: argparse.Namespace) -> int:
    from dlang.tools.debugger.debugger import debugger_of

    try:
        source = read_source(args.file)
        checked = check(source)
        if report(checked.diagnostics, False) or errors_of(checked):
            return 1
        options = _own(args, checked)
        start, seed = _start(checked, args, options)
        megabytes = args.memory or 512
        debugger = debugger_of(checked, start, source, seed=seed, memory=megabytes << 20, library=args.library)
        c = commands.Conversation(debugger)
        if args.break_nan or args.break_zero:
            with commands.interruptible(c):
                lines = [line for word in ("nan", "zero") if getattr(args, f"break_{word}") for line in c.say(word)]
            if not (sys.stdin.isatty() and sys.stdout.isatty()):
                commands.show(lines)
                return 1 if c.found or debugger.root.timeline.failure is not None else 0
            commands.talk(c, lines)
            return 0
        with commands.interruptible(c):
            debugger.step()
        commands.talk(c, showing.position(debugger))
        return 0
    except DlangError as e:
        report(e.diagnostics, False)
        return 1


def _own(args: argparse.Namespace, checked: Checked) -> list[str]:
    """Reads the options of this command that stand behind the file; gives the others."""
    main = checked.module.functions.get("main")
    taken = frozenset(p.local.name for p in main.params) if main is not None else frozenset()
    parser = Parser(add_help=False, prog="dlc debug")
    _add_own(parser, taken)
    known, others = parser.parse_known_args(args.options)
    for name, value in vars(known).items():
        if value:
            setattr(args, name, value)
    return others


def _start(checked: Checked, args: argparse.Namespace, options: Sequence[str]) -> tuple[FnDecl, int]:
    """Returns the function to run, and the seed of its random numbers."""
    if args.test is None:
        main = checked.module.functions.get("main")
        given, _, seed, _ = own_options(options, main or checked.module.script, "interp")
        return printed(start_of(checked, args.file, given, "debug")), seed
    if options:
        Parser(prog="dlc debug --test").error(f"unrecognized arguments: {options[0]}")
    tests = checked.module.tests
    tests_named = [t for t in tests if t.name == args.test] or [t for t in tests if args.test in t.name]
    if len(tests_named) == 1:
        return tests_named[0], 0
    what = "several tests" if tests_named else "no test"
    names = [t.name for t in tests_named or tests]
    help = f"its tests are {', '.join(names)}" if names else "it has none"
    close = None if tests_named else closest(args.test, names)
    if close is not None:
        help = f"did you mean `{close}`?"
    raise error("E0955", f"`{args.file}` has {what} `{args.test}`", None, help=(help,))
