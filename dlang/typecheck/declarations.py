"""Checking the declarations of a module: datatypes and aliases, then functions, a group at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar as TypeVariable

from dlang.diagnostics import Diagnostic, DlangError, Note, Span, error, own_help
from dlang.grammar import syntax as s
from dlang.polynomials import TooManyTerms
from dlang.spelling import plural
from dlang.typecheck import core, functions, statements, types as ty
from dlang.typecheck.annotations import Annotator, misplaced, parameter_name
from dlang.typecheck.constraints import has_floats
from dlang.typecheck.context import Checker, Expected
from dlang.typecheck.expressions import ExpressionChecker
from dlang.typecheck.foreign import foreign_body, problems
from dlang.typecheck.functions import Body
from dlang.typecheck.groups import Mentions, Written, reached, types_in
from dlang.typecheck.indices import prove_indices
from dlang.typecheck.limits import MOST_PARTS, size_too_large, too_many_parts
from dlang.typecheck.printing import show
from dlang.typecheck.schemes import Member, default_rest, generalise
from dlang.typecheck.scope import AliasEntry, FnEntry, FunctionContext, LocalEntry, ModuleTable, Scope
from dlang.typecheck.signatures import Signature, parameter_names, signature
from dlang.typecheck.state import Inference, Scheme
from dlang.typecheck.terms import of_var, variable_of, variables
from dlang.typecheck.trees import finished

if TYPE_CHECKING:
    from dlang.typecheck.program import Program


def field_types(d: Written) -> list[s.TypeExpr]:
    match d:
        case s.Struct():
            return [f.type for f in d.fields]
        case s.Enum():
            return [f.type for c in d.constructors for f in c.fields]
        case s.Alias():
            return [d.type]


def size_names(dim: s.Dim) -> Iterator[str]:
    match dim:
        case s.SizeName(_, name):
            yield name
        case s.SizeOperator(_, _, left, right):
            yield from size_names(left)
            yield from size_names(right)
        case _:
            return


def sizes_in(t: s.TypeExpr | s.Dim, kinds: dict[str, list[str]]) -> Iterator[str]:
    """The names that a type uses as sizes; `kinds` says which parameters of other types are."""
    match t:
        case s.TypeArray(_, element, dims):
            yield from sizes_in(element, kinds)
            for d in dims:
                yield from size_names(d)
        case s.TypeTuple(_, items):
            for i in items:
                yield from sizes_in(i, kinds)
        case s.TypeFunction(_, parameters, result, _):
            for i in (*parameters, result):
                yield from sizes_in(i, kinds)
        case s.TypeEffects(_, result, _):
            yield from sizes_in(result, kinds)
        case s.TypeName(_, name, arguments):
            expected = kinds.get(name, [])
            for k, a in enumerate(arguments):
                if isinstance(a, s.TypeName) and not a.arguments:
                    if k < len(expected) and expected[k] == "size":
                        yield a.name
                elif isinstance(a, s.SizeName):
                    yield a.name
                elif isinstance(a, s.SizeOperator):
                    yield from size_names(a)
                else:
                    yield from sizes_in(a, kinds)
        case _:
            return


def parameter_kinds(written: list[Written], outside: dict[str, list[str]]) -> dict[str, list[str]]:
    """For each declaration, whether its parameters are types, sizes or rows: one used in a shape is a size."""
    kinds = {"Idx": ["size"], **outside}
    for d in written:
        kinds[d.name] = ["row" if p.row else "type" for p in d.parameters]
    changed = True
    while changed:
        changed = False
        for d in written:
            used = {n for t in field_types(d) for n in sizes_in(t, kinds)}
            for i, p in enumerate(d.parameters):
                if p.name in used and kinds[d.name][i] == "type":
                    kinds[d.name][i] = "size"
                    changed = True
    return kinds


def variable(p: s.TypeParameter, kind: str) -> ty.Var:
    if kind == "size":
        return ty.SizeVar(0, p.name, rigid=True)
    if kind == "row":
        return ty.RowVar(0, p.name, rigid=True)
    return ty.TypeVar(0, p.name, rigid=True)


def declare(cx: Checker, table: ModuleTable, written: list[Written], outside: dict[str, list[str]]) -> None:
    """Adds the data types of a module to its table."""
    kinds = parameter_kinds(written, outside)
    waiting: list[tuple[Written, tuple[ty.Var, ...], list[ty.DataDecl]]] = []
    for d in written:
        if d.name in table.types and d.name in {w.name for w, _, _ in waiting}:
            first = next(w for w, _, _ in waiting if w.name == d.name)
            cx.report(twice(f"the type `{d.name}`", d.name_span, first.name_span))
            continue
        params = tuple(variable(p, k) for p, k in zip(d.parameters, kinds[d.name], strict=True))
        decls: list[ty.DataDecl] = []
        if not isinstance(d, s.Alias):
            decl = ty.DataDecl(d.name, table.name, params, (), isinstance(d, s.Struct), d.name_span, d.doc)
            table.types[d.name] = decl
            table.core.types[d.name] = decl
            decls.append(decl)
        waiting.append((d, params, decls))
    # An alias may mention any data type, but only aliases above it.
    for d, params, _ in waiting:
        if isinstance(d, s.Alias):
            try:
                table.types[d.name] = AliasEntry(params, *converted(cx, d.name, params, d.type))
            except DlangError as problem:
                table.types[d.name] = AliasEntry(params, ty.MISTAKE)
                for x in problem.diagnostics:
                    itself = x.code == "E0207" and x.span is not None and x.span.text == d.name
                    help = ("a type that contains itself is a struct or an enum",)
                    cx.report(replace(x, message=f"the alias `{d.name}` mentions itself", help=help) if itself else x)
    first_places: dict[str, Span] = {}
    for d, params, decls in waiting:
        if decls:
            assert not isinstance(d, s.Alias)
            decls[0].variants = variants(cx, d, params)
            spans = [c.span.head(len(c.name)) for c in d.constructors] if isinstance(d, s.Enum) else [d.name_span]
            for v, place in zip(decls[0].variants, spans, strict=True):
                if v.name in table.constructors and table.constructors[v.name][0].module == table.name:
                    cx.report(twice(f"the constructor `{v.name}`", place, first_places[v.name]))
                first_places.setdefault(v.name, place)
                table.constructors[v.name] = (decls[0], v)
    mine = [decl for _, _, decls in waiting for decl in decls]
    for diagnostic in (*uninhabited(mine), *too_large(mine)):
        cx.report(diagnostic)


def twice(what: str, again: Span, first: Span) -> Diagnostic:
    notes = (Note("it is declared here first", first),)
    return Diagnostic("E0202", f"{what} is declared twice", again, "declared again here", notes)


def circular(table: ModuleTable, written: list[Written], mentions: Mentions) -> Iterator[tuple[str, Diagnostic]]:
    """Constants that stand in the declaration of a type, and need a type of the module for their value."""
    declared = {d.name for d in written} | {c.name for d in written if isinstance(d, s.Enum) for c in d.constructors}
    reported: set[str] = set()
    for d in written:
        for name in sorted(mentions.among(table.functions, d) - reported):
            needed = {t for n in reached({name}, table.functions) for t in types_in(table.functions[n])} & declared
            if needed:
                reported.add(name)
                message = f"the constant `{name}` is needed to declare `{d.name}`, and its value needs `{min(needed)}`"
                notes = (Note(f"`{d.name}` is declared here", d.name_span),)
                yield name, Diagnostic("E0214", message, table.functions[name].name_span, "", notes)


def variants(cx: Checker, d: s.Struct | s.Enum, params: tuple[ty.Var, ...]) -> tuple[ty.Variant, ...]:
    """The variants of a declaration with the types of their fields; a struct is one variant."""

    def variant(name: str, written: tuple[s.FieldDecl, ...], tag: int = 0) -> ty.Variant:
        out: list[tuple[str | None, ty.Type]] = []
        known: list[ty.Refinement | None] = []
        named: dict[str, Span] = {}
        for f in written:
            if f.name is not None and f.name in named:
                first = named[f.name].head(len(f.name))
                cx.report(twice(f"the field `{f.name}`", f.span.head(len(f.name)), first))
                continue
            if f.name is not None:
                named[f.name] = f.span
            t: ty.Type
            try:
                t, refinement = converted(cx, d.name, params, f.type)
            except DlangError as problem:
                for x in problem.diagnostics:
                    cx.report(x)
                t, refinement = ty.MISTAKE, None
            out.append((f.name, t))
            known.append(refinement)
        return ty.Variant(name, tuple(out), tag, tuple(known))

    if isinstance(d, s.Struct):
        return (variant(d.name, d.fields),)
    return tuple(variant(c.name, c.fields, i) for i, c in enumerate(d.constructors))


def converted(
    cx: Checker, name: str, params: tuple[ty.Var, ...], t: s.TypeExpr
) -> tuple[ty.Type, ty.Refinement | None]:
    """A type in a declaration, and what `Idx` in it says: its variables are the parameters."""
    scope = Scope(types={(".." + p.name if isinstance(p, ty.RowVar) else p.name): p for p in params if p.name})
    param_names = [parameter_name(p) for p in params]
    known, open_ = f"{name}<{', '.join([*param_names, 'n'])}>", f"{name}<{', '.join([*param_names, '?'])}>"
    instead = (
        f"make the size a parameter, `{known}`: a result may then be a `{open_}`",
        "parts of different sizes are kept in one array, with another of where each begins",
    )
    annotator = Annotator(cx, scope, rigid=True, what=f"the declaration of `{name}`", instead=instead)
    out = annotator.refined_type(t)
    for n in annotator.names:
        raise error(
            "E0207",
            f"`{n}` is not a parameter of `{name}`",
            t.span.word(n),
            help=(f"write `{name}<{', '.join([*(p.name or '_' for p in params), n])}>`",),
        )
    return out


Known = dict[ty.Var, bool]  # whether the types that the parameters of a declaration stand for have values
Instantiated = tuple[ty.DataDecl, tuple[bool, ...]]


def uninhabited(decls: Sequence[ty.DataDecl]) -> list[Diagnostic]:
    """E0218 for each declaration without values, whatever its parameters stand for."""
    diagnostics: list[Diagnostic] = []
    values = _Values()
    for d in decls:
        if d.variants and not values.declared(d, tuple(True for _ in d.params)):
            kind = "struct" if d.is_struct else "enum"
            diagnostics += error(
                "E0218",
                f"no value of the {kind} `{d.name}` can be made: it would have to hold another one",
                d.span,
                label="contains itself in every case",
                help=("let it end: an enum with a case that does not contain it, an `Option`, or an array of them",),
            ).diagnostics
    return diagnostics


@dataclass(slots=True)
class _Values:
    """A search for types that have values. path: those that are looked at, none of which gets a value from itself."""

    path: set[Instantiated] = field(default_factory=set)

    def declared(self, d: ty.DataDecl, args: tuple[bool, ...]) -> bool:
        key = d, args
        if args not in d.inhabited and key not in self.path:
            self.path.add(key)
            known: Known = dict(zip(d.params, args, strict=True))
            if any(all(self.has(t, known) for _, t in v.fields) for v in d.variants):
                d.inhabited.add(args)
            self.path.remove(key)
        return args in d.inhabited

    def has(self, t: ty.Type | ty.Size | ty.Shape, known: Known) -> bool:
        if isinstance(t, ty.Size | ty.Shape):
            return True
        match ty.resolve(t):
            case ty.TypeVar() as v:
                return known.get(v, True)
            case ty.TypeArray(element, shape):
                s = ty.resolve_shape(shape)
                counts = [ty.resolve_size(n).poly.constant for n in (*s.pre, *s.post)]
                some = s.row is None and all(c is not None and c > 0 for c in counts)
                return not some or self.has(element, known)  # an array may be empty
            case ty.TypeTuple(items):
                return all(self.has(i, known) for i in items)
            case ty.TypeData(decl, args):
                return self.declared(decl, tuple([self.has(a, known) for a in args]))
            case _:
                return True


def too_large(decls: Sequence[ty.DataDecl]) -> Iterator[Diagnostic]:
    """E0291 for each declaration of too many parts; all of them mention one another, and nothing else that is new."""
    mentioned = {d: list(_mentioned(t for v in d.variants for _, t in v.fields)) for d in decls}
    for d, others in mentioned.items():
        parts = sum(len(v.fields) for v in d.variants) + sum(other.parts for other in others)
        if not mentioned.keys().isdisjoint(others):  # it contains itself
            continue
        if parts > MOST_PARTS:
            yield from too_many_parts(d.span).diagnostics
        else:
            d.parts = parts


def _mentioned(types: Iterable[ty.Type]) -> Iterator[ty.DataDecl]:
    """The structs and enums in types, each time that they are there."""
    work = list(types)
    while work:
        t = ty.resolve(work.pop())
        if isinstance(t, ty.TypeData):
            yield t.decl
        if isinstance(t, ty.TypeArray | ty.TypeTuple | ty.TypeFn | ty.TypeData):
            work += [c for c in ty.children(t) if isinstance(c, ty.Type)]


Function = s.Fn | s.Const | s.Extern
T = TypeVariable("T")


def checker(program: Program, table: ModuleTable) -> Checker:
    return ExpressionChecker(Inference(backwards=program.backwards), table, program, observed=program.cache.observed)


def any_entry(name: str, module: str, span: Span, parameters: tuple[s.Parameter, ...] | None) -> FnEntry:
    """Stands for a function with a mistake: it fits everywhere, so that the mistake is reported once."""
    scheme = Scheme(tuple(ty.MISTAKE for _ in parameters or ()), ty.MISTAKE, (), ())
    decl = core.FnDecl(name, module, span, result=ty.MISTAKE)
    if parameters is None:
        decl.kind = "const"
        return FnEntry(decl, scheme)
    names = parameter_names(parameters)
    decl.params = tuple(core.Param(core.Local(n or "_", ty.MISTAKE)) for n in names)
    return FnEntry(decl, scheme, names, tuple(p.default is not None for p in parameters))


# ---- functions -------------------------------------------------------------------------------------------------------
def parts(item: Function) -> tuple[tuple[s.Bound, ...], tuple[s.Parameter, ...], s.TypeExpr | None]:
    """Returns the written parts of a function's type: bounds, parameters and result."""
    match item:
        case s.Fn():
            return item.bounds, item.parameters, item.result
        case s.Const():
            return (), (), item.type
        case s.Extern():
            return item.bounds, item.parameters, item.result


def check_functions(
    program: Program, table: ModuleTable, group: list[str], *, trusted: bool = False
) -> list[Diagnostic]:
    """Checks functions that call one another, and adds them to the table of the module.

    trusted: what they hand on of their parameters is as `Idx` asks, whatever their types say.
    """
    cx = checker(program, table)
    items = [table.functions[n] for n in group]
    root = Scope()
    signatures, entries = announced(cx, root, table, items)
    bodies, failed = checked_bodies(cx, root, items, signatures)
    members = [
        Member(i.name, i.name_span, entries[i.name].scheme, signatures[i.name].full, bodies[i.name].found)
        for i in items
        if i.name in bodies
    ]
    if members:
        attempt(cx, members[0].span, lambda: generalise(cx.st, members, bool(failed)))
    conclude(cx, items[0].name_span)
    constants_end(cx, entries, bodies)
    ok = not cx.st.diagnostics
    for name, body in bodies.items():
        functions.fill(entries[name].decl, entries[name], signatures[name], body)
    for name in bodies:
        decl = entries[name].decl
        if not ok:
            decl.body = None
        elif cx.unfinished and decl.body is not None:
            decl.body = finished(decl.body)
    for name in failed - set(bodies):
        if signatures[name].full:  # callers and hover texts still have its type
            typed_by_signature(entries[name].decl, signatures[name], parts(table.functions[name])[1])
    effects(cx, group, entries, bodies, signatures)
    if ok:
        for name in bodies:
            prove_indices(cx, entries[name].decl, trusted=trusted)
        if cx.st.diagnostics:
            for name in bodies:
                entries[name].decl.body = None
    else:
        for item in items:
            if item.name in entries and not isinstance(item, s.Extern) and not signatures[item.name].full:
                register_unknown(table, item)
    for name in group:
        entry = table.entries[name]
        if isinstance(entry, FnEntry) and entry.decl.kind == "const" and entry.decl.body is not None:
            value = cx.constant(entry.decl)
            if value is not None:
                table.integers[name] = value
    return cx.st.diagnostics


def announced(
    cx: Checker, root: Scope, table: ModuleTable, items: Sequence[Function]
) -> tuple[dict[str, Signature], dict[str, FnEntry]]:
    """Returns the signatures of functions, and their entries in the table; those with a mistake there are left out."""
    signatures: dict[str, Signature] = {}
    entries: dict[str, FnEntry] = {}
    for item in items:
        bounds, parameters, result = parts(item)
        try:
            sig = signature(cx, root, item.name, bounds, parameters, result)
        except DlangError as problem:
            for d in problem.diagnostics:
                cx.report(d)
            register_unknown(table, item)
            continue
        kind = "const" if isinstance(item, s.Const) else "extern" if isinstance(item, s.Extern) else "fn"
        decl = core.FnDecl(item.name, table.name, item.name_span, kind=kind, doc=item.doc)
        names, defaults = parameter_names(parameters), tuple(p.default is not None for p in parameters)
        entry = FnEntry(decl, sig.scheme, names, defaults, pending=not sig.full)
        signatures[item.name], entries[item.name] = sig, entry
        register(table, item.name, entry)
        if isinstance(item, s.Extern):
            finish_extern(cx, entry, sig, item)
    return signatures, entries


def checked_bodies(
    cx: Checker, root: Scope, items: Sequence[Function], signatures: dict[str, Signature]
) -> tuple[dict[str, Body], set[str]]:
    """The bodies that have a type, and the names of functions with a mistake in theirs."""
    bodies: dict[str, Body] = {}
    failed: set[str] = set()
    for item in items:
        if item.name not in signatures or isinstance(item, s.Extern):
            continue
        before = len(cx.st.diagnostics)
        _, parameters, result = parts(item)
        written = item.value if isinstance(item, s.Const) else item.body
        check = partial(
            functions.body, cx, root, item.name, signatures[item.name], parameters, written, result is not None
        )
        body = attempt(cx, item.name_span, check)
        if body is not None:
            bodies[item.name] = body
        if body is None or len(cx.st.diagnostics) > before:
            failed.add(item.name)
    return bodies, failed


def typed_by_signature(decl: core.FnDecl, sig: Signature, parameters: tuple[s.Parameter, ...]) -> None:
    """Gives a function whose body has a mistake the types that are written out."""
    decl.params = tuple(
        core.Param(core.Local(n or "_", t, False, variable_of(x)))
        for n, t, x in zip(parameter_names(parameters), sig.params, sig.sizes, strict=True)
    )
    decl.result, decl.variables, decl.opened = sig.result, sig.scheme.variables, sig.scheme.opened


def register_unknown(table: ModuleTable, item: Function) -> None:
    """Registers a function of which a mistake left nothing known: any use of it fits."""
    parameters = None if isinstance(item, s.Const) else parts(item)[1]
    register(table, item.name, any_entry(item.name, table.name, item.name_span, parameters))


def register(table: ModuleTable, name: str, entry: FnEntry) -> None:
    table.entries[name] = entry
    table.core.functions[name] = entry.decl


def attempt(cx: Checker, span: Span, action: Callable[[], T]) -> T | None:
    """Runs a part of checking; a mistake in it is reported, and None is the result."""
    try:
        return action()
    except DlangError as problem:
        for d in problem.diagnostics:
            cx.report(d)
    except TooManyTerms:
        cx.report(size_too_large(span).diagnostics[0])
    except RecursionError:
        cx.report(
            Diagnostic("E0290", "this is nested too deeply to be checked", span, "", (), ("split it up with `let`s",))
        )
    return None


def conclude(cx: Checker, span: Span) -> None:
    """Concludes a group by the work that waits for its end: escapes, late checks, defaults."""
    if not cx.st.diagnostics:
        for escape in cx.escapes:
            attempt(cx, escape.span, partial(cx.check_escape, escape))
    clean = not cx.st.diagnostics
    for check in cx.later:
        if clean:
            attempt(cx, span, check)
    default_rest(cx.st)


def finish_extern(cx: Checker, entry: FnEntry, sig: Signature, item: s.Extern) -> None:
    """Completes the entry of an `extern`: it has no body, so its signature says all."""
    decl = entry.decl
    if item.target.startswith("builtin:"):
        entry.builtin = item.target.removeprefix("builtin:")
    names = parameter_names(item.parameters)
    locals_ = [
        core.Local(n or "_", t, False, variable_of(size), p.span, asked)
        for n, t, size, p, asked in zip(names, sig.params, sig.sizes, item.parameters, sig.asked, strict=True)
    ]
    entry.pending = False
    defaults = [
        None if p.default is None else attempt(cx, p.span, partial(default, cx, x, p.default))
        for x, p in zip(locals_, item.parameters, strict=True)
    ]
    inert = [p.nodiff for p in item.parameters]
    decl.params = tuple(core.Param(*param) for param in zip(locals_, defaults, inert, strict=True))
    decl.result = sig.result
    scheme = entry.scheme
    drawn = sig.result
    if entry.builtin.startswith("random_") and isinstance(drawn, ty.TypeVar) and drawn not in variables(*sig.params):
        drawn.classes, drawn.atomic = frozenset({"Float"}), True  # a draw is a float of the dtype that its use needs
    if not sig.full:
        message = f"every parameter of the `extern` `{item.name}` needs a type"
        cx.report(Diagnostic("E0411", message, item.name_span))
    decl.variables, decl.opened = scheme.variables, scheme.opened
    decl.effects = frozenset(sig.effects or ())
    if not entry.builtin and sig.full:
        mistakes = list(problems(decl, item))
        for problem in mistakes:
            cx.report(problem)
        decl.body = None if mistakes else foreign_body(decl, item.target)
        if isinstance(sig.promised, ty.Below) and decl.body is not None and isinstance(sig.result, ty.TypeCon):
            decl.body = core.As(sig.result, item.result.span, decl.body, sig.promised.size)
            decl.refinement = sig.promised
        elif sig.promised is not None:
            help = "write `i64`, and check each where it is used: `i as Idx<n>`"
            where = "in the result of an `extern`, but of one number"
            cx.report(misplaced(item.result.span, where, help).diagnostics[0])


def default(cx: Checker, parameter: core.Local, e: s.Expr) -> core.Expr:
    """The default of a parameter of an `extern`, which sees no other."""
    value = cx.infer(Scope(), e)
    cx.expect(parameter.type, value.type, value.span, "the default: ")
    return value


def constants_end(cx: Checker, entries: dict[str, FnEntry], bodies: dict[str, Body]) -> None:
    """Refuses constants whose value is needed to compute it, directly or through functions and other constants."""
    uses = {entries[n].decl: bodies[n].context.calls for n in bodies}

    def needs(decl: core.FnDecl, wanted: core.FnDecl) -> bool:
        reached: set[core.FnDecl] = set()
        open = [decl]
        while open:
            for used in uses.get(open.pop(), ()):
                if used is wanted:
                    return True
                if used not in reached:
                    reached.add(used)
                    open.append(used)
        return False

    said: set[core.FnDecl] = set()
    for decl in uses:
        if decl.kind == "const" and decl not in said and needs(decl, decl):
            said |= {other for other in uses if needs(decl, other) and needs(other, decl)}  # the whole circle
            between = [u for u in entries.values() if u.decl in uses[decl] and u.decl is not decl]
            notes = tuple(Note(f"`{u.decl.name}` needs it", u.decl.span) for u in between if needs(u.decl, decl))
            message = f"the constant `{decl.name}` is needed to compute its own value"
            cx.report(Diagnostic("E0214", message, decl.span, notes=notes))


def effects(
    cx: Checker,
    group: list[str],
    entries: dict[str, FnEntry],
    bodies: dict[str, Body],
    signatures: dict[str, Signature],
) -> None:
    """Effects and recursion: what is reached through the calls of the group."""
    decls = {entries[n].decl: bodies[n].context for n in bodies}
    changed = True
    while changed:
        changed = False
        for context in decls.values():
            for called in list(context.calls):
                inner: FunctionContext | None = decls.get(called)
                if inner is not None and not inner.effects <= context.effects:
                    context.effects |= inner.effects
                    changed = True
    for name in bodies:
        decl = entries[name].decl
        decl.effects = frozenset(bodies[name].context.effects)
        decl.recursive = len(group) > 1 or decl in bodies[name].context.calls
        functions.check_effects(cx, signatures[name], bodies[name].context.effects, decl.span)
        if decl.kind == "const" and decl.effects:
            message = f"`{name}` is a constant, but computing it has the effect `{min(decl.effects)}`"
            help = (f"make it a function, `fn {name}() = …`; random numbers become a value by `random.run(seed, …)`",)
            cx.report(Diagnostic("E0312", message, decl.span, help=help))


# ---- tests, scripts, expressions -------------------------------------------------------------------------------------
def check_block(
    program: Program, table: ModuleTable, name: str, kind: str, block: s.Block, span: Span
) -> tuple[core.FnDecl, list[Diagnostic]]:
    """A `test` or a script: statements without a value; or a `bench`, which has one."""
    cx = checker(program, table)
    decl = core.FnDecl(name, table.name, span, result=ty.UNIT, kind=kind)
    cx.st.level = 1
    scope = Scope(function=FunctionContext(name, None))
    value = attempt(cx, span, lambda: statements.block(cx, scope, block))
    if value is not None:
        assert isinstance(value, core.BlockExpr)
        if block.statements and isinstance(block.statements[-1], statements.EXPRESSIONS) and kind == "test":
            attempt(cx, span, lambda: statements.discard(cx, value.result, block.statements[-1].span))
        if kind == "bench" and not (block.statements and isinstance(block.statements[-1], statements.EXPRESSIONS)):
            cx.report(_nothing_timed(name, block, span))
    close(cx, name, span)
    assert scope.function is not None
    decl.effects = frozenset(scope.function.effects)
    if value is not None and not cx.st.diagnostics:
        assert isinstance(value, core.BlockExpr)
        decl.result = ty.UNIT if kind == "test" else value.type
        complete(cx, decl, value)
    return decl, cx.st.diagnostics


def _nothing_timed(name: str, block: s.Block, span: Span) -> Diagnostic:
    place = block.statements[-1].span if block.statements else span
    help = ("end the block with an expression, such as a call of the function that the loop stands in",)
    return Diagnostic("E0991", f"the benchmark `{name}` does not end with an expression to time", place, help=help)


def complete(cx: Checker, decl: core.FnDecl, body: core.Expr) -> None:
    """Gives a declaration the body that has been checked, if what it says of indices can be proven."""
    decl.body = finished(body) if cx.unfinished else body
    prove_indices(cx, decl)
    if cx.st.diagnostics:
        decl.body = None


def close(cx: Checker, name: str, span: Span) -> None:
    """The end of something that nothing calls: all that is open is decided."""
    cx.st.level = 0
    member = Member(name, span, Scheme((), ty.UNIT))
    attempt(cx, span, lambda: generalise(cx.st, [member], bool(cx.st.diagnostics)))
    conclude(cx, span)


def check_value(program: Program, table: ModuleTable, name: str, e: s.Expr) -> tuple[core.FnDecl, list[Diagnostic]]:
    cx = checker(program, table)
    decl = core.FnDecl(name, table.name, e.span)
    cx.st.level = 1
    scope = Scope(function=FunctionContext(name, None))
    value = attempt(cx, e.span, lambda: cx.infer(scope, e))
    close(cx, name, e.span)
    if value is not None and not cx.st.diagnostics:
        decl.result = value.type
        complete(cx, decl, value)
    assert scope.function is not None
    decl.effects = frozenset(scope.function.effects)
    return decl, cx.st.diagnostics


# ---- custom derivatives ----------------------------------------------------------------------------------------------
def check_rule(program: Program, table: ModuleTable, rule: s.Rule) -> list[Diagnostic]:
    """`pullback f(x) -> y = …`: a function of the parameters and the result, that returns a function."""
    cx = checker(program, table)
    decl = attempt(cx, rule.name_span, lambda: rule_decl(program, cx, table, rule))
    if decl is not None and not cx.st.diagnostics:
        table.core.rules[(rule.kind, rule.name)] = decl
        table.core.functions[rule.name].rules[rule.kind] = decl
    return cx.st.diagnostics


def rule_decl(program: Program, cx: Checker, table: ModuleTable, rule: s.Rule) -> core.FnDecl | None:
    """The function that a custom rule is, checked against the one that it is of; None where that has a mistake itself.

    Raises DlangError for a rule that does not fit its function.
    """
    if rule.name not in table.functions:
        raise error("E0201", f"`{rule.kind}` of `{rule.name}`, which is not a function of this module", rule.name_span)
    if (rule.kind, rule.name) in table.core.rules:
        raise error("E0202", f"`{rule.name}` has two `{rule.kind}`s", rule.name_span)
    entry = program.value(table, rule.name)
    if not isinstance(entry, FnEntry) or (entry.decl.body is None and entry.decl.kind != "extern"):
        return None
    f = entry.decl
    if f.result is ty.MISTAKE:
        return None
    if len(rule.parameters) != len(f.params):
        raise error(
            "E0303",
            f"`{rule.name}` has {plural(len(f.params), 'parameter')}, its `{rule.kind}` has {len(rule.parameters)}",
            rule.name_span,
            notes=(Note(f"`{rule.name}` is declared here", f.span),),
        )
    cx.st.level = 1
    context = FunctionContext(rule.name, None)
    types = {(".." + v.name if isinstance(v, ty.RowVar) else v.name): v for v in f.variables if v.name}
    scope = Scope(types=types, function=context)
    params: list[core.Param] = []
    active: list[ty.Type] = []
    assert f.result is not None
    for written, p in zip(rule.parameters, f.params, strict=True):
        t = p.local.type
        if written.type is not None:
            restated, _ = Annotator(cx, scope, rigid=False).refined_type(written.type)
            cx.expect(t, restated, written.span, "the parameter: ")
        name = written.pattern.name if isinstance(written.pattern, s.PatternName) else "_"
        local = core.Local(name, t, False, p.local.size, written.span, p.local.refinement)
        if name != "_":
            scope.names[name] = LocalEntry(local, what="parameter")
        if p.local.size is not None:
            cx.symbols[local] = of_var(p.local.size)
        if written.nodiff and not p.nodiff:
            raise error(
                "E0702",
                f"parameter {len(params) + 1} is `nodiff` in the `{rule.kind}` alone: the function says which are",
                written.span,
                notes=(Note(f"`{rule.name}` is declared here", f.span),),
                help=("write `nodiff` before the parameter of the function",),
            )
        if written.default is not None:
            raise error(
                "E0303",
                f"a parameter of a `{rule.kind}` has no default: the rule gets the arguments of the function",
                written.default.span,
                notes=(Note(f"`{rule.name}` is declared here", f.span),),
                help=("write the default in the function",),
            )
        params.append(core.Param(local, None, p.nodiff))
        if not p.nodiff:
            active.append(t)
    result = core.Local(rule.result, f.result, False, None, rule.span)
    scope.names[rule.result] = LocalEntry(result, what="parameter")
    params.append(core.Param(result))
    if rule.kind == "pullback":
        want = ty.TypeFn((f.result,), active[0] if len(active) == 1 else ty.TypeTuple(tuple(active)))
    else:
        want = ty.TypeFn(tuple(active), f.result)
    try:
        body = cx.check(scope, rule.body, Expected(want, (), f"the `{rule.kind}`: "))
    except DlangError as e:
        raise DlangError([_with_idle(d, f) for d in e.diagnostics]) from None
    cx.settled(want)  # what waited for the types of the lambda's parameters, before the level is left
    acts = context.effects & {"print", "io"}
    if acts:
        what = f"the `{rule.kind}` of `{rule.name}` has the effect `{min(acts)}`: it runs when a derivative needs it"
        raise error("E0312", what, rule.body.span, help=("let it only compute",))
    close(cx, rule.name, rule.name_span)
    decl = core.FnDecl(rule.name, table.name, rule.name_span, tuple(params), want, f.variables, (), None)
    decl.kind, decl.effects = rule.kind, frozenset(context.effects)
    if not cx.st.diagnostics:
        complete(cx, decl, body)
    return decl


def _with_idle(d: Diagnostic, f: core.FnDecl) -> Diagnostic:
    """Adds a hint at parameters without floats, which a rule has to serve like others."""
    idle = [p for p in f.params if not p.nodiff and not has_floats(p.local.type)]
    if d.code != "E0301" or not idle:
        return d
    listed = ", ".join(f"`nodiff {p.local.name}: {show(p.local.type)}`" for p in idle)
    return replace(
        d, help=(*own_help(d), f"a parameter without floats has a place here too, unless `{f.name}` has {listed}")
    )
