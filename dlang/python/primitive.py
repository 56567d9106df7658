"""Functions of Python that programs call by name: `@dlang.primitive("fn hypot2(x: f64[n], y: f64[n]) -> f64[n]")`.

Nothing is registered: a program can call those that it is given, `dlang.compile(text, primitives=[hypot2])`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from dlang.diagnostics import DlangError, Source, error
from dlang.driver import check, errors_of
from dlang.lazy_modules import lazy_module

if TYPE_CHECKING:
    from dlang.typecheck import foreign
else:
    foreign = lazy_module("dlang.typecheck.foreign")


class Primitive:
    """A function of Python with a signature in the language; calling it calls the function."""

    def __init__(self, signature: str, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.signature = signature
        self.function = function

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named)

    def __reduce__(self) -> str:
        """It is pickled by its name, as functions of Python are."""
        return self.function.__qualname__

    def __repr__(self) -> str:
        return f"<dlang primitive {self.signature}>"


def primitive(signature: str) -> Callable[[Callable[..., Any]], Primitive]:
    """A decorator for functions that take and give NumPy arrays, numbers, tuples and structs, as the signature says.

    It is pure unless the type of its result says `! io`: it may then be called more or less often than it is written.
    A mistake in the signature is a `DlangError` that points into it.
    """

    def decorate(function: Callable[..., Any]) -> Primitive:
        made = Primitive(signature, function)
        if mistakes := errors_of(check(Source("<primitives>", ""), primitives=[declared(made)])):
            raise DlangError(mistakes)
        return made

    return decorate


def declared(given: Primitive) -> foreign.Primitive:
    """A primitive as the checker wants it."""
    if not isinstance(given, Primitive):
        message = f"`primitives` are functions with a signature, not {type(given).__name__}"
        raise error("E0965", message, None, help=('decorate the function: `@dlang.primitive("fn f(x: f64) -> f64")`',))
    name = getattr(given.function, "__name__", "primitive")
    return foreign.Primitive(Source(f"<signature of {name}>", given.signature), given.function)
