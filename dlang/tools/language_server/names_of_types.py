"""The names in a written type: types, sizes, and variables that it binds."""

from __future__ import annotations

from collections.abc import Container

from dlang.diagnostics import Span
from dlang.grammar import syntax as s
from dlang.tools.language_server.scopes import Basic, Global, Local, Names, Scope
from dlang.typecheck.types import DTYPES

_BASIC = DTYPES | {"size", "Idx"}


def names_of_type(t: s.TypeExpr | s.Dim, scope: Scope, into: Scope, found: Names, constants: Container[str]) -> None:
    """Notes the names of a type; those that stand for nothing yet are variables, bound in `into`.

    constants: of the module, which may be sizes.
    """
    inner: list[s.TypeExpr | s.Dim] = []
    match t:
        case s.TypeName(span, name, arguments):
            if span.text.startswith(name):  # not one that a repair invented
                _type(span, name, scope, into, found, constants)
            inner += arguments
        case s.TypeArray(_, element, dims):
            inner += [element, *dims]
        case s.TypeTuple(_, items):
            inner += items
        case s.TypeFunction(_, parameters, result, _):
            inner += [*parameters, result]
        case s.TypeEffects(_, result, _):
            inner.append(result)
        case s.SizeName(span, name):
            _size(span, name, scope, into, found, constants, "size")
        case s.SizeOperator(_, _, left, right):
            inner += [left, right]
        case s.SizeRow(span, name):
            _variable(span.tail(len(name)), ".." + name, name, "shape", scope, into, found)
        case s.SizeAny(span, str(name)):
            _variable(span.tail(len(name)), "?" + name, name, "size", scope, into, found)
        case s.SizeAny() | s.SizeNumber() | s.SizeHole():
            pass
    for part in inner:
        names_of_type(part, scope, into, found, constants)


def _type(span: Span, name: str, scope: Scope, into: Scope, found: Names, constants: Container[str]) -> None:
    head, _, last = name.rpartition(".")
    if head:
        found.add(span.head(len(head)), Global(head, "module"))
        start = span.start + span.text[: len(name) + 1].rfind(last)
        found.add(span._replace(start=start, end=start + len(last)), Global(last, "type", head))
    elif name in _BASIC:
        found.add(span.head(len(name)), Basic(name))
    elif name[:1].isupper():
        found.add(span.head(len(name)), Global(name, "type"))
    elif name:
        _size(span.head(len(name)), name, scope, into, found, constants, "type variable")


def _size(span: Span, name: str, scope: Scope, into: Scope, found: Names, constants: Container[str], kind: str) -> None:
    """A variable, unless it is a value that counts as a size."""
    if scope.type(name) is None and into.type(name) is None:
        value = scope.value(name)
        if value is not None:
            found.add(span, value)
            return
        if name in constants:
            found.add(span, Global(name, "value"))
            return
    _variable(span, name, name, kind, scope, into, found)


def _variable(span: Span, key: str, name: str, kind: str, scope: Scope, into: Scope, found: Names) -> None:
    known = scope.type(key) or into.type(key)
    if known is None:
        local = into.types[key] = Local(name, kind, span)
        found.add(span, local, "definition")
    else:
        found.add(span, known)
