"""The concrete tree of a well-formed text: what the grammar's alternatives are made of, with every token.

It is made by the same automaton and tables as the syntax tree, so both read a text alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dlang.diagnostics import Source
from dlang.grammar.lexer import Token, tokenize
from dlang.grammar.machine import Machine, Method
from dlang.grammar.newlines import layout
from dlang.grammar.tables import END, tables


@dataclass(slots=True, eq=False)
class Tree:
    """kind: the method of `grammar.tree.Builder` for this alternative. parts: its children (trees, tokens, lists with
    separators between the items, None for an absent optional part). start, end: of its text."""

    kind: str
    parts: list[Any]
    start: int
    end: int


def concrete(source: Source) -> tuple[list[Token], list[Tree]]:
    """All tokens but newlines, and a tree for each item. The text must be well formed."""
    rules = tables().rules
    made: dict[str, Method] = {"one": _one, "more": _more}
    methods = [None if r.method is None else made.setdefault(r.method, _method(r.method)) for r in rules]
    tokens = tokenize(source.text)
    trees: list[Tree] = []
    for item in layout(tokens, source).items:
        machine = Machine(tables(), "item", methods)
        end = item[-1].end
        item.append(Token(END, "", end, end))
        taken = machine.run(item)
        assert taken == len(item), "the text is not well formed"
        trees.append(machine.values[0])
    return [token for token in tokens if token.kind not in ("newline", ";")], trees


def _method(kind: str) -> Method:
    def build(parts: list[Any], start: int, end: int) -> Tree:
        return Tree(kind, parts, start, end)

    return build


def _one(parts: list[Any], start: int, end: int) -> list[Any]:
    return [parts[0]]


def _more(parts: list[Any], start: int, end: int) -> list[Any]:
    items: list[Any] = parts[0]
    items += parts[1:]
    return items
