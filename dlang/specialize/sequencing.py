"""`return`, `break` and `continue` in the middle of an expression.

What leaves a block is a statement, and what follows it in the block runs only if it did not (`control.py`). Where it
stands deeper, `f(a, match o { Some(v) => v, None => return 0 })`, the parts up to the last that may leave become
`let`s, and the rest of the expression follows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlang.diagnostics import Span
from dlang.specialize.analysis import escapes
from dlang.typecheck import core
from dlang.typecheck.types import UNIT, TypeCon

Parts = tuple[list[core.Statement], core.Expr]


def separated_block(e: core.BlockExpr) -> core.BlockExpr:
    """The same block; whatever may leave it does so as a statement, or as an arm that is its result."""
    if not escapes(e):
        return e
    out: list[core.Statement] = []
    for s in e.statements:
        out += separated_statement(s)
    before, result = separated(e.result)
    return core.BlockExpr(e.type, e.span, (*out, *before), result)


def separated_statement(s: core.Statement) -> list[core.Statement]:
    """Statements that do the same: none leaves before it has run its parts."""
    if not escapes(s):
        return [s]
    match s:
        case core.Let() | core.Declare() | core.Discard():
            before, value = separated(s.value)
            return [*before, replace(s, value=value)]
        case core.Return():
            before, value = named(s.value)
            return [*before, replace(s, value=value)]
        case core.Assign():
            before, value = named(s.value)
            more, (place,) = named_places([s.place])
            return [*before, *more, replace(s, place=place, value=value)]
        case core.AssignTuple():
            before, value = named(s.value)
            more, places = named_places(s.places)
            return [*before, *more, replace(s, places=tuple(places), value=value)]
        case core.Assert():
            before, condition = named(s.condition)
            return [*before, replace(s, condition=condition)]
        case core.For():
            before, first = named_binder(s.binders[0])
            return [*before, replace(s, binders=(first, *s.binders[1:]))]
        case core.While() if escapes(s.condition):
            return [endless(s)]
        case _:
            return [s]


def endless(s: core.While) -> core.While:
    """`while c { … }` as `while true { if not c { break }; … }`: what the condition does is done in an iteration."""
    span = s.condition.span
    truth = TypeCon("bool")
    stop = core.BlockExpr(UNIT, span, (core.Break(span),), core.TupleExpr(UNIT, span, ()))
    goes_on = core.TupleExpr(UNIT, span, ())
    test = core.Discard(core.If(UNIT, span, core.Not(truth, span, s.condition), stop, goes_on))
    body = core.BlockExpr(UNIT, s.body.span, (test, core.Discard(s.body)), core.TupleExpr(UNIT, s.body.span, ()))
    return core.While(core.Literal(truth, span, True), body, s.span)


# ---- expressions -----------------------------------------------------------------------------------------------------
def separated(e: core.Expr) -> Parts:
    """Statements, and an expression that may leave at most as one of its arms."""
    if not escapes(e):
        return [], e
    match e:
        case core.BlockExpr():
            return [], e
        case core.If():
            before, condition = named(e.condition)
            return before, replace(e, condition=condition, then=block(e.then), otherwise=block(e.otherwise))
        case core.Match():
            before, value = named(e.value)
            return before, replace(e, value=value, arms=tuple([replace(a, body=block(a.body)) for a in e.arms]))
        case core.Logic():
            if not escapes(e.right):
                before, left = named(e.left)
                return before, replace(e, left=left)
            short = core.Literal(e.type, e.span, e.operator == "or")
            arms = (e.right, short) if e.operator == "and" else (short, e.right)
            return separated(core.If(e.type, e.span, e.left, *arms))
        case core.Format():
            holes = [p[0] for p in e.parts if not isinstance(p, str)]
            before, made = named_all(holes)
            rest = iter(made)
            return before, replace(e, parts=tuple([p if isinstance(p, str) else (next(rest), p[1]) for p in e.parts]))
        case core.Call():
            given = [a for a in e.args if a is not None]
            before, (function, *made) = named_all([e.function, *given])
            rest = iter(made)
            return before, replace(e, function=function, args=tuple([a and next(rest) for a in e.args]))
        case core.Builtin():
            before, made = named_all(e.args)
            return before, replace(e, args=tuple(made))
        case core.Arith():
            before, (left, right) = named_all([e.left, e.right])
            return before, replace(e, left=left, right=right)
        case core.Negate() | core.Not():
            before, operand = named(e.operand)
            return before, replace(e, operand=operand)
        case core.TupleExpr() | core.ArrayExpr():
            before, made = named_all(e.items)
            return before, replace(e, items=tuple(made))
        case core.Construct():
            before, made = named_all(e.fields)
            return before, replace(e, fields=tuple(made))
        case core.Project() | core.As():
            before, value = named(e.value)
            return before, replace(e, value=value)
        case core.Index():
            before, base = named(e.base) if escapes(e.base) or any(map(escapes, parts_of(e.indices))) else ([], e.base)
            more, indices = named_indices(e.indices)
            return [*before, *more], replace(e, base=base, indices=indices)
        case core.Derivative():
            before, function = named(e.function)
            return before, replace(e, function=function)
        case core.Fail():
            before, message = named(e.message)
            return before, replace(e, message=message)
        case _:
            return [], e


def block(e: core.Expr) -> core.Expr:
    """An arm that may leave, as a block."""
    return core.BlockExpr(e.type, e.span, (), e) if escapes(e) and not isinstance(e, core.BlockExpr) else e


def named(e: core.Expr) -> Parts:
    """An expression that may leave, computed before and given a name."""
    (before, (value,)) = named_all([e])
    return before, value


def named_all(parts: Sequence[core.Expr]) -> tuple[list[core.Statement], list[core.Expr]]:
    """Parts that run one after another: those up to the last one that may leave get names."""
    last = max([k for k, p in enumerate(parts) if escapes(p)], default=-1)
    out: list[core.Statement] = []
    made: list[core.Expr] = []
    for k, p in enumerate(parts):
        if k > last or isinstance(p, core.Literal | core.FnRef):
            made.append(p)
            continue
        before, value = separated(p)
        local = core.Local("part", p.type, False, None, p.span)
        out += [*before, let(local, value, p.span)]
        made.append(core.Ref(p.type, p.span, local))
    return out, made


def let(local: core.Local, value: core.Expr, span: Span) -> core.Let:
    return core.Let(core.Bind(local), value, (), span)


def parts_of(indices: Sequence[core.At | core.Range1]) -> list[core.Expr]:
    found: list[core.Expr | None] = []
    for i in indices:
        found += [i.value] if isinstance(i, core.At) else [i.low, i.high, i.step]
    return [p for p in found if p is not None]


def named_indices(
    indices: tuple[core.At | core.Range1, ...],
) -> tuple[list[core.Statement], tuple[core.At | core.Range1, ...]]:
    before, made = named_all(parts_of(indices))
    rest = iter(made)
    out: list[core.At | core.Range1] = []
    for i in indices:
        if isinstance(i, core.At):
            out.append(core.At(next(rest)))
        else:
            low, high, step = [p and next(rest) for p in (i.low, i.high, i.step)]
            out.append(replace(i, low=low, high=high, step=step))
    return before, tuple(out)


def named_places(places: Sequence[core.Place]) -> tuple[list[core.Statement], list[core.Place]]:
    out: list[core.Statement] = []
    made: list[core.Place] = []
    for p in places:
        steps: list[core.FieldStep | core.IndexStep] = []
        for step in p.steps:
            if isinstance(step, core.IndexStep):
                before, indices = named_indices(step.indices)
                out += before
                step = core.IndexStep(indices)
            steps.append(step)
        made.append(replace(p, steps=tuple(steps)))
    return out, made


def named_binder(b: core.Binder) -> tuple[list[core.Statement], core.Binder]:
    match b:
        case core.Count():
            if b.bound is None:
                return [], b
            before, bound = named(b.bound)
            return before, replace(b, bound=bound)
        case core.Each():
            before, array = named(b.array)
            return before, replace(b, array=array)
        case core.Range():
            before, made = named_all([p for p in (b.low, b.high, b.step) if p is not None])
            low, high, *step = made
            return before, replace(b, low=low, high=high, step=step[0] if step else None)
