"""`for i < progress(n, "training") { … }`: a loop that shows how far it is.

    var done = 0
    var next = 0
    for i < n {
      if done >= next { next = report(done, n, "training") }
      done += 1
      …
    }
    if done > 0 { let _ = report(done, -1, "training") }

`report` draws, and says at which iteration it wants to be asked again, so that a short iteration costs a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dlang.diagnostics import Span, error
from dlang.grammar import syntax as s
from dlang.typecheck import core
from dlang.typecheck.context import Checker
from dlang.typecheck.scope import BuiltinEntry, Scope, Watched
from dlang.typecheck.terms import BOOL, I64, STR
from dlang.typecheck.types import UNIT

NAME = "progress"


def watched(cx: Checker, scope: Scope, binders: Sequence[s.Binder]) -> tuple[tuple[s.Binder, ...], Watched | None]:
    """The binders without the call of `progress` in the first, if that is there."""
    first = binders[0]
    for part, e in (("below", first.below), ("each", first.each), ("high", first.high)):
        if isinstance(e, s.Call) and isinstance(e.function, s.Name) and e.function.name == NAME:
            found = scope.find(NAME) or cx.find(scope, NAME)
            if isinstance(found, BuiltinEntry):
                value, label = _arguments(cx, scope, e)
                bounds: dict[str, Any] = {part: value}
                return (replace(first, **bounds), *binders[1:]), _watched(label, e.span)
    return tuple(binders), None


def _watched(text: core.Expr, span: Span) -> Watched:
    label = core.Local("label", STR, False, None, span)
    return Watched(text, span, label, *(core.Local(n, I64, True, None, span) for n in ("done", "next")))


def _arguments(cx: Checker, scope: Scope, e: s.Call) -> tuple[s.Expr, core.Expr]:
    if not 1 <= len(e.arguments) <= 2 or any(a.name or a.spread for a in e.arguments):
        help = ('write `for i < progress(n)`, or `for i < progress(n, "training")`',)
        raise error("E0307", f"`{NAME}` takes how far the loop goes, and a label", e.span, help=help)
    if len(e.arguments) == 1:
        return e.arguments[0].value, core.Literal(STR, e.span, "")
    label = cx.infer(scope, e.arguments[1].value)
    cx.expect(STR, label.type, e.arguments[1].value.span, "the label: ")
    return e.arguments[0].value, label


def ending(w: Watched) -> core.Statement:
    """Returns the statement that reports the end of the loop, wherever that is."""
    nothing = core.TupleExpr(UNIT, w.span, ())
    report = core.Let(core.Wildcard(), _report(w, _number(w, -1)), (), w.span)
    told = core.BlockExpr(UNIT, w.span, (report,), nothing)
    began = core.Arith(BOOL, w.span, ">", _ref(w, w.done), _number(w, 0))
    return core.Discard(core.If(UNIT, w.span, began, told, nothing))


def showing(loop: core.For, w: Watched) -> list[core.Statement]:
    """The loop, with what shows how far it is."""
    span = w.span
    total = _number(w, 1)
    for b in loop.binders:
        total = core.Arith(I64, span, "*", total, core.SizeValue(I64, span, b.size))
    nothing = core.TupleExpr(UNIT, span, ())
    asked = core.BlockExpr(UNIT, span, (_assign(w.upcoming, None, _report(w, total)),), nothing)
    due = core.Arith(BOOL, span, ">=", _ref(w, w.done), _ref(w, w.upcoming))
    ahead: tuple[core.Statement, ...] = (
        core.Discard(core.If(UNIT, span, due, asked, nothing)),
        _assign(w.done, "+", _number(w, 1)),
    )
    return [
        core.Let(core.Bind(w.label), w.text, (), span),
        core.Declare(core.Bind(w.done), _number(w, 0), (), span),
        core.Declare(core.Bind(w.upcoming), _number(w, 0), (), span),
        replace(loop, body=core.BlockExpr(loop.body.type, span, ahead, loop.body)),
        ending(w),
    ]


def _number(w: Watched, value: int) -> core.Expr:
    return core.Literal(I64, w.span, value)


def _ref(w: Watched, local: core.Local) -> core.Expr:
    return core.Ref(local.type, w.span, local)


def _report(w: Watched, total: core.Expr) -> core.Expr:
    return core.Builtin(I64, w.span, NAME, (_ref(w, w.done), total, _ref(w, w.label)))


def _assign(local: core.Local, operator: str | None, value: core.Expr) -> core.Statement:
    return core.Assign(core.Place(local, (), I64, value.span), operator, value, value.span)
