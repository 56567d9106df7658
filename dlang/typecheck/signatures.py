"""Signatures of functions: the types of their annotations, and the variables that these introduce."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass, field

from dlang.diagnostics import DlangError, Note, Span, error, replacement
from dlang.grammar import syntax as s
from dlang.grammar.syntax import walk
from dlang.typecheck import refinements
from dlang.typecheck.annotations import Annotator, check_class, known_effects
from dlang.typecheck.context import Checker
from dlang.typecheck.messages import did_you_mean
from dlang.typecheck.scope import Scope
from dlang.typecheck.state import Scheme
from dlang.typecheck.terms import free, of_var, variables
from dlang.typecheck.types import DTYPES, Refinement, Size, SizeVar, Type, TypeFn, TypeVar, Var


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
    """The types of the parameters, their refinements, and the sizes that those are which are a `size`."""
    types: list[Type] = []
    asked: list[Refinement | None] = []
    sizes: list[Size | None] = []
    for p in parameters:
        quoted = f"`{p.pattern.name}`" if isinstance(p.pattern, s.PatternName) else "a parameter"
        annotator.what = f"the parameter {quoted} of `{name}`"
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
    unbound = free(TypeFn(scheme.params, scheme.result), {})
    for x in scheme.sizes:
        if x is not None:
            free(x, unbound)
    quantified = tuple(v for v in unbound if v.level >= level)
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


# ---- parameters ------------------------------------------------------------------------------------------------------
# The names of parameters: each once, and none that a size of the function has.


def is_size_type(t: s.TypeExpr | None) -> bool:
    return isinstance(t, s.TypeName) and t.name == "size" and not t.arguments


def named_once(parameters: Sequence[s.Parameter]) -> None:
    """Raises E0202 where two parameters have one name."""
    seen: set[str] = set()
    for name in walk(*(p.pattern for p in parameters)):
        if isinstance(name, s.PatternName):
            if name.name in seen:
                raise error("E0202", f"two parameters are named `{name.name}`", name.span)
            seen.add(name.name)


def apart_from_sizes(parameters: Sequence[s.Parameter], sizes: Iterable[Var], is_lambda: bool = False) -> None:
    """Raises E0202 where a parameter has the name of a size in the types of all, and may be another number.

    A parameter `n: size` of a `fn` is the size n; that of a lambda isn't.
    """
    by_name = {v.name: v for v in sizes if isinstance(v, SizeVar)}
    for p in parameters:
        if not isinstance(p.pattern, s.PatternName) or (is_size_type(p.type) and not is_lambda):
            continue
        name, size = p.pattern.name, by_name.get(p.pattern.name)
        if size is not None:
            message = f"`{name}` is a size of this function, and a parameter that need not be that size"
            notes = () if size.origin is None else (Note(f"`{name}` is a size here", size.origin.span),)
            first = (
                f"make it a local `fn` with the parameter `{name}: size`"
                if is_lambda
                else f"declare the parameter `{name}: size`"
            )
            raise error("E0202", message, p.span, notes=notes, help=(f"{first}, or give it another name",))
