"""Types and sizes that were found and not written, shown where they could be written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lsprotocol import types as lsp

from dlang.diagnostics import Span
from dlang.grammar import syntax as s
from dlang.grammar.trees import walk
from dlang.tools.assistance.signatures import inferred
from dlang.tools.language_server.definitions import own
from dlang.tools.language_server.describe import entry_of, shown_type
from dlang.tools.language_server.documents import Document
from dlang.tools.language_server.positions import offset_at, position_at
from dlang.typecheck.types import MISTAKE, TypeFn

_LONGEST = 60


def inlay_hints(document: Document, within: lsp.Range) -> list[lsp.InlayHint]:
    """The hints of the lines of a range."""
    analysis = document.analysis
    first, last = offset_at(analysis.source, within.start), offset_at(analysis.source, within.end)
    out: list[lsp.InlayHint] = []
    for item in analysis.module.items:
        if item.span.last < first or item.span.first > last:
            continue
        for offset, text in _of_item(document, item):
            if first <= offset <= last:
                out.append(lsp.InlayHint(position_at(analysis.source, offset), text, kind=lsp.InlayHintKind.Type))
    return out


def _of_item(document: Document, item: s.Item) -> Iterator[tuple[int, str]]:
    if isinstance(item, s.Fn):
        yield from of_signature(document, item)
    if isinstance(item, s.Const) and item.type is None:
        yield from of_const(document, item)
    for node in walk(item):
        match node:
            case s.Let(pattern=pattern, type=None, value=value) | s.Var(pattern=pattern, type=None, value=value):
                if not isinstance(value, s.Lambda):
                    yield from of_pattern(document, pattern)
            case s.Lambda(parameters=parameters):
                for p in parameters:
                    if p.type is None:
                        yield from of_pattern(document, p.pattern)
            case s.Binder(pattern=pattern, each=each) if each is not None:
                yield from of_pattern(document, pattern)
            case s.Fn() if node is not item:
                yield from of_local(document, node)
            case _:
                pass


def of_pattern(document: Document, pattern: s.Pattern) -> Iterator[tuple[int, str]]:
    """The types of the names that a pattern binds."""
    for node in walk(pattern):
        if isinstance(node, s.PatternName):
            t = document.analysis.type_at(node.span)
            if t is not None and len(text := shown_type(t)) <= _LONGEST:
                yield node.span.last, f": {text}"


def of_const(document: Document, item: s.Const) -> Iterator[tuple[int, str]]:
    """The type of a constant."""
    found = own(document, item.name, "value")
    entry = entry_of(document, found) if found is not None else None
    if entry is not None and entry.decl.result is not None:
        yield item.name_span.last, f": {shown_type(entry.decl.result)}"


def of_signature(document: Document, f: s.Fn) -> Iterator[tuple[int, str]]:
    """Lists the types and bounds that the signature of a function leaves out, with their offsets."""
    if f.result is not None and all(p.type is not None for p in f.parameters):
        return
    found = own(document, f.name, "value")
    entry = entry_of(document, found) if found is not None and found.item is f else None
    if entry is None:
        return
    signature = inferred(f.name, entry, f)
    if signature.bounds and not f.bounds:
        yield f.name_span.last, signature.bounds
    for p, text in zip(f.parameters, signature.parameters, strict=True):
        if p.type is None and MISTAKE.name not in text:
            yield p.pattern.span.last, ": " + text.partition(": ")[2].partition(" = ")[0]
    if f.result is None and not signature.result.startswith("()") and MISTAKE.name not in signature.result:
        yield end_of_parameters(f), f" -> {signature.result}"


def of_local(document: Document, f: s.Fn) -> Iterator[tuple[int, str]]:
    """The same of a local function."""
    t = document.analysis.type_at(f.name_span)
    if not isinstance(t, TypeFn):
        return
    for p, found in zip(f.parameters, t.params, strict=False):
        if p.type is None:
            yield p.pattern.span.last, f": {shown_type(found)}"
    if f.result is None and (text := shown_type(t.result)) != "()":
        yield end_of_parameters(f), f" -> {text}"


def end_of_parameters(f: s.Fn) -> int:
    """The offset behind the `)` of the parameters."""
    start = f.parameters[-1].span.end if f.parameters else f.name_span.end
    between = Span(f.span.source, start, f.body.span.start)
    match = re.match(r"(?:[^)#]|#[^\n]*)*\)", between.text)
    return between.first + (match.end() if match is not None else 0)
