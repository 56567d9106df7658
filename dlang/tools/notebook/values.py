"""Values between a session and Python, both ways: numbers, texts, arrays, tuples, structs and enums."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dlang.diagnostics import DlangError, Source, error
from dlang.driver import Request, lower
from dlang.grammar import syntax as s
from dlang.host.values import texts
from dlang.lazy_modules import np
from dlang.python.arguments import Matcher
from dlang.python.function import Function
from dlang.python.instances import Program
from dlang.python.settling import type_text
from dlang.specialize.structs import StructClasses
from dlang.tools.repl.annotations import datatypes_of, leaves_a_run, written
from dlang.tools.repl.compose import RESULT, decide
from dlang.tools.repl.session import Session
from dlang.tools.repl.state import LAST, Recipe, StoredValue
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.program import check_function
from dlang.typecheck.types import DataDecl


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
