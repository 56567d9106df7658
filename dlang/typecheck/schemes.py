"""Qualified schemes: what a function is for all values of its variables. Generalising, instantiating, printing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dlang.diagnostics import Diagnostic, Note, Span
from dlang.typecheck import types as ty
from dlang.typecheck.constraints import close_join, solve
from dlang.typecheck.limits import MOST_CONDITIONS, too_many_conditions, within_size
from dlang.typecheck.messages import constraint_error
from dlang.typecheck.printing import Names
from dlang.typecheck.refinements import written
from dlang.typecheck.simplification import simplify
from dlang.typecheck.state import Constraint, Inference, Mismatch, Reason, Scheme, Term, Waiting, in_order
from dlang.typecheck.terms import (
    F64,
    I64,
    free,
    number,
    of_var,
    substitute,
    substitute_constraint,
    substitute_size,
    variables,
)
from dlang.typecheck.unify import unify, unify_size

NOWHERE = -1  # the level of variables that no group closes over
Instance = tuple[tuple[ty.Var, Term], ...]


@dataclass(slots=True)
class Instantiated:
    params: tuple[ty.Type, ...]
    result: ty.Type
    sizes: tuple[ty.Size | None, ...]
    opened: tuple[ty.SizeVar, ...]
    instance: Instance


def fresh_like(st: Inference, v: ty.Var) -> Term:
    """A flexible variable with the bounds of another."""
    match v:
        case ty.TypeVar():
            return st.type_var(atomic=v.atomic, classes=v.classes, literal=v.literal)
        case ty.SizeVar():
            return of_var(st.size_var())
        case ty.RowVar():
            return st.row()


def instantiate(st: Inference, scheme: Scheme, name: str, span: Span) -> Instantiated:
    """A use of a scheme: fresh variables, its constraints stated anew."""
    if not scheme.variables:
        return Instantiated(scheme.params, scheme.result, scheme.sizes, (), ())
    mapping: dict[ty.Var, Term] = {}
    opened: list[ty.SizeVar] = []
    for v in scheme.variables:
        if v in scheme.opened:
            w = st.open_size(Note(f"the `?` in the result of `{name}`", span))
            opened.append(w)
            mapping[v] = of_var(w)
        else:
            mapping[v] = fresh_like(st, v)
    for c in scheme.constraints:
        via = Note(f"demanded by `{name}` here", c.reason.span)
        st.defer(substitute_constraint(c, mapping, Reason(span, via=via)))
    return Instantiated(
        tuple(substitute(p, mapping) for p in scheme.params),
        substitute(scheme.result, mapping),
        tuple(substitute_size(s, mapping) if s is not None else None for s in scheme.sizes),
        tuple(opened),
        tuple((v, t) for v, t in mapping.items() if v not in scheme.opened),
    )


# ---- generalising ----------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Member:
    """A function of the group that is generalised. full: its annotations are the whole contract.

    result: its type for callers; found: the type of the body, where it isn't `result`.
    """

    name: str
    span: Span
    scheme: Scheme
    full: bool = False
    found: ty.Type = field(default_factory=lambda: ty.UNIT)


def mine(st: Inference, v: ty.Var) -> bool:
    return v.level > st.level


def involves(st: Inference, c: Constraint) -> bool:
    return any(mine(st, v) for v in variables(*c.terms()))


def inner(st: Inference) -> list[Waiting]:
    """The constraints that wait and may mention variables deeper than the current level."""
    return [w for level, waiting in st.waiting.items() if level > st.level for w in waiting]


def deciding(st: Inference, kind: str) -> list[Waiting]:
    """The constraints of a kind about which the group that is generalised decides."""
    return in_order([w for w in inner(st) if w.constraint.kind == kind and involves(st, w.constraint)])


def reachable(st: Inference, members: list[Member], owned: Sequence[Constraint] = ()) -> dict[ty.Var, None]:
    """The variables that parameters determine, directly or through constraints. owned: constraints beside those that
    wait."""
    return spread(parameters_of(members), [*[w.constraint for w in st.pending()], *owned])


def undetermined(st: Inference, candidates: list[ty.TypeVar], members: list[Member]) -> list[ty.TypeVar]:
    """Returns the candidates, all deeper than the current level, that parameters don't determine."""
    near = [w.constraint for w in inner(st)]
    reach = spread(parameters_of(members), near)
    left = [v for v in candidates if v not in reach]
    if any(not mine(st, v) for v in reach) and any(not mine(st, v) for v in spread(left, near)):
        reach = reachable(st, members)  # perhaps through constraints of the functions around it
        left = [v for v in left if v not in reach]
    return left


def parameters_of(members: list[Member]) -> dict[ty.Var, None]:
    sizes = [s for m in members for s in m.scheme.sizes if s is not None]
    return variables(*[p for m in members for p in m.scheme.params], *sizes)


def spread(starts: Iterable[ty.Var], constraints: Sequence[Constraint]) -> dict[ty.Var, None]:
    """The variables that are connected with some by constraints, these included, in the order in which they are found:
    one that does not depend on where they are in memory."""
    sets = [variables(*c.terms()) for c in constraints]
    mentioning: dict[ty.Var, list[int]] = {}
    for k, s in enumerate(sets):
        for v in s:
            mentioning.setdefault(v, []).append(k)
    work = list(starts)
    reach = dict.fromkeys(work)
    while work:
        for k in mentioning.pop(work.pop(), ()):
            new = [v for v in sets[k] if v not in reach]
            reach |= dict.fromkeys(new)
            work += new
    return reach


def choose(st: Inference, members: list[Member]) -> None:
    """Solves, then decides what nothing else decides: joins, indices, axes, literals."""
    solve(st)
    while True:
        for w in deciding(st, "join"):
            if st.waits(w):
                st.discharge(w)
                guarded(st, w, close_join)
        solve(st)
        for w in deciding(st, "gather"):
            if isinstance(ty.resolve(w.constraint.types[0]), ty.TypeVar):
                unify(st, w.constraint.types[0], I64)
        solve(st)
        axes = deciding(st, "stretch")
        for w in axes:
            st.discharge(w)
        for w in axes:
            guarded(st, w, equate)
        solve(st)
        if default_literals(st, members):
            solve(st)
        elif not any(deciding(st, kind) for kind in ("join", "gather", "stretch")):
            return


def guarded(st: Inference, w: Waiting, choice: Callable[[Inference, Constraint], None]) -> None:
    c = w.constraint
    saved, st.reason, st.tried = (st.reason, st.tried), c.reason, w
    try:
        choice(st, c)
    except Mismatch as m:
        st.report(constraint_error(c, m))
    finally:
        st.reason, st.tried = saved


def equate(st: Inference, c: Constraint) -> None:
    """An axis that is still open isn't stretched."""
    a, b, r = c.sizes
    if ty.resolve_size(a).poly == 1 or ty.resolve_size(b).poly == 1:
        unify_size(st, r, b if ty.resolve_size(a).poly == 1 else a)
        return
    unify_size(st, b, a)
    unify_size(st, r, a)


def default_of(v: ty.TypeVar) -> ty.Type:
    if v.prefers_float:
        return F64
    return I64 if v.literal or v.classes & {"Num", "Int", "Ord", "Eq", "Bits", "Scalar"} else ty.UNIT


def default_literals(st: Inference, members: list[Member]) -> bool:
    """Literals that no parameter decides become i64 or f64."""
    candidates = [
        v
        for level, created in st.created.items()
        if level > st.level
        for v in created
        if v.ref is None and isinstance(v, ty.TypeVar) and v.literal and not v.rigid and mine(st, v)
    ]
    if not candidates:
        return False
    changed = undetermined(st, candidates, members)
    for v in changed:
        v.ref = default_of(v)
        st.changed(v)
    return bool(changed)


def default_rest(st: Inference) -> None:
    """Defaults the variables that nothing determines, at the end of a group: any choice is right."""
    for v in [v for created in st.created.values() for v in created]:
        if v.ref is not None or v.rigid:
            continue
        match v:
            case ty.TypeVar():
                v.ref = default_of(v)
            case ty.SizeVar():
                v.ref = number(0)
            case ty.RowVar():
                v.ref = ty.Shape()


def generalise(st: Inference, members: list[Member], failed: bool = False) -> None:
    """Closes a group over the variables deeper than the current level; fills in the schemes of its members.

    failed: an error was reported, so that what follows from it is not reported again.
    """
    choose(st, members)
    failed = failed or bool(st.diagnostics)
    open_members = [m for m in members if not m.full]
    while open_members and not failed and simplified(st, members):
        choose(st, members)
        failed = bool(st.diagnostics)
    owned = leave(st)
    if open_members and len(owned) > MOST_CONDITIONS:
        if not failed:
            st.report(too_many_conditions(open_members[0].name, open_members[0].span).diagnostics[0])
        owned, failed = [], True
    if owned and not open_members:
        if not failed and not report_unsolved(st, owned, members):
            report_unsettled(st, owned)
        owned = []
    if not failed:
        failed = report_unsolved(st, owned, open_members) or report_opened(st, owned)
    shared: dict[ty.Var, None] = {}
    for m in open_members:
        within_size(ty.TypeFn(m.scheme.params, m.scheme.result), m.span)
        free(ty.TypeFn(m.scheme.params, m.scheme.result), shared)
        for s in m.scheme.sizes:
            if s is not None:
                free(s, shared)
    for c in owned:
        for t in c.terms():
            free(t, shared)
    reach = {v for c in owned for v in variables(*c.terms())}
    for m in open_members:
        parameters = variables(*m.scheme.params, *(s for s in m.scheme.sizes if s is not None))
        opened: list[ty.SizeVar] = []
        quantified: list[ty.Var] = []
        for v in shared:
            if not mine(st, v):
                continue
            if isinstance(v, ty.SizeVar) and v.opened:
                if v in parameters:
                    if not failed:
                        report_opened_parameter(st, m, v)
                elif v in variables(m.scheme.result):
                    opened.append(v)
                    quantified.append(v)
                continue
            if isinstance(v, ty.SizeVar) and v not in reach and v not in parameters and not failed:
                report_undetermined(st, m.span, Names(scheme=True).of(v))
                failed = True
            quantified.append(v)
        m.scheme.variables, m.scheme.opened = tuple(quantified), tuple(opened)
        m.scheme.constraints = tuple(owned)
    for v in shared:
        if mine(st, v):
            v.rigid = True
    hand_out(st)


def simplified(st: Inference, members: list[Member]) -> bool:
    """Simplifies the constraints that a group leaves to callers; tells whether there is more to solve."""
    owned = in_order([w for w in inner(st) if involves(st, w.constraint)])
    if not owned:
        return False
    return simplify(st, owned, {**parameters_of(members), **variables(*[m.scheme.result for m in members])})


def leave(st: Inference) -> list[Constraint]:
    """Ends a level: takes the constraints that involve variables deeper than the current one, and hands out others."""
    owned = []
    for w in in_order(inner(st)):
        st.discharge(w)
        levels = [v.level for v in variables(*w.constraint.terms())]
        if any(level > st.level for level in levels):
            owned.append(w.constraint)
        else:
            w.level = max(levels, default=0)
            st.keep(w)
    return owned


def hand_out(st: Inference) -> None:
    """Gives the variables that were made inside to the levels that they have come to."""
    for level in [level for level in st.created if level > st.level]:
        for v in st.created.pop(level):
            if v.ref is None and not v.rigid:
                st.created.setdefault(v.level if v.level <= st.level else NOWHERE, []).append(v)


def report_unsolved(st: Inference, owned: list[Constraint], members: list[Member]) -> bool:
    """Equations that no caller can ever solve, because neither parameters nor results mention what is open in them."""
    equations = [c for c in owned if c.kind in ("size", "equal-shape")]
    if not equations:
        return False
    seen = reachable(st, members, owned) | variables(*[m.scheme.result for m in members])
    for c in equations:
        open_ = [v for v in variables(*c.terms()) if not v.rigid]
        if open_ and seen.keys().isdisjoint(open_):
            report_equation(st, c)
            return True
    return False


def report_equation(st: Inference, c: Constraint) -> None:
    names = Names()
    left, right = (names(t) for t in c.terms())
    listed = " and ".join(f"`{names.of(v)}`" for v in variables(*c.terms()) if not v.rigid)
    message = f"nothing determines {listed}: all that is known is that {left} is {right}"
    via = (c.reason.via,) if c.reason.via is not None else ()
    help = ("pass an array that has the size, or declare a parameter of type `size`",)
    st.report(Diagnostic("E0405", message, c.reason.span, "", via, help))


def report_opened(st: Inference, owned: list[Constraint]) -> bool:
    """Conditions that callers would have to settle, and that mention a size which only the body knows."""
    for c in owned:
        sizes = [v for v in variables(*c.terms()) if isinstance(v, ty.SizeVar) and v.opened and mine(st, v)]
        if sizes:
            names = Names()
            operands = " and ".join(names(t) for t in (c.reason.operands or c.terms()))
            what = f"`{c.reason.operator}` on {operands}" if c.reason.operator else f"a condition on {operands}"
            message = f"{what}: the axes of the result depend on a size `?` that is known only here"
            origin = sizes[0].origin
            notes = (Note(f"the size is {origin.text}", origin.span),) if origin is not None else ()
            help = ("annotate the parameters, so that the number of their axes is known",)
            st.report(Diagnostic("E0411", message, c.reason.span, "", notes, help))
            return True
    return False


def report_unsettled(st: Inference, owned: list[Constraint]) -> None:
    c = owned[0]
    if c.kind == "size":
        report_equation(st, c)
        return
    names = Names()
    operands = " and ".join(names(t) for t in (c.reason.operands or c.terms()))
    what = f"`{c.reason.operator}` on {operands}" if c.reason.operator else f"a condition on {operands}"
    via = (c.reason.via,) if c.reason.via is not None else ()
    advice = (
        "all parameters and the result are annotated, so the annotations are the whole contract: "
        "state the number of axes, or leave an annotation out"
    )
    message = f"{what} is not settled by the annotations"
    label = "the number of axes is not known here"
    st.report(Diagnostic("E0411", message, c.reason.span, label, via, (advice,)))


def report_opened_parameter(st: Inference, m: Member, v: ty.SizeVar) -> None:
    notes = (Note(f"the size is {v.origin.text}", v.origin.span),) if v.origin is not None else ()
    st.report(
        Diagnostic(
            "E0407",
            f"a parameter of `{m.name}` would have a size `?` that is known only in its body",
            m.span,
            "a parameter's size has to be known before the call",
            notes,
            ("write `as` where the two sizes meet, to have them compared there",),
        )
    )


def report_undetermined(st: Inference, span: Span, name: str) -> None:
    st.report(
        Diagnostic(
            "E0405",
            f"size `{name}` in the result is not determined by the arguments",
            span,
            "",
            (),
            (f"declare a parameter `{name}: size`",),
        )
    )


# ---- printing --------------------------------------------------------------------------------------------------------
def scheme_names(scheme: Scheme) -> Names:
    names = Names(scheme=True)
    for v in scheme.variables:
        if v.name and not (isinstance(v, ty.SizeVar) and v.opened) and v.name not in names.used:
            names.reserve(v, v.name)
    marks: dict[ty.SizeVar, int] = {}
    for v in scheme.opened:
        marks[v] = occurrences(scheme.result, v)
    for i, v in enumerate(scheme.opened):
        names.names[v] = "?" if len(marks) == 1 and marks[v] == 1 else f"?{i + 1}"
    return names


def occurrences(t: Term, v: ty.SizeVar) -> int:
    if isinstance(t, ty.Size):
        return sum(1 for w in ty.resolve_size(t).poly.atoms() if w is v)
    if isinstance(t, ty.Shape):
        return sum(occurrences(s, v) for s in (*t.pre, *t.post))
    t = ty.resolve(t)
    match t:
        case ty.TypeArray(element, shape):
            return occurrences(element, v) + occurrences(shape, v)
        case ty.TypeTuple(items):
            return sum(occurrences(i, v) for i in items)
        case ty.TypeFn(params, result, _):
            return sum(occurrences(p, v) for p in (*params, result))
        case ty.TypeData(_, args):
            return sum(occurrences(a, v) for a in args)
        case _:
            return 0


def scheme_text(scheme: Scheme, *, constraints: bool = False, effects: frozenset[str] = frozenset()) -> str:
    """`<a: Num> (a[n], m: size) -> a[n]`; with `constraints` also what is still demanded."""
    names = scheme_names(scheme)
    parameters = []
    for i, p in enumerate(scheme.params):
        size = scheme.size_of(i)
        asked = scheme.asked[i] if i < len(scheme.asked) else None
        parameters.append(f"{names(size)}: size" if size is not None else written(p, asked, names))
    text = f"({', '.join(parameters)}) -> {written(scheme.result, scheme.promised, names)}"
    if effects:
        text += f" ! {' + '.join(sorted(effects))}"
    bounds = [
        f"{names(v)}: {' + '.join(sorted(v.classes))}"
        for v in scheme.variables
        if isinstance(v, ty.TypeVar) and v.classes
        and (constraints or v in variables(*scheme.params, scheme.result))
    ]  # fmt: skip
    if bounds:
        text = f"<{', '.join(bounds)}> {text}"
    if constraints and scheme.constraints:
        text += " where " + ", ".join(constraint_text(c, names) for c in scheme.constraints)
    return text


def signature_texts(scheme: Scheme) -> tuple[list[str], str]:
    """The types of the parameters and of the result; a parameter that is a size is `size`."""
    names = scheme_names(scheme)
    params = []
    for i, p in enumerate(scheme.params):
        asked = scheme.asked[i] if i < len(scheme.asked) else None
        params.append("size" if scheme.size_of(i) is not None else written(p, asked, names))
    return params, written(scheme.result, scheme.promised, names)


def constraint_text(c: Constraint, names: Names) -> str:
    terms = [names(t) for t in c.terms()]
    kind = {"arith": str(c.data), "matmul": "@", "power": "**", "field": f"field {c.data}"}.get(c.kind, c.kind)
    if c.kind in ("reduce", "reduce-keep"):
        kind = f"{c.kind}(axis {c.data})"
    return f"{kind}({', '.join(terms[:-1])}) = {terms[-1]}"
