"""Functions as values of a session. They can't leave a run, but have types, for all sizes that they take, and code."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, Source
from dlang.grammar import syntax as s
from dlang.tools.assistance.calls import GIVE_FUNCTIONS
from dlang.tools.repl.annotations import items_of
from dlang.tools.repl.compose import RESULT, bound
from dlang.tools.repl.names import signature, type_of_name
from dlang.tools.repl.state import Recipe, mentions
from dlang.typecheck.headers import FnDecl
from dlang.typecheck.program import Checked, check_function, scheme_text
from dlang.typecheck.scope import FnEntry

if TYPE_CHECKING:
    from dlang.tools.repl.session import Session


def functions_among(session: Session, source: Source, body: Sequence[s.Statement]) -> dict[str, str]:
    """The names that statements give to functions which see nothing that the statements name themselves, and the types
    of these."""
    found: dict[str, str] = {}
    own = {n for let in body if isinstance(let, s.Let | s.Var) for n in bound(let.pattern)}
    for let in body:
        if isinstance(let, s.Let) and isinstance(let.pattern, s.PatternName) and let.type is None:
            if not own & mentions(let.value):
                t = type_of_function(session, source, let.value)
                if t is not None:
                    found[let.pattern.name] = t
    return found


def type_of_function(session: Session, source: Source, e: s.Expr) -> str | None:
    """The type for people of a name of a function, a lambda, or a derivative of a function; else None.

    Raises `DlangError`.
    """
    values, checked = session.state.values, session.checked
    match e:
        case s.Name(name=name) if name in values:
            value = values[name]
            return value.shown if isinstance(value, Recipe) and value.function else None
        case s.Name(name=name):
            return type_of_name(name, checked)
        case s.Field(base=s.Name(name=name)) if name not in values:
            return type_of_name(e.span.text, checked)
        case s.Lambda():
            decl, given = function_of(session, source, e)
            return scheme_text(replace(decl, params=decl.params[given:]))
    function = derived(e, checked, values)
    return None if function is None else scheme_text(applied(e.span.text, function, checked))


def function_of(session: Session, source: Source, e: s.Lambda) -> tuple[FnDecl, int]:
    """A lambda as a function of the values that it sees, and of its parameters; and how many of the former there are.

    Raises `DlangError`.
    """
    body = [s.Let(e.span, s.PatternName(e.span, RESULT), e.result, e.body)]
    decl, _ = session.composed(session.checked, source, body, [RESULT], more=e.parameters)
    assert decl.result is not None
    return replace(decl, result=items_of(decl.result)[0]), len(decl.params) - len(e.parameters)


def derived(e: s.Expr, checked: Checked, hidden: Container[str]) -> FnEntry | None:
    """The function of which an expression such as `grad(f)` is a derivative, if `f` is for all sizes or types.

    Then the derivative does so too, but only as a function with parameters of its own. hidden: names of values.
    """
    match e:
        case s.Call(function=s.Name(name=form), arguments=(s.Argument(value=s.Name(name=name)), *_)):
            if form in GIVE_FUNCTIONS and name not in hidden and form not in hidden and name in checked.table.functions:
                found = checked.program.value(checked.table, name)
                return found if isinstance(found, FnEntry) and found.decl.variables else None
    return None


def applied(text: str, of: FnEntry, checked: Checked) -> FnDecl:
    """`fn input(a: …, b: …) = text(a, b)`, with the parameters of a function. Raises `DlangError`."""
    like = signature("input", of, checked)
    names = [n or f"x{k}" for k, n in enumerate(like.names)]
    types = [p.partition(": ")[2].removesuffix(" = …") for p in like.parameters]
    return calling(text, names, types, checked, like.bounds)


def calling(text: str, names: Sequence[str], types: Sequence[str], checked: Checked, bounds: str = "") -> FnDecl:
    """A function with parameters of some types, which calls with them what a text gives. Raises `DlangError`."""
    parameters = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    item = f"fn input{bounds}({parameters}) = ({text})({', '.join(names)})"
    decl, found = check_function(checked, Source("<expression>", item))
    if decl is None:
        raise DlangError(found)
    return decl
