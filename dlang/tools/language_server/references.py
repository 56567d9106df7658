"""Finds the declaration of a name, and all its uses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lsprotocol import types as lsp

from dlang.diagnostics import Span
from dlang.tools.language_server.definitions import Definition, at, declarations, definition, parameters_of
from dlang.tools.language_server.documents import Document, Project
from dlang.tools.language_server.positions import offset_at, range_of
from dlang.tools.language_server.scopes import Local, Occurrence
from dlang.tools.language_server.steps import Steps

_KINDS = {"write": lsp.DocumentHighlightKind.Write, "definition": lsp.DocumentHighlightKind.Write}


def go_to_definition(document: Document, position: lsp.Position) -> lsp.Location | None:
    found = at(document, offset_at(document.analysis.source, position))
    return None if found is None or found[1].span is None else location(document.project, found[1].span)


def references(document: Document, position: lsp.Position, declaration: bool = True) -> Steps[list[lsp.Location]]:
    """Every place that names the same thing, in all files. declaration: the one that declares it, too."""
    found = at(document, offset_at(document.analysis.source, position))
    if found is None:
        return []
    places = yield from uses(document, found[1])
    spans = [o.span for _, o in places if declaration or o.role != "definition"]
    return [location(document.project, span) for span in spans]


def highlights(document: Document, position: lsp.Position) -> list[lsp.DocumentHighlight]:
    """The same in this file alone."""
    found = at(document, offset_at(document.analysis.source, position))
    if found is None:
        return []
    return [
        lsp.DocumentHighlight(range_of(o.span), _KINDS.get(o.role, lsp.DocumentHighlightKind.Read))
        for o in uses_in(document, found[1])
    ]


def uses(document: Document, found: Definition) -> Steps[list[tuple[Document, Occurrence]]]:
    """The occurrences of a name, the present file first."""
    places = [(document, o) for o in uses_in(document, found)]
    if is_local(found) and not is_parameter_of_module(document, found):
        return places
    word = re.compile(rf"(?<![\w']){re.escape(found.name)}(?![\w'])")
    for other in document.project.files():
        if other.path != document.path and (word.search(other.text) or found.kind == "module"):
            yield
            places += [(other, o) for o in uses_in(other, found)]
    return places


def is_local(found: Definition) -> bool:
    """Tells whether it is a name inside of a declaration."""
    return found.item is None and found.kind not in ("module", "builtin", "class")


def is_parameter_of_module(document: Document, found: Definition) -> bool:
    """Tells whether it is a parameter of a function that other files may call, with a name for the argument."""
    made = declarations(document).values() if found.kind == "parameter" else ()
    return any(p.key == found.key for d in made if d.kind == "function" for p in parameters_of(d))


def uses_in(document: Document, found: Definition) -> Iterator[Occurrence]:
    """The occurrences in one file."""
    key = found.key
    analysis = document.analysis
    if found.kind == "module":  # it may have any name
        named = analysis.occurrences
    else:
        named = [o for names in analysis.names for o in names.by_name.get(found.name, ())]
    for o in sorted(named, key=lambda o: o.span.first):
        if isinstance(o.target, Local):
            if (o.target.span.source.path, o.target.span.first) == key:
                yield o
        else:
            other = definition(document, o.target)
            if other is not None and other.key == key and other.kind == found.kind:
                yield o


def location(project: Project, span: Span) -> lsp.Location:
    return lsp.Location(project.uri(span.source.path), range_of(span))
