"""Types, sizes and patterns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlang.format.brackets import bracketed, filled
from dlang.format.concrete import Tree
from dlang.format.document import INDENT, Break, Doc, Fill, Nest, concat, forced
from dlang.format.printer import Printer, Rule, alone, spaced


def angles(p: Printer, opening: Any, items: Any, comma: Any, closing: Any) -> Doc:
    """`<a, n>`, or nothing."""
    if opening is None:
        return ""
    return concat(p.token(opening), filled(p, items, 2 * INDENT), p.dropped(comma), p.token(closing))


def bounds(p: Printer, opening: Any, first: Any, closing: Any) -> Doc:
    """`<a: Float, n>`, or nothing; `first` is the list and its last comma."""
    if opening is None:
        return ""
    items, comma = first.parts
    return angles(p, opening, items, comma, closing)


def _bound(p: Printer, tree: Tree) -> Doc:
    name, colon, cls = tree.parts
    return p.token(name) if colon is None else concat(p.token(name), p.token(colon), " ", p.token(cls))


def _effects(p: Printer, tree: Tree) -> Doc:
    type_, sign, effects = tree.parts
    names = effects.parts[0]
    if effects.kind == "nothing":
        written = alone(p, effects)
    else:
        written = concat(*(f" {d} " if d == "+" else d for d in map(p.token, names)))
    return concat(p.doc(type_), " ", p.token(sign), " ", written)


def _array(p: Printer, tree: Tree) -> Doc:
    element, opening, dims, comma, closing = tree.parts
    return concat(p.doc(element), bracketed(p, opening, dims, comma, closing))


def _size(p: Printer, tree: Tree) -> Doc:
    """`n + 1`; a line ends with the operator, which is possible in all brackets."""
    left, operator, right = tree.parts
    size = p.doc(right)
    gap = Break(" ", hard=p.commented(operator) or (forced(size) and p.broken(right)))
    return Nest(Fill([Nest(concat(p.doc(left), " ", p.token(operator)), -INDENT), gap, size]))


def _constructor(p: Printer, tree: Tree) -> Doc:
    name, *arguments = tree.parts
    return concat(p.token(name), angles(p, *arguments))


def _of_module(p: Printer, tree: Tree) -> Doc:
    module, dot, name, *arguments = tree.parts
    return concat(p.token(module), p.token(dot), p.token(name), angles(p, *arguments))


def parenthesised(p: Printer, tree: Tree) -> Doc:
    """A list in brackets that is nothing else."""
    return bracketed(p, *tree.parts)


def _pattern(p: Printer, tree: Tree) -> Doc:
    """`Name(p, q)`, or `module.Name(p, q)`."""
    *name, opening, items, comma, closing = tree.parts
    written = concat(*map(p.token, name))
    return written if opening is None else concat(written, bracketed(p, opening, items, comma, closing))


RULES: Mapping[str, Rule] = {
    "bound": _bound,
    "tparam": alone,
    "type_effects": _effects,
    "type_function": spaced,
    "type_array": _array,
    "type_name": alone,
    "type_constructor": _constructor,
    "type_of_module": _of_module,
    "type_parentheses": parenthesised,
    "size_number": alone,
    "size_name": alone,
    "size_row": alone,
    "size_hole": alone,
    "size_any": alone,
    "size_operator": _size,
    "second": alone,  # a size in parentheses
    "pattern_wildcard": alone,
    "pattern_name": alone,
    "pattern_integer": alone,
    "pattern_float": alone,
    "pattern_string": alone,
    "pattern_true": alone,
    "pattern_false": alone,
    "pattern_constructor": _pattern,
    "pattern_of_module": _pattern,
    "pattern_parentheses": parenthesised,
    "pattern_positional": alone,
    "pattern_named": spaced,
}
