"""`%load_ext dlang`: cells of the language in a notebook of Python.

    %%dl [-i NAME,…] [-o NAME,…]     a cell: declarations, statements, commands of `dlc repl`
    %dl EXPR                         the value of an expression, for Python

Functions and types that a cell declares are functions and classes of Python from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from dlang.diagnostics import DlangError, error
from dlang.python.instances import Program
from dlang.python.module import define
from dlang.tools.notebook.cells import Display, Notebook, message
from dlang.tools.notebook.html import bundle
from dlang.tools.notebook.values import give, take
from dlang.tools.repl.state import LAST


class CellError(Exception):
    """A mistake in a cell. IPython shows the message of the compiler in place of a traceback."""

    def _render_traceback_(self) -> list[str]:
        return str(self).split("\n")


@magics_class
class DlangMagics(Magics):
    """The state of the cells: one session for a notebook."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.notebook = Notebook(_show)
        self.program: Program | None = None

    @magic_arguments()
    @argument("-i", "--input", default="", help="names of Python whose values the cell takes, separated by commas")
    @argument("-o", "--output", default="", help="names of the cell whose values Python takes")
    @cell_magic
    def dl(self, line: str, cell: str | None = None) -> Any:
        """A cell of the language."""
        args = parse_argstring(self.dl, line)
        with _told():
            for name in _names(args.input):
                if name not in self.shell.user_ns:
                    raise error("E0998", f"there is no `{name}` in the notebook to be taken", None)
                take(self.notebook.session, name, self.shell.user_ns[name], self._declared().classes)
            try:
                self.notebook.run(cell or "", self._number, line=2)
            finally:
                self._declared()  # what stands before a mistake too
            for name in _names(args.output):
                self.shell.user_ns[name] = self._given(name)

    @line_magic("dl")
    def expression(self, line: str) -> Any:
        """The value of an expression."""
        with _told():
            answer = self.notebook.session.submit(line, name=f"<cell {self._number}>")
            self._declared()
            return None if answer.value is None else self._given(LAST)

    @property
    def _number(self) -> int:
        """Returns the number of the cell, which is in the history before it runs."""
        return len(self.shell.history_manager.input_hist_parsed) - 1

    def _given(self, name: str) -> Any:
        return give(self.notebook.session, name, self._declared().classes)

    def _declared(self) -> Program:
        """Functions and classes of Python, made of what the session declares if that has changed."""
        session = self.notebook.session
        now = self.program
        if now is None or now.checked is not session.checked or now.backend != session.backend:
            classes = None if now is None else now.classes
            now = define(self.shell.user_ns, session.checked, session.backend, classes=classes)
            self.program = now
        return now


@contextmanager
def _told() -> Iterator[None]:
    """Mistakes and interruptions that pass through are messages, without a traceback."""
    try:
        yield
    except DlangError as e:
        raise CellError(message(e, colour=True)) from None
    except KeyboardInterrupt:
        raise CellError("interrupted") from None


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _show(shown: Display) -> None:
    display(bundle(shown), raw=True)


def load_ipython_extension(shell: Any) -> None:
    """Registers the magics; `%load_ext dlang` calls it."""
    shell.register_magics(DlangMagics)
