"""`%load_ext dlang`: cells of the language in a notebook of Python.

    %%dl [-i NAME,…] [-o NAME,…]     a cell: declarations, statements, commands of `dlc repl`
    %dl EXPR                         the value of an expression, for Python

Functions and types that a cell declares are functions and classes of Python from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from dlang.diagnostics import DlangError, Source, error
from dlang.driver import Request, lower
from dlang.grammar import syntax as s
from dlang.host.values import texts
from dlang.lazy_modules import np
from dlang.python.arguments import Matcher
from dlang.python.function import Function
from dlang.python.instances import Program, type_text
from dlang.python.module import define
from dlang.specialize.structs import StructClasses
from dlang.tools.notebook.cells import Display, Notebook, bundle, message
from dlang.tools.repl.compose import RESULT, decide
from dlang.tools.repl.session import Session
from dlang.tools.repl.state import LAST, Recipe, StoredValue, datatypes_of, leaves_a_run, written
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.program import check_function
from dlang.typecheck.types import DataDecl


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


def take(session: Session, name: str, value: Any, classes: StructClasses) -> None:
    """Puts a value of Python into a session, under its name. Raises `DlangError`."""
    typed = _typed(session, value)
    if typed is None:
        kind = type(value).__name__ + (f" of {value.dtype}" if isinstance(value, np.ndarray) else "")
        help = ("numbers, texts, arrays, tuples, and structs and enums of a cell can be taken",)
        raise error("E0998", f"`{name}` is a {kind}, which the language has no value for", None, help=help)
    (parameter,) = typed.params
    function, matcher = Function(Program(session.checked, "interp", classes), typed, typed.name, False), Matcher(typed)
    _, leaves = function.matched({parameter: value})
    matcher.match({parameter: value})
    _, (entry,) = lower([Request(typed, matcher.bindings())])
    t, (form,) = parameter.local.type, entry.params
    if not leaves_a_run(t):
        raise error("E0998", f"`{name}` is a list or a tree, which can't be kept between cells", None)
    decls = {d: session.state.text_of_type(d.name) for d in datatypes_of(t)}
    shown = written(t, form, leaves)
    kept = StoredValue(form, tuple(leaves), t, shown, decls=decls)
    session.state = replace(session.state, values={**session.state.values, name: kept})


def _typed(session: Session, value: Any) -> FnDecl | None:
    """A function that takes values of the type of this one; None if it is of no type."""
    structs: dict[str, DataDecl] = {}
    if (words := texts(value)) is not None and words.size:
        text = f"str[{', '.join('_' for _ in words.shape)}]"
    else:
        anything, _ = check_function(session.checked, Source("<taken>", "fn taken(x) = x"))
        assert anything is not None
        matcher = Matcher(anything)
        try:
            matcher.match({anything.params[0]: value})
        except DlangError:
            return None
        text = type_text(matcher.mono(anything.params[0].local.type), structs)
    return check_function(session.checked, Source("<taken>", f"fn taken(x: {text}) = x"), structs)[0]


def give(session: Session, name: str, classes: StructClasses) -> Any:
    """The value that a name stands for, as Python has it. Raises `DlangError`."""
    held = session.state.values.get(name)
    if held is None or (isinstance(held, Recipe) and held.function):
        what = "is a function" if held is not None else "is no value of the session"
        raise error("E0998", f"`{name}` {what}, so it can't be given to Python", None, help=(
            "functions that a cell declares are functions of Python already",))  # fmt: skip
    source, e = session.expression("_" if name == LAST else name, "-o")
    decl, given = session.composed(
        session.checked, source, [s.Let(e.span, s.PatternName(e.span, RESULT), None, e)], [RESULT]
    )
    decide(decl, {}, e.span)
    program = Program(session.checked, session.backend, classes)
    return program.prepare(decl, {})(session.leaves(given))[0]
