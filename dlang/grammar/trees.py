"""Walks over the syntax tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from dlang.diagnostics import Span
from dlang.grammar import syntax as s

_PARTS = {
    kind: tuple(f.name for f in fields(kind) if f.name not in ("span", "name_span"))
    for kind in vars(s).values()
    if isinstance(kind, type) and issubclass(kind, s.Node)
}


def children(node: s.Node) -> list[s.Node]:
    """The nodes directly inside, in the order in which they are written."""
    found: list[s.Node] = []
    for name in _PARTS[type(node)]:
        value = getattr(node, name)
        if isinstance(value, s.Node):
            found.append(value)
        elif isinstance(value, tuple):
            _collect(value, found)
    return found


def _collect(values: tuple[object, ...], found: list[s.Node]) -> None:
    for value in values:
        if isinstance(value, s.Node):
            found.append(value)
        elif isinstance(value, tuple) and not isinstance(value, Span):
            _collect(value, found)


def walk(*roots: s.Node | None) -> Iterator[s.Node]:
    """Every node of some trees, in the order in which they are written."""
    stack = [r for r in reversed(roots) if r is not None]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(children(node))
