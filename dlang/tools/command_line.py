"""Reads the command line, calls the module of the command, and says where that went wrong."""

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
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from dlang import __version__
from dlang.lazy_modules import lazy_module
from dlang.tools.arguments import Parser, add_colour, use_checks, use_colour, use_threads

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

    interruptible = argv is None and signal.getsignal(signal.SIGINT) == signal.default_int_handler
    if interruptible:
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


# ---- commands --------------------------------------------------------------------------------------------------------
# The commands of `dlc`: one row each, whose module is imported when the command is called.
#
# The module `dlang.tools.<module>` has `options(parser)`, which adds the options of the command, and `main(args)`,
# which does what it says and gives the exit code.


class Command(NamedTuple):
    """help: a line in the list of commands. about: what its own help says beside that.

    examples: what follows `dlc NAME`; the first stands in the list of commands, all in the help of the command.
    """

    name: str
    module: str
    help: str
    about: str = ""
    examples: tuple[str, ...] = ()


class Implementation(Protocol):
    """The interface of a command's module."""

    def options(self, parser: Parser) -> None: ...

    def main(self, args: argparse.Namespace) -> int: ...


GROUPS: dict[str, tuple[Command, ...]] = {
    "write and run": (
        Command(
            "new",
            "new",
            "begin a project: a program, or a library",
            "Makes a folder with a program that runs and is tested, a page about it, and a script of Python that uses "
            "it. With --lib a module for other programs.",
            examples=("wave", "--lib splines"),
        ),
        Command(
            "run",
            "run",
            "run a program",
            "Calls `main`, or runs a file of statements.",
            examples=("fit.dl --steps 100", "--profile fit.dl", "--backend interp fit.dl", "fit.dl --help"),
        ),
        Command(
            "check",
            "check",
            "check types, sizes and effects, and run nothing",
            examples=("fit.dl", "--watch .", "--fix fit.dl", "--json fit.dl model.dl"),
        ),
        Command(
            "test",
            "test",
            "run the test blocks of files and folders",
            examples=(".", "--filter gradient model.dl", "--coverage --coverage-out lcov.info .", "--jobs 4 ."),
        ),
        Command(
            "bench",
            "bench",
            "time the bench blocks of files and folders",
            "What comes before the last expression of a `bench` block is done once, and the expression is called again "
            "and again.",
            examples=("model.dl", "--save before.json .", "--compare before.json --threshold 5 ."),
        ),
        Command(
            "eval",
            "evaluate",
            "print the value of an expression",
            "Modules of the standard library are there by their names, and statements may stand before the expression.",
            examples=(
                "'grad(|x: f64| x ** 3)(2.0)'",
                "'linalg.solve([[2.0, 1.0], [1.0, 3.0]], [1.0, 2.0])'",
                "'let x = [1.0, 2.0]; sum(x ** 2)'",
            ),
        ),
        Command("repl", "repl", "a conversation: declarations, statements, expressions", examples=("", "model.dl")),
        Command(
            "fmt",
            "fmt",
            "write programs in the one style",
            "Comments stay, and so does what a program means. A file with syntax errors is left as it is.",
            examples=("fit.dl", "--check .", "--stdin < fit.dl"),
        ),
        Command(
            "doc",
            "doc",
            "make pages of HTML about modules",
            "What the `##` lines say of public names, with their types, links, the source and a search. The pages need "
            "no network.",
            examples=(".", "-o site --title Splines splines.dl"),
        ),
        Command(
            "build",
            "build",
            "make a library for C, a program or a wheel",
            "Compiles functions ahead of time, into what runs without the compiler.",
            examples=(
                "model.dl",
                "--exe train.dl",
                "--shared model.dl --fn loss --grad loss -o build",
                "--wheel model.dl --name model",
            ),
        ),
        Command(
            "lsp",
            "lsp",
            "a language server for editors",
            "Speaks the language server protocol on the standard input and output; an editor starts it.",
            examples=("", "--log /tmp/dlc.log"),
        ),
    ),
    "look inside": (
        Command(
            "debug",
            "debug",
            "step through a program, forward and backward, and through its gradients",
            "Stops before the first statement; `help` then lists what can be done. --break-nan looks for the first NaN "
            "or infinity instead.",
            examples=("fit.dl --steps 3", "--break-nan fit.dl", "--test gradients model.dl"),
        ),
        Command(
            "ir",
            "ir",
            "print a program after a stage of the compiler",
            examples=("fit.dl --stage opt --fn loss", "fit.dl --stage ad --costs", "fit.dl --stage loops --why"),
        ),
        Command(
            "opt",
            "opt",
            "run passes of the optimiser on a program in the textual form of the IR",
            "Reads what `dlc ir` prints up to the stage `loops`, runs the passes in the order that is given, verifies "
            "the program after each, and prints it. Passes of the loop IR run on loops.",
            examples=("--list", "loss.ir --passes simplify,cse,dce", "loss.loops --passes pieces,scratch --llvm"),
        ),
        Command(
            "bisect",
            "bisect",
            "find the pass of the compiler that changes what a function means",
            "Runs a function, or its gradient, at random arguments: on the interpreter after each pass, then as native "
            "code. Names the first step after which the results differ, and shows what it changed.",
            examples=("fit.dl --fn loss", "fit.dl --fn loss --grad --size n=4 --seed 1"),
        ),
        Command(
            "graph",
            "graph",
            "draw a program, or a gradient, with its fused kernels",
            "Prints a graph in the language of Graphviz, or writes it to a file: operations with their types, values "
            "as edges, and a frame around each kernel. Files that end with .svg, .png or .pdf take the command `dot`.",
            examples=("fit.dl --fn loss -o loss.svg", "fit.dl --fn loss --grad", "fit.dl --stage loops -o loops.dot"),
        ),
        Command(
            "profile",
            "profile",
            "where the time of a program goes, or of the compiler",
            "Runs a program as code that measures itself, as `dlc run --profile` does, or with --compile measures the "
            "passes of the compiler.",
            examples=(
                "fit.dl --steps 100",
                "--trace trace.json fit.dl",
                "--compile fit.dl",
                "--compile --fn loss fit.dl",
            ),
        ),
        Command(
            "check-grad",
            "check_grad",
            "compare the derivatives of functions, computed in four ways",
            "Differentiates functions at random arguments: compiled in reverse and forward mode, by the reference, "
            "and by differences. Without --fn or --all: those that give one float, and those with rules.",
            examples=("model.dl --fn loss", "--all model.dl"),
        ),
        Command(
            "costs",
            "costs",
            "count what a function and its derivatives cost, as sizes double",
            "Counts operations, bytes and memory of the optimised program, at a size, twice and four times that, and "
            "says how fast they grow, whether that is within the law of cost, and which lines a surplus comes from. 1 "
            "if the law is broken.",
            examples=("fit.dl --fn loss", "fit.dl --fn loss --grad --size n=100", "--json fit.dl --fn loss"),
        ),
        Command(
            "plot",
            "plot",
            "draw the columns of a table, such as a run logs",
            "Curves in the terminal, or in a file. Several files are compared.",
            examples=("run.csv", "run.csv -x epoch -y loss --log --follow", "a.csv b.csv -y loss -o loss.png"),
        ),
        Command("explain", "explain", "what a code such as E0301 means, with an example", examples=("E0301", "")),
    ),
    "look after it": (
        Command(
            "stub",
            "stub",
            "write the types of modules for Python",
            "Writes a `.pyi` beside each file, with which mypy, pyright and editors know what `import model` gives.",
            examples=("model.dl", "-o typings .", "--check ."),
        ),
        Command(
            "cache",
            "cache",
            "what is kept between runs: how much, where, and to remove it",
            "Checked modules and machine code are kept in $DLANG_CACHE, or else in the user's cache directory, "
            "up to $DLANG_CACHE_SIZE (1G unless set). DLANG_CACHE=off keeps and reads nothing.",
            examples=("", "clear", "path"),
        ),
        Command(
            "doctor",
            "doctor",
            "whether all that dlang uses is on this machine",
            "Says of each thing whether it is there and works, and what to do if it does not. 1 if one that is needed "
            "does not.",
            examples=("", "--json"),
        ),
        Command(
            "completion",
            "completion",
            "a script with which your shell completes `dlc`",
            "For bash: `source <(dlc completion bash)` in ~/.bashrc; for zsh the same with zsh in ~/.zshrc, after "
            "`compinit`; for fish: `dlc completion fish > ~/.config/fish/completions/dlc.fish`.",
            examples=("bash", "zsh", "fish"),
        ),
    ),
}
COMMANDS: dict[str, Command] = {c.name: c for commands in GROUPS.values() for c in commands}


def implementation(command: Command) -> Implementation:
    """The module of a command."""
    return cast(Implementation, import_module(f"dlang.tools.{command.module}"))


def parser_of(command: Command) -> Parser:
    """Returns the parser of the arguments of a command."""
    about = command.about or f"{command.help.capitalize()}."
    parser = Parser(prog=f"dlc {command.name}", description=about, examples=command.examples)
    add_colour(parser)
    implementation(command).options(parser)
    return parser


def overview() -> str:
    """The commands in their groups: an example of each, and what it does."""
    shown = {c.name: " ".join([c.name, *c.examples[:1]]) for c in COMMANDS.values()}
    width = max(map(len, shown.values()))
    lines: list[str] = []
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:", *(f"  dlc {shown[c.name]:<{width}}  {c.help}" for c in commands)]
    return "\n".join([*lines[1:], "", "`dlc COMMAND --help` says what a command takes, and shows more examples."])
