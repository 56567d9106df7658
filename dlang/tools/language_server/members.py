"""Completions behind a `.` or a `|>`: members of a module, parts of a value, functions that take it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

from lsprotocol import types as lsp

from dlang.diagnostics import Span
from dlang.grammar import syntax as s
from dlang.grammar.newlines import OPENERS
from dlang.grammar.trees import walk
from dlang.tools.assistance.fitting import taking
from dlang.tools.assistance.signatures import flat
from dlang.tools.assistance.situation import INTERPOLATION, Situation, open_brackets, receiver
from dlang.tools.language_server.definitions import declarations, fields_of, module_named, struct_of
from dlang.tools.language_server.describe import shown_type
from dlang.tools.language_server.documents import Document
from dlang.tools.language_server.items import CALLED, LOCAL, OWN, Kind, item_of, plain_item
from dlang.tools.language_server.positions import range_between
from dlang.typecheck.types import Type, TypeTuple

_PLACEHOLDER = "completion_"
_STRING = re.compile(r'"(?:[^"\\\n]|\\[^\n])*(?P<closed>")?')


def members(document: Document, at: Situation) -> list[lsp.CompletionItem]:
    """Lists the completions behind the `.` in front of a place."""
    module = _module_before(document, at)
    if module is not None:
        return list(public(document, module))
    base = _base(document, at, at.prefix)
    if base is not None:
        return list(_of_value(document, at, base))
    with document.rewritten(_finished(document.text, at)):  # the half-written rest hides it
        base = _base(document, at, _PLACEHOLDER)
        return list(_of_value(document, at, base)) if base is not None else []


def public(document: Document, other: Document) -> Iterator[lsp.CompletionItem]:
    """Lists the public names of a module."""
    seen: set[str] = set()
    for (_, name), found in declarations(other).items():
        if not name.startswith("_") and name not in seen:
            seen.add(name)
            yield item_of(document, found, OWN)


def type_before(document: Document, at: Situation) -> Type | None:
    """The type of the value in front of the last token."""
    base = _ending(document, at)
    if base is not None:
        return document.analysis.type_at(base)
    with document.rewritten(_finished(document.text, at)):
        base = _ending(document, at)
        return document.analysis.type_at(base) if base is not None else None


def _module_before(document: Document, at: Situation) -> Document | None:
    found = receiver(at, len(at.before) - 1)
    name = at.text[slice(*found)] if found is not None else ""
    if found is None or not name.isidentifier() or document.analysis.scope(found[0]).value(name) is not None:
        return None
    return module_named(document, name)


def _finished(text: str, at: Situation) -> str:
    """The text with a name at the place, and with the ends of what is open there, if they are missing."""
    before, end = text[: at.before[-1].end] + _PLACEHOLDER, len(at.text)
    opened = open_brackets(at.before)
    outer = next((k for k, t in enumerate(opened) if t.kind == INTERPOLATION), None)
    if outer is not None:
        string = _STRING.match(text, opened[outer].start)
        if string is not None and not (string["closed"] and "}" in text[end : string.end()]):
            before += "".join(OPENERS[t.kind] for t in reversed(opened[outer + 1 :])) + '}"'
            end, opened = string.end(), opened[:outer]
    line = text[end:].partition("\n")[0]
    if not line.strip():
        before += "".join(OPENERS[t.kind] for t in takewhile(lambda t: t.kind in ("(", "["), reversed(opened)))
    return before + text[end:]


def _base(document: Document, at: Situation, name: str) -> Span | None:
    """Finds the expression in front of the `.`, if the checker knows its type. name: the name behind it."""
    point = at.before[-1]
    for item in document.analysis.module.items:
        for node in walk(item) if name and item.span.first <= point.start <= item.span.last else ():
            if isinstance(node, s.Field) and node.name == name:
                behind = node.span.last - len(name)
                if point.end <= behind <= at.start and document.analysis.type_at(node.base.span) is not None:
                    return node.base.span
    return _ending(document, at)


def _ending(document: Document, at: Situation) -> Span | None:
    """The expression that ends in front of the last token, as far as the checker knows its type."""
    end = at.before[-2].end if len(at.before) > 1 else 0
    best: Span | None = None
    for item in document.analysis.module.items:
        for node in walk(item) if item.span.first <= end <= item.span.last + 1 else ():
            if node.span.last == end and document.analysis.type_at(node.span) is not None:
                if best is None or node.span.first < best.first:
                    best = node.span
    return best


def _of_value(document: Document, at: Situation, base: Span) -> Iterator[lsp.CompletionItem]:
    """The items of a tuple, the fields of a struct, functions that take it."""
    t = document.analysis.type_at(base)
    if isinstance(t, TypeTuple):
        for i, part in enumerate(t.items):
            yield plain_item(str(i), Kind.Field, LOCAL, shown_type(part))
    for f in fields_of(struct_of(document, document.analysis, base)):
        detail = flat(f.item.type.span.text) if isinstance(f.item, s.FieldDecl) else None
        yield plain_item(f.name, Kind.Field, LOCAL, detail)
    if t is not None:
        yield from _functions_of(document, at, t)


def _functions_of(document: Document, at: Situation, t: Type) -> Iterator[lsp.CompletionItem]:
    """Functions whose first parameter takes the value: there are no methods, so `x.f` becomes `f(x)`."""
    found = receiver(at, len(at.before) - 1)
    checked = document.analysis.checked
    if found is None or checked is None or "\n" in at.text[slice(*found)]:
        return
    text = at.text[slice(*found)]
    place = range_between(document.analysis.source, found[0], len(at.text))
    for name, _ in taking(checked, t):
        item = plain_item(name, Kind.Method, CALLED, f"{name}({text})")
        item.filter_text = f"{text}.{name}"
        item.text_edit = lsp.TextEdit(place, f"{name}({text})")
        yield item
