"""Patterns: what they bind, and the types that they demand."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from dlang.diagnostics import Span, error
from dlang.grammar import syntax as s
from dlang.spelling import plural
from dlang.typecheck import core, literals
from dlang.typecheck.context import Checker
from dlang.typecheck.messages import did_you_mean, misspelt
from dlang.typecheck.printing import show
from dlang.typecheck.schemes import fresh_like
from dlang.typecheck.scope import LocalEntry, Scope
from dlang.typecheck.state import Term
from dlang.typecheck.terms import BOOL, STR, substitute
from dlang.typecheck.types import (
    FLOATS,
    DataDecl,
    SizeVar,
    Type,
    TypeArray,
    TypeCon,
    TypeData,
    TypeTuple,
    Var,
    Variant,
    next_serial,
    resolve,
)


def bind_name(
    cx: Checker, scope: Scope, name: str, t: Type, span: Span, *, mutable: bool = False, what: str = "let",
    unknown: tuple[SizeVar, ...] = (),
) -> core.Local:  # fmt: skip
    """A new local in the scope."""
    local = core.Local(name, t, mutable, None, span)
    cx.births[local] = next_serial()
    if cx.observed is not None:
        cx.observed.note(span, t)
    scope.names[name] = LocalEntry(local, scope.border, unknown=unknown, what=what)
    return local


def bind(
    cx: Checker, scope: Scope, p: s.Pattern, t: Type, *, mutable: bool = False, what: str = "let",
    unknown: tuple[SizeVar, ...] = (),
) -> core.Pattern:  # fmt: skip
    """A pattern that cannot fail: a name, `_`, a tuple or a struct of these."""
    match p:
        case s.PatternName(span, name):
            return core.Bind(bind_name(cx, scope, name, t, span, mutable=mutable, what=what, unknown=unknown))
        case s.PatternWildcard():
            return core.Wildcard()
        case s.PatternTuple(span, items):
            types = tuple_items(cx, t, len(items), span)
            return core.TuplePattern(
                tuple(
                    bind(cx, scope, i, x, mutable=mutable, what=what, unknown=unknown)
                    for i, x in zip(items, types, strict=True)
                )
            )
        case s.PatternConstructor(span, name, _):
            decl, variant = cx.find_constructor(name, span)
            if len(decl.variants) > 1:
                raise refutable(span, f"`{name}` is one of several variants of `{decl.name}`")
            arguments = arguments_in_order(p, variant)
            types = variant_types(cx, decl, variant, t, span)
            return core.VariantPattern(
                decl,
                variant,
                tuple(
                    core.Wildcard() if i is None else bind(cx, scope, i, x, mutable=mutable, what=what, unknown=unknown)
                    for i, x in zip(arguments, types, strict=True)
                ),
            )
        case _:
            raise refutable(p.span, "this pattern may not fit")


def refutable(span: Span, why: str) -> Exception:
    return error("E0504", f"{why}: a `let` or a parameter needs a pattern that always fits", span,
                 help=("use `match`",))  # fmt: skip


def tuple_items(cx: Checker, t: Type, count: int, span: Span) -> tuple[Type, ...]:
    """The types of the items of a tuple of `count`."""
    t = resolve(t)
    if not isinstance(t, TypeTuple):
        t = cx.settled(t)
    if isinstance(t, TypeTuple) and len(t.items) == count:
        return t.items
    if isinstance(t, TypeTuple):
        message = f"the tuple has {plural(len(t.items), 'item')}, the pattern has {count}"
        raise error("E0503", message, span, help=(f"write `({', '.join('_' for _ in t.items)})`",))
    if isinstance(t, TypeArray):
        help = ("elements are read one by one: `let a = x[0]`",)
        raise error("E0402", f"a pattern takes tuples apart, and this is an array, {show(t)}", span, help=help)
    types = tuple(cx.st.type_var() for _ in range(count))
    cx.expect(t, TypeTuple(types), span, "the pattern: ")
    return types


def data_type(cx: Checker, decl: DataDecl) -> tuple[TypeData, dict[Var, Term]]:
    """The type at fresh arguments."""
    mapping: dict[Var, Term] = {p: fresh_like(cx.st, p) for p in decl.params}
    return TypeData(decl, tuple(mapping.values())), mapping


def variant_types(cx: Checker, decl: DataDecl, variant: Variant, t: Type, span: Span) -> tuple[Type, ...]:
    """The types of the fields of a variant, given the type of the value."""
    t = resolve(t)
    mapping: dict[Var, Term]
    if isinstance(t, TypeData) and t.decl is decl:
        mapping = dict(zip(decl.params, t.args, strict=True))
    else:
        whole, mapping = data_type(cx, decl)
        cx.expect(t, whole, span, "the pattern: ")
    return tuple(substitute(f, mapping) for _, f in variant.fields)


def arguments_in_order(p: s.PatternConstructor, variant: Variant) -> list[s.Pattern | None]:
    """The patterns of the fields in their order; None for a field that isn't named."""
    names = [n for n, _ in variant.fields]
    out: list[s.Pattern | None] = [None] * len(names)
    named = any(n is not None for n, _ in p.arguments)
    if not named and len(p.arguments) != len(names):
        raise error(
            "E0503",
            f"`{p.name}` has {plural(len(names), 'field')}, the pattern has {len(p.arguments)}",
            p.span,
            help=(f"write `{p.name}({', '.join(n or '_' for n in names)})`",) if names else (f"write `{p.name}`",),
        )
    for i, (n, argument) in enumerate(p.arguments):
        if n is None or n in names:
            place = i if n is None else names.index(n)
            if place >= len(out):
                raise error("E0503", f"`{p.name}` has {plural(len(names), 'field')}, the pattern has more", p.span)
            if out[place] is not None:
                raise error("E0503", f"the field `{n}` of `{p.name}` is matched twice", argument.span)
            out[place] = argument
        else:
            known = [k for k in names if k]
            span = p.span.word(n)
            raise error("E0305", f"`{p.name}` has no field `{n}`", span, help=did_you_mean(n, known),
                        fixes=misspelt(span, n, known))  # fmt: skip
    return out


def refutable_pattern(cx: Checker, scope: Scope, p: s.Pattern, t: Type) -> core.Pattern:
    """A pattern of a `match` arm."""
    match p:
        case s.PatternName() | s.PatternWildcard():
            return bind(cx, scope, p, t, what="pattern")
        case s.PatternTuple(span, items):
            types = tuple_items(cx, t, len(items), span)
            return core.TuplePattern(
                tuple(refutable_pattern(cx, scope, i, x) for i, x in zip(items, types, strict=True))
            )
        case s.PatternConstructor(span, name, _):
            decl, variant = cx.find_constructor(name, span)
            types = variant_types(cx, decl, variant, t, span)
            return core.VariantPattern(
                decl,
                variant,
                tuple(
                    core.Wildcard() if i is None else refutable_pattern(cx, scope, i, x)
                    for i, x in zip(arguments_in_order(p, variant), types, strict=True)
                ),
            )
        case s.PatternLiteral(span, value):
            return core.LiteralPattern(literal(cx, value, t, span))
        case s.PatternAlternatives(_, alternatives):
            return core.Alternatives(alternatives_of(cx, scope, alternatives, t))


def alternatives_of(
    cx: Checker, scope: Scope, alternatives: tuple[s.Pattern, ...], t: Type
) -> tuple[core.Pattern, ...]:
    """All alternatives bind the same locals."""
    out: list[core.Pattern] = []
    first: dict[str, core.Local] | None = None
    for a in alternatives:
        inner = scope.child()
        p = refutable_pattern(cx, inner, a, t)
        bound = {n: e.local for n, e in inner.names.items() if isinstance(e, LocalEntry)}
        if first is None:
            first = bound
            scope.names.update(inner.names)
        elif set(bound) != set(first):
            different = ", ".join(sorted(set(bound) ^ set(first)))
            raise error("E0505", f"alternatives have to bind the same names: {different}", a.span)
        else:
            for n, local in bound.items():
                cx.expect(first[n].type, local.type, a.span, f"`{n}`: ")
            p = renamed(p, {local: first[n] for n, local in bound.items()})
        out.append(p)
    return tuple(out)


def renamed(p: core.Pattern, locals_: dict[core.Local, core.Local]) -> core.Pattern:
    match p:
        case core.Bind(local):
            return core.Bind(locals_.get(local, local))
        case core.TuplePattern(items):
            return core.TuplePattern(tuple(renamed(i, locals_) for i in items))
        case core.VariantPattern(decl, variant, items):
            return core.VariantPattern(decl, variant, tuple(renamed(i, locals_) for i in items))
        case core.Alternatives(items):
            return core.Alternatives(tuple(renamed(i, locals_) for i in items))
        case _:
            return p


def literal(cx: Checker, value: s.Number | s.Boolean | s.String, t: Type, span: Span) -> core.Literal:
    """A literal that a value of a type is compared with."""
    match value:
        case s.Boolean():
            cx.expect(t, BOOL, span, "the pattern: ")
            return core.Literal(BOOL, span, value.value)
        case s.String(parts=parts):
            cx.expect(t, STR, span, "the pattern: ")
            return core.Literal(STR, span, "".join(p for p in parts if isinstance(p, str)))
        case s.Number():
            if value.dtype is not None:
                want: Type = TypeCon(value.dtype)
            elif isinstance(value.value, float):
                want = cx.st.type_var(atomic=True, classes=frozenset({"Float"}), literal="float")
            else:
                want = cx.st.type_var(atomic=True, classes=frozenset({"Num"}), literal="int")
            cx.expect(t, want, span, "the pattern: ")
            number = value.value
            written = replace(value, value=abs(number))
            cx.later.append(partial(literals.representable, want, written, number < 0))
            if value.dtype in FLOATS:
                number = float(number)
            return core.Literal(want, span, number)


def parameter(cx: Checker, scope: Scope, p: s.Parameter, t: Type) -> tuple[core.Local, list[core.Statement]]:
    """The local of a parameter; a pattern becomes a `let` in the body."""
    if isinstance(p.pattern, s.PatternName):
        return bind_name(cx, scope, p.pattern.name, t, p.pattern.span, what="parameter"), []
    local = core.Local("_", t, False, None, p.pattern.span)
    if isinstance(p.pattern, s.PatternWildcard):
        return local, []
    pattern = bind(cx, scope, p.pattern, t, what="parameter")
    return local, [core.Let(pattern, core.Ref(t, p.span, local), (), p.span)]


def with_lets(lets: list[core.Statement], body: core.Expr, returns: bool) -> core.Expr:
    """The body of a function after the `let`s of its parameters; a block, if there is a `return` in it."""
    return core.BlockExpr(body.type, body.span, tuple(lets), body) if lets or returns else body


def described(t: Type) -> str:
    return show(t)
