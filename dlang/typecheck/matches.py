"""`match`: arms, their common type; `exhaustive.py` finds missing and dead ones."""

from __future__ import annotations

from dlang.grammar import syntax as s
from dlang.typecheck import core, exhaustive, patterns, statements
from dlang.typecheck.context import Checker, Expected
from dlang.typecheck.joins import Join
from dlang.typecheck.scope import Scope
from dlang.typecheck.terms import BOOL, STR
from dlang.typecheck.types import UNIT, SizeVar, Type


def infer_match(cx: Checker, scope: Scope, e: s.Match, want: Expected | None = None) -> core.Expr:
    """A `match`, whose arms agree in their type. want: the type that is wanted, and for what."""
    value = cx.infer(scope, e.value)
    cx.settled(value.type)
    push = want is not None and want.closed
    mark = cx.mark()
    arms: list[core.Arm] = []
    bodies: list[tuple[core.Expr, bool]] = []
    for a in e.arms:
        inner = scope.child()
        pattern = patterns.refutable_pattern(cx, inner, a.pattern, value.type)
        guard = None
        if a.guard is not None:
            guard = cx.infer(inner, a.guard)
            cx.settled(guard.type)
            cx.expect(BOOL, guard.type, a.guard.span, "the guard: ")
        diverges = False
        if isinstance(a.body, statements.EXPRESSIONS):
            if want is not None and push:
                body = cx.check(inner, a.body, want)
            else:
                body = cx.infer(inner, a.body)
        else:
            diverges = isinstance(a.body, s.Return | s.Break | s.Continue)
            made = tuple(statements.one(cx, inner, a.body))
            last: core.Expr
            if diverges:
                t: Type = cx.st.type_var()
                last = core.Fail(t, a.body.span, core.Literal(STR, a.body.span, "unreachable"))
            else:
                last = core.TupleExpr(UNIT, a.body.span, ())
            body = core.BlockExpr(last.type, a.body.span, made, last)
        arms.append(core.Arm(pattern, guard, body))
        bodies.append((body, diverges))
    result: Type | None = None
    candidates: tuple[SizeVar, ...] = ()
    for (body, _), a in zip(bodies, e.arms, strict=True):
        cx.settled(body.type)
        if result is None:
            result = body.type
            continue
        join = Join(cx, a.body.span, "the arms differ: ", bool(want and want.unknown))
        result = join.type(result, body.type)
        candidates += join.candidates
    if result is None:
        result = cx.st.type_var()
    leaving = Join(cx, e.span, "", False)
    result = leaving.leaving(cx.settled(result), mark, candidates)
    candidates += leaving.candidates
    if want is not None and not push:
        cx.expect(cx.with_open_sizes(want.type, want.unknown), result, e.span, want.what)
    covered = tuple(arms)
    cx.later.append(lambda: exhaustive.check(cx, e, value.type, covered))
    return core.Match(result, e.span, value, covered, candidates)
