"""Statements: blocks, assignments, branches, loops. What a branch or loop assigns becomes its results and state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import assert_never

from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, poly
from dlang.ops.primitives import COMPARISONS
from dlang.polynomials import Poly
from dlang.specialize.analysis import acts_in, effects_of, escapes, rests_of
from dlang.specialize.arith import nothing
from dlang.specialize.bodies import result_span
from dlang.specialize.dynamic import dynamic, with_effects
from dlang.specialize.emitter import FALSE, TRUE
from dlang.specialize.frame import Exits, Frame, scalar, unsupported
from dlang.specialize.functions import define
from dlang.specialize.indexing import leading_shape, replace, select, selectors
from dlang.specialize.joins import Arm, joined
from dlang.specialize.loops import changing, flag_value, loop, while_loop
from dlang.specialize.names import RESULT
from dlang.specialize.operators import close, operator
from dlang.specialize.patterns import bind_pattern
from dlang.specialize.randomness import arm_levels, aside, draws_in, level
from dlang.specialize.text import Piece, hole, joined as joined_text, whole
from dlang.specialize.values import UNIT, DataV, ScalarV, TupleV, Value, contains_function, leaves
from dlang.typecheck import core, types as ty
from dlang.typecheck.types import UNIT as UNIT_TYPE, TypeCon


def statements(f: Frame, e: core.BlockExpr) -> Value:
    """The value of a block. The outermost one with a `return` is the body of a function."""
    if f.exits.returned is None and "return" in escapes(e):
        return body_with_returns(f, e)
    return sequence(f, e)


def sequence(f: Frame, e: core.BlockExpr) -> Value:
    """Statements and a result. What follows a statement that may leave the block runs only if it did not."""
    return run(f, separated_block(e))


def run(f: Frame, e: core.BlockExpr, rests: Mapping[int, core.BlockExpr] | None = None) -> Value:
    """Runs a block. rests: `rests_of` of a block that ends with this one, if they are known."""
    for k, s in enumerate(e.statements):
        statement(f, s)
        if isinstance(s, core.Break | core.Continue | core.Return):
            return unreached(f, e.type)
        flags = f.exits.of(escapes(s))
        if flags:
            return guarded(f, flags, len(e.statements) - k - 1, rests_of(e) if rests is None else rests)
    return f.eval(e.result)


def guarded(f: Frame, flags: Sequence[core.Local], count: int, rests: Mapping[int, core.BlockExpr]) -> Value:
    """Runs the last statements of a block, so many, behind one that may have set one of the flags."""
    remainder = rests[count]
    if not remainder.statements and remainder.result == core.TupleExpr(
        remainder.result.type, remainder.result.span, ()
    ):
        return UNIT
    left = flag_value(f, flags)

    def goes_on() -> Value:
        f.env.update(dict.fromkeys(flags, ScalarV(FALSE)))
        return run(f, remainder, rests)

    return branches(f, remainder, left, lambda: unreached(f, remainder.type), goes_on, ())


def unreached(f: Frame, t: ty.Type) -> Value:
    """Some value of a type, where a flag says that it is not used; sizes that are not known are 0."""
    known = f.bindings
    f.bindings = dict(known)
    for v in ty.size_vars_in(t):
        f.bindings.setdefault(v, poly(0))
    try:
        mono = f.mono(t)
    finally:
        f.bindings = known
    return nothing(f, mono)


def body_with_returns(f: Frame, e: core.BlockExpr) -> Value:
    """The body of a function with `return`: what was returned, or else its value."""
    returned, result = core.Local("returned", ty.TypeCon("bool")), core.Local("result", e.type)
    f.exits = Exits(returned, result)
    f.env[returned] = ScalarV(FALSE)
    f.env[result] = unreached(f, e.type)
    value = sequence(f, e)
    condition, early = flag_value(f, [returned]), f.env[result]
    f.exits = Exits()
    if condition == FALSE:
        return last_value(f, e, value)
    return branches(f, e.result, condition, lambda: early, lambda: last_value(f, e, value), ())


def last_value(f: Frame, e: core.BlockExpr, value: Value) -> Value:
    """Returns the value of a body that has not returned before, marked for a debugger at its last expression."""
    names = f.instances.names
    return value if names is None else names.mark(f.emitter, core.Local(RESULT, e.type), value, result_span(e))


def statement(f: Frame, s: core.Statement) -> None:
    """Emits a statement; what it binds and assigns is in the frame afterwards."""
    em = f.emitter
    match s:
        case core.Let(pattern, value, names, span) | core.Declare(pattern, value, names, span):
            with em.at(span):
                v = f.eval(value)
                bind_pattern(f, pattern, v)
                name_sizes(f, pattern, v, names)
        case core.LocalFn(decl, span):
            define(f, decl)
            if f.instances.names is not None:
                f.instances.names.function(em, decl, f.env[decl], span)
        case core.Assign(place, name, value, span):
            with em.at(span):
                new = f.eval(value)
                if name is not None:
                    new = operator(f, name, current(f, place), new)
                assign(f, place, new)
        case core.AssignTuple(places, value, span):
            with em.at(span):
                v = f.eval(value)
                assert isinstance(v, TupleV)
                for place, item in zip(places, v.items, strict=True):
                    assign(f, place, item)
        case core.For(binders, body, span):
            with em.at(span):
                loop(f, list(binders), body)
        case core.While(condition, body, span):
            if acts_in(f.env, condition) or changing(f, condition):
                s = endless(s)
            with em.at(span):
                while_loop(f, s.condition, s.body)
        case core.Break():
            leave_by(f, f.exits.broken)
        case core.Continue():
            leave_by(f, f.exits.continued)
        case core.Return(value, span):
            assert f.exits.result is not None
            with em.at(span):
                f.env[f.exits.result] = f.eval(value)
            leave_by(f, f.exits.returned)
        case core.Assert():
            check_assert(f, s)
        case core.Discard(value):
            f.eval(value)
        case _:
            assert_never(s)


def leave_by(f: Frame, flag: core.Local | None) -> None:
    assert flag is not None
    f.env[flag] = ScalarV(TRUE)


def name_sizes(f: Frame, pattern: core.Pattern, v: Value, names: tuple[core.Local, ...]) -> None:
    """Sizes that an annotation binds, as values; what they are was found with the value."""
    wanted = [n.size for n in names if n.size is not None and n.size not in f.bindings]
    if wanted and isinstance(pattern, core.Bind):
        f.bind_sizes(pattern.local.type, v, wanted)
    for n in names:
        assert n.size is not None
        f.env[n] = ScalarV(f.emitter.atom(f.size(ty.Size(Poly.of(n.size)))))
        f.name(n)


# ---- assignment ------------------------------------------------------------------------------------------------------
def current(f: Frame, place: core.Place) -> Value:
    """The value of a place now."""
    v = f.env[place.local]
    for step in place.steps:
        match step:
            case core.FieldStep(position, _):
                assert isinstance(v, TupleV | DataV)
                v = v.items[position] if isinstance(v, TupleV) else v.fields[position]
            case core.IndexStep(indices):
                v = select(f, v, selectors(f, indices, leading_shape(v)))
    return v


def assign(f: Frame, place: core.Place, new: Value) -> None:
    old = f.env[place.local]
    if contains_function(new) and any(isinstance(step, core.IndexStep) for step in place.steps):
        effects = effects_of(old) | effects_of(new)
        types = f.erasing()
        old = dynamic(f, old, with_effects(f, types.mono(place.local.type), effects))
        new = dynamic(f, new, with_effects(f, types.mono(place.type), effects))
    f.env[place.local] = replace(f, old, place.steps, new)
    f.name(place.local)


# ---- branches --------------------------------------------------------------------------------------------------------
def branches(
    f: Frame,
    e: core.Expr,
    condition: Atom,
    then: core.Expr | Callable[[], Value],
    otherwise: core.Expr | Callable[[], Value],
    opened: tuple[ty.SizeVar, ...],
) -> Value:
    """One of two arms; what either assigns, and the token, are results too."""
    changed, draws = changing(f, e), draws_in(f, e)
    if condition in (TRUE, FALSE):
        chosen = then if condition == TRUE else otherwise
        with aside(f, draws):
            return chosen() if callable(chosen) else f.eval(chosen)
    before, token = dict(f.env), f.world.token
    with_token = token is not None and acts_in(f.env, e)
    arms: list[Arm] = []
    for arm, inside in zip((then, otherwise), arm_levels(f, draws), strict=True):
        f.env = dict(before)
        f.world.token = token
        with f.block() as lets, level(f, inside):
            value = arm() if callable(arm) else f.eval(arm)
            if not with_token and f.world.token is not token:
                raise unsupported("an effect of a function whose type does not state it", f.emitter.span)
            arms.append(Arm(lets, [value, *[f.env[local] for local in changed]], f.world.token if with_token else None))
    f.env, f.world.token = dict(before), token
    result, *values = joined(f, condition, arms, [e.type, *[local.type for local in changed]])
    f.env.update(zip(changed, values, strict=True))
    for local in changed:
        f.name(local)
    f.bind_sizes(e.type, result, opened)
    return result


def check_assert(f: Frame, s: core.Assert) -> None:
    """A failed assert shows its text, its message, and the values that its condition compared."""
    em = f.emitter
    with em.at(s.span):
        pieces: list[Piece] = []
        condition, operands = observed(f, s.condition)
        if condition == TRUE:
            return
        if s.message is not None:
            expression = s.message
            pieces += [": ", *if_failed(f, condition, lambda: [(f.atom(expression), "")])]
        for text, v in operands:
            pieces += [f"\n  {text} = ", *if_failed(f, condition, partial(hole, f, v, ""))]
        parts, values = joined_text([f"assertion failed: `{s.text}`", *pieces])
        em.check(condition, "E0800", parts, values)


def if_failed(f: Frame, condition: Atom, pieces: Callable[[], list[Piece]]) -> list[Piece]:
    """Text that is made only for an assert that failed, unless it costs nothing."""
    e = f.emitter
    with f.block() as lets:
        text_pieces = pieces()
        text = None if not lets else scalar(whole(f, text_pieces))
    if text is None:
        return text_pieces
    op = anf.If(condition, anf.Block((), (Lit("", "str"),)), anf.Block(tuple(lets), (text,)))
    return [(e.emit(op, anf.Scalar("str"))[0], "")]


def observed(f: Frame, e: core.Expr) -> tuple[Atom, list[tuple[str, Value]]]:
    """A condition and the operands worth showing when it fails."""
    em = f.emitter
    match e:
        case core.Arith(_, span, name, left, right) if name in COMPARISONS:
            with em.at(span):
                a, b = f.eval(left), f.eval(right)
                result = operator(f, name, a, b)
            (atom,) = leaves(result)
            return atom, [*shown(left, a), *shown(right, b)]
        case core.Builtin(name="close", args=args):
            with em.at(e.span):
                x, y, *tol = [f.eval(a) for a in args]
                t = next(leaves(tol[0])) if tol else Lit(1e-9, "f64")
                return close(f, x, y, t), [*shown(args[0], x), *shown(args[1], y)]
        case core.Not(_, span, operand):
            condition, operands = observed(f, operand)
            return em.prim("not", condition), operands
    return f.bool(e), []


def shown(e: core.Expr, v: Value) -> list[tuple[str, Value]]:
    """An operand with its text; what is written as a literal needs no showing."""
    if isinstance(e, core.Literal) or (isinstance(e, core.Negate) and isinstance(e.operand, core.Literal)):
        return []
    span = e.span
    return [(" ".join(span.text.split()), v)] if not contains_function(v) else []


# ---- jumps in expressions --------------------------------------------------------------------------------------------
# `return`, `break` and `continue` in the middle of an expression.
#
# What leaves a block is a statement, and what follows it in the block runs only if it did not. Where it
# stands deeper, `f(a, match o { Some(v) => v, None => return 0 })`, the parts up to the last that may leave become
# `let`s, and the rest of the expression follows them.

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
            return [*before, dataclasses.replace(s, value=value)]
        case core.Return():
            before, value = named(s.value)
            return [*before, dataclasses.replace(s, value=value)]
        case core.Assign():
            before, value = named(s.value)
            more, (place,) = named_places([s.place])
            return [*before, *more, dataclasses.replace(s, place=place, value=value)]
        case core.AssignTuple():
            before, value = named(s.value)
            more, places = named_places(s.places)
            return [*before, *more, dataclasses.replace(s, places=tuple(places), value=value)]
        case core.Assert():
            before, condition = named(s.condition)
            return [*before, dataclasses.replace(s, condition=condition)]
        case core.For():
            before, first = named_binder(s.binders[0])
            return [*before, dataclasses.replace(s, binders=(first, *s.binders[1:]))]
        case core.While() if escapes(s.condition):
            return [endless(s)]
        case _:
            return [s]


def endless(s: core.While) -> core.While:
    """`while c { … }` as `while true { if not c { break }; … }`: what the condition does is done in an iteration."""
    span = s.condition.span
    truth = TypeCon("bool")
    stop = core.BlockExpr(UNIT_TYPE, span, (core.Break(span),), core.TupleExpr(UNIT_TYPE, span, ()))
    goes_on = core.TupleExpr(UNIT_TYPE, span, ())
    test = core.Discard(core.If(UNIT_TYPE, span, core.Not(truth, span, s.condition), stop, goes_on))
    body = core.BlockExpr(
        UNIT_TYPE, s.body.span, (test, core.Discard(s.body)), core.TupleExpr(UNIT_TYPE, s.body.span, ())
    )
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
            return before, dataclasses.replace(e, condition=condition, then=block(e.then), otherwise=block(e.otherwise))
        case core.Match():
            before, value = named(e.value)
            return before, dataclasses.replace(
                e, value=value, arms=tuple([dataclasses.replace(a, body=block(a.body)) for a in e.arms])
            )
        case core.Logic():
            if not escapes(e.right):
                before, left = named(e.left)
                return before, dataclasses.replace(e, left=left)
            short = core.Literal(e.type, e.span, e.operator == "or")
            arms = (e.right, short) if e.operator == "and" else (short, e.right)
            return separated(core.If(e.type, e.span, e.left, *arms))
        case core.Format():
            holes = [p[0] for p in e.parts if not isinstance(p, str)]
            before, named_parts = named_all(holes)
            names_left = iter(named_parts)
            return before, dataclasses.replace(
                e, parts=tuple([p if isinstance(p, str) else (next(names_left), p[1]) for p in e.parts])
            )
        case core.Call():
            given = [a for a in e.args if a is not None]
            before, (function, *named_parts) = named_all([e.function, *given])
            names_left = iter(named_parts)
            return before, dataclasses.replace(
                e, function=function, args=tuple([a and next(names_left) for a in e.args])
            )
        case core.Builtin():
            before, named_parts = named_all(e.args)
            return before, dataclasses.replace(e, args=tuple(named_parts))
        case core.Arith():
            before, (left, right) = named_all([e.left, e.right])
            return before, dataclasses.replace(e, left=left, right=right)
        case core.Negate() | core.Not():
            before, operand = named(e.operand)
            return before, dataclasses.replace(e, operand=operand)
        case core.TupleExpr() | core.ArrayExpr():
            before, named_parts = named_all(e.items)
            return before, dataclasses.replace(e, items=tuple(named_parts))
        case core.Construct():
            before, named_parts = named_all(e.fields)
            return before, dataclasses.replace(e, fields=tuple(named_parts))
        case core.Project() | core.As():
            before, value = named(e.value)
            return before, dataclasses.replace(e, value=value)
        case core.Index():
            before, base = named(e.base) if escapes(e.base) or any(map(escapes, parts_of(e.indices))) else ([], e.base)
            more, indices = named_indices(e.indices)
            return [*before, *more], dataclasses.replace(e, base=base, indices=indices)
        case core.Derivative():
            before, function = named(e.function)
            return before, dataclasses.replace(e, function=function)
        case core.Fail():
            before, message = named(e.message)
            return before, dataclasses.replace(e, message=message)
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
    named: list[core.Expr] = []
    for k, p in enumerate(parts):
        if k > last or isinstance(p, core.Literal | core.FnRef):
            named.append(p)
            continue
        before, value = separated(p)
        local = core.Local("part", p.type, False, None, p.span)
        out += [*before, let(local, value, p.span)]
        named.append(core.Ref(p.type, p.span, local))
    return out, named


def let(local: core.Local, value: core.Expr, span: Span) -> core.Let:
    return core.Let(core.Bind(local), value, (), span)


def parts_of(indices: Sequence[core.At | core.Range1]) -> list[core.Expr]:
    expressions: list[core.Expr | None] = []
    for i in indices:
        expressions += [i.value] if isinstance(i, core.At) else [i.low, i.high, i.step]
    return [p for p in expressions if p is not None]


def named_indices(
    indices: tuple[core.At | core.Range1, ...],
) -> tuple[list[core.Statement], tuple[core.At | core.Range1, ...]]:
    before, named = named_all(parts_of(indices))
    names_left = iter(named)
    out: list[core.At | core.Range1] = []
    for i in indices:
        if isinstance(i, core.At):
            out.append(core.At(next(names_left)))
        else:
            low, high, step = [p and next(names_left) for p in (i.low, i.high, i.step)]
            out.append(dataclasses.replace(i, low=low, high=high, step=step))
    return before, tuple(out)


def named_places(places: Sequence[core.Place]) -> tuple[list[core.Statement], list[core.Place]]:
    out: list[core.Statement] = []
    named: list[core.Place] = []
    for p in places:
        steps: list[core.FieldStep | core.IndexStep] = []
        for step in p.steps:
            if isinstance(step, core.IndexStep):
                before, indices = named_indices(step.indices)
                out += before
                step = core.IndexStep(indices)
            steps.append(step)
        named.append(dataclasses.replace(p, steps=tuple(steps)))
    return out, named


def named_binder(b: core.Binder) -> tuple[list[core.Statement], core.Binder]:
    match b:
        case core.Count():
            if b.bound is None:
                return [], b
            before, bound = named(b.bound)
            return before, dataclasses.replace(b, bound=bound)
        case core.Each():
            before, array = named(b.array)
            return before, dataclasses.replace(b, array=array)
        case core.Range():
            before, named_parts = named_all([p for p in (b.low, b.high, b.step) if p is not None])
            low, high, *step = named_parts
            return before, dataclasses.replace(b, low=low, high=high, step=step[0] if step else None)
