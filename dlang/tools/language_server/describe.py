"""Definitions in the words of the language: signatures, types, documentation."""

from __future__ import annotations

import re
from itertools import takewhile

from lsprotocol import types as lsp

from dlang.diagnostics import Span
from dlang.grammar import syntax as s
from dlang.grammar.syntax import walk
from dlang.process import recursion
from dlang.tools import assistance
from dlang.tools.assistance import Signature, as_written, flat, inferred, of_builtin, pattern_text
from dlang.tools.language_server.documents import Document
from dlang.tools.language_server.names import FieldOf, Global, Local, Occurrence
from dlang.tools.language_server.protocol import offset_at, range_of
from dlang.tools.language_server.references import Definition, definition
from dlang.typecheck.printing import Names, show
from dlang.typecheck.scope import FnEntry
from dlang.typecheck.types import MISTAKE, Type, TypeFn, resolve


def entry_of(document: Document, target: Definition) -> FnEntry | None:
    """Returns the checker's entry of a function or constant, of this or another module."""
    checked = document.analysis.checked
    if checked is None or target.document is None or target.kind not in ("function", "constant"):
        return None
    program = checked.program
    for table in program.tables.values():
        if table.path == target.document.path and (target.name in table.functions or target.name in table.entries):
            with recursion():
                entry = program.value(table, target.name)
            return entry if isinstance(entry, FnEntry) and not _is_mistake(entry.decl.result) else None
    return None


def _is_mistake(t: Type | None) -> bool:
    return t is not None and resolve(t) is MISTAKE


def signature_of(document: Document, target: Definition) -> Signature | None:
    """The signature of a function, a constructor or a builtin: as it is inferred, else as it is written."""
    match target:
        case Definition(kind="builtin"):
            return of_builtin(target.name)
        case Definition(kind="function", item=s.Fn() | s.Extern() as item):
            entry = entry_of(document, target)
            return inferred(target.name, entry, item) if entry is not None else as_written(target.name, item)
        case Definition(item=s.Struct(fields=fields) | s.Constructor(fields=fields)):
            texts = tuple(flat(f.span.text) for f in fields)
            return Signature(target.name, texts, tuple(f.name for f in fields), made_type(target))
        case Definition(item=None, span=Span() as span):
            t = document.analysis.type_at(span)
            return of_local(target.name, t, local_parameters(document, span)) if isinstance(t, TypeFn) else None
        case _:
            return None


def of_local(name: str, t: TypeFn, parameters: tuple[s.Parameter, ...]) -> Signature:
    """The signature of a local function; of a value that is one, without names."""
    every = Names().prepare(t)

    def names(t: Type) -> str:
        return every(t).replace(MISTAKE.name, "_")

    result = names(t).removeprefix("(" + ", ".join(map(names, t.params)) + ") -> ")
    if len(parameters) != len(t.params):
        return Signature(name, tuple(map(names, t.params)), (None,) * len(t.params), result)
    shown = tuple(f"{pattern_text(p.pattern)}: {names(x)}" for p, x in zip(parameters, t.params, strict=True))
    known = tuple(p.pattern.name if isinstance(p.pattern, s.PatternName) else None for p in parameters)
    return Signature(name, shown, known, result)


def local_parameters(document: Document, name: Span) -> tuple[s.Parameter, ...]:
    """Returns the parameters of the local function, or of the lambda of a `let`, that has its name there."""
    for item in document.analysis.module.items:
        if item.span.source is name.source:
            for node in walk(item):
                match node:
                    case s.Fn(name_span=span, parameters=parameters) if span == name:
                        return parameters
                    case s.Let(pattern=s.PatternName(span), value=s.Lambda(parameters=parameters)) if span == name:
                        return parameters
                    case _:
                        pass
    return ()


def made_type(target: Definition) -> str:
    """The type of what a constructor makes."""
    if target.document is None:
        return ""
    for item in (target.item, *target.document.outline.items):
        if isinstance(item, s.Struct | s.Enum):
            makes = [item.name] if isinstance(item, s.Struct) else [c.name for c in item.constructors]
            if target.name in makes:
                parameters = ", ".join((".." if p.row else "") + p.name for p in item.parameters)
                return item.name + (f"<{parameters}>" if parameters else "")
    return ""


# ---- what is shown of a definition -----------------------------------------------------------------------------------
def headline(document: Document, target: Definition, type_here: Type | None = None) -> str:
    """A definition in a line of code or a few. type_here: the type of the value where it is used."""
    match target:
        case Definition(kind="module"):
            return f"import {target.name}"
        case Definition(kind="class" | "builtin"):
            text = assistance.signature(target.name)
            return f"fn {target.name}{text}" if text and not target.name[0].isupper() else target.name
        case Definition(kind="function"):
            signature = signature_of(document, target)
            return f"fn {signature!s}" if signature is not None else f"fn {target.name}"
        case Definition(kind="constant", item=s.Const() as item):
            entry = entry_of(document, target)
            t = entry.decl.result if entry is not None else None
            shown = f": {show(t)}" if t is not None else f": {flat(item.type.span.text)}" if item.type else ""
            value = flat(item.value.span.text)
            return f"const {target.name}{shown}" + (f" = {value}" if len(value) <= 60 else "")
        case Definition(kind="struct" | "enum" | "alias", item=s.Struct() | s.Enum() | s.Alias() as item):
            return item.span.text
        case Definition(kind="constructor"):
            signature = signature_of(document, target)
            return (
                str(signature)
                if signature is not None and signature.parameters
                else f"{target.name} -> {made_type(target)}"
            )
        case Definition(kind="field", item=s.FieldDecl() as item):
            return f"{target.name}: {show(type_here) if type_here is not None else flat(item.type.span.text)}"
        case Definition(kind="parameter", item=s.Parameter() as parameter):
            return flat(parameter.span.text)
        case Definition(kind="size" | "shape" | "type variable"):
            return f"{target.name}: {target.kind}"
        case _:
            t = type_here or (document.analysis.type_at(target.span) if target.span is not None else None)
            prefix = {"let": "let ", "var": "var "}.get(target.kind, "")
            shown = index_type(document, target.span) or (shown_type(t) if t is not None else "")
            return f"{prefix}{target.name}" + (f": {shown}" if shown else "")


def index_type(document: Document, name: Span | None) -> str:
    """Returns the annotation of a name that is bound with an `Idx` in its type, which is `i64` for all else."""
    for item in document.analysis.module.items:
        for node in walk(item) if name is not None and item.span.source is name.source else ():
            match node:
                case s.Parameter(pattern=p, type=t) | s.Let(pattern=p, type=t) | s.Var(pattern=p, type=t) if (
                    t is not None and p.span == name and re.search(r"\bIdx\b", t.span.text)
                ):
                    return flat(t.span.text)
                case _:
                    pass
    return ""


def shown_type(t: Type) -> str:
    """A type; what it holds of sizes known only when the program runs is `?`, and what a mistake hides is `_`."""
    return re.sub(r"\?\d+", "?", show(t)).replace(MISTAKE.name, "_")


def documentation(target: Definition) -> str:
    """The `##` lines of a definition."""
    match target:
        case Definition(kind="builtin" | "class"):
            return assistance.words(target.name)
        case Definition(kind="module", document=Document() as other):
            return other.outline.doc
        case Definition(
            item=s.Fn(doc=doc) | s.Extern(doc=doc) | s.Const(doc=doc) | s.Struct(doc=doc) | s.Enum(doc=doc)
        ):
            return doc
        case Definition(item=s.Alias(span) | s.Constructor(span) | s.FieldDecl(span)):
            return comment_at(span)
        case _:
            return ""


def comment_at(span: Span) -> str:
    """The `##` lines above a declaration that begins its line, or what stands behind it and `##`."""
    above, _, line = span.source.text[: span.start].rpartition("\n")
    before = (x.strip() for x in reversed(above.split("\n")))
    lines = [] if line.strip() else list(takewhile(lambda x: x.startswith("##"), before))
    behind = re.match(r"[^\n#]*##([^\n]*)", span.source.text[span.end :])
    if not lines and behind is not None:
        return behind[1].strip()
    return "\n".join(x[2:].removeprefix(" ") for x in reversed(lines))


# ---- hover -----------------------------------------------------------------------------------------------------------
# Describes the name or the expression under the pointer: its type, its effects, its documentation.


def hover(document: Document, position: lsp.Position) -> lsp.Hover | None:
    """A name with what it is; elsewhere the type of the innermost expression."""
    offset = offset_at(document.analysis.source, position)
    occurrence = document.analysis.occurrence(offset)
    if occurrence is not None:
        target = definition(document, occurrence.target)
        if target is not None:
            code = headline(document, target, type_here(document, occurrence))
            given = given_here(document, occurrence)
            if given is not None and not code.endswith(f"-> {(shown := shown_type(given))}"):
                code += f"\n# gives {shown} here"
            return _shown(code, documentation(target), occurrence.span)
    return _of_expression(document, offset)


def type_here(document: Document, occurrence: Occurrence) -> Type | None:
    """The type that a value has where it is used."""
    span = occurrence.span
    match occurrence.target:
        case FieldOf(_, base):
            return document.analysis.type_at(base.to(span))
        case Local(span=bound):
            return document.analysis.type_at(span) or document.analysis.type_at(bound)
        case _:
            return None


def given_here(document: Document, occurrence: Occurrence) -> Type | None:
    """The type of what a function gives where it is called."""
    if not isinstance(occurrence.target, Global) or occurrence.role != "use":
        return None
    for item in document.analysis.module.items:
        if item.span.first <= occurrence.span.first <= item.span.last:
            for node in walk(item):
                match node:
                    case s.Call(function=called) | s.Binary(operator="|>", right=called):
                        if isinstance(called, s.Name | s.Field) and called.span.last == occurrence.span.last:
                            return document.analysis.type_at(node.span)
                    case _:
                        pass
    return None


def _of_expression(document: Document, offset: int) -> lsp.Hover | None:
    smallest: tuple[Span, Type] | None = None
    for source, types in document.analysis.observed.types.items():
        inside = offset - source.offset
        if not 0 <= inside <= len(source.text):
            continue
        for start, end in types:
            span = Span(source, start, end)
            if start <= inside < end and (smallest is None or end - start < smallest[0].end - smallest[0].start):
                t = document.analysis.type_at(span)
                if t is not None:
                    smallest = (span, t)
    return None if smallest is None else _shown(shown_type(smallest[1]), "", smallest[0])


def _shown(code: str, words: str, span: Span) -> lsp.Hover:
    code = code.replace(f" -> {s.MISSING}", "").replace(s.MISSING, "_").replace(MISTAKE.name, "_")
    text = f"```dlang\n{code}\n```" + (f"\n\n---\n\n{words}" if words else "")
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), range_of(span))
