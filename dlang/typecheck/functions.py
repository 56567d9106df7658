"""Functions: signatures, bodies, local functions and `let`s of lambdas."""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass, field

from dlang.diagnostics import DlangError, Note, Span, error, replacement
from dlang.grammar import syntax as s
from dlang.typecheck import core, expressions as expr, patterns, refinements, statements
from dlang.typecheck.annotations import Annotator, check_class, known_effects
from dlang.typecheck.context import Checker
from dlang.typecheck.messages import did_you_mean
from dlang.typecheck.parameters import apart_from_sizes, is_size_type, named_once
from dlang.typecheck.schemes import Member, generalise
from dlang.typecheck.scope import FnEntry, FunctionContext, Scope
from dlang.typecheck.state import Scheme
from dlang.typecheck.terms import free, of_var, variable_of, variables
from dlang.typecheck.types import DTYPES, Effects, Refinement, Size, SizeVar, Type, TypeFn, TypeVar, Var


@dataclass(slots=True)
class Signature:
    """The annotations of a function. full: all of them are there, so they are the whole contract.

    unknown: the `?` of the result. names: the variables that the annotations introduce. asked, promised: what `Idx`
    says of the parameters and of the result.
    """

    params: tuple[Type, ...]
    result: Type
    sizes: tuple[Size | None, ...]
    names: dict[str, Var]
    unknown: tuple[SizeVar, ...] = ()
    full: bool = False
    effects: tuple[str, ...] | None = None
    scheme: Scheme = field(default_factory=lambda: Scheme((), TypeVar(0)))
    asked: tuple[Refinement | None, ...] = ()
    promised: Refinement | None = None


def signature(
    cx: Checker,
    scope: Scope,
    name: str,
    bounds: tuple[s.Bound, ...],
    parameters: tuple[s.Parameter, ...],
    result: s.TypeExpr | None,
) -> Signature:
    """The types of the annotations, at the level above the current one."""
    st = cx.st
    st.level += 1
    try:
        annotator = Annotator(cx, scope, rigid=True, what=f"the signature of `{name}`")
        add_variables(annotator, st.level, name, bounds, parameters)
        types, asked, sizes = parameter_types(cx, annotator, name, parameters)
        known = variables(*types, *(x for x in sizes if x is not None))
        for p, refinement in zip(parameters, asked, strict=True):
            determined(refinement, known, st.level, p.span)
        apart_from_sizes(parameters, known)
        effects: tuple[str, ...] | None = None
        unknown: dict[str, SizeVar] = {}
        promised: Refinement | None = None
        out: Type
        if result is None:
            out = st.type_var()
        else:
            annotator.what, annotator.unknown = f"the result of `{name}`", unknown
            if isinstance(result, s.TypeEffects):
                effects = result.effects
                known_effects(effects, result.span)
            out, promised = annotator.refined_type(result)
            determined(promised, {**known, **variables(out)}, st.level, result.span)
            refuse_undetermined(out, known, st.level, parameters, result.span)
        full = result is not None and all(p.type is not None for p in parameters)
        scheme = Scheme(types, out, sizes)
        if full:
            full = quantify(scheme, st.level, tuple(unknown.values()))
        return Signature(
            types, out, sizes, annotator.names, tuple(unknown.values()), full, effects, scheme, asked, promised
        )
    finally:
        st.level -= 1


def add_variables(
    annotator: Annotator, level: int, name: str, bounds: tuple[s.Bound, ...], parameters: tuple[s.Parameter, ...]
) -> None:
    """Adds the variables that a signature declares to what its annotations know: `a: Float`, and `n: size`."""
    for b in bounds:
        classes = check_class(b.cls, b.span)
        v = TypeVar(level, b.name, rigid=True, classes=classes, atomic=bool(classes - {"Vector"}))
        annotator.names[b.name] = v
    named_once(parameters)
    for p in parameters:
        if not isinstance(p.pattern, s.PatternName):
            continue
        if p.pattern.name in DTYPES and isinstance(p.type, s.TypeName):
            turned = f"{p.type.name}: {p.pattern.name}"
            message = "a parameter is written with its name in front of its type"
            fixes = (replacement(p.pattern.span.to(p.type.span), turned),)
            raise error("E0115", message, p.span, help=(f"write `{turned}`",), fixes=fixes)
        if is_size_type(p.type):
            origin = Note(f"the parameter `{p.pattern.name}: size` of `{name}`", p.span)
            annotator.names[p.pattern.name] = SizeVar(level, p.pattern.name, rigid=True, origin=origin)


def parameter_types(
    cx: Checker, annotator: Annotator, name: str, parameters: tuple[s.Parameter, ...]
) -> tuple[tuple[Type, ...], tuple[Refinement | None, ...], tuple[Size | None, ...]]:
    """Of each parameter its type, what is asked of it beside, and the size that it is, if it is a `size`."""
    types: list[Type] = []
    asked: list[Refinement | None] = []
    sizes: list[Size | None] = []
    for p in parameters:
        own = f"`{p.pattern.name}`" if isinstance(p.pattern, s.PatternName) else "a parameter"
        annotator.what = f"the parameter {own} of `{name}`"
        t, refinement = (cx.st.type_var(), None) if p.type is None else annotator.refined_type(p.type)
        types.append(t)
        asked.append(refinement)
        size = None
        if is_size_type(p.type) and isinstance(p.pattern, s.PatternName):
            v = annotator.names[p.pattern.name]
            assert isinstance(v, SizeVar)
            size = of_var(v)
        sizes.append(size)
    return tuple(types), tuple(asked), tuple(sizes)


def refuse_undetermined(
    out: Type, known: Collection[Var], level: int, parameters: tuple[s.Parameter, ...], span: Span
) -> None:
    """Refuses a size of a result that no parameter says."""
    for v in variables(out):
        if isinstance(v, SizeVar) and v.rigid and not v.opened and v.level == level and v not in known:
            others = [k.name for k in known if isinstance(k, SizeVar) and k.name]
            place = v.origin.span if v.origin is not None else None
            raise undetermined(v.name or "_", parameters, place or span, others)


def quantify(scheme: Scheme, level: int, opened: tuple[SizeVar, ...]) -> bool:
    """Makes a scheme of types that are written out; False where some part of them is left to be inferred."""
    found = free(TypeFn(scheme.params, scheme.result), {})
    for x in scheme.sizes:
        if x is not None:
            free(x, found)
    quantified = tuple(v for v in found if v.level >= level)
    if not all(v.rigid for v in quantified):
        return False
    scheme.variables, scheme.opened = quantified, opened
    return True


def determined(refinement: Refinement | None, known: Container[Var], level: int, span: Span) -> None:
    """Refuses an `Idx<n>` whose n only it mentions."""
    for v in refinements.size_names(refinement):
        if v.level == level and v not in known:
            message = f"size `{v.name or '?'}` of this `Idx` is not determined by the arguments"
            raise error("E0405", message, span, help=(f"declare a parameter `{v.name or 'n'}: size`",))


def undetermined(name: str, parameters: tuple[s.Parameter, ...], span: Span, known: list[str]) -> DlangError:
    """The message for a size that only the result mentions."""
    message = f"size `{name}` in the result is not determined by the arguments"
    for p in parameters:
        if isinstance(p.pattern, s.PatternName) and p.pattern.name == name:
            notes = (Note(f"`{name}` is a value: only a parameter of type `size` counts as a size", p.span),)
            return error("E0405", message, span, notes=notes, help=(f"declare the parameter `{name}: size`",))
    similar = did_you_mean(name, known) if len(name) > 1 else ()
    return error("E0405", message, span, help=(*similar, f"declare a parameter `{name}: size`"))


def parameter_names(parameters: tuple[s.Parameter, ...]) -> tuple[str | None, ...]:
    return tuple(p.pattern.name if isinstance(p.pattern, s.PatternName) else None for p in parameters)


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
        context = statements.new_function(name, sig.result, sig.unknown)
        inner = scope.child(function=context)
        inner.types.update(sig.names)
        params: list[core.Param] = []
        lets: list[core.Statement] = []
        asked = sig.asked or (None,) * len(parameters)
        for p, t, size, refinement in zip(parameters, sig.params, sig.sizes, asked, strict=True):
            default = None
            if p.default is not None:
                default = expr.infer(cx, inner, p.default)
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
            value = expr.check(cx, inner, written, sig.result, sig.unknown)
        else:
            value = expr.infer(cx, inner, written)
            cx.settled(value.type)
            cx.expect(sig.result, value.type, written.span)
        return Body(tuple(params), patterns.with_lets(lets, value, statements.has_return(written)), context, value.type)
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
    made = body(cx, entry_names, f.name, sig, f.parameters, f.body, f.result is not None)
    finish(cx, decl, entry, sig, made, f.name, f.name_span)
    decl.recursive = decl in made.context.calls
    decl.effects = frozenset(made.context.effects)
    if scope.function is not None:
        scope.function.calls |= made.context.calls
    check_effects(cx, sig, made.context.effects, f.name_span)
    observe(cx, decl, f.name_span)
    return core.LocalFn(decl, f.span)


def finish(cx: Checker, decl: core.FnDecl, entry: FnEntry, sig: Signature, made: Body, name: str, span: Span) -> None:
    """Generalises one function and fills in its declaration."""
    generalise(cx.st, [Member(name, span, entry.scheme, sig.full, made.found)])
    fill(decl, entry, sig, made)


def fill(decl: core.FnDecl, entry: FnEntry, sig: Signature, made: Body) -> None:
    entry.pending = False
    decl.params, decl.result, decl.body = made.params, sig.result, made.body
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
        params, lets, value, result, effects = expr.lambda_parts(cx, context_scope, e)
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
    decl.result, decl.body = result, patterns.with_lets(lets, value, statements.has_return(e.body))
    decl.effects = frozenset(effects)
    decl.variables, decl.opened, decl.constraints = scheme.variables, scheme.opened, scheme.constraints
    scope.names[p.name] = FnEntry(decl, scheme, parameter_names(e.parameters), tuple(False for _ in types))
    observe(cx, decl, p.span)
    return core.LocalFn(decl, span)
