"""A cell: inputs of a session, and its commands, each on a line that begins with a colon."""

from __future__ import annotations

import html
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, render
from dlang.lazy_modules import lazy_module
from dlang.tools.pictures import image
from dlang.tools.repl.commands import (
    DRAWINGS,
    Conversation,
    code_of,
    graph_of,
    in_characters,
    ir_of,
    perform,
    picture_of,
)
from dlang.tools.repl.inputs import pieces, with_file
from dlang.tools.repl.session import Session
from dlang.tools.repl.state import LAST

if TYPE_CHECKING:
    from dlang.tools.highlighting import pygments_lexer
else:
    pygments_lexer = lazy_module("dlang.tools.highlighting.pygments_lexer")


_LISTINGS = ("llvm", "asm", "cuda")


@dataclass(frozen=True, slots=True)
class Value:
    """A value that a cell shows: plain text, and the type that stands behind it."""

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


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture of arrays, in characters, and as PNG if that can be made."""

    text: str
    png: bytes | None


Display = Value | Code | Graph | Drawing


@dataclass(slots=True)
class Notebook:
    """One conversation of cells. show: called with what a cell has to show, in order."""

    show: Callable[[Display], None]
    conversation: Conversation = field(default_factory=lambda: Conversation(Session()))

    @property
    def session(self) -> Session:
        return self.conversation.session

    def run(self, text: str, number: int, line: int = 1) -> None:
        """Does what a cell says. number: of the cell; line: that of its text. Raises `DlangError`."""
        end = 0
        for piece in pieces(text):
            start = max(text.find(piece, end), end)
            end = start + len(piece)
            if piece.lstrip().startswith(":"):
                self._command(piece.strip())
                continue
            above = text.count("\n", 0, start) + line - 1  # so that messages have the lines of the cell
            answer = self.session.submit("\n" * above + piece, name=f"<cell {number}>")
            if answer.value is not None:
                self.show(Value(self.conversation.value(answer.value), answer.value.type))
            self.conversation.answer(replace(answer, value=None))

    def _command(self, line: str) -> None:
        """Does what a command says; programs and pictures are shown."""
        name, _, operand = line.partition(" ")
        operand = operand.strip()
        if name == ":graph" and with_file(operand, DRAWINGS)[1] is None:
            self.show(Graph(graph_of(self.session, operand).text()))
        elif name == ":plot" and ">" not in operand:
            picture = picture_of(self.session, operand)
            self.show(Drawing(in_characters(picture, self.conversation.settings, False), image(picture)))
        elif name == ":ir":
            stage = operand.rpartition(" ")[2]
            self.show(Code(ir_of(self.session, operand), stage if stage in _LISTINGS else "ir"))
        elif name[1:] in _LISTINGS:
            self.show(Code(code_of(self.session, operand, name[1:], name), name[1:]))
        else:
            perform(self.conversation, line)


def message(e: DlangError, *, colour: bool) -> str:
    """The messages of an error, as a cell shows them."""
    return "\n\n".join(render(d, colour=colour).replace(LAST, "_") for d in e.diagnostics)


# ---- HTML ------------------------------------------------------------------------------------------------------------
# Renders cells as HTML; in colours, where Pygments is installed.

_LEXERS = {"ir": "dlang", "llvm": "llvm", "asm": "gas", "cuda": "cuda"}


def bundle(shown: Display) -> dict[str, str]:
    """The forms of what is shown by their MIME types; the plain text always."""
    match shown:
        case Value(text, type):
            plain = text if text == type else f"{text} : {type}"
            page = f"<pre>{html.escape(text)}</pre>"
            if text != type:
                page += f'<pre style="opacity: 0.6">{html.escape(type)}</pre>'
            return {"text/plain": plain, "text/html": page}
        case Code(text, language):
            return {"text/plain": text, "text/html": _coloured(text, language)}
        case Drawing(text, png):
            return {"text/plain": text} | ({"image/png": b64encode(png).decode()} if png is not None else {})
        case Graph(dot):
            picture = _svg(dot)
            return {"text/plain": dot} | ({"image/svg+xml": picture} if picture is not None else {})


def _coloured(text: str, language: str) -> str:
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
    except ImportError:
        return f"<pre>{html.escape(text)}</pre>"
    if language == "ir":
        return str(highlight(text, pygments_lexer.DlangLexer(), HtmlFormatter(noclasses=True)))
    return str(highlight(text, get_lexer_by_name(_LEXERS[language]), HtmlFormatter(noclasses=True)))


def _svg(dot: str) -> str | None:
    """The picture of a graph, by Graphviz if it is installed."""
    program = shutil.which("dot")
    if program is None:
        return None
    done = subprocess.run([program, "-Tsvg"], input=dot, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None
