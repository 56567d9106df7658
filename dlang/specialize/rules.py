"""Custom rules of derivatives: which functions have one."""

from __future__ import annotations

from dlang.specialize.analysis import walk
from dlang.specialize.values import ClosureV, DerivativeV, Value
from dlang.typecheck import core


def with_rule(v: Value, seen: set[core.FnDecl] | None = None) -> core.FnDecl | None:
    """A function with a rule of its own that calling a function value may reach."""
    seen = set() if seen is None else seen
    match v:
        case DerivativeV():
            return with_rule(v.function, seen)
        case ClosureV():
            if v.decl is not None and v.decl.ruled:
                return v.decl
            found = [with_rule(c, seen) for _, c in v.captured]
            return next((x for x in (*found, reaching_rule(v.body, seen)) if x is not None), None)
        case _:
            return None


def reaching_rule(body: core.Expr, seen: set[core.FnDecl]) -> core.FnDecl | None:
    for node in walk(body):
        if isinstance(node, core.FnRef) and node.decl not in seen:
            seen.add(node.decl)
            if node.decl.ruled:
                return node.decl
            found = reaching_rule(node.decl.body, seen) if node.decl.body is not None else None
            if found is not None:
                return found
    return None
