"""Declarations of functions outside of the language: what their targets and types may be, and their bodies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from dlang.diagnostics import Diagnostic, Source, Span
from dlang.grammar import syntax as s
from dlang.ops.dtypes import HALF, TRUNCATED
from dlang.typecheck import core, types as ty
from dlang.typecheck.printing import Names

REFUSED = "E0418"
PRIMITIVE = "primitive"  # the target of a function of Python that has been given itself
_TARGET = re.compile(r"python:[^\W\d]\w*(\.[^\W\d]\w*)+|c:[^:]*:[^\W\d]\w*|cuda:[^:]+:[^\W\d]\w*")
_FORMS = '`"python:module.function"`, `"c:library:symbol"` or `"cuda:file.cu:kernel"`'


@dataclass(frozen=True, slots=True)
class Primitive:
    """A function of Python with a signature, `fn f(x: f64[n]) -> f64`, to be called from the language."""

    signature: Source
    function: Callable[..., object]


def foreign_body(decl: core.FnDecl, target: str) -> core.Foreign:
    """The body of an `extern`."""
    assert decl.result is not None
    args = tuple([core.Ref(p.local.type, decl.span, p.local) for p in decl.params])
    return core.Foreign(decl.result, decl.span, decl, target, args)


def given_by(decl: core.FnDecl, function: Callable[..., object]) -> None:
    """Says which function of Python a declaration stands for."""
    match decl.body:
        case core.Foreign() as call:
            decl.body = replace(call, function=function)
        case core.As(value=core.Foreign() as call) as checked:  # its result is an index
            decl.body = replace(checked, value=replace(call, function=function))
        case _:
            raise AssertionError("not a function of Python")


def problems(decl: core.FnDecl, item: s.Extern) -> Iterator[Diagnostic]:
    """Lists the mistakes of a declaration whose types are known."""
    if item.target != PRIMITIVE and not _TARGET.fullmatch(item.target):
        message = f"`{item.target}` does not say which function is meant"
        yield Diagnostic(REFUSED, message, item.span, help=(f"write {_FORMS}",))
        return
    assert decl.result is not None
    in_c = item.target.startswith("c:")
    for written, param in zip(item.parameters, decl.params, strict=True):
        yield from _crossing(param.local.type, written.span, f"`{param.local.name}`", in_c, ())
    result = ty.resolve(decl.result)
    span = item.result.span
    if result != ty.UNIT:
        yield from _crossing(result, span, "the result", in_c, ())
    elif "io" not in decl.effects:
        message = f"`{decl.name}` gives nothing and has no effect, so a call of it would do nothing"
        yield Diagnostic(REFUSED, message, span, help=("write `() ! io` if it does something that the world sees",))
    if other := sorted(decl.effects - {"io"}):
        message = f"an `extern` is pure, or has the effect `io`: not `{other[0]}`"
        yield Diagnostic(REFUSED, message, span, help=("write `! io`",))
    if in_c and isinstance(result, ty.TypeArray) and _has_opened(result.shape):
        message = f"the C function `{decl.name}` cannot say how large its result is"
        help = "give the size by a parameter `n: size`, or by that of another array"
        yield Diagnostic(REFUSED, message, span, help=(help,))


def _has_opened(shape: ty.Shape) -> bool:
    sizes = ty.resolve_shape(shape).pre + ty.resolve_shape(shape).post
    return any(isinstance(a, ty.SizeVar) and a.opened for size in sizes for a in size.poly.atoms())


def _crossing(t: ty.Type, span: Span, what: str, in_c: bool, within: tuple[ty.DataDecl, ...]) -> Iterator[Diagnostic]:
    """Refuses types whose values cannot cross to the other side."""
    t = ty.resolve(t)
    side = "C" if in_c else "Python"
    reason = ""
    help = "pass what it stands for as numbers and arrays"
    match t:
        case ty.TypeCon(name) if name in TRUNCATED or (in_c and (name in HALF or name == "str")):
            reason = f"{side} has no `{t.name}`"
        case ty.TypeVar() if in_c:
            reason = "a C function has just one dtype"
            help = "write the dtype, and an `extern` for each"
        case ty.TypeArray(element, _):
            if in_c and isinstance(ty.resolve(element), ty.TypeTuple | ty.TypeData):
                reason = "C gets arrays of numbers only"
            else:
                yield from _crossing(element, span, what, in_c, within)
        case ty.TypeTuple() | ty.TypeData() if in_c:
            reason = "C gets numbers and arrays of numbers only"
            help = "pass its parts one by one"
        case ty.TypeTuple(items):
            for item in items:
                yield from _crossing(item, span, what, in_c, within)
        case ty.TypeData(decl, args):
            if decl not in within:
                parts = [a for a in args if not isinstance(a, ty.Shape | ty.Size)]
                for part in (*parts, *[field for v in decl.variants for _, field in v.fields]):
                    yield from _crossing(part, span, what, in_c, (*within, decl))
        case ty.TypeFn():
            reason = f"a function cannot be passed to {side}"
    if reason:
        message = f"{what} has the type {Names().type(t)}, which cannot cross: {reason}"
        yield Diagnostic(REFUSED, message, span, help=(help,))
