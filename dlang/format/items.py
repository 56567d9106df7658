"""Items: functions, types, constants, imports, tests, rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlang.format.brackets import braced, bracketed
from dlang.format.concrete import Tree
from dlang.format.document import Doc, concat
from dlang.format.placing import placed
from dlang.format.printer import Printer, Rule
from dlang.format.statements import annotated
from dlang.format.types import bounds


def _body(p: Printer, body: Tree) -> Doc:
    """` = value`, or a block."""
    if body.kind != "second":
        return concat(" ", p.doc(body))
    sign, value = body.parts
    return concat(" ", placed(p, p.token(sign), value, below_first=True))


def _signature(p: Printer, parts: list[Any]) -> Doc:
    """`fn f<a>(x: a) -> a`."""
    fn, name, opening, first, closing, *parameters, arrow, result = parts
    head = concat(p.token(fn), " ", p.token(name), bounds(p, opening, first, closing), bracketed(p, *parameters))
    return head if arrow is None else concat(head, " ", p.token(arrow), " ", p.doc(result))


def _fn(p: Printer, tree: Tree) -> Doc:
    *signature, body = tree.parts
    return concat(_signature(p, signature), _body(p, body))


def _extern(p: Printer, tree: Tree) -> Doc:
    extern, target, *signature = tree.parts
    return concat(p.token(extern), " ", p.token(target), " ", _signature(p, signature))


def _rule(p: Printer, tree: Tree) -> Doc:
    kind, name, *parameters, arrow, result, body = tree.parts
    head = concat(p.token(kind), " ", p.token(name), bracketed(p, *parameters))
    return concat(head, " ", p.token(arrow), " ", p.token(result), _body(p, body))


def _declared(p: Printer, tree: Tree) -> Doc:
    """A `struct` or an `enum`."""
    word, name, less, first, greater, opening, items, comma, closing = tree.parts
    head = concat(p.token(word), " ", p.token(name), bounds(p, less, first, greater), " ")
    return concat(head, _fields(p, opening, items, comma, closing))


def _fields(p: Printer, opening: Any, items: list[Any], comma: Any, closing: Any) -> Doc:
    separators = [s if s.kind == "," else None for s in items[1::2]] + [comma]
    return braced(p, opening, items[::2], separators, closing, ", ")


def _field(p: Printer, tree: Tree) -> Doc:
    name, colon, type_ = tree.parts
    return annotated(p, p.token(name), colon, type_)


def _unnamed_field(p: Printer, tree: Tree) -> Doc:
    return p.doc(tree.parts[0])


def _constructor(p: Printer, tree: Tree) -> Doc:
    name, opening, items, comma, closing = tree.parts
    return p.token(name) if opening is None else concat(p.token(name), bracketed(p, opening, items, comma, closing))


def _alias(p: Printer, tree: Tree) -> Doc:
    word, name, less, first, greater, sign, type_ = tree.parts
    head = concat(p.token(word), " ", p.token(name), bounds(p, less, first, greater), " ")
    return concat(head, placed(p, p.token(sign), type_, below_first=True))


def _const(p: Printer, tree: Tree) -> Doc:
    word, name, colon, type_, sign, value = tree.parts
    head = annotated(p, concat(p.token(word), " ", p.token(name)), colon, type_)
    return concat(head, " ", placed(p, p.token(sign), value, below_first=True))


def _path(p: Printer, names: list[Any]) -> Doc:
    return concat(*map(p.token, names))


def _import(p: Printer, tree: Tree) -> Doc:
    word, path, as_, name = tree.parts
    head = concat(p.token(word), " ", _path(p, path))
    return head if as_ is None else concat(head, " ", p.token(as_), " ", p.token(name))


def _import_names(p: Printer, tree: Tree) -> Doc:
    word, path, *names = tree.parts
    return concat(p.token(word), " ", _path(p, path), " ", _fields(p, *names))


def _test(p: Printer, tree: Tree) -> Doc:
    """A `test` or a `bench`."""
    word, name, block = tree.parts
    return concat(p.token(word), " ", p.token(name), " ", p.doc(block))


RULES: Mapping[str, Rule] = {
    "fn": _fn,
    "extern": _extern,
    "rule": _rule,
    "struct": _declared,
    "enum": _declared,
    "field": _field,
    "unnamed_field": _unnamed_field,
    "constructor": _constructor,
    "alias": _alias,
    "const": _const,
    "import_": _import,
    "import_names": _import_names,
    "test": _test,
    "bench": _test,
}
