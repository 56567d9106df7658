"""The command line: as argparse reads it, but that what is misspelt is told what it may have meant. The programs that a
command line names: files, and all of a folder; and what cannot be written.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dlang.lazy_modules import lazy_module
from dlang.spelling import closest

if TYPE_CHECKING:
    from dlang import diagnostics, drafts
    from dlang.runtime import engine, threads
    from dlang.typecheck import modules
else:
    diagnostics = lazy_module("dlang.diagnostics")
    drafts = lazy_module("dlang.drafts")
    engine = lazy_module("dlang.runtime.engine")
    modules = lazy_module("dlang.typecheck.modules")
    threads = lazy_module("dlang.runtime.threads")

_CHOICE = re.compile(r"argument (?P<what>\S+): invalid choice: '(?P<found>[^']*)' \(choose from (?P<known>.*)\)")
_VALUE = re.compile(r"argument (?P<what>\S+): invalid (?P<type>\S+) value: '(?P<found>.*)'", re.DOTALL)
_MISSING = re.compile(r"the following arguments are required: (?P<what>.*)", re.DOTALL)
_ONE_OF = re.compile(r"one of the arguments (?P<what>.*) is required")
_OTHER = re.compile(r"argument (?P<what>\S+): (?P<said>.*)", re.DOTALL)
_UNKNOWN = re.compile(r"unrecognized arguments: (?P<found>\S+)")
_SAID = {"expected one argument": "expected a value"}


class Parser(argparse.ArgumentParser):
    """A parser whose options are written out in full.

    examples: what follows the name of the program in the examples that end its help.
    """

    def __init__(self, examples: tuple[str, ...] = (), **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})
        self.examples = examples

    def format_help(self) -> str:
        """The help of argparse, then the examples."""
        lines = [f"  {self.prog} {example}\n".replace(" \n", "\n") for example in self.examples]
        return "".join([super().format_help(), *(["\nexamples:\n"] if lines else []), *lines])

    def _print_message(self, message: str, file: Any = None) -> None:
        """Prints a message, and raises OSError where argparse goes on as if that had been possible."""
        if not message.replace("\n", "").isprintable():
            message = diagnostics.shown(message)
        if not message.replace("\n", "").isprintable():
            message = diagnostics.shown(message)
        (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        """Ends the program with the code 2."""
        super().error(self.said(message))

    def said(self, message: str) -> str:
        if match := _CHOICE.fullmatch(message):
            known = re.findall(r"[\w-]+", match["known"])
            what = match["what"].split("/")[0]
            if what == "COMMAND":
                asked = _asked(match["found"], known)
                return f"there is no command `{match['found']}`{asked or '; `dlc --help` lists them'}"
            return f"{what}: there is no `{match['found']}`, only {', '.join(known)}{_asked(match['found'], known)}"
        if match := _VALUE.fullmatch(message):
            wanted = "a number" if match["type"] == "number" else match["type"]
            return f"{match['what'].split('/')[0]}: expected {wanted}, found `{match['found']}`"
        if match := _UNKNOWN.match(message):
            options = [o for action in self._actions for o in action.option_strings]
            option = match["found"].partition("=")[0]
            return f"there is no option `{option}`{_asked(option, options)}" if option.startswith("-") else message
        if match := _MISSING.fullmatch(message):
            remainders = [
                str(action.metavar or action.dest) for action in self._actions if action.nargs == argparse.REMAINDER
            ]
            names = [what.split("/")[0] for what in match["what"].split(", ") if what not in remainders]
            return f"expected {' and '.join(names)}"
        if match := _ONE_OF.fullmatch(message):
            *names, last = match["what"].split(" ")
            return f"expected {', '.join(names)} or {last}"
        if match := _OTHER.fullmatch(message):
            said = _SAID.get(match["said"], match["said"]).replace("not allowed with argument", "not together with")
            return f"{match['what'].split('/')[0]}: {said}"
        return message


def _asked(unknown: str, known: list[str]) -> str:
    close = closest(unknown, known)
    return "" if close is None else f"; did you mean `{close}`?"


# ---- numbers ---------------------------------------------------------------------------------------------------------
def positive(text: str) -> float:
    """Parses a number that is more than 0, and finite."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"`{text}` is not a positive number")
    return value


positive.__name__ = "number"  # argparse says: expected a number


def whole(what: str, least: int, most: int | None = None) -> Callable[[str], int]:
    """Makes a parser of integers in a range, called `what` in its errors."""

    def convert(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least or (most is not None and int(text) > most):
            until = "" if most is None else f" to {most}"
            raise argparse.ArgumentTypeError(f"`{text}` is not {what} from {least}{until}")
        return int(text)

    return convert


# ---- what many commands take -----------------------------------------------------------------------------------------
HERE = (".",)
OPTIONS = "--option value"
"""The text behind a program on a command line."""


def add_paths(parser: argparse.ArgumentParser) -> None:
    """The files and folders that a command looks at."""
    help = "a file, or a folder with all that is in it; the folder that one is in if there is none"
    parser.add_argument("paths", nargs="*", default=HERE, metavar="PATH", help=help)


def add_program(parser: argparse.ArgumentParser) -> None:
    """The program that a command runs, and the options of that."""
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar=OPTIONS, help="the parameters of `main`")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="messages as JSON on the standard output, one a line")


def add_sanitize(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sanitize", action="store_true", help="check each access to memory, to find mistakes of the compiler; slow"
    )


def use_checks(wanted: bool) -> None:
    """Has compiled code check what it touches of memory, if that is asked for."""
    if wanted:
        os.environ[engine.CHECKS] = "1"


def add_colour(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        help="colours in messages: on a terminal, unless NO_COLOR or FORCE_COLOR in the environment says otherwise",
    )


def use_colour(choice: str | None) -> None:
    """Does as the option says, if it was given; programs that are started see it too."""
    if choice in ("always", "never"):
        os.environ.pop("NO_COLOR" if choice == "always" else "FORCE_COLOR", None)
        os.environ["FORCE_COLOR" if choice == "always" else "NO_COLOR"] = "1"
    elif choice == "auto":
        os.environ.pop("FORCE_COLOR", None)
        os.environ.pop("NO_COLOR", None)


def add_backend(parser: argparse.ArgumentParser) -> None:
    """The options that say what runs a program."""
    parser.add_argument(
        "--backend",
        choices=("cpu", "interp", "cuda", "cuda-emulated"),
        default="cpu",
        help="native code, the reference interpreter, or loops as kernels of a GPU, or of one that is emulated",
    )
    add_threads(parser)


# ---- threads ---------------------------------------------------------------------------------------------------------
def add_threads(parser: argparse.ArgumentParser) -> None:
    """The option that says how many threads there are."""
    help = "how many threads work on a large loop; one for each processor unless this or DLANG_THREADS says otherwise"
    parser.add_argument("--threads", type=_threads, metavar="N", help=help)


def use_threads(count: int | None) -> None:
    """Does as the option says, if it was given."""
    if count is not None:
        threads.default_pool().limit(count)


def _threads(text: str) -> int:
    return whole("a number of threads", 1, threads.MOST)(text)


# ---- what is to be measured ------------------------------------------------------------------------------------------
def add_measures(parser: argparse.ArgumentParser, taken: frozenset[str] = frozenset()) -> None:
    """The options of `dlc run` that ask for it, but those whose names are taken."""
    if "memory" not in taken:
        parser.add_argument("--memory", action="store_true", help="print how much memory the run needed")
    if "profile" not in taken:
        parser.add_argument("--profile", action="store_true", help="print where the time of the run went")
    if "profile_out" not in taken:
        parser.add_argument("--profile-out", metavar="FILE", help="write it for chrome://tracing or ui.perfetto.dev")


# ---- files -----------------------------------------------------------------------------------------------------------
INSTALLED = ("site-packages", "node_modules")


def programs(paths: Sequence[str]) -> list[str]:
    """Files, and the `.dl` files in folders, each once. E0951 for a path where nothing is, E0973 if there are none."""
    by_real_path: dict[str, str] = {}
    for path in paths:
        for file in programs_of(path):
            by_real_path.setdefault(os.path.realpath(file), file)
    if not by_real_path:
        what = ", ".join(f"`{path}`" for path in paths)
        help = ("a program is a file whose name ends in .dl; hidden folders are passed over",)
        raise diagnostics.error("E0973", f"there is no program in {what}", None, help=help)
    return list(by_real_path.values())


def programs_of(path: str) -> list[str]:
    """A file, or the programs of a folder in the order of their names. E0951 if nothing is there."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as e:
        raise modules.unreadable(path, e) from None
    return list(map(str, sorted(programs_in(Path(path))))) if stat.S_ISDIR(mode) else [str(Path(path))]


def programs_in(folder: Path) -> Iterator[Path]:
    """The `.dl` files in a folder and those below, but the ones that are hidden or hold what others have written:
    environments of Python, caches."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name not in INSTALLED)
        for name in sorted(files):
            if name.endswith(".dl") and os.path.isfile(file := os.path.join(parent, name)):
                yield Path(file)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Reports a failure to write the file in the block as a diagnostic: E0822."""
    try:
        yield
    except OSError as e:
        raise diagnostics.error("E0822", f"cannot write `{path}`: {e.strerror}", None) from None


def replace_file(path: str | Path, content: bytes | str) -> None:
    """Writes a file as a whole or not at all; its permissions stay. E0822 if it can't be written."""
    with writing(path):
        drafts.write(path, content)


def refuse_unwritable(path: str) -> None:
    """E0822 for a file that could not be written now, before work is done whose results are to be in it."""
    with writing(path):
        folder = os.path.dirname(os.path.realpath(path))
        os.stat(folder)
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        places = (path, folder) if os.path.isfile(path) else (path,) if os.path.exists(path) else (folder,)
        if not all(os.access(place, os.W_OK) for place in places):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
