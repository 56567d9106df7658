"""Functions that call others, which nobody wrote: made as core trees, with the scheme of what they call."""

from __future__ import annotations

from dataclasses import replace

from dlang.diagnostics import Span
from dlang.typecheck import core
from dlang.typecheck.terms import identity
from dlang.typecheck.types import SizeVar, Type, TypeFn


def calling(
    decl: core.FnDecl,
    name: str,
    params: tuple[core.Param, ...],
    function: core.Expr,
    args: tuple[core.Expr | None, ...],
    result: Type | None = None,
    opened: tuple[SizeVar, ...] = (),
) -> core.FnDecl:
    """A function with the scheme of `decl` that calls `function`. opened: sizes that are known when it has."""
    wanted = result if result is not None else decl.result
    assert wanted is not None
    opened = (*decl.opened, *opened)
    body = core.Call(wanted, decl.span, function, args, opened)
    return core.FnDecl(
        name, decl.module, decl.span, params, wanted, decl.variables, opened, body,
        effects=decl.effects, kind="call", doc=decl.doc,
    )  # fmt: skip


def at_its_own_types(decl: core.FnDecl, left: tuple[SizeVar, ...] = ()) -> core.FnRef:
    """A function where each variable of its scheme stands for itself, but for sizes that are left to defaults."""
    assert decl.result is not None
    t = TypeFn(tuple(p.local.type for p in decl.params), decl.result)
    unknown = (*decl.opened, *left)
    return core.FnRef(t, decl.span, decl, tuple((v, identity(v)) for v in decl.variables if v not in unknown))


def reference(param: core.Param, span: Span) -> core.Ref:
    return core.Ref(param.local.type, span, param.local)


def unwritten(e: core.Expr, span: Span) -> core.Expr:
    """A call that nobody wrote, perhaps with lambdas around foreign code: its place is that of what is called, theirs
    that of the parameter.

    Inside they have none, so what fails there is where the lambda is called.
    """
    if not isinstance(e, core.Call):
        return e
    function = replace(e.function, span=span)
    return replace(
        e, span=span, function=function, args=tuple([_placed(a) if isinstance(a, core.Lambda) else a for a in e.args])
    )


def _placed(e: core.Lambda) -> core.Lambda:
    if not isinstance(e.body, core.Call) or not isinstance(e.body.function, core.FnRef):
        return e
    span = e.body.function.decl.span
    nowhere = Span(span.source, span.start, span.start)
    args = tuple([a if a is None else replace(a, span=nowhere) for a in e.body.args])
    function = replace(e.body.function, span=nowhere)
    return replace(e, span=span, body=replace(e.body, span=nowhere, function=function, args=args))
