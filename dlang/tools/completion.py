"""`dlc completion`: a script with which a shell completes the command line, made of what the parsers know."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dlang.tools.arguments import Parser

SHELLS = ("bash", "zsh", "fish")

Files = Literal["none", "programs", "any", "folders"]


@dataclass(frozen=True, slots=True)
class Words:
    """What may stand in a place: some words, and files. taken: whether anything stands there at all."""

    choices: tuple[str, ...] = ()
    files: Files = "none"
    taken: bool = True


@dataclass(frozen=True, slots=True)
class Option:
    names: tuple[str, ...]
    help: str
    value: Words


@dataclass(frozen=True, slots=True)
class Completed:
    """A command: its options, and what its other words may be."""

    name: str
    help: str
    options: tuple[Option, ...]
    operands: Words


def options(parser: Parser) -> None:
    parser.add_argument("shell", choices=SHELLS)


def main(args: argparse.Namespace) -> int:
    from dlang.tools import shells

    write = {"bash": shells.bash, "zsh": shells.zsh, "fish": shells.fish}[args.shell]
    print(write(completed_commands()), end="")
    return 0


def completed_commands() -> list[Completed]:
    """All commands, as their parsers describe them; before them what stands before a command, whose name is empty."""
    from dlang.tools.commands import COMMANDS, parser_of
    from dlang.tools.dlc import parser_of_all

    names = Words(tuple(COMMANDS))
    first = Completed("", "", tuple(_options(parser_of_all())), names)
    return [first, *(_completed(c.name, c.help, parser_of(c)) for c in COMMANDS.values())]


def _completed(name: str, help: str, parser: Parser) -> Completed:
    operands = [a for a in parser._actions if not a.option_strings and a.nargs != argparse.REMAINDER]
    words = [_words(a, programs=True) for a in operands]
    choices = tuple(c for w in words for c in w.choices)
    files: Files = next((w.files for w in words if w.files != "none"), "none")
    return Completed(name, help, tuple(_options(parser)), Words(choices, files))


def _options(parser: argparse.ArgumentParser) -> Iterator[Option]:
    for action in parser._actions:
        if action.option_strings:
            yield Option(tuple(action.option_strings), _sentence(action.help or ""), _words(action, programs=False))


def _words(action: argparse.Action, programs: bool) -> Words:
    """What the value of an argument may be: its choices, or what the name of its value says."""
    if action.nargs == 0:
        return Words(taken=False)
    if action.choices is not None:
        return Words(tuple(map(str, action.choices)))
    match action.metavar:
        case "FILE" | "PATH":
            return Words(files="programs" if programs else "any")
        case "DIR":
            return Words(files="folders")
        case "CODE":
            from dlang.tools.explain import codes

            return Words(tuple(codes()))
    return Words()


def _sentence(help: str) -> str:
    """The help of an option, as shells show it: without the signs that argparse replaces."""
    return " ".join(help.replace("%%", "%").split())
