"""Statements, parameters and binders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlang.format.brackets import filled
from dlang.format.concrete import Tree
from dlang.format.document import INDENT, Break, Doc, Fill, Nest, concat, forced
from dlang.format.placing import placed
from dlang.format.printer import Printer, Rule


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


RULES: Mapping[str, Rule] = {
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
