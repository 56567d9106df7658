"""How deep a program may be nested: the stages behind the parser recurse over the tree, and a stack has an end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dlang.diagnostics import Diagnostic, Source, Span
from dlang.grammar import syntax as s
from dlang.grammar.lexer import Token
from dlang.grammar.newlines import CLOSERS, OPENERS
from dlang.grammar.trees import children

DEPTH = 400  # levels of a tree; what stages may recurse leaves room for all of them
ALL = 2_400  # of a tree in which operators one after another, as in `a + b - c`, are a level each
STATEMENTS = 10_000  # in a function


def too_deep(span: Span, most: int = DEPTH) -> Diagnostic:
    """The message for what begins so many levels inside a declaration."""
    return Diagnostic(
        "E0290",
        f"this is nested too deeply: more than {most:,} levels",
        span,
        label=f"level {most + 1:,}",
        notes=(),
        help=("give the inner parts names with `let`, or make them functions; add up many values with `sum([…])`",),
    )


def too_long(span: Span, what: str) -> Diagnostic:
    """The message for the first statement that is too many."""
    help = ("write a loop, or read data from a file with `io`",)
    return Diagnostic("E0290", f"{what} has more than {STATEMENTS:,} statements", span, help=help)


def deep_bracket(tokens: list[Token], source: Source) -> Diagnostic | None:
    """The message for the first bracket that too many others are open around; parentheses leave no node."""
    if len(tokens) <= DEPTH:
        return None
    depth = 0
    for token in tokens:
        if token.kind in OPENERS:
            depth += 1
            if depth > DEPTH:
                return too_deep(Span(source, token.start, token.end))
        elif token.kind in CLOSERS:
            depth = max(0, depth - 1)
    return None


def limited(item: s.Item, tokens: list[Token]) -> tuple[s.Item | None, Diagnostic | None]:
    """An item as the stages behind get it: without its body, or None, where there is too much of it."""
    if len(tokens) <= DEPTH:
        return item, None
    deep = deep_node(item)
    if deep is not None:
        problem = too_deep(deep.span, DEPTH if _below(item, DEPTH, _inside) else ALL)
    elif sum(token.kind == "NL" for token in tokens) > STATEMENTS:
        problem = too_long(item.span, "this declaration")
    else:
        return item, None
    match item:
        case s.Fn(body=body) if deep is None or deep_node(body) is not None:
            return replace(item, body=s.Hole(body.span)), problem
        case s.Const(value=value) if deep is None or deep_node(value) is not None:
            return replace(item, value=s.Hole(value.span)), problem
        case _:
            return None, problem


def deep_node(root: s.Node) -> s.Node | None:
    """The first node that is too many levels below a tree's root."""
    return _below(root, DEPTH, _inside) or _below(root, ALL, children)


def _below(root: s.Node, most: int, inside: Callable[[s.Node], list[s.Node]]) -> s.Node | None:
    """The first node that is more than so many levels below a tree's root."""
    level: list[s.Node] = [root]
    for _ in range(most + 1):
        level = [child for node in level for child in inside(node)]
        if not level:
            return None
    return level[0]


def _inside(node: s.Node) -> list[s.Node]:
    """The nodes directly inside; of operators one after another, all operands."""
    found: list[s.Node] = []
    while isinstance(node, s.Binary) and isinstance(node.left, s.Binary) and node.operator != "|>":
        found.append(node.right)
        node = node.left
    return found + children(node)
