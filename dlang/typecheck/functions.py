"""Functions: bodies, local functions, lambdas and `let`s of these."""

from __future__ import annotations

from dataclasses import dataclass

from dlang.diagnostics import Span, error
from dlang.grammar import syntax as s
from dlang.grammar.syntax import children
from dlang.typecheck import core, patterns
from dlang.typecheck.annotations import Annotator, misplaced
from dlang.typecheck.context import Checker, Expected
from dlang.typecheck.schemes import Member, generalise
from dlang.typecheck.scope import FnEntry, FunctionContext, Scope
from dlang.typecheck.signatures import Signature, apart_from_sizes, named_once, parameter_names, signature
from dlang.typecheck.state import Scheme
from dlang.typecheck.terms import variable_of, variables
from dlang.typecheck.types import Effects, SizeVar, Type, TypeFn


@dataclass(slots=True)
class Body:
    """A checked body, before it is generalised."""

    params: tuple[core.Param, ...]
    body: core.Expr
    context: FunctionContext
    found: Type


def body(cx: Checker, scope: Scope, name: str, sig: Signature, parameters: tuple[s.Parameter, ...],
         written: s.Expr, has_result: bool) -> Body:  # fmt: skip
    """Checks a body at the level above the current one."""
    st = cx.st
    st.level += 1
    try:
        context = FunctionContext(name, sig.result, sig.unknown)
        inner = scope.child(function=context)
        inner.types.update(sig.names)
        params: list[core.Param] = []
        lets: list[core.Statement] = []
        asked = sig.asked or (None,) * len(parameters)
        for p, t, size, refinement in zip(parameters, sig.params, sig.sizes, asked, strict=True):
            default = None
            if p.default is not None:
                default = cx.infer(inner, p.default)
                cx.settled(default.type)
                cx.expect(t, default.type, p.default.span, "the default: ")
            local, let = patterns.parameter(cx, inner, p, t)
            local.refinement = refinement
            if size is not None:
                local.size = variable_of(size)
                cx.symbols[local] = size
            params.append(core.Param(local, default, p.nodiff))
            lets += let
        if has_result:
            value = cx.check(inner, written, Expected(sig.result, sig.unknown))
        else:
            value = cx.infer(inner, written)
            cx.settled(value.type)
            cx.expect(sig.result, value.type, written.span)
        return Body(tuple(params), patterns.with_lets(lets, value, has_return(written)), context, value.type)
    finally:
        st.level -= 1


def local_function(cx: Checker, scope: Scope, f: s.Fn) -> core.Statement:
    """A `fn` inside a block: may be recursive, sees the locals before it."""
    sig = signature(cx, scope, f.name, f.bounds, f.parameters, f.result)
    decl = core.FnDecl(f.name, cx.table.name, f.name_span, kind="fn", doc=f.doc, local=True)
    names, defaults = parameter_names(f.parameters), tuple(p.default is not None for p in f.parameters)
    entry = FnEntry(decl, sig.scheme, names, defaults, pending=not sig.full)
    scope.names[f.name] = entry
    entry_names = scope.child()
    checked_body = body(cx, entry_names, f.name, sig, f.parameters, f.body, f.result is not None)
    finish(cx, decl, entry, sig, checked_body, f.name, f.name_span)
    decl.recursive = decl in checked_body.context.calls
    decl.effects = frozenset(checked_body.context.effects)
    if scope.function is not None:
        scope.function.calls |= checked_body.context.calls
    check_effects(cx, sig, checked_body.context.effects, f.name_span)
    observe(cx, decl, f.name_span)
    return core.LocalFn(decl, f.span)


def finish(
    cx: Checker, decl: core.FnDecl, entry: FnEntry, sig: Signature, checked_body: Body, name: str, span: Span
) -> None:
    """Generalises one function and fills in its declaration."""
    generalise(cx.st, [Member(name, span, entry.scheme, sig.full, checked_body.found)])
    fill(decl, entry, sig, checked_body)


def fill(decl: core.FnDecl, entry: FnEntry, sig: Signature, checked_body: Body) -> None:
    entry.pending = False
    decl.params, decl.result, decl.body = checked_body.params, sig.result, checked_body.body
    decl.variables, decl.opened = entry.scheme.variables, entry.scheme.opened
    decl.constraints, decl.refinement = entry.scheme.constraints, sig.promised


def observe(cx: Checker, decl: core.FnDecl, name: Span) -> None:
    """The type of a local function is that of its name."""
    if cx.observed is not None and decl.result is not None:
        effects = Effects(set(decl.effects))
        cx.observed.note(name, TypeFn(tuple(p.local.type for p in decl.params), decl.result, effects, decl.opened))


def check_effects(cx: Checker, sig: Signature, effects: set[str], span: Span) -> None:
    if sig.effects is None:
        return
    extra = sorted(effects - set(sig.effects))
    if extra:
        cx.report(
            error(
                "E0312",
                f"the result says `! {' + '.join(sig.effects) or '()'}`, but the body has the effect `{extra[0]}`",
                span,
                help=(f"write `! {' + '.join(sorted({*sig.effects, *extra}))}`, or leave effects to be inferred",),
            ).diagnostics[0]
        )


def named_lambda(cx: Checker, scope: Scope, p: s.PatternName, e: s.Lambda, span: Span) -> core.Statement:
    """`let f = |x| …`: generalised, as a `fn` is."""
    st = cx.st
    decl = core.FnDecl(p.name, cx.table.name, p.span, kind="lambda", local=True)
    st.level += 1
    try:
        mark = cx.mark()
        context_scope = scope.child()
        params, lets, value, result, effects = lambda_parts(cx, context_scope, e)
        cx.confine(
            mark,
            tuple(q.type for q in params),
            e.span,
            f"a parameter of `{p.name}` would have a size `?` that is known only in its body",
        )
    finally:
        st.level -= 1
    types = tuple(q.type for q in params)
    scheme = Scheme(types, result, tuple(None for _ in types))
    generalise(st, [Member(p.name, p.span, scheme)])
    decl.params = tuple(core.Param(q, None, w.nodiff) for q, w in zip(params, e.parameters, strict=True))
    decl.result, decl.body = result, patterns.with_lets(lets, value, has_return(e.body))
    decl.effects = frozenset(effects)
    decl.variables, decl.opened, decl.constraints = scheme.variables, scheme.opened, scheme.constraints
    scope.names[p.name] = FnEntry(decl, scheme, parameter_names(e.parameters), tuple(False for _ in types))
    observe(cx, decl, p.span)
    return core.LocalFn(decl, span)


# ---- lambdas ---------------------------------------------------------------------------------------------------------
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
    return core.Lambda(t, e.span, params, patterns.with_lets(lets, body, has_return(e.body)))


def lambda_parts(
    cx: Checker, scope: Scope, e: s.Lambda, given: tuple[Type, ...] = ()
) -> tuple[tuple[core.Local, ...], list[core.Statement], core.Expr, Type, set[str]]:
    """Parameters, the `let`s of their patterns, the body, its type and its effects."""
    inner = scope.child(border=True)
    inner.function = FunctionContext("this function", None)
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
        body = cx.check(inner, e.body, Expected(want, unknown, "the result: "))
        result: Type = body.type
    else:
        inner.function.result = cx.st.type_var()
        body = cx.infer(inner, e.body)
        if has_return(e.body):
            cx.expect(inner.function.result, body.type, e.body.span, "the result: ")
        result = body.type
    if scope.function is not None:
        scope.function.calls |= inner.function.calls
    return tuple(params), lets, body, result, inner.function.effects


def has_return(node: s.Node) -> bool:
    """Tells whether there is a `return` of this function inside; lambdas have their own."""
    if isinstance(node, s.Return):
        return True
    return not isinstance(node, s.Lambda | s.Fn) and any(has_return(n) for n in children(node))
