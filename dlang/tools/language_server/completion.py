"""Completions at a place: names in scope, fields, members of modules, arguments, imports, keywords."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from lsprotocol import types as lsp

from dlang.diagnostics import Span
from dlang.grammar import syntax as s
from dlang.grammar.lexer import CONTEXTUAL, KEYWORDS
from dlang.grammar.newlines import OPENERS
from dlang.grammar.trees import walk
from dlang.tools.assistance.calls import CallAt, call_at
from dlang.tools.assistance.fitting import takes, taking
from dlang.tools.assistance.signatures import flat
from dlang.tools.assistance.situation import INTERPOLATION, Situation, expected, open_brackets, path_of_import, receiver
from dlang.tools.language_server.calls import called, situation_at
from dlang.tools.language_server.definitions import (
    Definition,
    declarations,
    fields_of,
    global_definition,
    imports,
    module_named,
    struct_of,
)
from dlang.tools.language_server.describe import entry_of, shown_type, signature_of
from dlang.tools.language_server.documents import Document
from dlang.tools.language_server.importable import importable
from dlang.tools.language_server.items import (
    ARGUMENT,
    BUILTIN,
    CALLED,
    FITTING,
    FOREIGN,
    KEYWORD,
    LOCAL,
    OWN,
    Kind,
    item_of,
    plain_item,
)
from dlang.tools.language_server.positions import offset_at, range_between
from dlang.tools.language_server.scopes import Global, Local
from dlang.tools.language_server.symbols import fits
from dlang.typecheck import builtins
from dlang.typecheck.annotations import EFFECTS
from dlang.typecheck.terms import I64
from dlang.typecheck.types import DTYPES, Type, TypeData, TypeTuple

_LET = re.compile(r"\b(?:let|var)\b([^=]*)=(?!=)[^;{}]*\Z")


def completion(document: Document, position: lsp.Position) -> lsp.CompletionList:
    """Returns the completions at a position. The editor asks again when a word begins: only then names are offered that
    are not imported, and those alone that have its letters in their order, from which the editor chooses further."""
    at = situation_at(document, offset_at(document.analysis.source, position))
    return lsp.CompletionList(not at.prefix, _items(document, at))


def _items(document: Document, at: Situation) -> list[lsp.CompletionItem]:
    match "new" if at.quiet else expected(at):
        case "new":
            return []
        case "path":
            return list(_modules(document, at))
        case "member":
            other = document.project.imported(path_of_import(at), document)
            return list(public(document, other)) if other is not None else []
        case _ if at.previous == ".":
            return members(document, at)
        case "type":
            return list(_types(document, at))
        case "size":
            return list(_sizes(document, at))
        case "effect":
            return [plain_item(name, Kind.Keyword) for name in sorted(EFFECTS)]
        case _:
            return list(_values(document, at))


# ---- imports ---------------------------------------------------------------------------------------------------------
def _modules(document: Document, at: Situation) -> Iterator[lsp.CompletionItem]:
    """Modules, and folders that have some."""
    above = path_of_import(at)
    here = Path(document.path)
    for name in document.project.finder.known(here, above):
        yield plain_item(name, Kind.Module)
    folder = Path(here.parent, *above)
    for inner in sorted(folder.iterdir()) if folder.is_dir() else ():
        if inner.name.isidentifier() and next(inner.glob("*.dl"), None) is not None:
            yield plain_item(inner.name, Kind.Folder, FOREIGN)


# ---- values ----------------------------------------------------------------------------------------------------------
def _values(document: Document, at: Situation) -> Iterator[lsp.CompletionItem]:
    """Names; first arguments by their names, and what fits by its type."""
    call = call_at(at) if at.previous in ("(", ",", "=") else None
    found = [*_arguments(document, call), *_in_scope(document, at, call)]
    known = {item.label for item in found}
    yield from found
    yield from (item for item in importable(document, at.prefix) if item.label not in known)
    for word in sorted({*KEYWORDS, *CONTEXTUAL}):
        if fits(at.prefix, word):
            yield plain_item(word, Kind.Keyword, KEYWORD)


def _arguments(document: Document, call: CallAt | None) -> Iterator[lsp.CompletionItem]:
    """`name = ` of the parameters that have no argument yet; behind `wrt =`, the parameters that it can name."""
    if call is None:
        return
    derived = replace(call, path=call.first) if call.name == "wrt" and call.first else None
    found = called(document, derived or call)
    signature = signature_of(document, found) if found is not None else None
    for i, (name, words) in enumerate(zip(signature.names, signature.parameters, strict=True)) if signature else ():
        if derived is not None and name:
            yield plain_item(name, Kind.Variable, ARGUMENT, words)
        elif call.name is None and name and name.isidentifier() and name not in call.named and i >= call.argument:
            item = plain_item(f"{name} =", Kind.Field, f"{ARGUMENT}{i:02}", words)
            item.insert_text, item.filter_text = f"{name} = ", name
            yield item


def _wanted(document: Document, call: CallAt | None) -> Type | None:
    """The type of the parameter that an argument is for."""
    found = called(document, call) if call is not None else None
    entry = entry_of(document, found) if found is not None else None
    if call is None or entry is None:
        return None
    position = call.parameter(entry.names)
    return entry.scheme.params[position] if position < len(entry.scheme.params) else None


def _in_scope(document: Document, at: Situation, call: CallAt | None) -> Iterator[lsp.CompletionItem]:
    wanted = _wanted(document, call)
    fitting = _functions_behind(document, at) | _variants_matched(document, at)
    seen: set[str] = set()
    for local in (x for x in _locals(document, at) if fits(at.prefix, x.name)):
        t = document.analysis.type_at(local.span) if wanted is not None else None
        suits = wanted is not None and t is not None and takes(wanted, t)
        seen.add(local.name)
        yield item_of(document, _of_local(document, local), FITTING if suits else LOCAL)
    for found in _global_names(document, ("value", "constructor", "module")):
        if found.name not in seen and fits(at.prefix, found.name):
            seen.add(found.name)
            order = OWN if found.document is document else FOREIGN
            yield item_of(document, found, FITTING if found.name in fitting else order)
    for name in builtins.names():
        if name not in seen and fits(at.prefix, name):
            yield item_of(document, Definition(name, "builtin"), FITTING if name in fitting else BUILTIN)


def _functions_behind(document: Document, at: Situation) -> set[str]:
    """Behind `|>`, the functions that take what is in front of it."""
    if at.previous != "|>":
        return set()
    t = type_before(document, at)
    checked = document.analysis.checked
    return {name for name, _ in taking(checked, t)} if checked is not None and t is not None else set()


def _variants_matched(document: Document, at: Situation) -> set[str]:
    """Returns the variants of the matched value where an arm begins."""
    bracket = next(reversed(open_brackets(at.before)), None)
    begins = at.previous in ("{", ",", "|") or not at.text[at.text.rfind("\n") + 1 : at.start].strip()
    if bracket is None or bracket.kind != "{" or not begins:
        return set()
    for item in document.analysis.module.items:
        for node in walk(item) if item.span.first <= bracket.start <= item.span.last else ():
            if isinstance(node, s.Match) and not at.text[node.value.span.last : bracket.start].strip():
                t = document.analysis.type_at(node.value.span)
                if node.value.span.last <= bracket.start and isinstance(t, TypeData):
                    return {v.name for v in t.decl.variants}
    return set()


def _of_local(document: Document, local: Local) -> Definition:
    return Definition(local.name, local.kind, local.span, None, document)


def _locals(document: Document, at: Situation) -> Iterable[Local]:
    """The locals that can be named at a place, but for a `let` that it is in the value of."""
    offset = len(at.text)
    here = _LET.search(at.text, at.text.rfind("\n") + 1)
    bound = range(here.start(1), here.end(1)) if here is not None else range(0)
    return (x for x in document.analysis.scope(offset).visible(offset) if x.span.first not in bound)


def _global_names(document: Document, spaces: tuple[str, ...]) -> Iterator[Definition]:
    """Lists the names that the module has: its own, its imports, and the prelude's."""
    for (space, _), found in declarations(document).items():
        if space in spaces:
            yield found
    for i in imports(document):
        if i.names is None:
            name = i.alias or i.path[-1]
            other = document.project.imported(i.path, document)
            if "module" in spaces:
                yield Definition(name, "module", None, None, other)
        for n in i.names or ():
            for space in spaces:
                if isinstance(n, s.Name) and n.name:
                    made = global_definition(document, Global(n.name, space))
                    if made is not None and made.kind != "builtin":
                        yield made
    prelude = document.project.prelude
    if prelude is not None and prelude is not document:
        for (space, name), found in declarations(prelude).items():
            if space in spaces and not name.startswith("_"):
                yield found


# ---- types -----------------------------------------------------------------------------------------------------------
def _types(document: Document, at: Situation) -> Iterator[lsp.CompletionItem]:
    for name in (*sorted(DTYPES), "size", "Idx"):
        yield item_of(document, Definition(name, "builtin"), OWN, Kind.Keyword)
    for found in _global_names(document, ("type", "module")):
        yield item_of(document, found, OWN if found.document is document else FOREIGN)
    for local in _locals(document, at):
        if local.kind == "type variable":
            yield item_of(document, _of_local(document, local), LOCAL)


def _sizes(document: Document, at: Situation) -> Iterator[lsp.CompletionItem]:
    """Lists the parts that a size can have: variables, constants and integers that are known where the type stands."""
    for local in _locals(document, at):
        if local.kind in ("size", "shape") or document.analysis.type_at(local.span) == I64:
            yield item_of(document, _of_local(document, local), LOCAL)
    for found in _global_names(document, ("value",)):
        if found.kind == "constant":
            yield item_of(document, found, OWN)


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
