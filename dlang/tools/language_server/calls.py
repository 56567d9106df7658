"""The call around a place in a text that may be half written, and what the function takes."""

from __future__ import annotations

from dataclasses import dataclass

from lsprotocol import types as lsp

from dlang.grammar.lexer import Token, tokenize
from dlang.tools.language_server.definitions import Definition, definition
from dlang.tools.language_server.describe import Signature, documentation, signature_of
from dlang.tools.language_server.documents import Document
from dlang.tools.language_server.positions import offset_at, units
from dlang.tools.language_server.scopes import Global

_CLOSING = {")": "(", "]": "[", "}": "{"}
_MOST_TOKENS = 400  # before the place


@dataclass(frozen=True, slots=True)
class Call:
    """function: its name, perhaps with a module in front; argument: the number of commas before the place; name: of
    the argument there, if it has one; given: names of all arguments that have one."""

    function: tuple[str, ...]
    offset: int
    argument: int
    name: str | None
    given: frozenset[str]


def tokens_before(text: str, offset: int) -> list[Token]:
    """The tokens of the lines before an offset, as far back as a call may begin."""
    start = max(0, offset - 8_000)
    start = text.rfind("\n", 0, start) + 1 if start else 0
    return [t for t in tokenize(text[:offset], start, offset) if t.kind != "newline"][-_MOST_TOKENS:]


def enclosing_call(text: str, offset: int) -> Call | None:
    """The innermost call that is open at an offset."""
    tokens = tokens_before(text, offset)
    depth: list[str] = []
    argument = 0
    given: set[str] = set()
    name: str | None = None
    at_start = len(tokens)
    for i in range(len(tokens) - 1, -1, -1):
        kind = tokens[i].kind
        if kind in _CLOSING:
            depth.append(_CLOSING[kind])
        elif kind in ("(", "[", "{"):
            if depth:
                depth.pop()
                continue
            function = _callee(tokens, i) if kind == "(" else ()
            if function:
                first = _named(tokens, i + 1)
                if first is not None:
                    given.add(first)
                if at_start == len(tokens):
                    name = first
                return Call(function, tokens[i - 1].start, argument, name, frozenset(given))
            if kind == "{":
                return None
            argument, given, name, at_start = 0, set(), None, len(tokens)
        elif kind == "," and not depth:
            found = _named(tokens, i + 1)
            if found is not None:
                given.add(found)
            if at_start == len(tokens):
                name, at_start = found, i
            argument += 1
        elif kind in ("fn", "struct", "enum") and not depth:
            return None
    return None


def _named(tokens: list[Token], i: int) -> str | None:
    return tokens[i].text if i + 1 < len(tokens) and tokens[i].kind == "NAME" and tokens[i + 1].kind == "=" else None


def _callee(tokens: list[Token], i: int) -> tuple[str, ...]:
    """The name in front of a `(`; nothing where a function is declared, or where it is no call."""
    if i == 0 or tokens[i - 1].kind not in ("NAME", "UNAME") or tokens[i - 1].end != tokens[i].start:
        return ()
    if i >= 2 and tokens[i - 2].kind in ("fn", "pullback", "pushforward"):
        return ()
    if i >= 3 and tokens[i - 2].kind == "." and tokens[i - 3].kind == "NAME":
        return (tokens[i - 3].text, tokens[i - 1].text)
    return (tokens[i - 1].text,)


def called(document: Document, call: Call) -> Definition | None:
    """What is called."""
    *module, name = call.function
    space = "constructor" if name[:1].isupper() else "value"
    if not module:
        local = document.analysis.scope(call.offset).value(name)
        if local is not None:
            return definition(document, local)
    return definition(document, Global(name, space, module[0] if module else None))


def signature_help(document: Document, position: lsp.Position) -> lsp.SignatureHelp | None:
    """The signature of the function whose arguments are being written, and which of them."""
    source = document.analysis.source
    call = enclosing_call(source.text, offset_at(source, position))
    found = called(document, call) if call is not None else None
    signature = signature_of(document, found) if found is not None else None
    if call is None or found is None or signature is None:
        return None
    words = documentation(found)
    information = lsp.SignatureInformation(
        signature.text,
        documentation=lsp.MarkupContent(lsp.MarkupKind.Markdown, words) if words else None,
        parameters=[lsp.ParameterInformation(place) for place in _places(signature)],
    )
    active = signature.names.index(call.name) if call.name in signature.names else call.argument
    return lsp.SignatureHelp([information], 0, min(active, max(0, len(signature.parameters) - 1)))


def _places(signature: Signature) -> list[tuple[int, int]]:
    """Where each parameter stands in the text of the signature, in units of UTF-16."""
    at = units(f"{signature.name}{signature.bounds}(")
    out: list[tuple[int, int]] = []
    for p in signature.parameters:
        out.append((at, at + units(p)))
        at += units(p) + len(", ")
    return out
