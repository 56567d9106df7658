"""Talks to a person at a terminal, or reads commands from a pipe."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import IO, TYPE_CHECKING

from dlang.diagnostics import shown
from dlang.tools.debugger.commands import COMMANDS, Conversation
from dlang.tools.terminal import coloured, painted

if TYPE_CHECKING:
    from collections.abc import Callable

    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer

PROMPT = "(debug) "


def talk(c: Conversation, first: list[str]) -> None:
    """A conversation until it is over, or there is no more input. first: what is shown before."""
    show(first)
    read = _at_a_terminal(c) if sys.stdin.isatty() and sys.stdout.isatty() else _from(sys.stdin)
    while not c.over:
        try:
            text = read()
        except KeyboardInterrupt:  # a line is given up
            continue
        if text is None:
            return
        with interruptible(c):
            out = c.say(text)
        show(out)


def show(lines: list[str]) -> None:
    """Lines, with the one where it is in bold."""
    on = coloured(sys.stdout)
    for text in map(shown, lines):
        if text.startswith("error["):
            text = painted(text, "red", on)
        elif " ▸ " in text[:8]:
            text = painted(text, "bold", on)
        elif text.startswith("#"):
            text = painted(text, "blue", on)
        print(text)
    sys.stdout.flush()


@contextmanager
def interruptible(c: Conversation) -> Iterator[None]:
    """Inside, Ctrl-C ends a movement and nothing else."""

    def stop(number: int, frame: FrameType | None) -> None:
        c.debugger.machine.interrupt()
        if sys.stdout.isatty():
            os.write(sys.stdout.fileno(), b"\n")  # behind the ^C that the terminal shows

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _from(stream: IO[str]) -> Callable[[], str | None]:
    """Lines of a pipe; an empty one repeats nothing there."""

    def read() -> str | None:
        while line := stream.readline():
            if line.strip():
                return line
        return None

    return read


def _at_a_terminal(c: Conversation) -> Callable[[], str | None]:
    from prompt_toolkit import PromptSession

    session: PromptSession[str] = PromptSession(completer=_completer(c), complete_while_typing=False)

    def read() -> str | None:
        try:
            return session.prompt(PROMPT)
        except EOFError:
            return None

    return read


def _completer(c: Conversation) -> Completer:
    """Commands, and behind them the names of variables and functions."""
    from prompt_toolkit.completion import WordCompleter

    def words() -> list[str]:
        sources = c.debugger.machine.library.sources
        functions = [n for p in sources.known.values() for n in p.functions]
        return [*(command.names[0] for command in COMMANDS), *c.debugger.seen(), *functions]

    return WordCompleter(words)
