"""Inference of expressions: each gives its core node, with its type."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from dlang.diagnostics import DlangError, Note, Span, error
from dlang.grammar import syntax as s
from dlang.grammar.syntax import children
from dlang.polynomials import TooManyTerms
from dlang.typecheck import (
    arithmetic,
    calls,
    comprehensions,
    core,
    functions,
    indexing,
    patterns,
    statements,
    types as ty,
)
from dlang.typecheck.annotations import Annotator, misplaced
from dlang.typecheck.context import Checker, Expected
from dlang.typecheck.formats import check_format
from dlang.typecheck.limits import size_too_large, within_axes, within_size
from dlang.typecheck.messages import did_you_mean, no_value
from dlang.typecheck.printing import show
from dlang.typecheck.scope import BuiltinEntry, FnEntry, LocalEntry, ModuleEntry, Scope
from dlang.typecheck.state import Reason, Term
from dlang.typecheck.terms import BOOL, I64, STR, array, number, of_var, opened_in, substitute, variables
from dlang.typecheck.unify import same


# ---- atoms -----------------------------------------------------------------------------------------------------------
def boolean(cx: Checker, scope: Scope, e: s.Boolean) -> core.Expr:
    return core.Literal(BOOL, e.span, e.value)


def string(cx: Checker, scope: Scope, e: s.String) -> core.Expr:
    if all(isinstance(p, str) for p in e.parts):
        return core.Literal(STR, e.span, "".join(p for p in e.parts if isinstance(p, str)))
    parts: list[str | tuple[core.Expr, str]] = []
    for p in e.parts:
        if isinstance(p, str):
            parts.append(p)
        else:
            value = cx.infer(scope, p.value)
            check_format(cx, value.type, p.spec, p.span.tail(len(p.spec) + 1).head(len(p.spec)))
            parts.append((value, p.spec))
    return core.Format(STR, e.span, tuple(parts))


def hole(cx: Checker, scope: Scope, e: s.Hole) -> core.Expr:
    return core.Fail(ty.MISTAKE, e.span, core.Literal(STR, e.span, "a syntax error"))


def name(cx: Checker, scope: Scope, e: s.Name) -> core.Expr:
    """Resolves a name. Raises E0201 with suggestions."""
    if e.name == "_":
        raise no_value(e.span)
    if e.name[:1].isupper():
        return calls.constructor_value(cx, e)
    local_entry = scope.find_value(e.name)
    match cx.find(scope, e.name) if local_entry is None else local_entry:
        case ty.SizeVar() as size:
            return core.SizeValue(I64, e.span, of_var(size))
        case LocalEntry() as entry:
            return local_ref(cx, entry, e.span)
        case FnEntry() as entry:
            return calls.function_value(cx, scope, entry, e)
        case BuiltinEntry() as entry:
            return calls.builtin_value(cx, scope, entry, e)
        case ModuleEntry():
            raise error("E0212", f"`{e.name}` is a module, not a value", e.span, help=(f"write `{e.name}.f`",))
        case None:
            pass
    if isinstance(scope.find_type(e.name), ty.TypeVar):
        raise error("E0212", f"`{e.name}` is a type, not a value", e.span)
    if e.name in ty.DTYPES:
        return calls.builtin_value(cx, scope, BuiltinEntry(e.name), e)
    raise cx.unknown_name(scope, e.name, e.span)


def local_ref(cx: Checker, entry: LocalEntry, span: Span) -> core.Expr:
    local = entry.local
    if not entry.unknown:
        return core.Ref(local.type, span, local)
    fresh = tuple(cx.st.open_size(v.origin or Note("a size of the `var`", span)) for v in entry.unknown)
    mapping: dict[ty.Var, Term] = {v: of_var(w) for v, w in zip(entry.unknown, fresh, strict=True)}
    return core.Ref(substitute(local.type, mapping), span, local, fresh)


def tuple_expr(cx: Checker, scope: Scope, e: s.Tuple) -> core.Expr:
    items = tuple(cx.infer(scope, i) for i in e.items)
    return core.TupleExpr(ty.TypeTuple(tuple(i.type for i in items)), e.span, items)


def array_expr(cx: Checker, scope: Scope, e: s.Array) -> core.Expr:
    items = tuple(cx.infer(scope, i) for i in e.items)
    element: ty.Type = items[0].type if items else cx.st.type_var()
    for item in items[1:]:
        first = Note("the first element is here", items[0].span)
        cx.expect(element, item.type, item.span, "an element of the array: ", (first,))
    size = number(len(items), Note("the length of this array", e.span))
    whole = array(element, size)
    within_axes(ty.resolve(whole), e.span)
    return core.ArrayExpr(whole, e.span, items)


# ---- fields ----------------------------------------------------------------------------------------------------------
def field(cx: Checker, scope: Scope, e: s.Field) -> core.Expr:
    if isinstance(e.base, s.Name) and isinstance(e.name, str) and not e.base.name[:1].isupper():
        entry = cx.find(scope, e.base.name)
        if isinstance(entry, ModuleEntry):
            if e.name[:1].isupper():
                return calls.constructor_value(cx, s.Name(e.span, f"{e.base.name}.{e.name}"))
            member = calls.module_member(cx, entry, e.name, e.span)
            assert isinstance(member, FnEntry)
            return calls.function_value(cx, scope, member, e)
    return project(cx, cx.infer(scope, e.base), e.name, e.span)


def project(cx: Checker, base: core.Expr, name: str | int, span: Span) -> core.Expr:
    t = ty.resolve(base.type)
    if isinstance(t, ty.TypeVar):
        t = cx.settled(t)
    if isinstance(t, ty.TypeVar) and not t.rigid:
        result = cx.st.type_var()
        cx.constrain("field", Reason(span, f".{name}", (t,)), types=(t, result), data=name)
        return core.Project(result, span, base, name if isinstance(name, int) else -1, str(name))
    position, type_ = calls.field_of(t, name, span)
    return core.Project(type_, span, base, position, str(name))


# ---- operators -------------------------------------------------------------------------------------------------------


# ---- casts -----------------------------------------------------------------------------------------------------------
def cast(cx: Checker, scope: Scope, e: s.Cast) -> core.Expr:
    """`e as T`: a conversion of numbers, or sizes that are compared when it runs."""
    value = cx.infer(scope, e.value)
    instead = ("`_` leaves a size as it is; a type with `?` is stated by an annotation: `let y: f64[?] = …`",)
    annotator = Annotator(cx, scope, rigid=False, what="`as`", instead=instead)
    want, refinement = annotator.refined_type(e.type)
    for name, v in annotator.names.items():
        if isinstance(v, ty.SizeVar) and not v.rigid:
            raise error(
                "E0201",
                f"unknown size `{name}`: `as` compares with sizes that are known",
                e.type.span,
                help=(
                    *(did_you_mean(name, scope.visible()) if len(name) > 1 else ()),
                    f"`let y: f64[{name}] = …` names a size, `_` leaves one open",
                ),
            )
    if isinstance(refinement, ty.Below) and isinstance(ty.resolve(want), ty.TypeCon):
        cx.expect(I64, value.type, e.value.span, "`as Idx`: ")
        return core.As(I64, e.span, value, refinement.size)
    if refinement is not None:
        raise misplaced(e.type.span, "behind `as` but of one number", "check each: `[i as Idx<n> for i in x]`")
    cx.settled(value.type)
    value_type = ty.resolve(value.type)
    if isinstance(want, ty.TypeCon) and isinstance(value_type, ty.TypeCon) and want.name != value_type.name:
        raise error(
            "E0301",
            f"`as` asserts a size, it does not convert: expected {want.name}, found {value_type.name}",
            e.span,
            help=(f"write `{want.name}(…)` to convert",),
        )
    cx.expect(loosened(cx, want), value.type, e.value.span, "`as`: ")
    return core.As(want, e.span, value)


def loosened(cx: Checker, t: ty.Type) -> ty.Type:
    """The type with every size that is written replaced by an open one: sizes are compared when it runs."""

    def size(x: ty.Size) -> ty.Size:
        atom = x.poly.atom
        return x if isinstance(atom, ty.SizeVar) and not atom.rigid and atom.name is None else cx.st.size()

    t = ty.resolve(t)
    match t:
        case ty.TypeArray(element, shape):
            pre, post = tuple(map(size, shape.pre)), tuple(map(size, shape.post))
            return ty.TypeArray(loosened(cx, element), ty.Shape(pre, shape.row, post))
        case ty.TypeTuple(items):
            return ty.TypeTuple(tuple(loosened(cx, i) for i in items))
        case ty.TypeData(decl, args):
            return ty.TypeData(
                decl,
                tuple(
                    size(a) if isinstance(a, ty.Size) else a if isinstance(a, ty.Shape) else loosened(cx, a)
                    for a in args
                ),
            )
        case _:
            return t


# ---- functions -------------------------------------------------------------------------------------------------------


def result_span(e: s.Block) -> Span:
    """Returns the span of a block's value."""
    return e.statements[-1].span if e.statements else e.span


# ---- branches --------------------------------------------------------------------------------------------------------
def conditional(cx: Checker, scope: Scope, e: s.If, want: Expected | None = None) -> core.Expr:
    """An `if`; without `else` its block may have no value."""
    condition = cx.infer(scope, e.condition)
    cx.settled(condition.type)
    cx.expect(BOOL, condition.type, e.condition.span, "the condition: ")
    if e.otherwise is None:
        then = statements.block(cx, scope, e.then)
        unit = ty.TypeTuple(())
        t = cx.settled(then.type)
        if isinstance(t, ty.TypeVar) and not t.rigid and not t.classes:
            cx.expect(unit, t, e.then.span)
        elif not (isinstance(t, ty.TypeTuple) and not t.items):
            of_type = "" if isinstance(t, ty.TypeVar) else f" of type {show(t)}"
            message = f"an `if` without `else` has no value, but its block has one{of_type}"
            raise error("E0301", message, result_span(e.then), help=("add `else { … }`",))
        return core.If(unit, e.span, condition, then, core.TupleExpr(unit, e.span, ()))
    mark = cx.mark()
    if want is not None and want.closed:
        then = cx.check(scope, e.then, want)
        otherwise = cx.check(scope, e.otherwise, want)
    else:
        then = statements.block(cx, scope, e.then)
        otherwise = cx.infer(scope, e.otherwise)
    cx.settled(then.type)
    join = Join(cx, e.otherwise.span, "the branches differ: ", bool(want and want.unknown))
    try:
        t = join.type(then.type, otherwise.type)
    except DlangError as problem:
        raise with_note(problem, Note("the other branch is here", e.then.span)) from None
    t = join.leaving(cx.settled(t), mark, join.candidates)
    if want is not None and not want.closed:
        cx.expect(cx.with_open_sizes(want.type, want.unknown), t, e.span, want.what)
    return core.If(t, e.span, condition, then, otherwise, join.candidates)


def with_note(problem: DlangError, note: Note) -> DlangError:
    return DlangError([replace(d, notes=(*d.notes, note)) for d in problem.diagnostics])


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
            body_statements = tuple(statements.one(cx, inner, a.body))
            last: core.Expr
            if diverges:
                t: ty.Type = cx.st.type_var()
                last = core.Fail(t, a.body.span, core.Literal(STR, a.body.span, "unreachable"))
            else:
                last = core.TupleExpr(ty.UNIT, a.body.span, ())
            body = core.BlockExpr(last.type, a.body.span, body_statements, last)
        arms.append(core.Arm(pattern, guard, body))
        bodies.append((body, diverges))
    result: ty.Type | None = None
    candidates: tuple[ty.SizeVar, ...] = ()
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
    cx.later.append(lambda: patterns.check(cx, e, value.type, covered))
    return core.Match(result, e.span, value, covered, candidates)


# ---- all expressions -------------------------------------------------------------------------------------------------
RULES: dict[type, Callable[[Checker, Scope, Any], core.Expr]] = {
    s.Number: patterns.number,
    s.Boolean: boolean,
    s.String: string,
    s.Name: name,
    s.Hole: hole,
    s.Tuple: tuple_expr,
    s.Array: array_expr,
    s.Comprehension: comprehensions.comprehension,
    s.Call: calls.infer_call,
    s.Index: indexing.index,
    s.Field: field,
    s.Unary: arithmetic.unary,
    s.Binary: arithmetic.binary,
    s.Cast: cast,
    s.Lambda: functions.lambda_expr,
    s.If: conditional,
    s.Match: infer_match,
    s.Block: statements.block,
}


@dataclass(slots=True)
class ExpressionChecker(Checker):
    """The checker with the rules of all expressions."""

    def infer(self, scope: Scope, e: s.Expr, want: ty.Type | None = None) -> core.Expr:
        if self.observed is None:
            return self._inferred(scope, e, want)
        try:
            value = self._inferred(scope, e, want)
        except DlangError:
            self.observed.note(e.span, ty.MISTAKE)
            self._look_inside(scope, e)
            raise
        self.observed.note(e.span, value.type)
        return value

    def _inferred(self, scope: Scope, e: s.Expr, want: ty.Type | None) -> core.Expr:
        try:
            if isinstance(e, s.Lambda) and want is not None:
                return functions.lambda_expr(self, scope, e, parameters_of(want))
            value = RULES[type(e)](self, scope, e)
            if isinstance(e, s.Tuple | s.Call | s.Binary):  # of parts that may be many
                within_size(value.type, e.span)
            return value
        except TooManyTerms:
            raise size_too_large(e.span) from None

    def _look_inside(self, scope: Scope, e: s.Expr) -> None:
        """Notes types in a mistake that inference did not get to; messages about them would not be the first."""
        if self.observed is None or isinstance(e, s.Lambda | s.Comprehension | s.Block | s.If | s.Match):
            return  # the parts of these have scopes of their own
        pending, kept = self.st.pending(), (list(self.st.diagnostics), list(self.later), list(self.escapes))
        for part in children(e):
            value = part.value if isinstance(part, s.Argument) else part
            if isinstance(value, s.Expr) and not self.observed.knows(value.span):
                with suppress(DlangError):
                    self.infer(scope, value)
        self.st.diagnostics, self.later, self.escapes = kept
        self.st.wait_only_for(pending)

    def check(self, scope: Scope, e: s.Expr, want: Expected) -> core.Expr:
        match e:
            case s.Block():
                return statements.block(self, scope, e, want)
            case s.If() if e.otherwise is not None:
                return conditional(self, scope, e, want)
            case s.Match():
                return infer_match(self, scope, e, want)
            case _:
                value = self.infer(scope, e, None if want.unknown else want.type)
        self.settled(value.type)
        self.expect(self.with_open_sizes(want.type, want.unknown), value.type, e.span, want.what)
        return value


def parameters_of(want: ty.Type) -> tuple[ty.Type, ...]:
    """Returns the types of the parameters of a function type, and nothing for another type."""
    t = ty.resolve(want)
    return t.params if isinstance(t, ty.TypeFn) else ()


# ---- branches --------------------------------------------------------------------------------------------------------
# The common type of two branches: equal but for sizes, which may differ where one is known only when it runs.


def may_be_opened(open_: ty.Type, known: ty.Type) -> bool:
    """Tells whether the first type is still open where the second has a size that was opened from a `?`."""
    if not opened_in(known):
        return False
    if isinstance(open_, ty.TypeVar):
        return not open_.rigid
    return isinstance(open_, ty.TypeArray) and open_.shape.row is not None and not open_.shape.row.rigid


class Join:
    """One join; equal pairs of sizes have one result. lenient: any two sizes may differ (an annotation says `?`)."""

    def __init__(self, cx: Checker, span: Span, what: str, lenient: bool) -> None:
        self.cx, self.span, self.what, self.lenient = cx, span, what, lenient
        self.made: list[tuple[ty.Size, ty.Size, ty.SizeVar]] = []
        self.left: list[ty.SizeVar] = []

    def type(self, a: ty.Type, b: ty.Type) -> ty.Type:
        a, b = ty.resolve(a), ty.resolve(b)
        if isinstance(a, ty.TypeArray) and isinstance(b, ty.TypeArray):
            if a.shape.row is None and b.shape.row is None and len(a.shape.pre) == len(b.shape.pre):
                sizes = tuple(self.size(x, y) for x, y in zip(a.shape.pre, b.shape.pre, strict=True))
                return ty.TypeArray(self.type(a.element, b.element), ty.Shape(sizes))
        elif isinstance(a, ty.TypeTuple) and isinstance(b, ty.TypeTuple) and len(a.items) == len(b.items):
            return ty.TypeTuple(tuple(self.type(x, y) for x, y in zip(a.items, b.items, strict=True)))
        elif isinstance(a, ty.TypeData) and isinstance(b, ty.TypeData) and a.decl is b.decl:
            return ty.TypeData(a.decl, tuple(self.term(x, y) for x, y in zip(a.args, b.args, strict=True)))
        for open_, known in ((a, b), (b, a)):
            if may_be_opened(open_, known):  # a join never gives an opened size to what is still open
                fresh: dict[ty.Var, Term] = {v: of_var(self.cx.st.size_var()) for v in opened_in(known)}
                self.cx.expect(substitute(known, fresh), open_, self.span, self.what)
                return self.type(a, b)
        self.cx.expect(a, b, self.span, self.what)
        return a

    def term(self, a: Term, b: Term) -> Term:
        if isinstance(a, ty.Size) and isinstance(b, ty.Size):
            return self.size(a, b)
        if isinstance(a, ty.Shape) or isinstance(b, ty.Shape) or isinstance(a, ty.Size) or isinstance(b, ty.Size):
            return a
        return self.type(a, b)

    def size(self, x: ty.Size, y: ty.Size) -> ty.Size:
        if same(x, y):
            return x
        for p, q, known in self.made:
            if same(p, x) and same(q, y):
                return of_var(known)
        origin = Note("that of branches with different sizes", self.span)
        v = self.cx.st.size_var(origin)
        self.made.append((x, y, v))
        self.cx.constrain("join", Reason(self.span, self.what), sizes=(x, y, of_var(v)), data=int(self.lenient))
        self.cx.unfinished = True
        return of_var(v)

    def leaving(self, t: ty.Type, mark: int, joined: tuple[ty.SizeVar, ...]) -> ty.Type:
        """Sizes opened inside a branch have no name outside it: the value has fresh ones, but for those `joined`."""
        inner = self.cx.opened_since(mark)
        if inner:
            inner -= {v for j in joined for v in variables(of_var(j)) if isinstance(v, ty.SizeVar)}
        mapping: dict[ty.Var, Term] = {}
        for v in variables(t) if inner else ():
            if isinstance(v, ty.SizeVar) and v in inner:
                outer = self.cx.st.open_size(Note("that of a value from branches", self.span))
                self.left.append(outer)
                mapping[v] = of_var(outer)
        return substitute(t, mapping) if mapping else t

    @property
    def candidates(self) -> tuple[ty.SizeVar, ...]:
        return (*(v for _, _, v in self.made), *self.left)
