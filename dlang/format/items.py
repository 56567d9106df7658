"""Items and what they are made of: statements, parameters and binders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlang.format.document import INDENT, Break, Doc, Fill, Nest, concat, forced
from dlang.format.expressions import bounds, braced, bracketed, filled, placed
from dlang.format.printer import Printer, Rule, Tree


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


# ---- statements ------------------------------------------------------------------------------------------------------
# Statements, parameters and binders.


def annotated(p: Printer, name: Doc, colon: Any, type_: Any) -> Doc:
    """`name: type`, or `name` alone."""
    return name if colon is None else concat(name, p.token(colon), " ", p.doc(type_))


def _let(p: Printer, tree: Tree) -> Doc:
    let, pattern, colon, type_, sign, value = tree.parts
    head = annotated(p, concat(p.token(let), " ", p.doc(pattern)), colon, type_)
    return concat(head, " ", placed(p, p.token(sign), value, below_first=False))


def _assign(p: Printer, tree: Tree) -> Doc:
    target, sign, value = tree.parts
    return concat(p.doc(target), " ", placed(p, p.token(sign), value, below_first=False))


def _while(p: Printer, tree: Tree) -> Doc:
    while_, condition, block = tree.parts
    return concat(p.token(while_), " ", Nest(p.doc(condition)), " ", p.doc(block))


def _for(p: Printer, tree: Tree) -> Doc:
    for_, binders, block = tree.parts
    return concat(p.token(for_), " ", Nest(filled(p, binders)), " ", p.doc(block))


def _word(p: Printer, tree: Tree) -> Doc:
    """`break`, `return value`."""
    word, *value = tree.parts
    return concat(p.token(word), *(part for v in value if v is not None for part in (" ", p.doc(v))))


def _assert(p: Printer, tree: Tree) -> Doc:
    word, condition, comma, message = tree.parts
    front = concat(p.token(word), " ", p.doc(condition))
    if message is None:
        return front
    text = p.doc(message)
    hard = p.commented(comma) or p.behind(condition) or (forced(text) and p.broken(message))
    front = Nest(concat(front, p.token(comma)), -INDENT)
    return Nest(Fill([front, Break(" ", hard=hard), text], apart=False))


def _binder_below(p: Printer, tree: Tree) -> Doc:
    name, sign, bound = tree.parts
    return p.token(name) if sign is None else concat(p.token(name), " ", p.token(sign), " ", p.doc(bound))


def _binder_each(p: Printer, tree: Tree) -> Doc:
    pattern, in_, array = tree.parts
    return concat(p.doc(pattern), " ", p.token(in_), " ", p.doc(array))


def _binder_range(p: Printer, tree: Tree) -> Doc:
    pattern, in_, low, dots, high, by, step = tree.parts
    written = concat(p.doc(pattern), " ", p.token(in_), " ", p.doc(low), p.token(dots), p.doc(high))
    return written if by is None else concat(written, " ", p.token(by), " ", p.doc(step))


def _param(p: Printer, tree: Tree) -> Doc:
    nodiff, pattern, colon, type_, sign, default = tree.parts
    written = annotated(p, p.doc(pattern), colon, type_)
    if nodiff is not None:
        written = concat(p.token(nodiff), " ", written)
    return written if sign is None else concat(written, " ", p.token(sign), " ", p.doc(default))


STATEMENT_RULES: Mapping[str, Rule] = {
    "let": _let,
    "var": _let,
    "assign": _assign,
    "while_": _while,
    "for_": _for,
    "break_": _word,
    "continue_": _word,
    "return_": _word,
    "assert_": _assert,
    "binder_below": _binder_below,
    "binder_each": _binder_each,
    "binder_range": _binder_range,
    "param": _param,
}
