"""`dlang.grad` and `dlang.value_and_grad`: derivatives of functions of the language, as functions again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlang.diagnostics import DlangError, error
from dlang.python.function import Function, at_its_own_types, calling, reference
from dlang.typecheck import core
from dlang.typecheck.types import FLOATS, TypeArray, TypeCon, TypeFn, TypeTuple, TypeVar, resolve, resolve_shape

Parameters = str | int | Sequence[str | int]


def grad(f: Any, wrt: Parameters | None = None) -> Function:
    """The gradient of a function that gives one float: in its first parameter, or in those that `wrt` names."""
    return _derived("grad", f, wrt)


def value_and_grad(f: Any, wrt: Parameters | None = None) -> Function:
    """The value and the gradient, from one forward pass."""
    return _derived("value_and_grad", f, wrt)


def _derived(kind: str, f: Any, wrt: Parameters | None) -> Function:
    if not isinstance(f, Function):
        message = f"`dlang.{kind}` differentiates functions of the language; this is {type(f).__name__}"
        raise error("E0962", message, None, help=("get one with `dlang.load`, `dlang.compile` or `import`",))
    decl = f.decl
    assert decl.result is not None
    result = resolve(decl.result)
    is_open = isinstance(result, TypeVar) or (isinstance(result, TypeArray) and not _axes(result))
    if not is_open and not (isinstance(result, TypeCon) and result.name in FLOATS):
        raise _refused(kind, decl, "it does not give one float")
    single = wrt is None or isinstance(wrt, str | int)
    names: Sequence[str | int] = [0] if wrt is None else [wrt] if isinstance(wrt, str | int) else list(wrt)
    positions = tuple(_position(kind, decl, n) for n in names)
    slopes = [decl.params[k].local.type for k in positions]
    gradient = slopes[0] if single else TypeTuple(tuple(slopes))
    value = gradient if kind == "grad" else TypeTuple((result, gradient))
    t = TypeFn(tuple(p.local.type for p in decl.params), value)
    form = core.Derivative(t, decl.span, kind, at_its_own_types(decl), positions, single)
    args = tuple(reference(p, decl.span) for p in decl.params)
    chosen = [decl.params[k].local.name for k in positions]
    expression = f"{kind}({f.expression}, wrt = {chosen[0] if single else '(' + ', '.join(chosen) + ')'})"
    derived = calling(decl, f"{kind}({decl.name})", decl.params, form, args, value)
    return Function(f.program, derived, expression, f.settle or is_open)


def _axes(t: TypeArray) -> int:
    """The axes that an array surely has."""
    shape = resolve_shape(t.shape)
    return len(shape.pre) + len(shape.post)


def _position(kind: str, decl: core.FnDecl, which: str | int) -> int:
    names = [p.local.name for p in decl.params]
    if isinstance(which, int):
        if not 0 <= which < len(names):
            raise _refused(kind, decl, f"it has no parameter {which}")
        k = which
    elif which not in names:
        raise _refused(kind, decl, f"it has no parameter `{which}`, but {', '.join(f'`{n}`' for n in names)}")
    else:
        k = names.index(which)
    t = resolve(decl.params[k].local.type)
    if decl.params[k].nodiff or (isinstance(t, TypeCon) and t.name not in FLOATS):
        raise _refused(kind, decl, f"its parameter `{names[k]}` has no float to differentiate in")
    return k


def _refused(kind: str, decl: core.FnDecl, why: str) -> DlangError:
    return error("E0962", f"`dlang.{kind}` of `{decl.name}`: {why}", decl.span)
