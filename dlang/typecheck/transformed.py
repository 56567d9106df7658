"""Gives a derivative the names of its function's parameters, and their defaults."""

from __future__ import annotations

from dataclasses import replace

from dlang.grammar import syntax as s
from dlang.typecheck import core
from dlang.typecheck.arguments import in_order


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
    ref = underived(function)
    name, span = (f"vjp({ref.decl.name})", ref.decl.span) if isinstance(ref, core.FnRef) else ("vjp(…)", None)
    known = tuple(n if n != "_" else None for n in names)
    ordered = in_order(replace(e, arguments=rest), name, known, (False,) * len(known), span)
    return tuple(replace(a, name=None) for a in ordered if a is not None)


def by_position(base: core.Lambda, kind: str, e: s.Call) -> s.Call:
    """A call of a derivative by the names of a lambda as one without names."""
    if all(a.name is None for a in e.arguments):
        return e
    known = tuple(p.name if p.name != "_" else None for p in base.params)
    ordered = in_order(e, f"{kind}(…)", known, (False,) * len(known), None)
    return replace(e, arguments=tuple(replace(a, name=None) for a in ordered if a is not None))
