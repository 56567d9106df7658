"""Functions as values of a session. They can't leave a run, but have types, for all sizes that they take, and code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dlang.diagnostics import DlangError, Source
from dlang.grammar import syntax as s
from dlang.tools.assistance.situation import GIVE_FUNCTIONS
from dlang.tools.repl.compose import RESULT, bound
from dlang.tools.repl.names import meaning, signature, type_of_name
from dlang.tools.repl.state import Recipe, items_of, mentions
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
    found: tuple[FnDecl, int] | None
    match e:
        case s.Name(name=name) if name in values:
            value = values[name]
            return value.shown if isinstance(value, Recipe) and value.function else None
        case s.Name(name=name):
            return type_of_name(name, checked)
        case s.Field(base=s.Name(name=name)) if name not in values:
            return type_of_name(e.span.text, checked)
        case s.Lambda():
            found = function_of(session, source, e, e.body, e.result)
        case _:
            found = derivative(session, source, e)
    return None if found is None else scheme_text(replace(found[0], params=found[0].params[found[1] :]))


def function_of(
    session: Session, source: Source, e: s.Lambda, value: s.Expr, result: s.TypeExpr | None
) -> tuple[FnDecl, int]:
    """A function of the values that a lambda sees, and of its parameters, and how many of the former there are.

    value: what it gives, such as what the lambda does; result: the type of that, if it is written. Raises `DlangError`.
    """
    body = [s.Let(e.span, s.PatternName(e.span, RESULT), result, value)]
    decl, _ = session.composed(session.checked, source, body, [RESULT], more=e.parameters)
    assert decl.result is not None
    return replace(decl, result=items_of(decl.result)[0]), len(decl.params) - len(e.parameters)


def derivative(session: Session, source: Source, e: s.Expr) -> tuple[FnDecl, int] | None:
    """Returns the derivative that an expression such as `grad(f)` gives, if `f` may be for all sizes or types: then the
    derivative is so too, but only as a function with parameters of its own. And how many values it sees. Raises
    `DlangError`."""
    values, checked = session.state.values, session.checked
    match e:
        case s.Call(function=s.Name(name=form), arguments=(s.Argument(value=of), *_)):
            if form not in GIVE_FUNCTIONS or form in values:
                return None
            match of:
                case s.Name(name=name) | s.Field(base=s.Name(name=name)) if name not in values:
                    found = meaning(checked, of.span.text)
                    if isinstance(found, FnEntry) and found.decl.variables:
                        return _applied(e.span.text, found, checked), 0
                case s.Lambda(parameters=parameters) if all(isinstance(p.pattern, s.PatternName) for p in parameters):
                    names = [s.Name(p.span, n) for p in parameters for n in bound(p.pattern)]
                    arguments = tuple([s.Argument(n.span, n) for n in names])
                    return function_of(session, source, of, s.Call(e.span, e, arguments), None)
    return None


def _applied(text: str, of: FnEntry, checked: Checked) -> FnDecl:
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
