"""What could be written at a place: names in scope, fields, members of modules, arguments, imports, keywords."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

from lsprotocol import types as lsp

from dlang.diagnostics import Span
from dlang.grammar import syntax as s
from dlang.grammar.lexer import CONTEXTUAL, KEYWORDS
from dlang.grammar.trees import walk
from dlang.tools.assistance.fitting import takes
from dlang.tools.assistance.signatures import flat
from dlang.tools.assistance.situation import Situation, call_at, expected
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
from dlang.tools.language_server.describe import documentation, entry_of, headline, shown_type, signature_of
from dlang.tools.language_server.documents import Document
from dlang.tools.language_server.importable import importable
from dlang.tools.language_server.positions import offset_at, range_between
from dlang.tools.language_server.scopes import Global, Local
from dlang.typecheck import builtins
from dlang.typecheck.annotations import EFFECTS
from dlang.typecheck.terms import I64
from dlang.typecheck.types import DTYPES, Type, TypeArray, TypeTuple

Kind = lsp.CompletionItemKind
_KINDS = {
    "function": Kind.Function,
    "builtin": Kind.Function,
    "constant": Kind.Constant,
    "struct": Kind.Struct,
    "enum": Kind.Enum,
    "alias": Kind.Interface,
    "constructor": Kind.EnumMember,
    "field": Kind.Field,
    "module": Kind.Module,
    "parameter": Kind.Variable,
    "size": Kind.TypeParameter,
    "shape": Kind.TypeParameter,
    "type variable": Kind.TypeParameter,
}
_LET = re.compile(r"\b(?:let|var)\b([^=]*)=(?!=)[^;{}]*\Z")
_PLACEHOLDER = "completion_"
_OF_ARRAYS = ("len", "sum", "mean", "max", "min", "transpose", "shape", "sort", "reverse", "cumsum")


def completion(document: Document, position: lsp.Position) -> list[lsp.CompletionItem]:
    """What fits at a position; the editor chooses among it by what is written already."""
    offset = offset_at(document.analysis.source, position)
    at = situation_at(document, offset)
    if at.quiet:
        return []
    match expected(at):
        case "new":
            return []
        case "path":
            return [_item(name, Kind.Module) for name in document.project.finder.known(Path(document.path))]
        case "member":
            return list(_names_of_module(document, at))
        case _ if at.previous == ".":
            return list(_members(document, offset, at.before[-1].start))
        case "type":
            return list(_types(document, offset))
        case "size":
            return list(_sizes(document, offset))
        case "effect":
            return [_item(name, Kind.Keyword) for name in sorted(EFFECTS)]
        case _:
            return list(_anywhere(document, at))


def _anywhere(document: Document, at: Situation) -> Iterator[lsp.CompletionItem]:
    offset = len(at.text)
    found = [*_arguments(document, at), *_in_scope(document, offset)]
    known = {item.label for item in found}
    yield from found
    yield from (item for item in importable(document, at.prefix) if item.label not in known)
    for word in sorted({*KEYWORDS, *CONTEXTUAL}):
        yield _item(word, Kind.Keyword, sort="4" + word)


# ---- names -----------------------------------------------------------------------------------------------------------
def _in_scope(document: Document, offset: int) -> Iterator[lsp.CompletionItem]:
    seen: set[str] = set()
    for local, item in _of_locals(document, offset):
        seen.add(local.name)
        yield item
    for found in _global_names(document, ("value", "constructor", "module")):
        if found.name not in seen:
            seen.add(found.name)
            yield of_definition(document, found, "1" if found.document is document else "2")
    for name in builtins.names():
        if name not in seen:
            yield of_definition(document, Definition(name, "builtin"), "3")


def _locals(document: Document, offset: int) -> Iterable[Local]:
    """The locals that can be named at an offset: those bound before it, but for a `let` that it is in the value of."""
    text = document.analysis.source.text
    here = _LET.search(text, text.rfind("\n", 0, offset) + 1, offset)
    bound = range(here.start(1), here.end(1)) if here is not None else range(0)
    visible = document.analysis.scope(offset).visible().values()
    return (x for x in visible if x.span.last <= offset and x.span.first not in bound)


def _global_names(document: Document, spaces: tuple[str, ...]) -> Iterator[Definition]:
    """What the module has, by itself, by its imports and from the prelude."""
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


def _types(document: Document, offset: int) -> Iterator[lsp.CompletionItem]:
    for name in (*sorted(DTYPES), "size", "Idx"):
        yield of_definition(document, Definition(name, "builtin"), "2", Kind.Keyword)
    for found in _global_names(document, ("type", "module")):
        yield of_definition(document, found, "1")
    yield from (item for local, item in _of_locals(document, offset) if local.kind == "type variable")


def _sizes(document: Document, offset: int) -> Iterator[lsp.CompletionItem]:
    """What a size is made of: variables, constants and whole numbers that are known where the type stands."""
    for local, item in _of_locals(document, offset):
        if local.kind in ("size", "shape") or document.analysis.type_at(local.span) == I64:
            yield item
    for found in _global_names(document, ("value",)):
        if found.kind == "constant":
            yield of_definition(document, found, "1")


def _of_locals(document: Document, offset: int) -> Iterator[tuple[Local, lsp.CompletionItem]]:
    for local in _locals(document, offset):
        yield local, of_definition(document, Definition(local.name, local.kind, local.span, None, document), "0")


def of_definition(
    document: Document, found: Definition, order: str, kind: lsp.CompletionItemKind | None = None
) -> lsp.CompletionItem:
    """An item; what takes time to say is said when it is looked at."""
    item = _item(found.name, kind or _KINDS.get(found.kind, Kind.Variable), sort=order + found.name)
    where = found.span
    item.data = {"path": document.path, "name": found.name, "kind": found.kind}
    if where is not None and found.document is not None:
        item.data |= {"in": found.document.path, "at": where.first}
    if found.kind in ("let", "var", "parameter", "index") and where is not None:
        t = document.analysis.type_at(where)
        if t is not None:
            item.label_details = lsp.CompletionItemLabelDetails(detail=f": {shown_type(t)}")
    return item


def resolve_item(document: Document, item: lsp.CompletionItem) -> lsp.CompletionItem:
    """An item with its signature and its documentation."""
    data = item.data if isinstance(item.data, dict) else {}
    found = Definition(str(data.get("name", "")), str(data.get("kind", "")))
    if "in" in data:
        other = document.project.document(str(data["in"]))
        known = declarations(other).values() if other is not None else ()
        found = next((d for d in known if d.span is not None and d.span.first == data["at"]), found)
    if found.kind == "builtin" or found.item is not None:
        item.detail = flat(headline(document, found))
        if words := documentation(found):
            item.documentation = lsp.MarkupContent(lsp.MarkupKind.Markdown, words)
    return item


def _item(
    name: str, kind: lsp.CompletionItemKind, detail: str | None = None, sort: str | None = None
) -> lsp.CompletionItem:
    return lsp.CompletionItem(name, kind=kind, detail=detail, sort_text=sort)


# ---- arguments -------------------------------------------------------------------------------------------------------
def _arguments(document: Document, at: Situation) -> Iterator[lsp.CompletionItem]:
    """`name = ` of the parameters that have no argument yet."""
    call = call_at(at) if at.previous in ("(", ",") else None
    found = called(document, call) if call is not None else None
    signature = signature_of(document, found) if found is not None else None
    if call is None or signature is None:
        return
    for i, (name, words) in enumerate(zip(signature.names, signature.parameters, strict=True)):
        if name and name.isidentifier() and name not in call.named and i >= call.argument:
            item = _item(f"{name} =", Kind.Field, words, f"00{i:02}")
            item.insert_text, item.filter_text = f"{name} = ", name
            yield item


# ---- behind a point --------------------------------------------------------------------------------------------------
def _names_of_module(document: Document, at: Situation) -> Iterator[lsp.CompletionItem]:
    """What the module has whose names an import lists."""
    first = next(k for k in range(len(at.before) - 1, -1, -1) if at.before[k].kind == "import")
    path = [t.text for t in takewhile(lambda t: t.kind != "{", at.before[first + 1 :]) if t.kind != "."]
    other = document.project.imported(tuple(path), document)
    if other is not None:
        yield from _public(document, other, ("value", "type", "constructor"))


def _public(document: Document, other: Document, spaces: tuple[str, ...]) -> Iterator[lsp.CompletionItem]:
    seen: set[str] = set()
    for (space, name), found in declarations(other).items():
        if space in spaces and not name.startswith("_") and name not in seen:
            seen.add(name)
            yield of_definition(document, found, "1")


def _members(document: Document, offset: int, point: int) -> Iterator[lsp.CompletionItem]:
    """What can stand behind the `.` at an offset."""
    text = document.analysis.source.text
    name = re.search(r"(?<![\w'.\])])[a-z_][\w']*$", text[:point])
    if name is not None and document.analysis.scope(point).value(name[0]) is None:
        other = module_named(document, name[0])
        if other is not None:
            yield from _public(document, other, ("value", "type", "constructor"))
            return
    base = _base_in_tree(document, point)
    if base is not None:
        yield from _of_value(document, base, offset)
        return
    text = document.text  # the half-written rest hides it: look again with a name behind the point
    with document.rewritten(text[: point + 1] + _PLACEHOLDER + text[offset:]):
        base = _base_in_tree(document, point)
        found = list(_of_value(document, base, offset)) if base is not None else []
    yield from found


def _of_value(document: Document, base: Span, offset: int) -> Iterator[lsp.CompletionItem]:
    """What can stand behind a value: the items of a tuple, the fields of a struct, functions that take it."""
    t = document.analysis.type_at(base)
    if isinstance(t, TypeTuple):
        for i, part in enumerate(t.items):
            yield _item(str(i), Kind.Field, shown_type(part))
    for f in fields_of(struct_of(document, document.analysis, base)):
        detail = flat(f.item.type.span.text) if isinstance(f.item, s.FieldDecl) else None
        yield _item(f.name, Kind.Field, detail, "0" + f.name)
    if t is not None:
        yield from _functions_of(document, base, t, offset)


def _base_in_tree(document: Document, point: int) -> Span | None:
    """The expression in front of a `.`, as far as the checker knows its type."""
    best: Span | None = None
    for item in document.analysis.module.items:
        if item.span.first <= point <= item.span.last + 1:
            for node in walk(item):
                if node.span.last == point and document.analysis.type_at(node.span) is not None:
                    if best is None or node.span.first < best.first:
                        best = node.span
    return best


def _functions_of(document: Document, base: Span, t: Type, offset: int) -> Iterator[lsp.CompletionItem]:
    """Functions whose first parameter takes the value: there are no methods, so `x.f` becomes `f(x)`."""
    text = base.text
    if "\n" in text:
        return
    file = document.analysis.source
    place = range_between(file, base.first, offset)
    names = [d for d in _global_names(document, ("value",)) if d.kind == "function"]
    known = {d.name: entry_of(document, d) for d in names}
    fitting = [name for name, e in known.items() if e and e.scheme.params and takes(e.scheme.params[0], t)]
    if isinstance(t, TypeArray):
        fitting += _OF_ARRAYS
    for name in dict.fromkeys(fitting):
        item = _item(name, Kind.Method, f"{name}({text})", "5" + name)
        item.filter_text = f"{text}.{name}"
        item.text_edit = lsp.TextEdit(place, f"{name}({text})")
        yield item
