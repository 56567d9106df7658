"""Items of a completion: what is said of each at once, and what is said when it is looked at."""

from __future__ import annotations

from lsprotocol import types as lsp

from dlang.tools.assistance.signatures import flat
from dlang.tools.language_server.definitions import Definition, declarations
from dlang.tools.language_server.describe import documentation, headline, shown_type
from dlang.tools.language_server.documents import Document

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


def item_of(document: Document, found: Definition, order: str, kind: Kind | None = None) -> lsp.CompletionItem:
    """Returns the completion item of a definition; details that take time are added when it is selected."""
    item = plain_item(found.name, kind or _KINDS.get(found.kind, Kind.Variable), order)
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
