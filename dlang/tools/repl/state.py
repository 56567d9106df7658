"""The state of a session between inputs. Nothing here changes: an input makes a new state, `:undo` goes back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dlang import graphs
from dlang.diagnostics import Diagnostic, Note, Source, Span
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse
from dlang.lazy_modules import lazy_module
from dlang.polynomials import Poly
from dlang.typecheck import types as ty
from dlang.typecheck.groups import names_in, types_in
from dlang.typecheck.printing import Names

if TYPE_CHECKING:
    from dlang.specialize import frame, values
    from dlang.specialize.values import Value
else:
    frame = lazy_module("dlang.specialize.frame")
    values = lazy_module("dlang.specialize.values")


Item = s.Fn | s.Const | s.Extern | s.Struct | s.Enum | s.Alias | s.Import | s.Rule | s.Test | s.Bench
Key = tuple[str, str]
LAST = "ϟ"  # what `_` stands for in an expression: a name of its length that nobody writes
_OF_A_VALUE = re.compile("(?P<what>.*) is from the parameter `(?P<name>[^` ]*) ?` of .*")


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration as it was written. text: with its documentation; lead: how much of it that is.

    name: what it declares, for people; names: all that it gives a meaning; uses: what it mentions. file: the file that
    it was loaded from. imports: whether it is an import.
    """

    name: str
    names: frozenset[str]
    text: str
    lead: int
    span: Span
    uses: frozenset[str]
    file: str = ""
    imports: bool = False

    def place(self, start: int, end: int) -> Span:
        """Returns the span of a part of its text."""
        start, end = (self.span.start + max(0, k - self.lead) for k in (start, end))
        return Span(self.span.source, start, end)


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value: its structure and its leaves, its type, and that for people.

    annotation: of a `var`, what was written. decls: the datatypes in it, and how these were declared; "" if imported.
    uses: the names that it was computed from, directly or not; stale: those that have been declared anew since. of: if
    it is a size that was bound by a type, the name of what has that.
    """

    form: Value
    leaves: tuple[Any, ...]
    inferred: ty.Type
    shown: str
    mutable: bool = False
    annotation: s.TypeExpr | None = None
    decls: Mapping[ty.DataDecl, str] = field(default_factory=dict)
    uses: frozenset[str] = frozenset()
    stale: frozenset[str] = frozenset()
    of: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A value that is made where it is used, by a `let`; `given` are the kept values that it saw.

    function: whether it is one, rather than a tree.
    """

    let: s.Let
    given: dict[str, StoredValue]
    uses: dict[str, Recipe]
    shown: str
    function: bool

    def mentions(self) -> set[str]:
        """The names that making it mentions."""
        return mentions(self.let).union(*(r.mentions() for r in self.uses.values()))


@dataclass(frozen=True, slots=True)
class Written:
    """The statements of an input, and whether they have effects."""

    statements: tuple[str, ...]
    effects: bool


@dataclass(frozen=True, slots=True)
class State:
    """seed: of the next input that draws random numbers. written: the statements so far, for `:save`; loaded: files."""

    declarations: dict[Key, Declaration] = field(default_factory=dict)
    values: dict[str, StoredValue | Recipe] = field(default_factory=dict)
    seed: int = 0
    written: tuple[Written, ...] = ()
    loaded: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All declarations, as a module."""
        return "".join(f"{d.text}\n" for d in self.declarations.values())

    def text_of_type(self, name: str) -> str:
        """How a datatype is declared; "" if it is not."""
        declaration = self.declarations.get(("type", name))
        return "" if declaration is None or declaration.imports else declaration.text

    def declared(self, items: Sequence[Item], file: str = "") -> State:
        """Replaces the declarations of these names. Values whose names they take are gone."""
        declarations = dict(self.declarations)
        if file:
            kept = {key_of(item) for item in items}
            declarations = {k: d for k, d in declarations.items() if d.file != file or k in kept}
        for item in items:
            declarations[key_of(item)] = _declaration(item, file)
        taken = {key_of(item) for item in items}
        values = {n: v for n, v in self.values.items() if ("value", n) not in taken}
        return replace(self, declarations=declarations, values=values)

    def with_values(self, values_made: dict[str, StoredValue | Recipe], said: Written, *, draws: bool) -> State:
        """After statements that were run. draws: whether they drew random numbers."""
        values = {**self.values, **values_made} if values_made else self.values
        return replace(self, values=values, seed=self.seed + draws, written=(*self.written, said))

    def changed_since(self, before: State) -> frozenset[str]:
        """The names of declarations that are not what they were."""
        keys = self.declarations.keys() | before.declarations.keys()
        texts = [{k: d.text for k, d in state.declarations.items()} for state in (self, before)]
        changed = [k for k in keys if texts[0].get(k) != texts[1].get(k)]
        both = [d for state in (before, self) for k in changed if (d := state.declarations.get(k)) is not None]
        return frozenset(d.name for d in both)

    def outdated(self, changed: frozenset[str]) -> tuple[State, list[str], frozenset[str]]:
        """The state in which values know that some names mean something else now; these values, and these names."""
        names = [n for n, v in self.values.items() if isinstance(v, StoredValue) and (changed & v.uses) - v.stale]
        marked: dict[str, StoredValue | Recipe] = {}
        why: frozenset[str] = frozenset()
        for n in names:
            value = self.values[n]
            assert isinstance(value, StoredValue)
            why |= changed & value.uses
            marked[n] = replace(value, stale=value.stale | (changed & value.uses))
        return replace(self, values=self.values | marked), names, why

    def reached(self, names: Iterable[str]) -> frozenset[str]:
        """The names, those of their declarations, and all that these mention, directly or not."""
        by_name: dict[str, set[str]] = {}
        for d in self.declarations.values():
            for name in d.names:
                by_name.setdefault(name, set()).update(d.uses, (d.name,))
        return frozenset(graphs.reached(names, lambda name: by_name.get(name, ())))

    # ---- places ------------------------------------------------------------------------------------------------------
    def located(self, d: Diagnostic, module: str) -> Diagnostic:
        """A message about the module of the session, with the places where its parts were written."""

        def there(span: Span | None) -> Span | None:
            return span if span is None or span.source.path != module else self._origin(span) or span

        def named(text: str) -> str:
            return text.replace("`<session>.", "`")

        notes = tuple(Note(named(n.text), there(n.span)) for n in _of_values(d.notes))
        return replace(d, message=named(d.message), span=there(d.span), notes=notes)

    def with_places(self, listing: str, module: str) -> str:
        """The text of a program, whose comments say where its parts were written, of the module of the session too."""
        source = Source(module, self.text)

        def written(match: re.Match[str]) -> str:
            offset = source.line_starts[int(match[1]) - 1] + int(match[2]) - 1
            place = self._origin(Span(source, offset, offset))
            if place is None:
                return match[0]
            line, column = place.source.position(place.start)
            return f"{place.source.path}:{line}:{column}"

        return re.sub(rf"{re.escape(module)}:(\d+):(\d+)", written, listing)

    def declaration_at(self, offset: int) -> tuple[Declaration, int] | None:
        """The declaration at a place of the module of the session, and where it begins there."""
        start = 0
        for d in self.declarations.values():
            if start <= offset <= start + len(d.text):
                return d, start
            start += len(d.text) + 1
        return None

    def _origin(self, span: Span) -> Span | None:
        declaration = self.declaration_at(span.first)
        return (
            None
            if declaration is None
            else declaration[0].place(span.first - declaration[1], span.last - declaration[1])
        )


def _of_values(notes: Iterable[Note]) -> Iterator[Note]:
    """Notes without the places where the types of values are written."""
    for n in notes:
        if n.span is None or n.span.source.path != VALUE:
            yield n
        elif match := _OF_A_VALUE.fullmatch(n.text):
            yield Note(f"{match['what']} is a size of `{match['name']}`")
        elif n.text.endswith(" is a literal"):
            yield Note(f"{n.text.removesuffix('a literal')}the value of `{n.span.source.text}`")


def separate(items: Iterable[Item]) -> list[Item]:
    """Declarations, with an import of its own for each name that is imported."""
    separated: list[Item] = []
    for item in items:
        if isinstance(item, s.Import) and item.names is not None:
            separated += [replace(item, span=n.span, names=(n,)) for n in item.names]
        else:
            separated.append(item)
    return separated


def key_of(item: Item) -> Key:
    """Returns the key of a declaration: one with the same key replaces it. Imports are separated before."""
    match item:
        case s.Fn() | s.Const() | s.Extern():
            return "value", item.name
        case s.Struct() | s.Enum() | s.Alias():
            return "type", item.name
        case s.Rule():
            return item.kind, item.name
        case s.Test():
            return "test", item.name
        case s.Bench():
            return "bench", item.name
        case s.Import(path=path, alias=alias, names=names):
            name = alias or path[-1] if names is None else names[0].name
            return "type" if name[0].isupper() else "value", name


def mentions(*nodes: s.Node) -> set[str]:
    """The names in trees: of values, sizes and types."""
    names: set[str] = set()
    names_in(nodes, names)
    for node in nodes:
        names |= types_in(node)
    return names


def _declaration(item: Item, file: str) -> Declaration:
    source = item.span.source
    span = Span(source if source.whole is None else source.whole, item.span.first, item.span.last)
    uses = frozenset(mentions(item))
    if isinstance(item, s.Import):
        text, lead = _import(item)
        return Declaration(key_of(item)[1], _names(item), text, lead, span, uses, file, imports=True)
    doc = "" if isinstance(item, s.Alias | s.Rule | s.Test | s.Bench) else item.doc
    written = "".join(f"## {line}\n" for line in doc.splitlines())
    return Declaration(item.name, _names(item), written + item.span.text, len(written), span, uses, file)


def _import(item: s.Import) -> tuple[str, int]:
    """The text of an import, and how much of it comes before that which was written at its place."""
    if item.names is None:
        return item.span.text, 0
    begun = f"import {'.'.join(item.path)} {{ "
    return f"{begun}{item.names[0].name} }}", len(begun)


def _names(item: Item) -> frozenset[str]:
    match item:
        case s.Enum(name=name, constructors=constructors):
            return frozenset([name, *(c.name for c in constructors)])
        case s.Import(path=path, alias=alias, names=names):
            return frozenset([alias or path[-1]] if names is None else [n.name for n in names])
        case _:
            return frozenset([item.name])


# ---- annotations -----------------------------------------------------------------------------------------------------
# Types of values that are kept, as annotations that can be written into the next input.

Known = dict[Poly[ty.SizeAtom], int]
VALUE = "<value>"  # where the types of values are written, which nobody sees


def items_of(t: ty.Type) -> tuple[ty.Type, ...]:
    """The items of a tuple; of another type itself."""
    r = ty.resolve(t)
    return tuple(ty.resolve(i) for i in r.items) if isinstance(r, ty.TypeTuple) else (r,)


def leaves_a_run(t: ty.Type) -> bool:
    """Tells whether values of a type are numbers, texts and arrays when taken apart, which then tell all its sizes."""
    seen: set[ty.DataDecl] = set()

    def holds(u: ty.Type, within: tuple[ty.DataDecl, ...]) -> bool:
        for p in _parts(u):
            if isinstance(p, ty.TypeFn) or (isinstance(p, ty.TypeArray) and _is_empty(p.element)):
                return False
            if isinstance(p, ty.TypeData):
                if p.decl in within:
                    return False
                if p.decl not in seen:
                    for v in p.decl.variants:
                        if not all(holds(f, (*within, p.decl)) for _, f in v.fields):
                            return False
                    seen.add(p.decl)
        return True

    return holds(t, ())


def _is_empty(t: ty.Type) -> bool:
    """Tells whether values of a type have no leaves, or nothing says what leaves they have."""
    r = ty.resolve(t)
    return isinstance(r, ty.TypeVar) or (isinstance(r, ty.TypeTuple) and all(map(_is_empty, r.items)))


def datatypes_of(t: ty.Type) -> tuple[ty.DataDecl, ...]:
    """The datatypes that values of a type are made of, at every depth."""
    decls: dict[ty.DataDecl, None] = {}
    work = [t]
    while work:
        for p in _parts(work.pop()):
            if isinstance(p, ty.TypeData) and p.decl not in decls:
                decls[p.decl] = None
                work += [f for v in p.decl.variants for _, f in v.fields]
    return tuple(decls)


def annotation(t: ty.Type, form: Value, leaves: Sequence[Any], names: Mapping[ty.DataDecl, str]) -> s.TypeExpr:
    """A type as an annotation, with the sizes that a value of it has. names: of some datatypes, unless their own."""
    module, problems = parse(Source(VALUE, f"type T = {written(t, form, leaves, names)}"))
    assert not problems and isinstance(module.items[0], s.Alias)
    return module.items[0].type


def has_unknown(t: s.TypeExpr | None) -> bool:
    return isinstance(t, s.TypeArray) and any(isinstance(d, s.SizeAny) for d in t.dims)


def _parts(t: ty.Type) -> Iterator[ty.Type]:
    stack: list[Any] = [t]
    while stack:
        p = stack.pop()
        if isinstance(p, ty.Type):
            p = ty.resolve(p)
            yield p
        if isinstance(p, ty.TypeArray | ty.TypeTuple | ty.TypeFn | ty.TypeData | ty.Shape):
            stack.extend(ty.children(p))


def written(t: ty.Type, form: Value, leaves: Sequence[Any], names: Mapping[ty.DataDecl, str] | None = None) -> str:
    """A type as it is written, with the sizes that a value of it has. names: as in `annotation`."""
    known: Known = {}
    for size, count in _counts(t, form, iter(leaves)):
        poly = ty.resolve_size(size).poly
        known.setdefault(poly, count)
        remainder = _at(poly, known)
        match list(dict.fromkeys(remainder.atoms())):
            case [ty.SizeVar() as v] if remainder.is_linear(v):
                factor, more = remainder.coefficient(v).constant, remainder.without(v).constant
                if factor is not None and more is not None:
                    known[Poly.of(v)] = int((count - more) / factor)
    return _text(t, known, names or {})


def _counts(t: ty.Type, form: Value, leaves: Iterator[Any], axes: int = 0) -> Iterator[tuple[ty.Size, int]]:
    """The sizes in a type, and how many they are in a value, whose leaves are taken.

    axes: how many axes of the leaves in front are not those of the value, but of arrays that it is an element of.
    """
    mine = [next(leaves) for _ in values.leaves(form)]
    t, parts = ty.resolve(t), iter(mine)
    match t, form:
        case ty.TypeTuple(items), values.TupleV(forms):
            for item, part in zip(items, forms, strict=True):
                yield from _counts(item, part, parts, axes)
        case ty.TypeArray(element, shape), _:
            inside = axes + len(shape.pre)
            yield from zip(shape.pre, mine[0].shape[axes:inside], strict=True)
            yield from _counts(element, form.element if isinstance(form, values.Many) else form, parts, inside)
        case ty.TypeData(decl, args), values.DataV(_, fields):
            by = dict(zip(decl.params, args, strict=True))
            for (_, field), part in zip(decl.variants[0].fields, fields, strict=True):
                yield from _counts(frame.substituted(field, by), part, parts, axes)
        case ty.TypeData(decl, args), values.EnumV(_, _, variants) if not axes:
            by = dict(zip(decl.params, args, strict=True))
            tag = int(next(parts))
            for k, (variant, fields) in enumerate(zip(decl.variants, variants, strict=True)):
                for (_, field), part in zip(variant.fields, fields, strict=True):
                    counts = list(_counts(frame.substituted(field, by), part, parts))
                    yield from counts if k == tag else ()


def _at(poly: Poly[ty.SizeAtom], known: Known) -> Poly[ty.SizeAtom]:
    """A size in terms of what is not known."""
    return poly.substitute(lambda a: Poly.of(n) if (n := known.get(Poly.of(a))) is not None else None)


def _text(t: ty.Type | ty.Size | ty.Shape, known: Known, names: Mapping[ty.DataDecl, str]) -> str:
    """A type, or an argument of a datatype, with the sizes that are known."""
    match t if isinstance(t, ty.Size | ty.Shape) else ty.resolve(t):
        case ty.Size() as size:
            poly = ty.resolve_size(size).poly
            count = known.get(poly, _at(poly, known).constant)
            return "_" if count is None else str(int(count))
        case ty.Shape():
            return "_"
        case ty.TypeArray(element, shape):
            return f"{_text(element, known, names)}[{', '.join(_text(n, known, names) for n in shape.pre)}]"
        case ty.TypeData(decl, args):
            arguments = f"<{', '.join(_text(a, known, names) for a in args)}>" if args else ""
            return names.get(decl, decl.name) + arguments
        case ty.TypeTuple(items):
            return f"({', '.join(_text(i, known, names) for i in items)})"
        case other:
            return Names(scheme=True)(other)
