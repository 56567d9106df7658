"""Declarations of structs, enums and aliases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dlang.diagnostics import Diagnostic, DlangError, Note, Span, error
from dlang.grammar import syntax as s
from dlang.typecheck.annotations import Annotator, parameter_name
from dlang.typecheck.context import Checker
from dlang.typecheck.groups import Mentions, Written, reached, types_in
from dlang.typecheck.scope import AliasEntry, ModuleTable, Scope
from dlang.typecheck.types import (
    MISTAKE,
    DataDecl,
    Refinement,
    RowVar,
    Shape,
    Size,
    SizeVar,
    Type,
    TypeArray,
    TypeData,
    TypeTuple,
    TypeVar,
    Var,
    Variant,
    resolve,
    resolve_shape,
    resolve_size,
)


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


def variable(p: s.TypeParameter, kind: str) -> Var:
    if kind == "size":
        return SizeVar(0, p.name, rigid=True)
    if kind == "row":
        return RowVar(0, p.name, rigid=True)
    return TypeVar(0, p.name, rigid=True)


def declare(cx: Checker, table: ModuleTable, written: list[Written], outside: dict[str, list[str]]) -> None:
    """Adds the data types of a module to its table."""
    kinds = parameter_kinds(written, outside)
    waiting: list[tuple[Written, tuple[Var, ...], list[DataDecl]]] = []
    for d in written:
        if d.name in table.types and d.name in {w.name for w, _, _ in waiting}:
            first = next(w for w, _, _ in waiting if w.name == d.name)
            cx.report(twice(f"the type `{d.name}`", d.name_span, first.name_span))
            continue
        params = tuple(variable(p, k) for p, k in zip(d.parameters, kinds[d.name], strict=True))
        decls: list[DataDecl] = []
        if not isinstance(d, s.Alias):
            decl = DataDecl(d.name, table.name, params, (), isinstance(d, s.Struct), d.name_span, d.doc)
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
                table.types[d.name] = AliasEntry(params, MISTAKE)
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
    for diagnostic in uninhabited([decl for _, _, decls in waiting for decl in decls]):
        cx.report(diagnostic)


def twice(what: str, again: Span, first: Span) -> Diagnostic:
    notes = (Note("it is declared here first", first),)
    return Diagnostic("E0202", f"{what} is declared twice", again, "declared again here", notes)


def circular(table: ModuleTable, written: list[Written], mentions: Mentions) -> Iterator[tuple[str, Diagnostic]]:
    """Constants that stand in the declaration of a type, and need a type of the module for their value."""
    own = {d.name for d in written} | {c.name for d in written if isinstance(d, s.Enum) for c in d.constructors}
    found: set[str] = set()
    for d in written:
        for name in sorted(mentions.among(table.functions, d) - found):
            needed = {t for n in reached({name}, table.functions) for t in types_in(table.functions[n])} & own
            if needed:
                found.add(name)
                message = f"the constant `{name}` is needed to declare `{d.name}`, and its value needs `{min(needed)}`"
                notes = (Note(f"`{d.name}` is declared here", d.name_span),)
                yield name, Diagnostic("E0214", message, table.functions[name].name_span, "", notes)


def variants(cx: Checker, d: s.Struct | s.Enum, params: tuple[Var, ...]) -> tuple[Variant, ...]:
    """The variants of a declaration with the types of their fields; a struct is one variant."""

    def variant(name: str, written: tuple[s.FieldDecl, ...], tag: int = 0) -> Variant:
        out: list[tuple[str | None, Type]] = []
        known: list[Refinement | None] = []
        named: dict[str, Span] = {}
        for f in written:
            if f.name is not None and f.name in named:
                first = named[f.name].head(len(f.name))
                cx.report(twice(f"the field `{f.name}`", f.span.head(len(f.name)), first))
                continue
            if f.name is not None:
                named[f.name] = f.span
            t: Type
            try:
                t, refinement = converted(cx, d.name, params, f.type)
            except DlangError as problem:
                for x in problem.diagnostics:
                    cx.report(x)
                t, refinement = MISTAKE, None
            out.append((f.name, t))
            known.append(refinement)
        return Variant(name, tuple(out), tag, tuple(known))

    if isinstance(d, s.Struct):
        return (variant(d.name, d.fields),)
    return tuple(variant(c.name, c.fields, i) for i, c in enumerate(d.constructors))


def converted(cx: Checker, name: str, params: tuple[Var, ...], t: s.TypeExpr) -> tuple[Type, Refinement | None]:
    """A type in a declaration, and what `Idx` in it says: its variables are the parameters."""
    scope = Scope(types={(".." + p.name if isinstance(p, RowVar) else p.name): p for p in params if p.name})
    own = [parameter_name(p) for p in params]
    known, open_ = f"{name}<{', '.join([*own, 'n'])}>", f"{name}<{', '.join([*own, '?'])}>"
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


Known = dict[Var, bool]  # whether the types that the parameters of a declaration stand for have values
Path = frozenset[tuple[DataDecl, tuple[bool, ...]]]


def uninhabited(decls: Sequence[DataDecl]) -> list[Diagnostic]:
    """E0218 for each declaration without values, whatever its parameters stand for."""
    found: list[Diagnostic] = []
    for d in decls:
        if d.variants and not _declared(d, tuple(True for _ in d.params), frozenset()):
            kind = "struct" if d.is_struct else "enum"
            found += error(
                "E0218",
                f"no value of the {kind} `{d.name}` can be made: it would have to hold another one",
                d.span,
                label="contains itself in every case",
                help=("let it end: an enum with a case that does not contain it, an `Option`, or an array of them",),
            ).diagnostics
    return found


def _declared(d: DataDecl, args: tuple[bool, ...], path: Path) -> bool:
    if (d, args) in path:
        return False
    known: Known = dict(zip(d.params, args, strict=True))
    inner = path | {(d, args)}
    return any(all(_has_values(t, known, inner) for _, t in v.fields) for v in d.variants)


def _has_values(t: Type | Size | Shape, known: Known, path: Path) -> bool:
    if isinstance(t, Size | Shape):
        return True
    match resolve(t):
        case TypeVar() as v:
            return known.get(v, True)
        case TypeArray(element, shape):
            s = resolve_shape(shape)
            counts = [resolve_size(n).poly.constant for n in (*s.pre, *s.post)]
            some = s.row is None and all(c is not None and c > 0 for c in counts)
            return not some or _has_values(element, known, path)  # an array may be empty
        case TypeTuple(items):
            return all(_has_values(i, known, path) for i in items)
        case TypeData(decl, args):
            return _declared(decl, tuple([_has_values(a, known, path) for a in args]), path)
        case _:
            return True
