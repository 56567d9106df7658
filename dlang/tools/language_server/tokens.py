"""What each name is, for colours that a grammar of regular expressions can't find."""

from __future__ import annotations

from lsprotocol import types as lsp

from dlang.tools.language_server.definitions import Definition, definition
from dlang.tools.language_server.documents import Document
from dlang.tools.language_server.positions import position_at, units
from dlang.tools.language_server.scopes import FieldIn, FieldOf, Global, Imported, Occurrence, ParameterOf

_TYPES = {
    "module": "namespace",
    "struct": "struct",
    "enum": "enum",
    "alias": "type",
    "class": "interface",
    "type variable": "typeParameter",
    "size": "typeParameter",
    "shape": "typeParameter",
    "parameter": "parameter",
    "let": "variable",
    "var": "variable",
    "index": "variable",
    "constant": "variable",
    "field": "property",
    "constructor": "enumMember",
    "function": "function",
}
TYPES = tuple(dict.fromkeys(_TYPES.values()))
MODIFIERS = ("declaration", "readonly", "modification", "defaultLibrary")
LEGEND = lsp.SemanticTokensLegend(list(TYPES), list(MODIFIERS))


def semantic_tokens(document: Document, lines: tuple[int, int] | None = None) -> lsp.SemanticTokens:
    """All names, or those of some lines (from 0, the last one included), each as five numbers relative to the one
    before."""
    file = document.analysis.source
    data: list[int] = []
    line = column = 0
    for o in document.analysis.occurrences:
        place = position_at(file, o.span.first)
        if lines is not None and not lines[0] <= place.line <= lines[1]:
            continue
        found = _token(document, o)
        if found is None or "\n" in o.span.text:
            continue
        kind, modifiers = found
        below = place.line - line
        data += [below, place.character - (0 if below else column), units(o.span.text), TYPES.index(kind), modifiers]
        line, column = place.line, place.character
    return lsp.SemanticTokens(data)


def _token(document: Document, o: Occurrence) -> tuple[str, int] | None:
    found = definition(document, o.target)
    kind = _kind(o, found)
    if kind is None:
        return None
    modifiers = {"declaration"} if o.role == "definition" else {"modification"} if o.role == "write" else set()
    if found is not None:
        if found.kind in ("constant", "let", "index", "parameter"):
            modifiers.add("readonly")
        where = found.document
        if found.span is None or (where is not None and where.version is None and where.project.standard(where.path)):
            modifiers.add("defaultLibrary")
    return kind, sum(1 << MODIFIERS.index(m) for m in modifiers)


def _kind(o: Occurrence, found: Definition | None) -> str | None:
    if found is None:  # a name that stands for nothing yet
        match o.target:
            case FieldOf() | FieldIn():
                return "property"
            case ParameterOf():
                return "parameter"
            case Global(space="constructor") | Imported():
                return None
            case Global(space="type"):
                return "type"
            case _:
                return None
    if found.kind == "builtin":
        return "type" if found.name in ("size", "Idx") or _is_type(o) else "function"
    if found.kind == "struct" and isinstance(o.target, Global) and o.target.space == "constructor":
        return "struct"
    return _TYPES[found.kind]


def _is_type(o: Occurrence) -> bool:
    """Whether a name of the compiler stands as a type here: `f64`, which is a function where it converts."""
    return not isinstance(o.target, Global)
