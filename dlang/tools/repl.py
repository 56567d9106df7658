"""`dlc repl`: a conversation. On a terminal prompt_toolkit edits lines; from a pipe they are read as they are."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dlang import __version__
from dlang.diagnostics import DlangError, render
from dlang.driver import Backend
from dlang.tools.arguments import Parser, add_backend
from dlang.tools.session import LAST, Session, incomplete

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

HELP = """\
An input is an expression, statements, or declarations; it goes on while a bracket is open.
  _            the last value
  :type EXPR   the type of an expression
  :help        this text
  :quit        the end, as Ctrl-D"""
_PROMPT, _MORE = "> ", "| "


def options(parser: Parser) -> None:
    add_backend(parser)


def main(args: argparse.Namespace) -> int:
    return repl(args.backend)


def repl(backend: Backend, session: PromptSession[str] | None = None) -> int:
    """Reads and answers until the end of the input, which is 0. session: what reads lines, unless the default."""
    state = Session(backend)
    if session is None and sys.stdin.isatty() and sys.stdout.isatty():
        from prompt_toolkit import PromptSession

        session = PromptSession()
    if session is not None:
        print(f"dlang {__version__}; :help says what can be written")
    for text in _inputs(_reader(session)):
        try:
            if not answer(state, text):
                break
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
        sys.stdout.flush()
    return 0


def answer(state: Session, text: str) -> bool:
    """Does what one input says; False if it ends the conversation."""
    command, _, rest = text.strip().partition(" ")
    try:
        match command:
            case ":quit" | ":q":
                return False
            case ":help" | ":h":
                print(HELP)
            case ":type" | ":t":
                print(state.type_of(rest))
            case _ if command.startswith(":"):
                print(f"there is no command `{command}`; `:help` lists them", file=sys.stderr)
            case _:
                value = state.submit(text)
                if value is not None:
                    print(value)
    except DlangError as e:
        sys.stdout.flush()
        for d in e.diagnostics:
            print(render(d).replace(LAST, "_"), end="\n\n", file=sys.stderr)
        sys.stderr.flush()
    return True


def _inputs(read: Callable[[str], str]) -> Iterator[str]:
    """Whole inputs: lines, joined while a bracket is open. Two empty lines end one anyway."""
    while True:
        lines: list[str] = []
        try:
            while True:
                lines.append(read(_MORE if lines else _PROMPT))
                text = "\n".join(lines)
                if not incomplete(text) or lines[-2:] == ["", ""]:
                    break
        except KeyboardInterrupt:
            continue
        except EOFError:
            if lines:
                yield "\n".join(lines)
            return
        if text.strip():
            yield text


def _reader(session: PromptSession[str] | None) -> Callable[[str], str]:
    def line(_: str) -> str:
        text = sys.stdin.readline()
        if not text:
            raise EOFError
        return text.rstrip("\n")

    return line if session is None else session.prompt
