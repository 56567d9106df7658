"""Inference of blocks and statements. A statement with a mistake is reported, and the rest of the block goes on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dlang.diagnostics import DlangError, Fix, Note, Span, error, replacement
from dlang.grammar import syntax as s
from dlang.typecheck import builtins, comprehensions, core, functions, indexing, patterns, refinements
from dlang.typecheck.annotations import Annotator
from dlang.typecheck.arithmetic import operator_type
from dlang.typecheck.calls import field_of
from dlang.typecheck.context import Checker, Expected
from dlang.typecheck.messages import did_you_mean, no_value, text_of
from dlang.typecheck.printing import show
from dlang.typecheck.scope import BuiltinEntry, LocalEntry, Scope, Watched
from dlang.typecheck.terms import BOOL, I64, STR, of_var, variables
from dlang.typecheck.types import MISTAKE, UNIT, Refinement, SizeVar, Type, TypeCon, TypeTuple, TypeVar, resolve


# ---- blocks ----------------------------------------------------------------------------------------------------------
def block(cx: Checker, scope: Scope, e: s.Block, want: Expected | None = None) -> core.Expr:
    """A block in a scope of its own. A statement with a mistake is reported, and the others are checked as well."""
    inner = scope.child()
    out: list[core.Statement] = []
    last: core.Expr | None = None
    diverges = False
    count = len(e.statements)
    for i, statement in enumerate(e.statements):
        is_last = i == count - 1
        try:
            if is_last and isinstance(statement, EXPRESSIONS):
                if want is not None:
                    last = cx.check(inner, statement, want)
                else:
                    last = cx.infer(inner, statement)
            else:
                out += one(cx, inner, statement)
                diverges = isinstance(statement, s.Return | s.Break | s.Continue)
        except DlangError as problem:
            for d in problem.diagnostics:
                cx.report(d)
            recover(cx, inner, statement)
            if is_last:
                last = core.Fail(MISTAKE, statement.span, core.Literal(STR, statement.span, "a mistake"))
    if last is None:
        if diverges:
            t: Type = cx.st.type_var() if want is None else cx.with_open_sizes(want.type, want.unknown)
            last = core.Fail(t, e.span, core.Literal(STR, e.span, "unreachable"))
        else:
            last = core.TupleExpr(UNIT, e.span, ())
            if want is not None:
                without_value(cx, e, want)
    return core.BlockExpr(last.type, e.span, tuple(out), last)


def without_value(cx: Checker, e: s.Block, want: Expected) -> None:
    """A block that should have a value and has none."""
    try:
        cx.expect(want.type, UNIT, e.statements[-1].span if e.statements else e.span, want.what)
    except DlangError as problem:
        advice = "the value of a block is its last expression: this one ends with a statement"
        raise DlangError([replace(d, help=(advice,)) for d in problem.diagnostics]) from None


def recover(cx: Checker, scope: Scope, statement: s.Statement) -> None:
    """After a mistake the names of a `let` have any type, so that it isn't reported twice."""
    match statement:
        case s.Let(_, pattern, _, _) | s.Var(_, pattern, _, _):
            for name in names_of(pattern):
                patterns.bind_name(cx, scope, name, MISTAKE, pattern.span, mutable=isinstance(statement, s.Var))
        case s.Fn():
            patterns.bind_name(cx, scope, statement.name, MISTAKE, statement.name_span)
        case _:
            return


def names_of(p: s.Pattern) -> list[str]:
    match p:
        case s.PatternName(_, name):
            return [name]
        case s.PatternTuple(_, items):
            return [n for i in items for n in names_of(i)]
        case s.PatternConstructor(_, _, arguments):
            return [n for _, i in arguments for n in names_of(i)]
        case _:
            return []


def one(cx: Checker, scope: Scope, statement: s.Statement) -> list[core.Statement]:
    """The core of one statement."""
    match statement:
        case s.Let():
            return let(cx, scope, statement)
        case s.Var():
            return [declare(cx, scope, statement)]
        case s.Assign():
            return assign(cx, scope, statement)
        case s.Fn():
            return [functions.local_function(cx, scope, statement)]
        case s.For():
            return for_loop(cx, scope, statement)
        case s.While():
            return [while_loop(cx, scope, statement)]
        case s.Break(span) | s.Continue(span):
            word = "break" if isinstance(statement, s.Break) else "continue"
            if not scope.in_loop:
                raise error("E0209", f"`{word}` outside the body of a loop", span, help=_in_comprehension(scope))
            return [core.Break(span) if word == "break" else core.Continue(span)]
        case s.Return():
            return [*left(scope), return_statement(cx, scope, statement)]
        case s.Assert():
            return [assertion(cx, scope, statement)]
        case _:
            value = cx.infer(scope, statement)
            discard(cx, value, statement.span)
            return [core.Discard(value)]


def discard(cx: Checker, value: core.Expr, span: Span) -> None:
    """A value that isn't `()` may not be lost."""

    def check() -> None:
        t = resolve(value.type)
        if isinstance(t, TypeVar) and not t.rigid:
            cx.expect(UNIT, t, span)
        elif not (isinstance(t, TypeTuple) and not t.items):
            help = "write `let _ = …` to discard it"
            before = span.head(0)
            fixes: tuple[Fix, ...] = (replacement(before, "let _ = ", certain=False),)
            if isinstance(t, TypeCon) and t.name == "bool":
                help = f"to test it, write `assert {text_of(span)}`; to discard it, `let _ = …`"
                fixes = (replacement(before, "assert ", certain=False), *fixes)
            raise error("E0309", f"this value of type {show(t)} is not used", span, help=(help,), fixes=fixes)

    t = cx.settled(value.type)
    if isinstance(t, TypeVar):
        cx.later.append(check)
    else:
        check()


# ---- bindings --------------------------------------------------------------------------------------------------------
def let(cx: Checker, scope: Scope, e: s.Let) -> list[core.Statement]:
    if isinstance(e.value, s.Lambda) and isinstance(e.pattern, s.PatternName) and e.type is None:
        return [functions.named_lambda(cx, scope, e.pattern, e.value, e.span)]
    value, t, names, refinement = bound_value(cx, scope, e.value, e.type, pattern_what(e.pattern))
    pattern = patterns.bind(cx, scope, e.pattern, t)
    if isinstance(pattern, core.Bind):
        symbol = cx.symbol(value) if is_i64(t) else None
        if symbol is not None:
            cx.symbols[pattern.local] = symbol
    return [core.Let(pattern, value, names, e.span, refinement)]


def is_i64(t: Type) -> bool:
    t = resolve(t)
    if isinstance(t, TypeVar):
        return t.literal == "int"
    return isinstance(t, TypeCon) and t.name == "i64"


def pattern_what(p: s.Pattern) -> str:
    return f"the annotation of `{p.name}`" if isinstance(p, s.PatternName) else "this annotation"


def bound_value(
    cx: Checker, scope: Scope, value: s.Expr, annotation: s.TypeExpr | None, what: str
) -> tuple[core.Expr, Type, tuple[core.Local, ...], Refinement | None]:
    """A value with its annotation, the sizes that the annotation names here, and what `Idx` in it asks for."""
    if annotation is None:
        node = cx.infer(scope, value)
        t = resolve(node.type)
        return node, cx.settled(t) if isinstance(t, TypeVar) else t, (), None
    annotator = Annotator(cx, scope, rigid=False, unknown={}, what=what)
    want, refinement = annotator.refined_type(annotation)
    known_sizes(refinement, annotator, want, annotation.span)
    assert annotator.unknown is not None
    unknown = tuple(annotator.unknown.values())
    expected = Expected(want, unknown)
    if expected.closed:
        node = cx.check(scope, value, expected)
    else:
        node = cx.infer(scope, value)
        cx.settled(node.type)
        cx.expect(cx.with_open_sizes(want, unknown), node.type, value.span)
        cx.settled(node.type)
    names: list[core.Local] = []
    for name, v in annotator.names.items():
        if isinstance(v, SizeVar):
            local = core.Local(name, I64, False, v, annotation.span)
            scope.names[name] = LocalEntry(local, scope.border)
            cx.symbols[local] = of_var(v)
            scope.types[name] = v
            names.append(local)
        else:
            scope.types[name] = v
    t = node.type if unknown else want
    return node, t, tuple(names), refinement


def known_sizes(refinement: Refinement | None, annotator: Annotator, t: Type, span: Span) -> None:
    """Refuses an `Idx<k>` in an annotation that nothing else says the k of."""
    only_annotated = {v for v in annotator.names.values() if v not in variables(t)}
    for v in refinements.size_names(refinement):
        if v in only_annotated or (v.opened and v in (annotator.unknown or {}).values()):
            raise error("E0201", f"unknown size `{v.name or '?'}`: `Idx` compares with a size that is known", span,
                        help=did_you_mean(v.name or "", annotator.scope.visible()))  # fmt: skip


def declare(cx: Checker, scope: Scope, e: s.Var) -> core.Statement:
    unknown: tuple[SizeVar, ...] = ()
    if e.type is not None and isinstance(e.pattern, s.PatternName):
        annotator = Annotator(cx, scope, rigid=False, unknown={}, what=pattern_what(e.pattern))
        want, refinement = annotator.refined_type(e.type)
        assert annotator.unknown is not None
        unknown = tuple(annotator.unknown.values())
        if unknown:
            known_sizes(refinement, annotator, want, e.type.span)
            value = cx.check(scope, e.value, Expected(want, unknown))
            local = patterns.bind_name(
                cx, scope, e.pattern.name, want, e.pattern.span, mutable=True, what="var", unknown=unknown
            )
            return core.Declare(core.Bind(local), value, (), e.span, refinement)
    value, t, names, refinement = bound_value(cx, scope, e.value, e.type, pattern_what(e.pattern))
    pattern = patterns.bind(cx, scope, e.pattern, t, mutable=True, what="var")
    return core.Declare(pattern, value, names, e.span, refinement)


# ---- assignment ------------------------------------------------------------------------------------------------------
def assign(cx: Checker, scope: Scope, e: s.Assign) -> list[core.Statement]:
    """The statements that an assignment is: of a place, of several at once, or of `_`, which drops the value."""
    if e.operator is None and is_blank(e.target):
        return [core.Let(core.Wildcard(), cx.infer(scope, e.value), (), e.span)]
    if isinstance(e.target, s.Tuple):
        if e.operator is not None or any(isinstance(t, s.Tuple) or is_blank(t) for t in e.target.items):
            return assign_parts(cx, scope, e)
        targets = [place(cx, scope, t) for t in e.target.items]
        value = cx.infer(scope, e.value)
        cx.settled(value.type)
        wanted = TypeTuple(tuple(cx.with_open_sizes(p.type, unknown_sizes(scope, p)) for p in targets))
        cx.expect(wanted, value.type, e.value.span, "the assignment: ")
        return [core.AssignTuple(tuple(targets), value, e.span)]
    target = place(cx, scope, e.target)
    value = cx.infer(scope, e.value)
    if e.operator is None:
        cx.settled(value.type)
        notes = (Note(f"`{target.local.name}` is declared here", target.local.span),)
        want = cx.with_open_sizes(target.type, unknown_sizes(scope, target))
        grows = (f"a `var` keeps its sizes unless its type has a `?`: `var {target.local.name}: f64[?] = …`",)
        cx.expect(want, value.type, e.value.span, "the assignment: ", notes, () if target.steps else grows)
    else:
        result = operator_type(cx, e.operator, target.type, value.type, e.span, (e.value.span,))
        cx.settled(result)
        cx.expect(target.type, result, e.span, f"`{e.operator}=`: ")
    return [core.Assign(target, e.operator, value, e.span)]


def assign_parts(cx: Checker, scope: Scope, e: s.Assign) -> list[core.Statement]:
    """`((a, b), c) = e`, and `(a, b) += e`: each place by its part, which has a name; one scalar may scale all."""
    value = cx.infer(scope, e.value)
    t = cx.settled(value.type)
    if e.operator in ("*", "/") and not isinstance(t, TypeTuple):
        local = core.Local("factor", t, False, None, e.value.span)
        pattern: core.Pattern = core.Bind(local)
        assigned = [x for p in leaves(e.target) for x in assign_part(cx, scope, p, e, t, local)[1]]
    else:
        pattern, assigned = assign_part(cx, scope, e.target, e, t)
    return [core.Let(pattern, value, (), e.span), *assigned]


def leaves(target: s.Expr) -> list[s.Expr]:
    return [x for i in target.items for x in leaves(i)] if isinstance(target, s.Tuple) else [target]


def assign_part(
    cx: Checker, scope: Scope, target: s.Expr, e: s.Assign, t: Type, given: core.Local | None = None
) -> tuple[core.Pattern, list[core.Statement]]:
    """Returns the pattern that takes a value of type t apart for a target, and the assignments of its parts."""
    if isinstance(target, s.Tuple):
        types = tuple([cx.st.type_var() for _ in target.items])
        cx.expect(TypeTuple(types), t, e.value.span, "the assignment: ")
        parts = [assign_part(cx, scope, i, e, resolve(x)) for i, x in zip(target.items, types, strict=True)]
        return core.TuplePattern(tuple([p for p, _ in parts])), [x for _, some in parts for x in some]
    if e.operator is None and is_blank(target):
        return core.Wildcard(), []
    to = place(cx, scope, target)
    local = given or core.Local("part", t, False, None, e.value.span)
    if e.operator is None:
        cx.expect(cx.with_open_sizes(to.type, unknown_sizes(scope, to)), t, e.value.span, "the assignment: ")
    else:
        result = operator_type(cx, e.operator, to.type, t, e.span, (e.value.span,))
        cx.settled(result)
        cx.expect(to.type, result, e.span, f"`{e.operator}=`: ")
    return core.Bind(local), [core.Assign(to, e.operator, core.Ref(t, e.value.span, local), e.span)]


def is_blank(target: s.Expr) -> bool:
    """Tells whether the value assigned here is dropped."""
    return isinstance(target, s.Name) and target.name == "_"


def unknown_sizes(scope: Scope, target: core.Place) -> tuple[SizeVar, ...]:
    """The sizes `?` of a `var` that is assigned as a whole: each assignment gives them anew."""
    entry = scope.find(target.local.name)
    return entry.unknown if isinstance(entry, LocalEntry) and not target.steps else ()


def place(cx: Checker, scope: Scope, e: s.Expr) -> core.Place:
    """The part of a `var` that an assignment changes."""
    checked_place = place_of(cx, scope, e)
    if cx.observed is not None:
        cx.observed.note(e.span, checked_place.type)
    return checked_place


def place_of(cx: Checker, scope: Scope, e: s.Expr) -> core.Place:
    """Returns the target of an assignment: a `var`, its element or field. Raises E0208, and E0210 inside a lambda."""
    match e:
        case s.Name(span, "_"):
            raise no_value(span)
        case s.Name(span, name):
            entry = scope.find(name)
            if not isinstance(entry, LocalEntry):
                if entry is None and cx.find(scope, name) is None and not isinstance(scope.find_type(name), SizeVar):
                    unknown = cx.unknown_name(scope, name, span)
                    if unknown.diagnostics[0].message == f"unknown name `{name}`":
                        help = (f"a new variable is declared by `let {name} = …`, or `var` if it changes",)
                        unknown = error("E0201", f"unknown name `{name}`", span, label="not found here", help=help)
                    bind_unknown(cx, scope, name, span)
                    raise unknown
                raise error("E0208", f"`{name}` can't be assigned: only a `var` can", span)
            if not entry.local.mutable:
                raise immutable(entry, name, span)
            if entry.border != scope.border:
                raise error(
                    "E0210",
                    f"`{name}` is a `var` outside this lambda or comprehension: it can't be assigned from inside",
                    span,
                    notes=(Note(f"`{name}` is declared here", entry.local.span),),
                    help=("return the new value, or use a `for` loop",),
                )
            return core.Place(entry.local, (), entry.local.type, span)
        case s.Field(span, base, name):
            outer = place(cx, scope, base)
            position, t = field_of(cx.settled(outer.type), name, span)
            return core.Place(outer.local, (*outer.steps, core.FieldStep(position, str(name))), t, span)
        case s.Index(span, base, indices):
            outer = place(cx, scope, base)
            t, steps = indexing.index_axes(cx, scope, outer.type, indices, span)
            return core.Place(outer.local, (*outer.steps, core.IndexStep(steps)), t, span)
        case s.Call(span, s.Name(_, name), arguments) if all(isinstance(a.value, s.Name) for a in arguments):
            help = (f"a function is declared by `fn {span.text} = …`",)
            raise error("E0208", "this can't be assigned", span, help=help)
        case _:
            raise error("E0208", "this can't be assigned", e.span,
                        help=("a name, an element, a field, or a tuple of these can",))  # fmt: skip


def bind_unknown(cx: Checker, scope: Scope, name: str, span: Span) -> None:
    """A name that was assigned and isn't known is reported once."""
    patterns.bind_name(cx, scope, name, MISTAKE, span, mutable=True, what="var")


def immutable(entry: LocalEntry, name: str, span: Span) -> DlangError:
    what = {"let": "a `let`", "parameter": "a parameter", "index": "an index"}.get(entry.what, "not a `var`")
    helps = (
        (f"declare it with `var {name} = …`",) if entry.what == "let" else (f"copy it first: `var {name}_ = {name}`",)
    )
    return error(
        "E0208",
        f"`{name}` is {what} and can't be assigned: only a `var` can",
        span,
        label="assigned here",
        notes=(Note(f"`{name}` is declared here", entry.local.span),),
        help=helps,
        fixes=as_var(entry.local.span) if entry.what == "let" and entry.local.span is not None else (),
    )


def as_var(name: Span) -> tuple[Fix, ...]:
    """The `let` in front of a name as a `var`; nothing if it declares several."""
    word = re.search(r"\blet[ \t]+$", name.source.text[: name.start])
    return () if word is None else (replacement(name._replace(start=word.start(), end=word.start() + 3), "var"),)


# ---- control ---------------------------------------------------------------------------------------------------------
def loop_body(cx: Checker, scope: Scope, inner: Scope, body: s.Block, mark: int) -> core.Expr:
    value = block(cx, inner, body)
    t = cx.settled(value.type)
    if isinstance(t, TypeVar) and not t.rigid:
        cx.expect(UNIT, t, body.span)
    elif not (isinstance(t, TypeTuple) and not t.items):
        span = body.statements[-1].span if body.statements else body.span
        raise error("E0309", f"this value of type {show(t)} is not used: the body of a loop has none", span,
                    help=("write `let _ = …` to discard it",))  # fmt: skip
    cx.confine(
        mark,
        (e.local.type for e in scope.locals()),
        body.span,
        "a size opened in an iteration of the loop would become part of a variable outside it",
    )
    return value


def for_loop(cx: Checker, scope: Scope, e: s.For) -> list[core.Statement]:
    inner = scope.child(loop=True)
    heads, watched = split_progress(cx, scope, e.binders)
    binders = [comprehensions.binder(cx, inner, b, inner, loop=True) for b in heads]
    comprehensions.check_pairs(heads, e.body)
    mark = cx.mark()
    if watched is not None and scope.function is not None:
        builtins.note_effect(scope, PROGRESS)
        scope.function.watched.append(watched)
    body = loop_body(cx, scope, inner, e.body, mark)
    if watched is not None and scope.function is not None:
        scope.function.watched.pop()
    for b, checked in zip(heads, binders, strict=True):
        comprehensions.check_bounded(inner, b, checked)
    loop = core.For(tuple(binders), body, e.span)
    return [loop] if watched is None else showing_progress(loop, watched)


def _in_comprehension(scope: Scope) -> tuple[str, ...]:
    """Advice for a word of loops in an element of a comprehension."""
    if not scope.border or (scope.function is not None and scope.function.result is not None):
        return ()
    return ("a comprehension has all of its elements: `if` behind it leaves some out, and a `for` loop may end early",)


def left(scope: Scope) -> list[core.Statement]:
    """Returns the statements that report that a `return` ends the loops around it."""
    loops = [] if scope.function is None else scope.function.watched
    return [progress_ending(w) for w in reversed(loops)]


def while_loop(cx: Checker, scope: Scope, e: s.While) -> core.Statement:
    mark = cx.mark()
    condition = cx.infer(scope.child(loop=False), e.condition)
    cx.settled(condition.type)
    cx.expect(BOOL, condition.type, e.condition.span, "the condition: ")
    body = loop_body(cx, scope, scope.child(loop=True), e.body, mark)
    return core.While(condition, body, e.span)


def return_statement(cx: Checker, scope: Scope, e: s.Return) -> core.Statement:
    f = scope.function
    if f is None or f.result is None:
        message = "`return` can't leave a comprehension, a test or a script"
        raise error("E0209", message, e.span, help=_in_comprehension(scope))
    if e.value is None:
        cx.expect(f.result, UNIT, e.span, "`return`: ")
        return core.Return(core.TupleExpr(UNIT, e.span, ()), e.span)
    value = cx.check(scope, e.value, Expected(f.result, f.unknown, "`return`: "))
    return core.Return(value, e.span)


def assertion(cx: Checker, scope: Scope, e: s.Assert) -> core.Statement:
    condition = cx.infer(scope, e.condition)
    cx.settled(condition.type)
    if isinstance(e.condition, s.Tuple) and len(e.condition.items) == 2 and e.message is None:
        first, second = (i.span.text for i in e.condition.items)
        said = "`assert` takes a condition and a message without parentheses"
        raise error("E0301", said, e.condition.span, help=(f"write `assert {first}, {second}`",))
    cx.expect(BOOL, condition.type, e.condition.span, "`assert`: ")
    message = None
    if e.message is not None:
        message = cx.infer(scope, e.message)
        cx.expect(STR, message.type, e.message.span, "the message: ")
    span = e.condition.span
    return core.Assert(condition, message, span.text, e.span)


EXPRESSIONS = (
    s.Number, s.Boolean, s.String, s.Name, s.Hole, s.Tuple, s.Array, s.Comprehension, s.Call, s.Index, s.Field,
    s.Unary, s.Binary, s.Cast, s.Lambda, s.If, s.Match, s.Block,
)  # fmt: skip


# ---- progress --------------------------------------------------------------------------------------------------------
# `for i < progress(n, "training") { … }`: a loop that shows how far it is.
#
#     var done = 0
#     var next = 0
#     for i < n {
#       if done >= next { next = report(done, n, "training") }
#       done += 1
#       …
#     }
#     if done > 0 { let _ = report(done, -1, "training") }
#
# `report` draws, and says at which iteration it wants to be asked again, so that a short iteration costs a comparison.

PROGRESS = "progress"


def split_progress(
    cx: Checker, scope: Scope, binders: Sequence[s.Binder]
) -> tuple[tuple[s.Binder, ...], Watched | None]:
    """The binders without the call of `progress` in the first, if that is there."""
    first = binders[0]
    for part, e in (("below", first.below), ("each", first.each), ("high", first.high)):
        if isinstance(e, s.Call) and isinstance(e.function, s.Name) and e.function.name == PROGRESS:
            entry = scope.find(PROGRESS) or cx.find(scope, PROGRESS)
            if isinstance(entry, BuiltinEntry):
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
        raise error("E0307", f"`{PROGRESS}` takes how far the loop goes, and a label", e.span, help=help)
    if len(e.arguments) == 1:
        return e.arguments[0].value, core.Literal(STR, e.span, "")
    label = cx.infer(scope, e.arguments[1].value)
    cx.expect(STR, label.type, e.arguments[1].value.span, "the label: ")
    return e.arguments[0].value, label


def progress_ending(w: Watched) -> core.Statement:
    """Returns the statement that reports the end of the loop, wherever that is."""
    nothing = core.TupleExpr(UNIT, w.span, ())
    report = core.Let(core.Wildcard(), _report(w, _number(w, -1)), (), w.span)
    told = core.BlockExpr(UNIT, w.span, (report,), nothing)
    began = core.Arith(BOOL, w.span, ">", _ref(w, w.done), _number(w, 0))
    return core.Discard(core.If(UNIT, w.span, began, told, nothing))


def showing_progress(loop: core.For, w: Watched) -> list[core.Statement]:
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
        progress_ending(w),
    ]


def _number(w: Watched, value: int) -> core.Expr:
    return core.Literal(I64, w.span, value)


def _ref(w: Watched, local: core.Local) -> core.Expr:
    return core.Ref(local.type, w.span, local)


def _report(w: Watched, total: core.Expr) -> core.Expr:
    return core.Builtin(I64, w.span, PROGRESS, (_ref(w, w.done), total, _ref(w, w.label)))


def _assign(local: core.Local, operator: str | None, value: core.Expr) -> core.Statement:
    return core.Assign(core.Place(local, (), I64, value.span), operator, value, value.span)
