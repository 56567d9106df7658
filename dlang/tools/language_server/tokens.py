"""Semantic tokens: the kind of each name, for colours that a grammar of regular expressions can't find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lsprotocol import types as lsp

from dlang.tools.language_server.documents import Document
from dlang.tools.language_server.names import (
    FieldIn,
    FieldOf,
    Global,
    Imported,
    Local,
    Names,
    Occurrence,
    ParameterOf,
    Target,
)
from dlang.tools.language_server.protocol import units
from dlang.tools.language_server.references import Definition, definition

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

Colour = tuple[int, int]
"""The number of a type, and the sum of modifiers."""
Key = tuple[Target, str]
"""The target of a name, and its role."""


@dataclass(slots=True)
class Block:
    """The colours of the names of a declaration. found: those of what is not local, which may change; data: five
    numbers for each name that has a colour, the first relative to the line of the declaration; last: the line, counted
    from there, and the column of the last of them."""

    names: Names
    found: dict[Key, Colour | None]
    data: list[int]
    last: tuple[int, int]


@dataclass(slots=True)
class Coloured:
    """The colours of a document that were found so far. number, data: of the last answer; blocks: by
    names, which are new after an edit for the declaration that was edited alone."""

    number: int = 0
    data: list[int] = field(default_factory=list)
    blocks: dict[Names, Block] = field(default_factory=dict)


def semantic_tokens(document: Document, lines: tuple[int, int] | None = None) -> lsp.SemanticTokens:
    """All names, or those of some lines (from 0, the last one included), each as five numbers relative to the one
    before."""
    if lines is not None:
        in_lines = [o for o in document.analysis.occurrences if lines[0] <= o.span.line - 1 <= lines[1]]
        return lsp.SemanticTokens(_encoded(in_lines, 0, _Colours(document))[0])
    known = document.coloured = document.coloured or Coloured()
    known.number, known.data = known.number + 1, _all(document, known)
    return lsp.SemanticTokens(known.data, str(known.number))


def semantic_tokens_since(document: Document, number: str) -> lsp.SemanticTokens | lsp.SemanticTokensDelta:
    """Returns the changes since an answer, if that was the last one; else all names."""
    known = document.coloured or Coloured()
    old, known_number = known.data, str(known.number)
    now = semantic_tokens(document)
    if number != known_number:
        return now
    new = list(now.data)
    start = _agreeing(old, new, min(len(old), len(new)))
    behind = _agreeing(old[::-1], new[::-1], min(len(old), len(new)) - start)
    edit = lsp.SemanticTokensEdit(start, len(old) - behind - start, new[start : len(new) - behind])
    return lsp.SemanticTokensDelta([] if old == new else [edit], now.result_id)


def _agreeing(a: list[int], b: list[int], most: int) -> int:
    """How many numbers are the same from the start on."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _all(document: Document, known: Coloured) -> list[int]:
    """The colours of all names. What an edit did not touch is taken over, if its names stand for the same."""
    analysis, colours = document.analysis, _Colours(document)
    data: list[int] = []
    line = column = 0
    blocks: dict[Names, Block] = {}
    for names in [] if analysis.script else analysis.names:
        if not names.ordered:
            continue
        top = names.ordered[0].span.source.first_line - 1
        block = known.blocks.get(names)
        if block is None or any(colours.of(key) != colour for key, colour in block.found.items()):
            colours_by_key = {_key(o): colours.of(_key(o)) for o in names.ordered if not isinstance(o.target, Local)}
            block = Block(names, colours_by_key, *_encoded(names.ordered, top, colours))
        blocks[names] = block
        if not block.data:
            continue
        below = top + block.data[0] - line
        at = block.data[1] - (0 if below else column)
        if below < 0 or at < 0:
            break
        data += [below, at]
        data += block.data[2:]
        line, column = top + block.last[0], block.last[1]
    else:
        known.blocks = blocks
        return data if not analysis.script else _encoded(analysis.occurrences, 0, colours)[0]
    return _encoded(analysis.occurrences, 0, colours)[0]  # what a repair has made stands in another order


def _encoded(names: Sequence[Occurrence], top: int, colours: _Colours) -> tuple[list[int], tuple[int, int]]:
    """Five numbers for each name that has a colour, from a line on; the place of the last of them."""
    data: list[int] = []
    line = column = 0
    for o in names:
        colour = colours.of(_key(o))
        if colour is None or "\n" in o.span.text:
            continue
        row, at = o.span.source.position(o.span.start)
        row, at = row - 1 - top, units(o.span.source.text[o.span.start - at + 1 : o.span.start])
        below = row - line
        data += [below, at - (0 if below else column), units(o.span.text), *colour]
        line, column = row, at
    return data, (line, column)


@dataclass(slots=True)
class _Colours:
    """The colours of names of a document, found once for all that stands for the same."""

    document: Document
    known: dict[Key, Colour | None] = field(default_factory=dict)

    def of(self, key: Key) -> Colour | None:
        if key not in self.known:
            self.known[key] = _colour(self.document, *key)
        return self.known[key]


def _key(o: Occurrence) -> Key:
    return (o.target, o.role)


def _colour(document: Document, target: Target, role: str) -> Colour | None:
    defined = definition(document, target)
    kind = _kind(target, defined)
    if kind is None:
        return None
    modifiers = {"declaration"} if role == "definition" else {"modification"} if role == "write" else set()
    if defined is not None:
        if defined.kind in ("constant", "let", "index", "parameter"):
            modifiers.add("readonly")
        where = defined.document
        if defined.span is None or (where is not None and where.version is None and where.project.standard(where.path)):
            modifiers.add("defaultLibrary")
    return TYPES.index(kind), sum(1 << MODIFIERS.index(m) for m in modifiers)


def _kind(target: Target, defined: Definition | None) -> str | None:
    if defined is None:  # a name that stands for nothing yet
        match target:
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
    if defined.kind == "builtin":
        return "type" if defined.name in ("size", "Idx") or _is_type(target) else "function"
    if defined.kind == "struct" and isinstance(target, Global) and target.space == "constructor":
        return "struct"
    return _TYPES[defined.kind]


def _is_type(target: Target) -> bool:
    """Tells whether a name of the compiler stands as a type here: `f64`, which is a function where it converts."""
    return not isinstance(target, Global)
