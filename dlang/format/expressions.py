"""Expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlang.format.brackets import braced, bracketed, closed, comprehension, filled
from dlang.format.concrete import Tree
from dlang.format.document import (
    HARD,
    INDENT,
    WIDTH,
    Break,
    Doc,
    Fill,
    Nest,
    choice,
    concat,
    flat,
    forced,
    opened,
    width,
)
from dlang.format.placing import branches, placed
from dlang.format.printer import Part, Printer, Rule, alone, spaced
from dlang.format.types import parenthesised
from dlang.grammar.lexer import Token

# Operators that are one chain: `a + b - c`.
_LEVELS = {
    operator: level
    for level, operators in enumerate(["or", "and", "== != < <= > >=", "|>", "+ -", "* / // % @", "**"])
    for operator in operators.split()
}
# An operand that is so wide takes several lines even if it begins one.
_WIDE = WIDTH - 10


def _token(p: Printer, tree: Tree) -> Doc:
    return p.token(tree.parts[0])


def _negated(p: Printer, tree: Tree) -> Doc:
    operator, operand = tree.parts
    return concat(p.token(operator), " " if operator.kind == "not" else "", p.doc(operand))


def _lambda(p: Printer, tree: Tree) -> Doc:
    opening, items, comma, closing, body = tree.parts
    head = _parameters(p, opening, items, comma)
    return concat(head, placed(p, p.token(closing), body, below_first=False))


def _lambda_typed(p: Printer, tree: Tree) -> Doc:
    opening, items, comma, closing, arrow, type_, body = tree.parts
    head = concat(_parameters(p, opening, items, comma), p.token(closing))
    return concat(head, " ", p.token(arrow), " ", p.doc(type_), " ", p.doc(body))


def _parameters(p: Printer, opening: Token, items: list[Any] | None, comma: Token | None) -> Doc:
    """`|x, y`, on as many lines as they need."""
    return concat(p.token(opening), filled(p, items, 2 * INDENT) if items else "", p.dropped(comma))


def _if(p: Printer, tree: Tree) -> Doc:
    forms = branches(p, tree)
    return choice(*(form for form in (forms.line, forms.chain, forms.long, forms.longest) if form is not None))


def _match(p: Printer, tree: Tree) -> Doc:
    match_, value, opening, arms, comma, closing = tree.parts
    separators = [s if s.kind == "," else None for s in arms[1::2]] + [comma]
    block = braced(p, opening, arms[::2], separators, closing, ", ")
    return concat(p.token(match_), " ", Nest(p.doc(value)), " ", block)


def _arm(p: Printer, tree: Tree) -> Doc:
    alternatives, if_, guard, arrow, body = tree.parts
    filled: list[Doc] = [p.doc(alternatives[0])]
    for bar, pattern in zip(alternatives[1::2], alternatives[2::2]):
        doc = p.doc(pattern)
        filled[-1] = concat(filled[-1], " ", p.token(bar))
        filled += [Break(" ", hard=p.commented(bar) or (forced(doc) and p.broken(pattern))), doc]
    head = filled[0] if len(filled) == 1 else Nest(Fill(filled))
    if guard is not None:
        head = concat(head, " ", p.token(if_), " ", p.doc(guard))
    return concat(head, " ", placed(p, p.token(arrow), body, below_first=True))


def _block(p: Printer, tree: Tree) -> Doc:
    opening, statements, closing = tree.parts
    items = (statements or [])[::2]
    return braced(p, opening, items, [None] * len(items), closing, "; ")


def _call(p: Printer, tree: Tree) -> Doc:
    function, *arguments = tree.parts
    return concat(p.doc(function), bracketed(p, *arguments))


def _call_comprehension(p: Printer, tree: Tree) -> Doc:
    function, *rest = tree.parts
    return concat(p.doc(function), comprehension(p, rest))


def _comprehension(p: Printer, tree: Tree) -> Doc:
    return comprehension(p, tree.parts)


def _slice(p: Printer, tree: Tree) -> Doc:
    low, dots, high, by, step = tree.parts
    written = concat(*(p.doc(part) for part in (low, dots, high) if part is not None))
    return written if by is None else concat(written, " ", p.token(by), " ", p.doc(step))


def _tuple_member(p: Printer, tree: Tree) -> Doc:
    base, index = tree.parts
    return concat(p.doc(base), " " if base.kind == "integer" else "", p.token(index))  # `1.0` would be a float


def _binary(p: Printer, tree: Tree) -> Doc:
    """A chain of operators of one level. Where it takes several lines, these begin with operators in brackets, and end
    with them elsewhere, where a line that begins with one would be a statement."""
    operands, operators = _chain(tree)
    docs = list(map(p.doc, operands))
    signs = list(map(p.token, operators))
    if operators[0].kind == "**":
        return _on_a_line(docs, signs)
    line = _on_a_line(list(map(flat, docs)), signs)
    pipes = operators[0].kind == "|>"
    contents: list[Doc] = [Nest(docs[0], -INDENT)]
    for operator, doc in zip(operators, docs[1:], strict=True):
        if p.bracketed or pipes:
            behind, sign = p.behind_first(operator)
            contents[-1] = concat(contents[-1], behind)
            contents.append(concat(sign, " ", doc))
        else:
            contents[-1] = concat(contents[-1], " ", p.token(operator))
            contents.append(doc)
    begun = [p.broken(o) or p.broken(right) for o, right in zip(operators, operands[1:], strict=True)]
    filled: list[Doc] = [contents[0]]
    for breaks, content in zip(begun, contents[1:], strict=True):
        filled += [HARD if pipes else Break(" ", hard=breaks), content]
    long: Doc = Nest(Fill(filled))
    inner = [*operators, *operands[1:-1]]
    if any(map(p.commented, inner)) or p.behind(operands[0]) or p.starts[operands[-1].start].above:
        return long
    if any(begun) and (pipes or forced(line)):
        return long
    if closed(p, operands[-1]) and width(docs[-1]) > _WIDE and not forced(docs[-1]):
        return choice(line, opened(_on_a_line([*map(flat, docs[:-1]), docs[-1]], signs)), long)
    return choice(line, long)


def _on_a_line(operands: list[Doc], operators: list[Doc]) -> Doc:
    first, *others = operands
    return concat(first, *(part for sign, doc in zip(operators, others, strict=True) for part in (" ", sign, " ", doc)))


def _chain(tree: Tree) -> tuple[list[Part], list[Token]]:
    """The operands and operators of one level, from left to right."""
    level = _LEVELS[tree.parts[1].kind]
    operands: list[Part] = []
    operators: list[Token] = []
    rest: Any = tree
    while isinstance(rest, Tree) and rest.kind == "binary" and _LEVELS[rest.parts[1].kind] == level:
        rest, operator, right = rest.parts
        operands.append(right)
        operators.append(operator)
    return [rest, *reversed(operands)], operators[::-1]


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(["integer", "float", "string", "true", "false", "name", "blank"], _token),
    "parentheses": parenthesised,
    "array": parenthesised,
    "comprehension": _comprehension,
    "call": _call,
    "call_comprehension": _call_comprehension,
    "argument": alone,
    "named_argument": spaced,
    "spread_argument": alone,
    "index": _call,
    "slice": _slice,
    "member": alone,
    "tuple_member": _tuple_member,
    "unary": _negated,
    "binary": _binary,
    "cast": spaced,
    "lambda_": _lambda,
    "lambda_typed": _lambda_typed,
    "if_": _if,
    "match_": _match,
    "arm": _arm,
    "block": _block,
}
