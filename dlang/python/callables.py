"""Functions of Python that programs call: as arguments, and by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import update_wrapper
from itertools import count
from typing import TYPE_CHECKING, Any

from dlang.diagnostics import DlangError, Source, Span, error
from dlang.driver import check, errors_of
from dlang.lazy_modules import lazy_module
from dlang.typecheck.headers import FnDecl, Local, Param
from dlang.typecheck.scope import FnEntry
from dlang.typecheck.state import Scheme
from dlang.typecheck.terms import copy, size_of_param, variables
from dlang.typecheck.types import Type, TypeCon, TypeFn

if TYPE_CHECKING:
    from dlang.typecheck import foreign
    from dlang.typecheck.program import Checked
else:
    foreign = lazy_module("dlang.typecheck.foreign")


@dataclass
class Handles:
    """The callables of the calls under way, by number."""

    held: dict[int, Callable[..., Any]] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=lambda: count(1))

    def hold(self, function: Callable[..., Any]) -> int:
        number = next(self.numbers)
        self.held[number] = function
        return number

    def release(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            del self.held[number]

    def call(self, number: int, *args: Any) -> Any:
        return self.held[number](*args)


@dataclass(frozen=True, slots=True)
class Passed:
    """A function as an argument. arity: of foreign code, whose first parameter is the number of the callable."""

    entry: FnEntry
    arity: int | None = None


def of_language(checked: Checked, expression: str, decl: FnDecl, settle: bool) -> Passed:
    """A function of a module, or a derivative of one."""
    entry = checked.table.entries.get(expression)
    if isinstance(entry, FnEntry):
        return Passed(entry)
    if settle:
        message = f"`{decl.name}` cannot be passed to a function: its types are not written out"
        raise error("E0964", message, decl.span, help=("annotate the function that is differentiated",))
    assert decl.result is not None
    params = tuple([p.local.type for p in decl.params])
    sizes = tuple([size_of_param(p.local) for p in decl.params])
    scheme = Scheme(params, decl.result, sizes, decl.variables, decl.opened)
    names = tuple([p.local.name for p in decl.params])
    return Passed(FnEntry(decl, scheme, names, tuple([p.has_default for p in decl.params])))


def of_python(param: Param, arrow: TypeFn, known: Iterable[Type], handles: Handles, span: Span) -> Passed:
    """Foreign code of the type of a parameter. known: the types of the parameters that are no functions."""
    settled = {*variables(*arrow.params, *known), *arrow.opened}
    if any(v not in settled for v in variables(arrow.result)):
        raise _untold(param, span)
    name = param.local.name
    which = Local("which", TypeCon("i64"))
    locals_ = [Local(f"x{k}", t) for k, t in enumerate(arrow.params)]
    decl = FnDecl(name, "", param.local.span or span, kind="extern", result=arrow.result)
    decl.params = tuple([Param(local) for local in (which, *locals_)])
    decl.variables, decl.opened = tuple(variables(*arrow.params, arrow.result)), arrow.opened
    decl.effects = frozenset(copy(arrow.effects).names)
    decl.body = foreign.foreign_body(decl, foreign.PRIMITIVE)
    foreign.given_by(decl, handles.call)
    scheme = Scheme((which.type, *arrow.params), arrow.result, (None,) * len(decl.params), decl.variables, decl.opened)
    return Passed(FnEntry(decl, scheme, (None,) * len(decl.params), (False,) * len(decl.params)), len(arrow.params))


def _untold(param: Param, span: Span) -> DlangError:
    message = f"the type of `{param.local.name}` does not say what a function of Python gives"
    help = "annotate the parameter, for example `f: (f64[n]) -> f64`; or pass a function of the language"
    return error("E0964", message, param.local.span or span, help=(help,))


# ---- functions by name -----------------------------------------------------------------------------------------------
# Functions of Python that programs call by name: `@dlang.primitive("fn hypot2(x: f64[n], y: f64[n]) -> f64[n]")`.
#
# Nothing is registered: a program can call those that it is given, `dlang.compile(text, primitives=[hypot2])`.


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
        primitive = Primitive(signature, function)
        if mistakes := errors_of(check(Source("<primitives>", ""), primitives=[declared(primitive)])):
            raise DlangError(mistakes)
        return primitive

    return decorate


def declared(given: Primitive) -> foreign.Primitive:
    """A primitive as the checker wants it."""
    if not isinstance(given, Primitive):
        message = f"`primitives` are functions with a signature, not {type(given).__name__}"
        raise error("E0965", message, None, help=('decorate the function: `@dlang.primitive("fn f(x: f64) -> f64")`',))
    name = getattr(given.function, "__name__", "primitive")
    return foreign.Primitive(Source(f"<signature of {name}>", given.signature), given.function)
