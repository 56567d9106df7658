"""What a derivative has of the function that it is of: the names of its parameters, and their defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar as Variable

from dlang.grammar import syntax as s
from dlang.typecheck import calls, core
from dlang.typecheck.types import TypeFn

Of = Variable("Of", bound=core.Expr)


def underived(function: core.Expr) -> core.Expr:
    """The function that a derivative, perhaps of another derivative, is of."""
    while isinstance(function, core.Derivative):
        function = function.function
    return function


def parameter_names(function: core.Expr) -> list[str] | None:
    """The names of the parameters of a `fn` or a lambda; None for another function value."""
    match function:
        case core.FnRef(decl=decl):
            return [p.local.name for p in decl.params]
        case core.Lambda() if (call := sized(function)) is not None:
            return parameter_names(call.function)
        case core.Lambda(params=params):
            return [p.name for p in params]
        case core.Derivative(function=inner):
            return parameter_names(inner)
        case core.BlockExpr(statements=(), result=inner):
            return parameter_names(inner)
        case _:
            return None


def nodiff(function: core.Expr) -> set[int]:
    match function:
        case core.FnRef(decl=decl):
            return {i for i, p in enumerate(decl.params) if p.nodiff}
        case core.Lambda() if (call := sized(function)) is not None:
            return nodiff(call.function)
        case core.Derivative(function=inner):
            return nodiff(inner)
        case _:
            return set()


def sized(function: core.Expr) -> core.Call | None:
    """The call in what a function with `size` parameters is as a value."""
    match function:
        case core.Lambda(span=span, body=core.Call(function=core.FnRef()) as call) if call.span == span:
            return call
        case _:
            return None


def named_arguments(function: core.Expr, rest: tuple[s.Argument, ...], e: s.Call) -> tuple[s.Argument, ...]:
    """The arguments of `vjp` in the order of the parameters, if their names are known."""
    names = parameter_names(function)
    if names is None or all(a.name is None and not a.spread for a in rest):
        return rest
    base = underived(function)
    called = sized(base)
    ref = called.function if called is not None else base
    name, span = (f"vjp({ref.decl.name})", ref.decl.span) if isinstance(ref, core.FnRef) else ("vjp(…)", None)
    known = tuple(n if n != "_" else None for n in names)
    ordered = calls.in_order(replace(e, arguments=rest), name, known, (False,) * len(known), span)
    return tuple(replace(a, name=None) for a in ordered if a is not None)


def by_position(function: core.Derivative, base: core.Lambda, e: s.Call) -> tuple[core.Derivative, s.Call]:
    """A call by the names of a lambda, or of the `fn` with `size` parameters that it stands for, as one without names.

    A parameter that is left to its default is no parameter of the function that is differentiated. One in which there
    is a derivative has to be given, and so has a size whose default is no number.
    """
    call = sized(base)
    ref = call.function if call is not None else None
    if not isinstance(ref, core.FnRef) or len(ref.decl.params) != len(base.params):
        if all(a.name is None for a in e.arguments):
            return function, e
        known = tuple(p.name if p.name != "_" else None for p in base.params)
        ordered = calls.in_order(e, f"{function.kind}(…)", known, (False,) * len(known), None)
        return function, replace(e, arguments=tuple(replace(a, name=None) for a in ordered if a is not None))
    wrt = derived_in(function)
    params = ref.decl.params
    names = tuple(p.local.name if p.local.name != "_" else None for p in params)
    free = tuple(
        p.has_default and k not in wrt and (p.local.size is None or isinstance(p.default, core.Literal))
        for k, p in enumerate(params)
    )
    ordered = calls.in_order(e, f"{function.kind}({ref.decl.name})", names, free, ref.decl.span)
    given = [k for k, a in enumerate(ordered) if a is not None]
    written = replace(e, arguments=tuple(replace(a, name=None) for a in ordered if a is not None))
    return (function if len(given) == len(params) else without_defaults(function, given)), written


def derived_in(function: core.Expr) -> set[int]:
    """The parameters in which a derivative, or one of those that it is of, is taken."""
    if not isinstance(function, core.Derivative):
        return set()
    own = set(function.wrt) if function.kind != "checkpoint" else set()
    return own | derived_in(function.function)


def without_defaults(function: Of, given: list[int]) -> Of:
    """A derivative of a function with `size` parameters as a function of those that are given."""
    t = function.type
    assert isinstance(t, TypeFn)
    own = replace(t, params=tuple(t.params[k] for k in given))
    if isinstance(function, core.Derivative):
        wrt = tuple(given.index(k) for k in function.wrt if k in given)
        return replace(function, type=own, function=without_defaults(function.function, given), wrt=wrt)
    call = sized(function)
    assert isinstance(function, core.Lambda) and call is not None
    assert isinstance(call.function, core.FnRef)
    args: list[core.Expr | None] = []
    lets: list[core.Statement] = []
    for k, (a, p) in enumerate(zip(call.args, call.function.decl.params, strict=True)):
        args.append(a if k in given or p.local.size is not None else None)
        if k not in given and p.local.size is not None and p.default is not None:
            lets.append(core.Let(core.Bind(function.params[k]), p.default, (), call.span))
    inner: core.Expr = replace(call, args=tuple(args))
    body = core.BlockExpr(call.type, call.span, tuple(lets), inner) if lets else inner
    return replace(function, type=own, params=tuple(function.params[k] for k in given), body=body)
