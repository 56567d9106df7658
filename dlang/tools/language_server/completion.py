"""Completions at a place: names in scope, fields, members of modules, arguments, imports, keywords."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from lsprotocol import types as lsp

from dlang.diagnostics import Span
from dlang.grammar import parser, syntax as s
from dlang.grammar.lexer import CONTEXTUAL, KEYWORDS
from dlang.grammar.newlines import OPENERS
from dlang.grammar.syntax import walk
from dlang.tools.assistance import (
    INTERPOLATION,
    CallAt,
    Signature,
    Situation,
    call_at,
    expected,
    flat,
    open_brackets,
    path_of_import,
    receiver,
    situation,
    takes,
    taking,
)
from dlang.tools.language_server.describe import documentation, entry_of, headline, shown_type, signature_of
from dlang.tools.language_server.documents import Document
from dlang.tools.language_server.names import Global, Local
from dlang.tools.language_server.protocol import offset_at, range_between, range_of, units
from dlang.tools.language_server.references import (
    Definition,
    declarations,
    definition,
    fields_of,
    global_definition,
    imports,
    module_named,
    struct_of,
)
from dlang.tools.language_server.symbols import fits
from dlang.typecheck import builtins
from dlang.typecheck.annotations import EFFECTS
from dlang.typecheck.messages import imported
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
    path = Path(document.path)
    for name in document.project.finder.known(path, above):
        yield plain_item(name, Kind.Module)
    folder = Path(path.parent, *above)
    for inner in sorted(folder.iterdir()) if folder.is_dir() else ():
        if inner.name.isidentifier() and next(inner.glob("*.dl"), None) is not None:
            yield plain_item(inner.name, Kind.Folder, FOREIGN)


# ---- values ----------------------------------------------------------------------------------------------------------
def _values(document: Document, at: Situation) -> Iterator[lsp.CompletionItem]:
    """Names; first arguments by their names, and what fits by its type."""
    call = call_at(at) if at.previous in ("(", ",", "=") else None
    items = [*_arguments(document, call), *_in_scope(document, at, call)]
    known = {item.label for item in items}
    yield from items
    yield from (item for item in importable(document, at.prefix) if item.label not in known)
    for word in sorted({*KEYWORDS, *CONTEXTUAL}):
        if fits(at.prefix, word):
            yield plain_item(word, Kind.Keyword, KEYWORD)


def _arguments(document: Document, call: CallAt | None) -> Iterator[lsp.CompletionItem]:
    """`name = ` of the parameters that have no argument yet; behind `wrt =`, the parameters that it can name."""
    if call is None:
        return
    derived = replace(call, path=call.first) if call.name == "wrt" and call.first else None
    callee = called(document, derived or call)
    signature = signature_of(document, callee) if callee is not None else None
    for i, (name, words) in enumerate(zip(signature.names, signature.parameters, strict=True)) if signature else ():
        if derived is not None and name:
            yield plain_item(name, Kind.Variable, ARGUMENT, words)
        elif call.name is None and name and name.isidentifier() and name not in call.named and i >= call.argument:
            item = plain_item(f"{name} =", Kind.Field, f"{ARGUMENT}{i:02}", words)
            item.insert_text, item.filter_text = f"{name} = ", name
            yield item


def _wanted(document: Document, call: CallAt | None) -> Type | None:
    """The type of the parameter that an argument is for."""
    callee = called(document, call) if call is not None else None
    entry = entry_of(document, callee) if callee is not None else None
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
    for declared in _global_names(document, ("value", "constructor", "module")):
        if declared.name not in seen and fits(at.prefix, declared.name):
            seen.add(declared.name)
            order = OWN if declared.document is document else FOREIGN
            yield item_of(document, declared, FITTING if declared.name in fitting else order)
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
    let = _LET.search(at.text, at.text.rfind("\n") + 1)
    bound = range(let.start(1), let.end(1)) if let is not None else range(0)
    return (x for x in document.analysis.scope(offset).visible(offset) if x.span.first not in bound)


def _global_names(document: Document, spaces: tuple[str, ...]) -> Iterator[Definition]:
    """Lists the names that the module has: its own, its imports, and the prelude's."""
    for (space, _), declared in declarations(document).items():
        if space in spaces:
            yield declared
    for i in imports(document):
        if i.names is None:
            name = i.alias or i.path[-1]
            other = document.project.imported(i.path, document)
            if "module" in spaces:
                yield Definition(name, "module", None, None, other)
        for n in i.names or ():
            for space in spaces:
                if isinstance(n, s.Name) and n.name:
                    definition = global_definition(document, Global(n.name, space))
                    if definition is not None and definition.kind != "builtin":
                        yield definition
    prelude = document.project.prelude
    if prelude is not None and prelude is not document:
        for (space, name), declared in declarations(prelude).items():
            if space in spaces and not name.startswith("_"):
                yield declared


# ---- types -----------------------------------------------------------------------------------------------------------
def _types(document: Document, at: Situation) -> Iterator[lsp.CompletionItem]:
    for name in (*sorted(DTYPES), "size", "Idx"):
        yield item_of(document, Definition(name, "builtin"), OWN, Kind.Keyword)
    for declared in _global_names(document, ("type", "module")):
        yield item_of(document, declared, OWN if declared.document is document else FOREIGN)
    for local in _locals(document, at):
        if local.kind == "type variable":
            yield item_of(document, _of_local(document, local), LOCAL)


def _sizes(document: Document, at: Situation) -> Iterator[lsp.CompletionItem]:
    """Lists the parts that a size can have: variables, constants and integers that are known where the type stands."""
    for local in _locals(document, at):
        if local.kind in ("size", "shape") or document.analysis.type_at(local.span) == I64:
            yield item_of(document, _of_local(document, local), LOCAL)
    for declared in _global_names(document, ("value",)):
        if declared.kind == "constant":
            yield item_of(document, declared, OWN)


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
    for (_, name), declared in declarations(other).items():
        if not name.startswith("_") and name not in seen:
            seen.add(name)
            yield item_of(document, declared, OWN)


def type_before(document: Document, at: Situation) -> Type | None:
    """The type of the value in front of the last token."""
    base = _ending(document, at)
    if base is not None:
        return document.analysis.type_at(base)
    with document.rewritten(_finished(document.text, at)):
        base = _ending(document, at)
        return document.analysis.type_at(base) if base is not None else None


def _module_before(document: Document, at: Situation) -> Document | None:
    base = receiver(at, len(at.before) - 1)
    name = at.text[slice(*base)] if base is not None else ""
    if base is None or not name.isidentifier() or document.analysis.scope(base[0]).value(name) is not None:
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
    base = receiver(at, len(at.before) - 1)
    checked = document.analysis.checked
    if base is None or checked is None or "\n" in at.text[slice(*base)]:
        return
    text = at.text[slice(*base)]
    place = range_between(document.analysis.source, base[0], len(at.text))
    for name, _ in taking(checked, t):
        item = plain_item(name, Kind.Method, CALLED, f"{name}({text})")
        item.filter_text = f"{text}.{name}"
        item.text_edit = lsp.TextEdit(place, f"{name}({text})")
        yield item


# ---- items -----------------------------------------------------------------------------------------------------------
# Items of a completion: what is said of each at once, and what is said when it is looked at.

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

# What an item is sorted by begins with one of these; the name follows.
ARGUMENT, FITTING, LOCAL, OWN, FOREIGN, BUILTIN, KEYWORD, CALLED, IMPORTABLE = (
    "00", "01", "0", "1", "2", "3", "4", "5", "6",
)  # fmt: skip


def plain_item(name: str, kind: Kind, order: str = OWN, detail: str | None = None) -> lsp.CompletionItem:
    return lsp.CompletionItem(name, kind=kind, detail=detail, sort_text=order + name)


def item_of(document: Document, declared: Definition, order: str, kind: Kind | None = None) -> lsp.CompletionItem:
    """Returns the completion item of a definition; details that take time are added when it is selected."""
    item = plain_item(declared.name, kind or _KINDS.get(declared.kind, Kind.Variable), order)
    where = declared.span
    item.data = {"path": document.path, "name": declared.name, "kind": declared.kind}
    if where is not None and declared.document is not None:
        item.data |= {"in": declared.document.path, "at": where.first}
    if declared.kind in ("let", "var", "parameter", "index") and where is not None:
        t = document.analysis.type_at(where)
        if t is not None:
            item.label_details = lsp.CompletionItemLabelDetails(detail=f": {shown_type(t)}")
    return item


def resolve_item(document: Document, item: lsp.CompletionItem) -> lsp.CompletionItem:
    """An item with its signature and its documentation."""
    data = item.data if isinstance(item.data, dict) else {}
    declared = Definition(str(data.get("name", "")), str(data.get("kind", "")))
    if "in" in data:
        other = document.project.document(str(data["in"]))
        known = declarations(other).values() if other is not None else ()
        declared = next((d for d in known if d.span is not None and d.span.first == data["at"]), declared)
    if declared.kind == "builtin" or declared.item is not None:
        item.detail = flat(headline(document, declared))
        if words := documentation(declared):
            item.documentation = lsp.MarkupContent(lsp.MarkupKind.Markdown, words)
    return item


# ---- names that can be imported --------------------------------------------------------------------------------------
# Names that an import would bring: modules beside the file and of the standard library, and what they declare.

_DECLARED = re.compile(r"^(fn|const|struct|enum|extern\b.*\bfn) (\w+)", re.MULTILINE)
_KINDS_OF_KEYWORDS = {"const": lsp.CompletionItemKind.Constant, "struct": lsp.CompletionItemKind.Struct,
          "enum": lsp.CompletionItemKind.Enum}  # fmt: skip


def importable(document: Document, stem: str) -> Iterator[lsp.CompletionItem]:
    """Lists names that begin with `stem` and are not imported, each with the edit that imports it."""
    if not stem:
        return
    whole = {i.path[0] for i in imports(document) if i.names is None}
    for name, text in _other_modules(document):
        if name not in whole and name.startswith(stem):
            yield _item(document, name, lsp.CompletionItemKind.Module, f"import {name}")
        for keyword, declared in _DECLARED.findall(text):
            if declared.startswith(stem) and not declared.startswith("_"):
                kind = _KINDS_OF_KEYWORDS.get(keyword, lsp.CompletionItemKind.Function)
                yield _item(document, declared, kind, f"import {name} {{ {declared} }}")


def _other_modules(document: Document) -> Iterator[tuple[str, str]]:
    """The modules that the file could import, with their texts."""
    for name in document.project.finder.known(Path(document.path)):
        module = document.project.imported((name,), document)
        if module is not None:
            yield name, module.text


def _item(document: Document, name: str, kind: lsp.CompletionItemKind, line: str) -> lsp.CompletionItem:
    fix = imported(Span(document.analysis.source, 0, 0), line)
    item = plain_item(name, kind, IMPORTABLE, line)
    item.additional_text_edits = [lsp.TextEdit(range_of(fix.span), fix.text)]
    return item


# ---- calls -----------------------------------------------------------------------------------------------------------
# The call that an argument is written in, and what the function takes.

_FAR = 8_000  # characters that a call is not longer than, in one declaration


def situation_at(document: Document, offset: int) -> Situation:
    """Returns the situation of an offset in the text, of which only the lines shortly before it are looked at."""
    text = document.analysis.source.text[:offset]
    far = text.rfind("\n", 0, max(0, offset - _FAR)) + 1
    return situation(text, far + parser.declarations(text[far:])[-1][0])


def called(document: Document, call: CallAt) -> Definition | None:
    """Returns the definition of the function called."""
    head, _, name = call.path.rpartition(".")
    space = "constructor" if name[:1].isupper() else "value"
    local = document.analysis.scope(call.start).value(head.partition(".")[0] or name)
    if local is not None:
        return definition(document, local) if not head else None
    return definition(document, Global(name, space, head or None))


def signature_help(document: Document, position: lsp.Position) -> lsp.SignatureHelp | None:
    """The signature of the function whose arguments are being written, and which of them."""
    call = call_at(situation_at(document, offset_at(document.analysis.source, position)))
    callee = called(document, call) if call is not None else None
    known = signature_of(document, callee) if callee is not None else None
    if call is None or callee is None or known is None:
        return None
    signature = known.inside(call.form)
    words = documentation(callee)
    information = lsp.SignatureInformation(
        str(signature),
        documentation=lsp.MarkupContent(lsp.MarkupKind.Markdown, words) if words else None,
        parameters=[lsp.ParameterInformation(place) for place in _places(signature)],
    )
    last = max(0, len(signature.parameters) - 1)
    return lsp.SignatureHelp([information], 0, min(call.parameter(signature.names), last))


def _places(signature: Signature) -> list[tuple[int, int]]:
    """Returns the span of each parameter in the text of the signature, in UTF-16 code units."""
    at = units(f"{signature.name}{signature.bounds}(")
    out: list[tuple[int, int]] = []
    for p in signature.parameters:
        out.append((at, at + units(p)))
        at += units(p) + len(", ")
    return out
