"""A cell: inputs of a session, and its commands, each on a line that begins with a colon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dlang.diagnostics import DlangError, error, render
from dlang.tools.graph import graph_of
from dlang.tools.repl.commands import Conversation, perform
from dlang.tools.repl.inputs import pieces
from dlang.tools.repl.looking import code_of
from dlang.tools.repl.session import Session, Shown
from dlang.tools.repl.state import LAST

CODE = {":ir": "opt", ":llvm": "llvm", ":asm": "asm", ":cuda": "cuda"}


@dataclass(frozen=True, slots=True)
class Value:
    """What a cell shows: plain text, and the type that stands behind it."""

    text: str
    type: str


@dataclass(frozen=True, slots=True)
class Code:
    """The program of something after a stage. language: whose colours it has."""

    text: str
    language: str


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph in DOT."""

    dot: str


Display = Value | Code | Graph


@dataclass(slots=True)
class Notebook:
    """One conversation of cells. show: called with what a cell has to show, in order."""

    show: Callable[[Display], None]
    conversation: Conversation = field(default_factory=lambda: Conversation(Session()))

    @property
    def session(self) -> Session:
        return self.conversation.session

    def run(self, text: str) -> list[str]:
        """Does what a cell says; the names of the functions that it declared. Raises `DlangError`."""
        declared: list[str] = []
        for piece in pieces(text):
            if piece.lstrip().startswith(":"):
                self._command(piece.strip())
                continue
            answer = self.session.submit(piece)
            declared += [name for name, _ in answer.declared]
            value = answer.value
            if value is not None:
                self.show(self._value(value))
                self.conversation.answer(type(answer)(None, (), answer.stale, answer.replaced))
            else:
                self.conversation.answer(answer)
        return declared

    def _value(self, shown: Shown) -> Value:
        return Value(self.conversation.value(shown), shown.type)

    def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        if name == ":graph":
            self._graph(rest.split())
        elif name in CODE and len(rest.split()) == 1:
            self.show(Code(code_of(self.session, rest, CODE[name], name), name[1:]))
        else:
            perform(self.conversation, line)

    def _graph(self, words: list[str]) -> None:
        """`:graph f`, and `:graph grad f`."""
        gradient = words[:1] == ["grad"]
        if len(words) != 1 + gradient:
            raise error("E0971", "`:graph` takes the name of a function, perhaps behind `grad`", None)
        self.show(Graph(graph_of(self.session.checked, words[-1], gradient, "opt").text()))


def message(e: DlangError, *, colour: bool) -> str:
    """The messages of an error, as a cell shows them."""
    return "\n\n".join(render(d, colour=colour).replace(LAST, "_") for d in e.diagnostics)
