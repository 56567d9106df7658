"""The commands of `dlc`: one row each, whose module is imported when the command is called.

The module `dlang.tools.<module>` has `options(parser)`, which adds the options of the command, and `main(args)`, which
does what it says and gives the exit code.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from dlang.tools.arguments import Parser


@dataclass(frozen=True, slots=True)
class Command:
    """help: a line in the list of commands. about: what its own help says beside that."""

    name: str
    module: str
    help: str
    about: str = ""


class Implementation(Protocol):
    """What the module of a command has."""

    def options(self, parser: Parser) -> None: ...

    def main(self, args: argparse.Namespace) -> int: ...


GROUPS: dict[str, tuple[Command, ...]] = {
    "write and run": (
        Command("run", "run", "run a program", "Calls `main`, or runs a file of statements."),
        Command("check", "check", "check types, sizes and effects, and run nothing"),
        Command("test", "test", "run the test blocks of files and folders"),
        Command("eval", "evaluate", "print the value of an expression"),
        Command("repl", "repl", "a conversation: declarations, statements, expressions"),
    ),
    "look inside": (
        Command("ir", "ir", "print a program after a stage of the compiler"),
        Command(
            "check-grad",
            "check_grad",
            "compare the derivatives of functions, computed in four ways",
            "Differentiates functions at random arguments: compiled in reverse and forward mode, by the reference, "
            "and by differences. Without --fn or --all: those that give one float, and those with rules.",
        ),
        Command("explain", "explain", "what a code such as E0301 means, with an example"),
    ),
    "look after it": (
        Command(
            "cache",
            "cache",
            "what is kept between runs: how much, where, and to remove it",
            "Checked modules and machine code are kept in $DLANG_CACHE, or else in the user's cache directory, "
            "up to $DLANG_CACHE_SIZE (1G unless set; 0 keeps nothing).",
        ),
    ),
}
COMMANDS: dict[str, Command] = {c.name: c for commands in GROUPS.values() for c in commands}


def implementation(command: Command) -> Implementation:
    """The module of a command."""
    return cast(Implementation, import_module(f"dlang.tools.{command.module}"))


def parser_of(command: Command) -> Parser:
    """What reads the words that follow the command."""
    parser = Parser(prog=f"dlc {command.name}", description=command.about or f"{command.help.capitalize()}.")
    implementation(command).options(parser)
    return parser


def overview() -> str:
    """The commands in their groups, a line each."""
    width = max(map(len, COMMANDS))
    lines: list[str] = []
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {c.name:<{width}}  {c.help}" for c in commands)]
    return "\n".join([*lines[1:], "", "`dlc COMMAND --help` says what a command takes."])
