"""`dlc completion`: a script with which a shell completes the command line, made of what the parsers know."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dlang.lazy_modules import lazy_module
from dlang.tools import shells
from dlang.tools.arguments import OPTIONS, Parser
from dlang.tools.command_line import parser_of_all
from dlang.tools.commands import COMMANDS, parser_of
from dlang.tools.explain import codes

if TYPE_CHECKING:
    from dlang.tools import names_of_programs
else:
    names_of_programs = lazy_module("dlang.tools.names_of_programs")


SHELLS = ("bash", "zsh", "fish")
NAMES = "names"
"""In the place of a shell: what the scripts ask."""

Files = Literal["none", "programs", "any", "folders"]
Kind = Literal["fn", "test", "bench", "option"]


@dataclass(frozen=True, slots=True)
class Words:
    """The completions of a place: some words, files, and names of a kind in the programs that stand on the line.

    taken: whether anything stands there at all.
    """

    choices: tuple[str, ...] = ()
    files: Files = "none"
    names: Kind | None = None
    taken: bool = True


@dataclass(frozen=True, slots=True)
class Option:
    names: tuple[str, ...]
    help: str
    value: Words


@dataclass(frozen=True, slots=True)
class Completed:
    """A command: its options, and what its other words may be. programs: whether options of `main` stand behind."""

    name: str
    help: str
    options: tuple[Option, ...]
    operands: Words
    programs: bool = False


def options(parser: Parser) -> None:
    parser.add_argument("shell", choices=(*SHELLS, NAMES), help="or, as the scripts ask, names: of a KIND in programs")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="KIND …", help=argparse.SUPPRESS)
    parser.set_defaults(refuse=parser.error)


def main(args: argparse.Namespace) -> int:
    if args.shell == NAMES:
        if not args.words or args.words[0] not in names_of_programs.KINDS:
            args.refuse(f"expected a KIND of names, one of {', '.join(names_of_programs.KINDS)}")
        print("".join(f"{name}\n" for name in names_of_programs.names(args.words[0], args.words[1:])), end="")
        return 0
    if args.words:
        args.refuse(f"expected nothing behind `{args.shell}`")
    write = {"bash": shells.bash, "zsh": shells.zsh, "fish": shells.fish}[args.shell]
    print(write(completed_commands()), end="")
    return 0


def completed_commands() -> list[Completed]:
    """All commands, as their parsers describe them; before them what stands before a command, whose name is empty."""
    names = Words(tuple(COMMANDS))
    first = Completed("", "", tuple(_options("", parser_of_all())), names)
    return [first, *(_completed(c.name, c.help, parser_of(c)) for c in COMMANDS.values())]


def _completed(name: str, help: str, parser: Parser) -> Completed:
    operands = [a for a in parser._actions if not a.option_strings and a.nargs != argparse.REMAINDER]
    rest = {a.metavar for a in parser._actions if a.nargs == argparse.REMAINDER}
    words = [_words(name, a) for a in operands]
    choices = tuple(c for w in words for c in w.choices)
    files: Files = next((w.files for w in words if w.files != "none"), "none")
    return Completed(name, help, tuple(_options(name, parser)), Words(choices, files), programs=OPTIONS in rest)


def _options(command: str, parser: argparse.ArgumentParser) -> Iterator[Option]:
    for action in parser._actions:
        if action.option_strings:
            yield Option(tuple(action.option_strings), _sentence(action.help or ""), _words(command, action))


def _words(command: str, action: argparse.Action) -> Words:
    """Returns the possible values of an argument: its choices, or what its name or the name of its value says."""
    if action.nargs == 0:
        return Words(taken=False)
    if action.choices is not None:
        return Words(tuple(c for c in map(str, action.choices) if c != NAMES))
    match action.dest:
        case "fn" | "grad" | "value_and_grad":
            return Words(names="fn")
        case "test":
            return Words(names="test")
        case "filter":
            return Words(names="bench" if command == "bench" else "test")
    match action.metavar:
        case "FILE" | "PATH":
            return Words(files="any" if action.option_strings else "programs")
        case "FILE.csv":
            return Words(files="any")
        case "DIR":
            return Words(files="folders")
        case "PASS[:N]" | "PASS,…":
            from dlang.dump_ir import passes

            return Words(tuple(passes()))
        case "CODE":
            return Words(tuple(codes()))
    return Words()


def _sentence(help: str) -> str:
    """The help of an option, as shells show it: without the signs that argparse replaces."""
    return " ".join(help.replace("%%", "%").split())
