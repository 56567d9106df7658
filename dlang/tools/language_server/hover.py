"""Describes the name or the expression under the pointer: its type, its effects, its documentation."""

from __future__ import annotations

from lsprotocol import types as lsp

from dlang.diagnostics import Span
from dlang.grammar import syntax as s
from dlang.grammar.trees import walk
from dlang.tools.language_server.definitions import Definition, definition
from dlang.tools.language_server.describe import documentation, headline, shown_type
from dlang.tools.language_server.documents import Document
from dlang.tools.language_server.positions import offset_at, range_of
from dlang.tools.language_server.scopes import FieldOf, Global, Local, Occurrence
from dlang.typecheck.types import MISTAKE, Type


def hover(document: Document, position: lsp.Position) -> lsp.Hover | None:
    """A name with what it is; elsewhere the type of the innermost expression."""
    offset = offset_at(document.analysis.source, position)
    occurrence = document.analysis.occurrence(offset)
    if occurrence is not None:
        found = definition(document, occurrence.target)
        if found is not None:
            code = headline(document, found, type_here(document, occurrence, found))
            given = given_here(document, occurrence)
            if given is not None and not code.endswith(f"-> {(shown := shown_type(given))}"):
                code += f"\n# gives {shown} here"
            return _shown(code, documentation(found), occurrence.span)
    return _of_expression(document, offset)


def type_here(document: Document, occurrence: Occurrence, found: Definition) -> Type | None:
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
    found: tuple[Span, Type] | None = None
    for source, types in document.analysis.observed.types.items():
        inside = offset - source.offset
        if not 0 <= inside <= len(source.text):
            continue
        for start, end in types:
            span = Span(source, start, end)
            if start <= inside < end and (found is None or end - start < found[0].end - found[0].start):
                t = document.analysis.type_at(span)
                if t is not None:
                    found = (span, t)
    return None if found is None else _shown(shown_type(found[1]), "", found[0])


def _shown(code: str, words: str, span: Span) -> lsp.Hover:
    code = code.replace(f" -> {s.MISSING}", "").replace(s.MISSING, "_").replace(MISTAKE.name, "_")
    text = f"```dlang\n{code}\n```" + (f"\n\n---\n\n{words}" if words else "")
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), range_of(span))
