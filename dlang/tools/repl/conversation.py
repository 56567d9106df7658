"""Reads inputs and answers them, until there are no more."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING

from dlang import __version__
from dlang.diagnostics import DlangError
from dlang.driver import Backend
from dlang.lazy_modules import lazy_module
from dlang.tools.repl.commands import Conversation, perform
from dlang.tools.repl.inputs import incomplete, pieces
from dlang.tools.repl.session import Session

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.eventloop import InputHookContext

    from dlang.tools import pictures, report
else:
    pictures = lazy_module("dlang.tools.pictures")
    report = lazy_module("dlang.tools.report")

_FIRST_NEEDED = (
    "numpy",
    "llvmlite.binding",
    "dlang.specialize.specialize",
    "dlang.pipeline",
    "dlang.runtime.build",
    "dlang.runtime.engine",
    "dlang.codegen.llvm.modules",
    "dlang.tools.repl.values",
)


def repl(
    backend: Backend, files: Sequence[str] = (), editor: Callable[[Conversation], PromptSession[str]] | None = None
) -> int:
    """Reads and answers until the end of the input, which is 0. files: to be loaded first.

    editor: makes what reads inputs, unless the default.
    """
    conversation = Conversation(Session(backend))
    if editor is None and sys.stdin.isatty() and sys.stdout.isatty():
        from dlang.tools.repl.prompt import prompt_of

        editor = prompt_of
    if editor is None:
        _begin(conversation, files)
        return _read_plainly(conversation)
    conversation.verbose = True
    print(f"dlang {__version__}; :help says what can be written")
    _begin(conversation, files)
    prompt = editor(conversation)
    return _read_edited(conversation, lambda: prompt.prompt(inputhook=_windows_stay_alive if _plotted() else None))


def _plotted() -> bool:
    return "matplotlib.pyplot" in sys.modules


def _windows_stay_alive(context: InputHookContext) -> None:
    """Called while nothing is typed."""
    pictures.alive(lambda: not context.input_is_ready())


def _begin(conversation: Conversation, files: Sequence[str]) -> None:
    for path in files:
        answered(conversation, f":load {path}")


def _read_edited(conversation: Conversation, read: Callable[[], str]) -> int:
    """Inputs that a person edits. Ctrl-C drops one, or stops what it runs, and never the session; Ctrl-D ends."""
    warming = Thread(target=lambda: [import_module(name) for name in _FIRST_NEEDED], daemon=True)
    warming.start()
    while True:
        running = False
        with suppress(KeyboardInterrupt):  # one that comes while another is told of
            try:
                text = read()
                running = True
                warming.join()
                if text.strip() and not answered(conversation, text):
                    return 0
            except EOFError:
                return 0
            except KeyboardInterrupt:
                if running:
                    print()  # behind the ^C that a terminal shows
                    _interrupted()


def _read_plainly(conversation: Conversation) -> int:
    for text in _lines():
        try:
            if not answered(conversation, text):
                break
        except KeyboardInterrupt:
            _interrupted()
        sys.stdout.flush()
    return 0


def _interrupted() -> None:
    sys.stdout.flush()
    print("interrupted", file=sys.stderr)


def answered(conversation: Conversation, text: str) -> bool:
    """Does what an input says, or several in a text that was pasted, up to one with a mistake; False if it ends the
    conversation."""
    try:
        for piece in pieces(text):
            if not piece.lstrip().startswith(":"):
                conversation.answer(conversation.session.submit(piece))
            elif not perform(conversation, piece):
                return False
    except DlangError as e:
        conversation.problems(e.diagnostics)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as e:
        if os.environ.get("DLANG_DEBUG"):
            raise
        sys.stdout.flush()
        report.report_defect(e)  # the session is what it was
    return True


def _lines() -> Iterator[str]:
    """Inputs from a pipe: lines, joined while a bracket is open. Two empty lines end one anyway."""
    lines: list[str] = []
    while line := sys.stdin.readline():
        lines.append(line.rstrip("\n"))
        text = "\n".join(lines)
        if incomplete(text) and lines[-2:] != ["", ""]:
            continue
        lines = []
        if text.strip():
            yield text
    if lines:
        yield "\n".join(lines)
