"""Resolves the names of a file, over all files: where each is declared, and by what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dlang.diagnostics import Source, Span
from dlang.grammar import syntax as s
from dlang.tools.language_server.documents import Analysis, Document
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
            made = global_definition(document, function)
            builtin = made is not None and made.kind == "builtin"
            return Definition(name, "parameter") if builtin else parameter_definition(made, name)
        case FieldOf(name, base):
            return field_of_type(document, name, base)


def at(document: Document, offset: int) -> tuple[Occurrence, Definition] | None:
    """The name at an offset, and what it stands for."""
    occurrence = document.analysis.occurrence(offset)
    if occurrence is None:
        return None
    found = definition(document, occurrence.target)
    return None if found is None else (occurrence, found)


# ---- names of modules ------------------------------------------------------------------------------------------------
def own(document: Document, name: str, space: str) -> Definition | None:
    """A declaration of the document."""
    return declarations(document).get((space, name))


def declarations(document: Document) -> dict[tuple[str, str], Definition]:
    """Returns the declarations of a file, by space and name."""
    tree = document.outline
    if document.declared is None or document.declared[0] is not tree:
        found: dict[tuple[str, str], Definition] = {}
        for space, made in _declared(document, tree):
            found.setdefault((space, made.name), made)
        document.declared = (tree, found)
    return document.declared[1]


def _declared(document: Document, tree: s.Module) -> Iterator[tuple[str, Definition]]:
    for item in tree.items:
        match item:
            case s.Fn() | s.Extern():
                yield "value", Definition(item.name, "function", item.name_span, item, document)
            case s.Const():
                yield "value", Definition(item.name, "constant", item.name_span, item, document)
            case s.Struct():
                made = Definition(item.name, "struct", item.name_span, item, document)
                yield "type", made
                yield "constructor", made
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
    found = own(document, name, space)
    if found is not None:
        return found
    for i in imports(document):
        if any(isinstance(n, s.Name) and n.name == name for n in i.names or ()):
            other = document.project.imported(i.path, document)
            return own(other, name, space) if other is not None else None
    prelude = document.project.prelude
    if prelude is not None and prelude is not document and not name.startswith("_"):
        found = own(prelude, name, space)
        if found is not None:
            return found
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
def fields_of(made: Definition | None) -> list[Definition]:
    """The fields of a constructor, or of a struct."""
    match made:
        case Definition(item=s.Struct(fields=fields) | s.Constructor(fields=fields), document=document):
            return [Definition(f.name, "field", f.span.head(len(f.name)), f, document) for f in fields if f.name]
        case _:
            return []


def field_definition(made: Definition | None, name: str) -> Definition | None:
    return next((f for f in fields_of(made) if f.name == name), None)


def parameters_of(made: Definition | None) -> list[Definition]:
    """The parameters of a function that have names."""
    match made:
        case Definition(item=s.Fn(parameters=parameters) | s.Extern(parameters=parameters), document=document):
            return [
                Definition(p.pattern.name, "parameter", p.pattern.span, p, document)
                for p in parameters
                if isinstance(p.pattern, s.PatternName)
            ]
        case _:
            return []


def parameter_definition(made: Definition | None, name: str) -> Definition | None:
    return next((p for p in parameters_of(made) if p.name == name), None)


def field_of_type(document: Document, name: str, base: Span) -> Definition | None:
    """A field of the struct that an expression gives."""
    made = struct_of(document, document.analysis, base)
    return field_definition(made, name) if made is not None else None


def struct_of(document: Document, analysis: Analysis, base: Span) -> Definition | None:
    """The declaration of the type of an expression, if it is a struct."""
    t = analysis.type_at(base)
    if not isinstance(t, TypeData) or not t.decl.is_struct:
        return None
    path = t.decl.span.source.path
    where = document if path == document.path else document.project.document(str(Path(path)))
    return own(where, t.decl.name, "type") if where is not None else None
