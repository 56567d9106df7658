"""Finds the declaration of a name and all its uses, over all files, and gives it another name everywhere."""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from lsprotocol import types as lsp

from dlang.diagnostics import Diagnostic, Source, Span
from dlang.grammar import syntax as s
from dlang.grammar.lexer import CONTEXTUAL, KEYWORDS, tokenize
from dlang.tools.language_server.documents import Analysis, Document, Project
from dlang.tools.language_server.names import (
    Basic,
    FieldIn,
    FieldOf,
    Global,
    Imported,
    Local,
    ModulePath,
    Occurrence,
    ParameterOf,
    Target,
)
from dlang.tools.language_server.protocol import Steps, offset_at, range_of
from dlang.typecheck import builtins
from dlang.typecheck.types import CLASSES, DTYPES, TypeData

Declared = s.Fn | s.Extern | s.Const | s.Struct | s.Enum | s.Alias


@dataclass(frozen=True, slots=True)
class Definition:
    """kind: function, constant, struct, enum, alias, constructor, field, module, builtin, class, or that of a `Local`.

    span: of the name, None for what the compiler knows; item: the declaration that it is of or in.
    """

    name: str
    kind: str
    span: Span | None = None
    item: Declared | s.Constructor | s.FieldDecl | s.Parameter | None = None
    document: Document | None = None

    @property
    def key(self) -> tuple[str, int] | tuple[str, str]:
        """The same for two definitions if they are one."""
        if self.span is None:
            return (self.kind, self.name)
        return (self.span.source.path, self.span.first)


def definition(document: Document, target: Target) -> Definition | None:
    """Returns the definition of a name of the document; None if it is not known."""
    match target:
        case Local(name, kind, span):
            return Definition(name, kind, span, None, document)
        case Basic(name):
            return Definition(name, "class" if name in CLASSES or name == "Vector" else "builtin")
        case Global():
            return global_definition(document, target)
        case ModulePath(path):
            return module_definition(document, path)
        case Imported(name, path):
            return imported_definition(document, name, path)
        case FieldIn(name, constructor):
            return field_definition(global_definition(document, constructor), name)
        case ParameterOf(name, function):
            callee = global_definition(document, function)
            builtin = callee is not None and callee.kind == "builtin"
            return Definition(name, "parameter") if builtin else parameter_definition(callee, name)
        case FieldOf(name, base):
            return field_of_type(document, name, base)


def at(document: Document, offset: int) -> tuple[Occurrence, Definition] | None:
    """The name at an offset, and what it stands for."""
    occurrence = document.analysis.occurrence(offset)
    if occurrence is None:
        return None
    declaration = definition(document, occurrence.target)
    return None if declaration is None else (occurrence, declaration)


# ---- names of modules ------------------------------------------------------------------------------------------------
def own(document: Document, name: str, space: str) -> Definition | None:
    """A declaration of the document."""
    return declarations(document).get((space, name))


def declarations(document: Document) -> dict[tuple[str, str], Definition]:
    """Returns the declarations of a file, by space and name."""
    tree = document.outline
    if document.declared is None or document.declared[0] is not tree:
        table: dict[tuple[str, str], Definition] = {}
        for space, declaration in _declared(document, tree):
            table.setdefault((space, declaration.name), declaration)
        document.declared = (tree, table)
    return document.declared[1]


def _declared(document: Document, tree: s.Module) -> Iterator[tuple[str, Definition]]:
    for item in tree.items:
        match item:
            case s.Fn() | s.Extern():
                yield "value", Definition(item.name, "function", item.name_span, item, document)
            case s.Const():
                yield "value", Definition(item.name, "constant", item.name_span, item, document)
            case s.Struct():
                declaration = Definition(item.name, "struct", item.name_span, item, document)
                yield "type", declaration
                yield "constructor", declaration
            case s.Enum():
                yield "type", Definition(item.name, "enum", item.name_span, item, document)
                for c in item.constructors:
                    yield "constructor", Definition(c.name, "constructor", c.span.head(len(c.name)), c, document)
            case s.Alias():
                yield "type", Definition(item.name, "alias", item.name_span, item, document)
            case _:
                pass


def imports(document: Document) -> Iterator[s.Import]:
    for item in document.outline.items:
        if isinstance(item, s.Import) and item.path and all(item.path):
            yield item


def global_definition(document: Document, target: Global) -> Definition | None:
    """A name of the module, of an import, of the prelude or of the compiler."""
    name, space = target.name, target.space
    if target.module is not None:
        other = module_named(document, target.module)
        return own(other, name, space) if other is not None else None
    if space == "module":
        return next(
            (module_definition(document, i.path) for i in imports(document)
             if i.names is None and name == (i.alias or i.path[-1])), None)  # fmt: skip
    declaration = own(document, name, space)
    if declaration is not None:
        return declaration
    for i in imports(document):
        if any(isinstance(n, s.Name) and n.name == name for n in i.names or ()):
            other = document.project.imported(i.path, document)
            return own(other, name, space) if other is not None else None
    prelude = document.project.prelude
    if prelude is not None and prelude is not document and not name.startswith("_"):
        declaration = own(prelude, name, space)
        if declaration is not None:
            return declaration
    if space == "value" and (builtins.is_builtin(name) or name in DTYPES):
        return Definition(name, "builtin")
    return None


def module_named(document: Document, name: str) -> Document | None:
    """The module that is known as a name in the document."""
    for i in imports(document):
        if i.names is None and (i.alias or i.path[-1]) == name:
            return document.project.imported(i.path, document)
    return None


def module_definition(document: Document, path: tuple[str, ...]) -> Definition | None:
    other = document.project.imported(path, document)
    if other is None:
        return None
    return Definition(".".join(path), "module", Span(Source(other.path, other.text), 0, 0), None, other)


def imported_definition(document: Document, name: str, path: tuple[str, ...]) -> Definition | None:
    other = document.project.imported(path, document)
    if other is None:
        return None
    if name[:1].isupper():
        return own(other, name, "type") or own(other, name, "constructor")
    return own(other, name, "value")


# ---- fields and parameters -------------------------------------------------------------------------------------------
def fields_of(declaration: Definition | None) -> list[Definition]:
    """The fields of a constructor, or of a struct."""
    match declaration:
        case Definition(item=s.Struct(fields=fields) | s.Constructor(fields=fields), document=document):
            return [Definition(f.name, "field", f.span.head(len(f.name)), f, document) for f in fields if f.name]
        case _:
            return []


def field_definition(declaration: Definition | None, name: str) -> Definition | None:
    return next((f for f in fields_of(declaration) if f.name == name), None)


def parameters_of(function: Definition | None) -> list[Definition]:
    """The parameters of a function that have names."""
    match function:
        case Definition(item=s.Fn(parameters=parameters) | s.Extern(parameters=parameters), document=document):
            return [
                Definition(p.pattern.name, "parameter", p.pattern.span, p, document)
                for p in parameters
                if isinstance(p.pattern, s.PatternName)
            ]
        case _:
            return []


def parameter_definition(function: Definition | None, name: str) -> Definition | None:
    return next((p for p in parameters_of(function) if p.name == name), None)


def field_of_type(document: Document, name: str, base: Span) -> Definition | None:
    """A field of the struct that an expression gives."""
    struct = struct_of(document, document.analysis, base)
    return field_definition(struct, name) if struct is not None else None


def struct_of(document: Document, analysis: Analysis, base: Span) -> Definition | None:
    """The declaration of the type of an expression, if it is a struct."""
    t = analysis.type_at(base)
    if not isinstance(t, TypeData) or not t.decl.is_struct:
        return None
    path = t.decl.span.source.path
    where = document if path == document.path else document.project.document(str(Path(path)))
    return own(where, t.decl.name, "type") if where is not None else None


_KINDS = {"write": lsp.DocumentHighlightKind.Write, "definition": lsp.DocumentHighlightKind.Write}


def go_to_definition(document: Document, position: lsp.Position) -> lsp.Location | None:
    target = at(document, offset_at(document.analysis.source, position))
    return None if target is None or target[1].span is None else location(document.project, target[1].span)


def references(document: Document, position: lsp.Position, declaration: bool = True) -> Steps[list[lsp.Location]]:
    """Every place that names the same thing, in all files. declaration: the one that declares it, too."""
    target = at(document, offset_at(document.analysis.source, position))
    if target is None:
        return []
    places = yield from uses(document, target[1])
    spans = [o.span for _, o in places if declaration or o.role != "definition"]
    return [location(document.project, span) for span in spans]


def highlights(document: Document, position: lsp.Position) -> list[lsp.DocumentHighlight]:
    """The same in this file alone."""
    target = at(document, offset_at(document.analysis.source, position))
    if target is None:
        return []
    return [
        lsp.DocumentHighlight(range_of(o.span), _KINDS.get(o.role, lsp.DocumentHighlightKind.Read))
        for o in uses_in(document, target[1])
    ]


def uses(document: Document, target: Definition) -> Steps[list[tuple[Document, Occurrence]]]:
    """The occurrences of a name, the present file first."""
    places = [(document, o) for o in uses_in(document, target)]
    if is_local(target) and not is_parameter_of_module(document, target):
        return places
    word = re.compile(rf"(?<![\w']){re.escape(target.name)}(?![\w'])")
    for other in document.project.files():
        if other.path != document.path and (word.search(other.text) or target.kind == "module"):
            yield
            places += [(other, o) for o in uses_in(other, target)]
    return places


def is_local(target: Definition) -> bool:
    """Tells whether it is a name inside of a declaration."""
    return target.item is None and target.kind not in ("module", "builtin", "class")


def is_parameter_of_module(document: Document, target: Definition) -> bool:
    """Tells whether it is a parameter of a function that other files may call, with a name for the argument."""
    declared = declarations(document).values() if target.kind == "parameter" else ()
    return any(p.key == target.key for d in declared if d.kind == "function" for p in parameters_of(d))


def uses_in(document: Document, target: Definition) -> Iterator[Occurrence]:
    """The occurrences in one file."""
    key = target.key
    analysis = document.analysis
    if target.kind == "module":  # it may have any name
        named = analysis.occurrences
    else:
        named = [o for names in analysis.names for o in names.by_name.get(target.name, ())]
    for o in sorted(named, key=lambda o: o.span.first):
        if isinstance(o.target, Local):
            if (o.target.span.source.path, o.target.span.first) == key:
                yield o
        else:
            other = definition(document, o.target)
            if other is not None and other.key == key and other.kind == target.kind:
                yield o


def location(project: Project, span: Span) -> lsp.Location:
    return lsp.Location(project.uri(span.source.path), range_of(span))


# ---- new names -------------------------------------------------------------------------------------------------------
# A new name for what a name stands for, everywhere; refused where the program would come to mean something else.

_WORDS = KEYWORDS | CONTEXTUAL.keys() | DTYPES | {"size", "_"}
_MOMENT = 0.05  # seconds in which nothing else is answered
Edits = dict[str, list[tuple[int, int]]]
"""By path, where the name stands: first, last."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a name can't be changed, in the words of a diagnostic."""

    diagnostic: Diagnostic

    @property
    def text(self) -> str:
        return ": ".join((f"{self.diagnostic.code}: {self.diagnostic.message}", *self.diagnostic.help))


def prepare(document: Document, position: lsp.Position) -> lsp.Range | None:
    """Returns the range of the name that would be changed; None if there is none that could be."""
    target = at(document, offset_at(document.analysis.source, position))
    if target is None or isinstance(_changeable(document, *target), Refused):
        return None
    return range_of(target[0].span)


def rename(document: Document, position: lsp.Position, name: str) -> Steps[lsp.WorkspaceEdit | Refused]:
    """The edits of all files that give a name to what stands at a position."""
    target = at(document, offset_at(document.analysis.source, position))
    if target is None:
        return _refused("there is no name here", None)
    changeable = _changeable(document, *target)
    if isinstance(changeable, Refused):
        return changeable
    before = target[0].span.text
    if not is_name(name, before):
        return _not_a_name(name, before, target[0].span)
    if name == before:
        return lsp.WorkspaceEdit({})
    edits: Edits = {}
    for other, o in (yield from _places(document, *target)):
        edits.setdefault(other.path, []).append((o.span.first, o.span.last))
    problem = yield from _consequences(document.project, edits, name, target[0].span)
    if problem is not None:
        return problem
    return lsp.WorkspaceEdit(
        {document.project.uri(path): list(_text_edits(document, path, edits[path], name)) for path in edits}
    )


def is_name(name: str, before: str) -> bool:
    """Tells whether it is a name of the same sort: a value or a type, private or not."""
    tokens = tokenize(name)
    kinds = [t.kind for t in tokens if t.kind != "newline"]
    if kinds != ["UNAME" if before[:1].isupper() else "NAME"] or tokens[0].text != name:
        return False
    return name not in _WORDS


def _refused(message: str, span: Span | None, *help: str) -> Refused:
    return Refused(Diagnostic("E0978", message, span, help=help))


def _places(document: Document, o: Occurrence, target: Definition) -> Steps[list[tuple[Document, Occurrence]]]:
    """Finds the uses of the name; another name of a module is known in its file alone."""
    if target.kind == "module":
        return [(document, use) for use in document.analysis.occurrences if use.target == o.target]
    return (yield from uses(document, target))


def _not_a_name(name: str, before: str, span: Span) -> Refused:
    if name in _WORDS:
        why = f"`{name}` is a word of the language"
    elif before[:1].isupper():
        why = "names of types and constructors begin with a capital, and letters, digits, `_` and `'` follow"
    else:
        why = "names of values begin with a small letter or `_`, and letters, digits, `_` and `'` follow"
    return _refused(f"`{name}` can't be the new name of `{before}`", span, why)


def _changeable(document: Document, o: Occurrence, target: Definition) -> Refused | None:
    if target.span is None:
        return _refused(f"`{target.name}` belongs to the language", None)
    if target.kind == "module":
        if any(i.alias == o.span.text for i in imports(document)):
            return None
        return _refused(f"`{target.name}` is a file", target.span, f"`import {target.name} as …` gives it another name")
    if document.project.standard(target.span.source.path):
        return _refused(f"`{target.name}` belongs to the standard library", target.span)
    return None


def _text_edits(document: Document, path: str, places: list[tuple[int, int]], name: str) -> list[lsp.TextEdit]:
    other = document if path == document.path else document.project.document(path)
    assert other is not None
    file = other.analysis.source
    return [lsp.TextEdit(range_of(Span(file, first, last)), name) for first, last in sorted(places)]


# ---- what the edits would do -----------------------------------------------------------------------------------------
Meaning = tuple[str, int] | tuple[str, str] | None
"""The meaning of a name: `Definition.key`."""


@dataclass(frozen=True, slots=True)
class Before:
    """A file without the edits. names: where each stands, what it stands for, and the line; codes: of its messages."""

    names: list[tuple[int, int, Meaning, int]]
    codes: Counter[str]


def _consequences(project: Project, edits: Edits, name: str, span: Span) -> Steps[Refused | None]:
    """Tries the edits, and looks whether every name still stands for the same. Some files are looked at together,
    because all of them have their new texts meanwhile."""
    texts: dict[str, str] = {}
    files: list[tuple[Document, Before]] = []
    for path, places in edits.items():
        document = project.document(path)
        assert document is not None
        text = document.text
        for first, last in sorted(places, reverse=True):
            text = text[:first] + name + text[last:]
        texts[path] = text
        files.append((document, _before(document)))
        yield
    while files:
        with project.rewritten(texts):
            until = time.monotonic() + _MOMENT
            while files and time.monotonic() < until:
                problem = _differs(*files.pop(0), edits, name, span)
                if problem is not None:
                    return problem
        yield
    return None


def _before(document: Document) -> Before:
    meanings = _Meanings(document)
    names = [(o.span.first, o.span.last, meanings.of(o), o.span.line) for o in document.analysis.occurrences]
    return Before(names, Counter(d.code for d in document.analysis.diagnostics))


def _differs(document: Document, before: Before, edits: Edits, name: str, span: Span) -> Refused | None:
    """Why a file with the edits is another program than before."""
    new, meanings = document.analysis, _Meanings(document)
    stands_for = {(o.span.first, o.span.last): o for o in new.occurrences}
    moved = {path: _Moved(sorted(places), name) for path, places in edits.items()}
    changed = moved[document.path]
    for first, last, meant, line in before.names:
        place = (changed.offset(first), changed.offset(last))
        again = stands_for.get(place)
        means = meanings.of(again) if again is not None else None
        if meant is not None and isinstance(meant[1], int) and meant[0] in moved:
            meant = (meant[0], moved[meant[0]].offset(meant[1]))
        if meant != means:
            what = new.source.text[slice(*place)]
            said = f"with the name `{name}`, `{what}` in line {line} would stand for something else"
            return _refused(said, span, "choose a name that nothing has there")
    counts = Counter(d.code for d in new.diagnostics)
    counts.subtract(before.codes)
    worse = next((d for d in new.diagnostics if counts[d.code] > 0), None)
    if worse is not None:
        return _refused(f"with the name `{name}` the program would have a mistake: {worse.message}", span)
    return None


@dataclass(slots=True)
class _Meanings:
    """The meanings of the names of a document, found once for all names with the same target."""

    document: Document
    known: dict[Target, Meaning] = field(default_factory=dict)

    def of(self, o: Occurrence) -> Meaning:
        if o.target not in self.known:
            target = definition(self.document, o.target)
            self.known[o.target] = target.key if target is not None else None
        return self.known[o.target]


class _Moved:
    """Maps offsets in a file to those after the edits, which have these places, in order."""

    def __init__(self, places: list[tuple[int, int]], name: str) -> None:
        self.ends = [last for _, last in places]
        self.shifts = [0, *accumulate(len(name) - (last - first) for first, last in places)]

    def offset(self, offset: int) -> int:
        return offset + self.shifts[bisect_right(self.ends, offset)]
