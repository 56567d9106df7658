"""Tells whether two texts mean the same: their syntax trees are equal, and so are their comments."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dlang.grammar import syntax as s
from dlang.grammar.lexer import tokenize

_PARTS = {
    kind: tuple(f.name for f in fields(kind) if f.name not in ("span", "name_span", "source"))
    for kind in vars(s).values()
    if isinstance(kind, type) and issubclass(kind, (s.Node, s.Module))
}


def same_tree(left: s.Module, right: s.Module) -> bool:
    """Tells whether two trees differ at most in their spans."""
    stack: list[tuple[Any, Any]] = [(left, right)]
    while stack:
        a, b = stack.pop()
        if type(a) is not type(b):
            return False
        if type(a) in _PARTS:
            stack.extend((getattr(a, name), getattr(b, name)) for name in _PARTS[type(a)])
        elif isinstance(a, tuple):
            if len(a) != len(b):
                return False
            stack.extend(zip(a, b, strict=True))
        elif a != b:
            return False
    return True


def comments(text: str) -> list[str]:
    """All comments of a text in order."""
    found: list[str] = []
    before = 0
    for start, end in [*((t.start, t.end) for t in tokenize(text) if t.kind != "newline"), (len(text), len(text))]:
        found += [line[line.index("#") :].rstrip() for line in text[before:start].splitlines() if "#" in line]
        before = end
    return found
