"""Explains why a program has no derivative: at the operation without one, with the path to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from dlang.diagnostics import DlangError, Note, Span, error
from dlang.ir.anf import Effect, Foreign, Function, Let


def refusal(let: Let) -> DlangError:
    """E0705 for a foreign function without a rule, or an effect."""
    match let.op:
        case Foreign(target=target) | Effect(name="foreign", static=(target,)):
            name = target.rpartition(":")[2].partition("#")[0]
            return error(
                "E0705",
                f"cannot differentiate the foreign function `{name}`, because it has no rule",
                let.span,
                label="a derivative passes through this call",
                notes=_calls(let.span),
                help=("wrap the argument in `stop_gradient`, or write the function in the language",),
            )
        case Effect(name=name):
            return error(
                "E0705",
                f"`{name}` has no derivative",
                let.span,
                label="a derivative passes through this operation",
                notes=_calls(let.span),
                help=("give the function a `pullback`, or wrap the argument in `stop_gradient`",),
            )
        case op:
            raise AssertionError(f"{type(op).__name__} has a derivative")


@contextmanager
def called(function: Function, span: Span | None) -> Iterator[None]:
    """Adds to a refusal inside that the function is called here."""
    notes = () if span is None else (Note(f"in `{function.label or function.name}`, called here", span.plain),)
    with _noted((*notes, *_calls(span))):
        yield


@contextmanager
def differentiated(span: Span | None) -> Iterator[None]:
    """Adds to a refusal inside that it is a derivative that is asked for here."""
    with _noted(() if span is None else (Note("a derivative is taken here", span.plain),)):
        yield


@contextmanager
def _noted(notes: tuple[Note, ...]) -> Iterator[None]:
    try:
        yield
    except DlangError as problem:
        raise DlangError([replace(d, notes=(*d.notes, *notes)) for d in problem.diagnostics]) from None


def _calls(span: Span | None) -> tuple[Note, ...]:
    """The calls that code stands for which has taken their place, innermost first."""
    return () if span is None else tuple(Note(f"in `{site.label}`, called here", site.span) for site in span.calls())
