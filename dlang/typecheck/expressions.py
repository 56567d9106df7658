"""Inference of expressions: each gives its core node, with its type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

from dlang.diagnostics import DlangError, Note, Span, error
from dlang.grammar import syntax as s
from dlang.ops.primitives import COMPARISONS
from dlang.polynomials import TooManyTerms
from dlang.typecheck import (
    calls,
    comprehensions,
    core,
    fields,
    indexing,
    literals,
    matches,
    patterns,
    statements,
)
from dlang.typecheck.annotations import Annotator, misplaced
from dlang.typecheck.context import Checker
from dlang.typecheck.formats import check_format
from dlang.typecheck.joins import Join
from dlang.typecheck.limits import size_too_large, within_axes
from dlang.typecheck.messages import did_you_mean
from dlang.typecheck.observed import look_inside
from dlang.typecheck.operators import has_axes
from dlang.typecheck.parameters import apart_from_sizes, named_once
from dlang.typecheck.printing import show
from dlang.typecheck.scope import BuiltinEntry, FnEntry, LocalEntry, ModuleEntry, Scope
from dlang.typecheck.state import Reason, Term
from dlang.typecheck.terms import BOOL, I64, STR, array, number, of_var, substitute, variables
from dlang.typecheck.types import (
    DTYPES,
    FLOATS,
    INTS,
    MISTAKE,
    Below,
    Effects,
    Shape,
    Size,
    SizeVar,
    Type,
    TypeArray,
    TypeCon,
    TypeData,
    TypeFn,
    TypeTuple,
    TypeVar,
    Var,
    resolve,
)


def infer(cx: Checker, scope: Scope, e: s.Expr) -> core.Expr:
    """The core of an expression, with its type."""
    if cx.observed is None:
        return inferred(cx, scope, e)
    try:
        value = inferred(cx, scope, e)
    except DlangError:
        cx.observed.note(e.span, MISTAKE)
        look_inside(cx, e, partial(infer, cx, scope))
        raise
    cx.observed.note(e.span, value.type)
    return value


def inferred(cx: Checker, scope: Scope, e: s.Expr) -> core.Expr:
    try:
        return rules()[type(e)](cx, scope, e)
    except TooManyTerms:
        raise size_too_large(e.span) from None


def check(cx: Checker, scope: Scope, e: s.Expr, want: Type, unknown: tuple[SizeVar, ...], what: str = "") -> core.Expr:
    """Against a written type. `unknown`: its sizes `?`, which each branch gives for itself."""
    match e:
        case s.Block():
            return statements.block(cx, scope, e, (want, unknown, what))
        case s.If() if e.otherwise is not None:
            return conditional(cx, scope, e, (want, unknown, what))
        case s.Match():
            return matches.infer_match(cx, scope, e, (want, unknown, what))
        case _:
            value = lambda_expr(cx, scope, e, taken(want, unknown)) if isinstance(e, s.Lambda) else infer(cx, scope, e)
            cx.settled(value.type)
            cx.expect(chosen(cx, want, unknown), value.type, e.span, what)
            return value


def taken(want: Type, unknown: tuple[SizeVar, ...]) -> tuple[Type, ...]:
    """Returns the parameter types of a written function type."""
    t = resolve(want)
    return t.params if isinstance(t, TypeFn) and not unknown else ()


def chosen(cx: Checker, want: Type, unknown: tuple[SizeVar, ...]) -> Type:
    """The type with its `?` open: whoever is checked against it decides them."""
    if not unknown:
        return want
    fresh: dict[Var, Term] = {v: of_var(cx.st.size_var(v.origin)) for v in unknown}
    return substitute(want, fresh)


Wanted = tuple[Type, tuple[SizeVar, ...], str]


def can_push(want: Type) -> bool:
    """Tells whether branches may be checked one by one: an open size would be decided by the first of them."""
    return all(v.rigid for v in variables(want) if isinstance(v, SizeVar))


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
            value = infer(cx, scope, p.value)
            check_format(cx, value.type, p.spec, p.span.tail(len(p.spec) + 1).head(len(p.spec)))
            parts.append((value, p.spec))
    return core.Format(STR, e.span, tuple(parts))


def hole(cx: Checker, scope: Scope, e: s.Hole) -> core.Expr:
    return core.Fail(MISTAKE, e.span, core.Literal(STR, e.span, "a syntax error"))


def no_value(span: Span) -> DlangError:
    help = ("`_` stands in patterns and sizes, and where an assignment drops a part: `(x, _) = e`",)
    return error("E0101", "expected an expression, found `_`", span, help=help)


def name(cx: Checker, scope: Scope, e: s.Name) -> core.Expr:
    """Resolves a name. Raises E0201 with suggestions."""
    if e.name == "_":
        raise no_value(e.span)
    if e.name[:1].isupper():
        return calls.constructor_value(cx, e)
    found = scope.find_value(e.name)
    match cx.find(scope, e.name) if found is None else found:
        case SizeVar() as size:
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
    if isinstance(scope.find_type(e.name), TypeVar):
        raise error("E0212", f"`{e.name}` is a type, not a value", e.span)
    if e.name in DTYPES:
        return calls.builtin_value(cx, scope, BuiltinEntry(e.name), e)
    raise cx.unknown_name(scope, e.name, e.span)


def local_ref(cx: Checker, entry: LocalEntry, span: Span) -> core.Expr:
    local = entry.local
    if not entry.unknown:
        return core.Ref(local.type, span, local)
    fresh = tuple(cx.st.open_size(v.origin or Note("a size of the `var`", span)) for v in entry.unknown)
    mapping: dict[Var, Term] = {v: of_var(w) for v, w in zip(entry.unknown, fresh, strict=True)}
    return core.Ref(substitute(local.type, mapping), span, local, fresh)


def tuple_expr(cx: Checker, scope: Scope, e: s.Tuple) -> core.Expr:
    items = tuple(infer(cx, scope, i) for i in e.items)
    return core.TupleExpr(TypeTuple(tuple(i.type for i in items)), e.span, items)


def array_expr(cx: Checker, scope: Scope, e: s.Array) -> core.Expr:
    items = tuple(infer(cx, scope, i) for i in e.items)
    element: Type = items[0].type if items else cx.st.type_var()
    for item in items[1:]:
        first = Note("the first element is here", items[0].span)
        cx.expect(element, item.type, item.span, "an element of the array: ", (first,))
    size = number(len(items), Note("the length of this array", e.span))
    whole = array(element, size)
    within_axes(resolve(whole), e.span)
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
    return project(cx, infer(cx, scope, e.base), e.name, e.span)


def project(cx: Checker, base: core.Expr, name: str | int, span: Span) -> core.Expr:
    t = resolve(base.type)
    if isinstance(t, TypeVar):
        t = cx.settled(t)
    if isinstance(t, TypeVar) and not t.rigid:
        result = cx.st.type_var()
        cx.constrain("field", Reason(span, f".{name}", (t,)), types=(t, result), data=name)
        return core.Project(result, span, base, name if isinstance(name, int) else -1, str(name))
    position, type_ = fields.field_of(t, name, span)
    return core.Project(type_, span, base, position, str(name))


# ---- operators -------------------------------------------------------------------------------------------------------
def unary(cx: Checker, scope: Scope, e: s.Unary) -> core.Expr:
    written = e.operand
    if e.operator == "-" and isinstance(written, s.Number):
        operand = literals.number(cx, scope, written, negative=True)
    else:
        operand = infer(cx, scope, written)
    if e.operator == "not":
        cx.expect(BOOL, operand.type, e.operand.span, "`not` needs a bool: ")
        return core.Not(BOOL, e.span, operand)
    t = resolve(operand.type)
    if (isinstance(t, TypeCon) and t.name in FLOATS | INTS) or (isinstance(t, TypeVar) and t.literal):
        return core.Negate(t, e.span, operand)
    result = cx.st.type_var()
    cx.constrain("arith", Reason(e.span, "-", (t,)), types=(t, t, result), data="-")
    return core.Negate(result, e.span, operand)


def binary(cx: Checker, scope: Scope, e: s.Binary) -> core.Expr:
    """An operator on two operands: arithmetic, a comparison, `and` and `or`, a product, or a call by `|>`."""
    op = e.operator
    if op == "|>":
        return calls.infer_call(cx, scope, piped(e))
    left = infer(cx, scope, e.left)
    right = infer(cx, scope, e.right)
    if op in ("and", "or"):
        for side, node in ((left, e.left), (right, e.right)):
            t = cx.settled(side.type)
            if has_axes(t):
                raise error(
                    "E0301",
                    f"`{op}` takes scalars, found `{show(t)}`",
                    node.span,
                    help=(f"for masks write `bit_{op}(x, y)`",),
                )
            cx.expect(BOOL, t, node.span, f"`{op}`: ")
        return core.Logic(BOOL, e.span, op, left, right)
    if op == "**" and is_integer(e.right):
        cx.expect(I64, right.type, e.right.span)
    result = operator_type(cx, op, left.type, right.type, e.span, (e.left.span, e.right.span))
    return core.Arith(result, e.span, op, left, right)


def is_integer(e: s.Expr) -> bool:
    if isinstance(e, s.Unary) and e.operator == "-":
        return is_integer(e.operand)
    return isinstance(e, s.Number) and isinstance(e.value, int) and e.dtype is None


_SAME = {
    "+": FLOATS | INTS,
    "-": FLOATS | INTS,
    "*": FLOATS | INTS,
    "/": FLOATS,
    "//": FLOATS | INTS,
    "%": FLOATS | INTS,
}


def operator_type(cx: Checker, op: str, a: Type, b: Type, span: Span, parts: tuple[Span, ...] = ()) -> Type:
    """The type of a binary operator's result, now or by a constraint. parts: the operands."""
    a, b = resolve(a), resolve(b)
    if isinstance(a, TypeCon) and isinstance(b, TypeCon):
        if a.name == b.name:
            if op in COMPARISONS:
                if a.name != "bool" or op in ("==", "!="):
                    return BOOL
            elif a.name in _SAME.get(op, ()):
                return a
        elif op == "**" and a.name in FLOATS | INTS and b.name in INTS:
            return a
    result = cx.st.type_var()
    kind = "matmul" if op == "@" else "power" if op == "**" else "arith"
    cx.constrain(kind, Reason(span, op, (a, b), parts=parts), types=(a, b, result), data=op)
    return result


def piped(e: s.Binary) -> s.Call:
    """`x |> f` is `f(x)`, `x |> f(y)` is `f(x, y)`."""
    first = s.Argument(e.left.span, e.left)
    if isinstance(e.right, s.Call):
        return s.Call(e.span, e.right.function, (first, *e.right.arguments))
    return s.Call(e.span, e.right, (first,))


# ---- casts -----------------------------------------------------------------------------------------------------------
def cast(cx: Checker, scope: Scope, e: s.Cast) -> core.Expr:
    """`e as T`: a conversion of numbers, or sizes that are compared when it runs."""
    value = infer(cx, scope, e.value)
    instead = ("`_` leaves a size as it is; a type with `?` is stated by an annotation: `let y: f64[?] = …`",)
    annotator = Annotator(cx, scope, rigid=False, what="`as`", instead=instead)
    want, refinement = annotator.refined_type(e.type)
    for name, v in annotator.names.items():
        if isinstance(v, SizeVar) and not v.rigid:
            raise error(
                "E0201",
                f"unknown size `{name}`: `as` compares with sizes that are known",
                e.type.span,
                help=(
                    *(did_you_mean(name, scope.visible()) if len(name) > 1 else ()),
                    f"`let y: f64[{name}] = …` names a size, `_` leaves one open",
                ),
            )
    if isinstance(refinement, Below) and isinstance(resolve(want), TypeCon):
        cx.expect(I64, value.type, e.value.span, "`as Idx`: ")
        return core.As(I64, e.span, value, refinement.size)
    if refinement is not None:
        raise misplaced(e.type.span, "behind `as` but of one number", "check each: `[i as Idx<n> for i in x]`")
    cx.settled(value.type)
    found = resolve(value.type)
    if isinstance(want, TypeCon) and isinstance(found, TypeCon) and want.name != found.name:
        raise error(
            "E0301",
            f"`as` asserts a size, it does not convert: expected {want.name}, found {found.name}",
            e.span,
            help=(f"write `{want.name}(…)` to convert",),
        )
    cx.expect(loosened(cx, want), value.type, e.value.span, "`as`: ")
    return core.As(want, e.span, value)


def loosened(cx: Checker, t: Type) -> Type:
    """The type with every size that is written replaced by an open one: sizes are compared when it runs."""

    def size(x: Size) -> Size:
        atom = x.poly.atom
        return x if isinstance(atom, SizeVar) and not atom.rigid and atom.name is None else cx.st.size()

    t = resolve(t)
    match t:
        case TypeArray(element, shape):
            pre, post = tuple(map(size, shape.pre)), tuple(map(size, shape.post))
            return TypeArray(loosened(cx, element), Shape(pre, shape.row, post))
        case TypeTuple(items):
            return TypeTuple(tuple(loosened(cx, i) for i in items))
        case TypeData(decl, args):
            return TypeData(
                decl,
                tuple(size(a) if isinstance(a, Size) else a if isinstance(a, Shape) else loosened(cx, a) for a in args),
            )
        case _:
            return t


# ---- functions -------------------------------------------------------------------------------------------------------
def lambda_expr(cx: Checker, scope: Scope, e: s.Lambda, given: tuple[Type, ...] = ()) -> core.Expr:
    """given: the types of the parameters, where they are known from around it."""
    mark = cx.mark()
    params, lets, body, result, effects = lambda_parts(cx, scope, e, given)
    if scope.function is not None:
        scope.function.effects |= effects
    types = tuple(p.type for p in params)
    inside = cx.opened_since(mark)
    opened = tuple(v for v in variables(result) if isinstance(v, SizeVar) and v in inside)
    cx.confine(mark, types, e.span, "a parameter of this function would have a size `?` that is known only in its body")
    for p in params:
        if p.refinement is not None:
            help = "write `i64`, and `i as Idx<n>` in the body; or give the function a name, `let f = |i: Idx<n>| …`"
            raise misplaced(p.span or e.span, "in a parameter of a function without a name", help)
    t = TypeFn(types, result, Effects(set(effects)), opened)
    return core.Lambda(t, e.span, params, patterns.with_lets(lets, body, statements.has_return(e.body)))


def lambda_parts(
    cx: Checker, scope: Scope, e: s.Lambda, given: tuple[Type, ...] = ()
) -> tuple[tuple[core.Local, ...], list[core.Statement], core.Expr, Type, set[str]]:
    """Parameters, the `let`s of their patterns, the body, its type and its effects."""
    inner = scope.child(border=True)
    inner.function = statements.new_function("this function", None)
    annotator = Annotator(cx, scope, rigid=False, what="a parameter of this function")
    params: list[core.Local] = []
    lets: list[core.Statement] = []
    written: list[Type] = []
    named_once(e.parameters)
    known = given if len(given) == len(e.parameters) else (None,) * len(e.parameters)
    for p, from_around in zip(e.parameters, known, strict=True):
        if p.default is not None:
            help = ("a local `fn` may have defaults",)
            raise error("E0307", "a parameter of a lambda has no default", p.default.span, help=help)
        t, asked = (from_around or cx.st.type_var(), None) if p.type is None else annotator.refined_type(p.type)
        if p.type is not None:
            written.append(t)
        local, let = patterns.parameter(cx, inner, p, t)
        local.refinement = asked
        params.append(local)
        lets += let
    apart_from_sizes(e.parameters, variables(*written), is_lambda=True)
    inner.types.update(annotator.names)
    if e.result is not None:
        annotator.unknown = {}
        want = annotator.type(e.result)
        apart_from_sizes(e.parameters, variables(want), is_lambda=True)
        unknown = tuple(annotator.unknown.values())
        inner.function.result, inner.function.unknown = want, unknown
        body = check(cx, inner, e.body, want, unknown, "the result: ")
        result: Type = body.type
    else:
        inner.function.result = cx.st.type_var()
        body = infer(cx, inner, e.body)
        if statements.has_return(e.body):
            cx.expect(inner.function.result, body.type, e.body.span, "the result: ")
        result = body.type
    if scope.function is not None:
        scope.function.calls |= inner.function.calls
    return tuple(params), lets, body, result, inner.function.effects


def result_span(e: s.Block) -> Span:
    """Returns the span of a block's value."""
    return e.statements[-1].span if e.statements else e.span


# ---- branches --------------------------------------------------------------------------------------------------------
def conditional(cx: Checker, scope: Scope, e: s.If, want: Wanted | None = None) -> core.Expr:
    """An `if`; without `else` its block may have no value."""
    condition = infer(cx, scope, e.condition)
    cx.settled(condition.type)
    cx.expect(BOOL, condition.type, e.condition.span, "the condition: ")
    if e.otherwise is None:
        then = statements.block(cx, scope, e.then, None)
        unit = TypeTuple(())
        t = cx.settled(then.type)
        if isinstance(t, TypeVar) and not t.rigid and not t.classes:
            cx.expect(unit, t, e.then.span)
        elif not (isinstance(t, TypeTuple) and not t.items):
            of_type = "" if isinstance(t, TypeVar) else f" of type {show(t)}"
            message = f"an `if` without `else` has no value, but its block has one{of_type}"
            raise error("E0301", message, result_span(e.then), help=("add `else { … }`",))
        return core.If(unit, e.span, condition, then, core.TupleExpr(unit, e.span, ()))
    mark = cx.mark()
    if want is not None and can_push(want[0]):
        then = check(cx, scope, e.then, *want)
        otherwise = check(cx, scope, e.otherwise, *want)
    else:
        then = statements.block(cx, scope, e.then, None)
        otherwise = infer(cx, scope, e.otherwise)
    cx.settled(then.type)
    join = Join(cx, e.otherwise.span, "the branches differ: ", bool(want and want[1]))
    try:
        t = join.type(then.type, otherwise.type)
    except DlangError as problem:
        raise with_note(problem, Note("the other branch is here", e.then.span)) from None
    t = join.leaving(cx.settled(t), mark, join.candidates)
    if want is not None and not can_push(want[0]):
        cx.expect(chosen(cx, want[0], want[1]), t, e.span, want[2])
    return core.If(t, e.span, condition, then, otherwise, join.candidates)


def with_note(problem: DlangError, note: Note) -> DlangError:
    return DlangError([replace(d, notes=(*d.notes, note)) for d in problem.diagnostics])


def block(cx: Checker, scope: Scope, e: s.Block) -> core.Expr:
    return statements.block(cx, scope, e, None)


@cache
def rules() -> dict[type, Callable[[Checker, Scope, Any], core.Expr]]:
    """The rule of each kind of expression; a function, because the modules of the rules need this one."""
    return {
        s.Number: literals.number,
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
        s.Unary: unary,
        s.Binary: binary,
        s.Cast: cast,
        s.Lambda: lambda_expr,
        s.If: conditional,
        s.Match: matches.infer_match,
        s.Block: block,
    }
