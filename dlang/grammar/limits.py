"""How deep a program may be nested: the stages behind the parser recurse over the tree, and a stack has an end."""

from __future__ import annotations

from dataclasses import replace

from dlang.diagnostics import Diagnostic, Source, Span
from dlang.grammar import syntax as s
from dlang.grammar.lexer import Token
from dlang.grammar.newlines import CLOSERS, OPENERS
from dlang.grammar.trees import children

DEPTH = 400  # levels of a tree; `RECURSION_LIMIT` of the driver leaves room for all stages
STATEMENTS = 10_000  # in a function


def too_deep(span: Span) -> Diagnostic:
    """The message for what begins `DEPTH` levels inside a declaration."""
    return Diagnostic(
        "E0290",
        f"this is nested too deeply: more than {DEPTH} levels",
        span,
        label=f"level {DEPTH + 1}",
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
        problem = too_deep(deep.span)
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
    """The first node that is more than `DEPTH` levels below a tree's root."""
    level: list[s.Node] = [root]
    for _ in range(DEPTH + 1):
        level = [child for node in level for child in children(node)]
        if not level:
            return None
    return level[0]
