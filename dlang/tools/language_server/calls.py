"""The call that an argument is written in, and what the function takes."""

from __future__ import annotations

from lsprotocol import types as lsp

from dlang.grammar.parser import declarations
from dlang.tools.assistance.calls import CallAt, call_at
from dlang.tools.assistance.signatures import Signature
from dlang.tools.assistance.situation import Situation, situation
from dlang.tools.language_server.definitions import Definition, definition
from dlang.tools.language_server.describe import documentation, signature_of
from dlang.tools.language_server.documents import Document
from dlang.tools.language_server.positions import offset_at, units
from dlang.tools.language_server.scopes import Global

_FAR = 8_000  # characters that a call is not longer than, in one declaration


def situation_at(document: Document, offset: int) -> Situation:
    """Returns the situation of an offset in the text, of which only the lines shortly before it are looked at."""
    text = document.analysis.source.text[:offset]
    far = text.rfind("\n", 0, max(0, offset - _FAR)) + 1
    return situation(text, far + declarations(text[far:])[-1][0])


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
    found = called(document, call) if call is not None else None
    known = signature_of(document, found) if found is not None else None
    if call is None or found is None or known is None:
        return None
    signature = known.inside(call.form)
    words = documentation(found)
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
