"""Text → syntax tree.

The text is split at its top-level declarations, and each is lexed, laid out and parsed on its own: a mistake in one
costs none of the others, and a declaration's tree depends on its own text alone (`Parts`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from itertools import islice
from typing import cast

from dlang.diagnostics import Diagnostic, Source, Span
from dlang.grammar import syntax as s
from dlang.grammar.lexer import Token, hidden, tokenize
from dlang.grammar.newlines import CLOSERS, OPENERS, closes_nothing, layout, match_brackets
from dlang.grammar.parts import Parts
from dlang.grammar.recovery import recover
from dlang.grammar.syntax import children
from dlang.grammar.tables import END, Machine, Method, tables
from dlang.grammar.tree import Builder, doc_line
from dlang.process import gc_paused
from dlang.timings import timed

_DECLARATION = re.compile(
    r"^(?:fn|struct|enum|type|const|import|test|bench|pullback|pushforward|extern|let|var)\b", re.MULTILINE
)
_TOP_COMMENTS = re.compile(r"(?:[ \t]*(?:#(?!#)[^\n]*)?\n)*((?:[ \t]*##[^\n]*(?:\n|$))+)")
_WITH_BODY = ("fn", "struct", "enum", "test", "bench", "pullback", "pushforward")
_DOCUMENTED = (s.Fn, s.Struct, s.Enum, s.Const, s.Extern)


def parse(source: Source, parts: Parts | None = None) -> tuple[s.Module, list[Diagnostic]]:
    """The tree of a file, and what is wrong in it. What could not be repaired is left out of the tree.

    parts: what was parsed before. The same declaration is then the same tree, and spans are those of its own source.
    """
    with gc_paused(), timed("parse"):
        parser = _Parser(source)
        items = parser.module(parts)
        return s.Module(source, items, _module_doc(source, items)), parser.sorted_diagnostics()


def parse_expression(source: Source) -> tuple[s.Expr | None, list[Diagnostic]]:
    """The tree of a text that is one expression; None where there is nothing of one."""
    with gc_paused():
        parser = _Parser(source)
        parser.diagnostics.extend(hidden(source))
        value = parser.expression(0, len(source.text))
        return (None if isinstance(value, s.Hole) else value), parser.sorted_diagnostics()


def parse_signature(source: Source, target: str) -> tuple[s.Module, list[Diagnostic]]:
    """The tree of a text that is `fn f(x: f64[n]) -> f64`, as if `extern` and a target stood in front of it."""
    with gc_paused():
        parser = _Parser(source)
        front = [Token("extern", "extern", 0, 0), Token("STRING", f'"{target}"', 0, 0)]
        return s.Module(source, tuple(parser.declared([*front, *tokenize(source.text)]))), parser.sorted_diagnostics()


def declarations(text: str) -> list[tuple[int, int]]:
    """The ranges of the top-level declarations; together they are the whole text.

    One begins where its first word stands at the left margin, or with the comments directly above.
    """
    starts = [0]
    for match in _DECLARATION.finditer(text):
        start = match.start()
        while start > starts[-1] and text.startswith("#", above := text.rfind("\n", 0, start - 1) + 1):
            start = above
        if start > starts[-1]:
            starts.append(start)
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


class _Parser:
    """The parts that all declarations of a file share. `source` is that of the declaration at hand."""

    def __init__(self, source: Source) -> None:
        self.file = self.source = source
        self.tables = tables()
        self.builder = Builder(source, self.expression)
        self.methods: list[Method | None] = [
            None if rule.method is None else getattr(self.builder, rule.method) for rule in self.tables.rules
        ]
        self.diagnostics = self.builder.diagnostics

    def sorted_diagnostics(self) -> list[Diagnostic]:
        return sorted(self.diagnostics, key=lambda d: (d.span.first, d.span.last) if d.span else (0, 0))

    def module(self, parts: Parts | None) -> tuple[s.Item, ...]:
        self.diagnostics.extend(hidden(self.file))
        ranges = declarations(self.file.text)
        before = parts.kept.get(self.file.path, {}) if parts is not None else {}
        kept: dict[str, list[tuple[Source, tuple[s.Item, ...]]]] = {}
        items: list[s.Item] = []
        at = line = 0  # `line`: how many end before `at`
        lines_to = 0
        while at < len(ranges):
            start, end = ranges[at]
            line += self.file.text.count("\n", lines_to, start)
            lines_to = start
            text = self.file.text[start:end]
            if known := before.get(text):
                source_before, found_ = known.pop(0)
                source_before.first_line, source_before.offset, source_before.whole = line + 1, start, self.file
                kept.setdefault(text, []).append((source_before, found_))
                items.extend(found_)
                at += 1
                continue
            taken, reported = 1, len(self.diagnostics)
            tokens = self._enter(start, end, line, parts)
            items_read = self._well_formed(tokens)
            if items_read is None:
                nesting = (self._nesting(start, end, before) for start, end in islice(ranges, at, None))
                if (taken := _balanced_run(nesting)) > 1:
                    # A bracket is open at the end: what follows may be its content, although it isn't indented.
                    items_read = self._well_formed(self._enter(start, ranges[at + taken - 1][1], line, parts))
                if items_read is None:
                    taken = 1
                    items_read = self._with_mistakes(self._enter(start, end, line, parts))
            items.extend(items_read)
            if taken == 1 and len(self.diagnostics) == reported:
                kept.setdefault(text, []).append((self.source, tuple(items_read)))
            at += taken
        if parts is not None:
            parts.kept[self.file.path] = kept
        statements = [item for item in items if isinstance(item, s.Statement) and not isinstance(item, s.Fn)]
        if len(statements) > STATEMENTS:
            self.diagnostics.append(too_long(statements[STATEMENTS].span, "this script"))
            return tuple(i for i in items if isinstance(i, s.Fn) or not isinstance(i, s.Statement))
        return tuple(items)

    def _nesting(self, start: int, end: int, well_formed: Container[str]) -> int:
        """How many more brackets open than close in a range of the file."""
        text = self.file.text[start:end]
        return 0 if text in well_formed else sum((t.kind in OPENERS) - (t.kind in CLOSERS) for t in tokenize(text))

    def _enter(self, start: int, end: int, line: int, parts: Parts | None) -> list[Token]:
        """Goes to a range of the file, which begins after so many lines; its tokens."""
        if parts is None:
            return self._shallow(tokenize(self.file.text, start, end))
        parts.made += 1
        text = self.file.text[start:end]
        self.source = self.builder.source = Source(self.file.path, text, line + 1, start, parts.made, self.file)
        return self._shallow(tokenize(text))

    def _shallow(self, tokens: list[Token]) -> list[Token]:
        """The tokens; none where brackets are nested too deeply, which is reported."""
        deep = deep_bracket(tokens, self.source)
        if deep is None:
            return tokens
        self.diagnostics.append(deep)
        return []

    def _limited(self, item: s.Item, tokens: list[Token]) -> list[s.Item]:
        """An item, unless it is nested too deeply, which is reported."""
        kept, deep = limited(item, tokens)
        if deep is not None:
            self.diagnostics.append(deep)
        return [kept] if kept is not None else []

    def declared(self, tokens: list[Token]) -> list[s.Item]:
        """The items that tokens are."""
        items = self._well_formed(tokens)
        return self._with_mistakes(tokens) if items is None else items

    def expression(self, start: int, end: int) -> s.Expr:
        """The expression that is written in a range of the source, or a hole."""
        tokens = self._shallow(tokenize(self.source.text, start, end))
        laid = layout(tokens, self.source)
        unclosed: set[int] = set()
        mistakes: list[int] = []
        if not laid.balanced:
            tokens, unclosed, diagnostics = match_brackets(tokens, self.source)
            self.diagnostics.extend(diagnostics)
            mistakes = [d.span.start for d in diagnostics if d.span]
            laid = layout(tokens, self.source, unclosed)
        self.diagnostics.extend(laid.diagnostics)
        joined: list[Token] = []
        for item in laid.items:
            if joined:
                joined.append(Token("NL", "\n", joined[-1].end, joined[-1].end))
            joined.extend(item)
        value = self._limited(self._run(joined, "expr", unclosed, (start, end), mistakes), joined)
        return cast("s.Expr", value[0]) if value else s.Hole(Span(self.source, start, end))

    def _well_formed(self, tokens: list[Token]) -> list[s.Item] | None:
        """The items of a declaration without a mistake; None if there is one."""
        laid = layout(tokens, self.source)
        if not laid.balanced:
            return None
        known = len(self.diagnostics)
        items: list[s.Item] = []
        for item in laid.items:
            machine = Machine(self.tables, "item", self.methods)
            item.append(_end(item[-1].end))
            if machine.run(item) < len(item):
                del self.diagnostics[known:]
                return None
            items.extend(self._limited(machine.values[0], item))
        self.diagnostics.extend(laid.diagnostics)
        return items

    def _with_mistakes(self, tokens: list[Token]) -> list[s.Item]:
        tokens, unclosed, diagnostics = match_brackets(tokens, self.source)
        laid = layout(tokens, self.source, unclosed)
        before = len(self.diagnostics)
        mistakes = [d.span.start for d in (*diagnostics, *laid.diagnostics) if d.span]
        items: list[s.Item] = []
        broken_column = -1  # lines that are deeper than a broken item above them belong to it
        for item in _join_braces(laid.items):
            column = self.source.position(item[0].start)[1]
            if 0 <= broken_column < column:
                continue
            known = len(self.diagnostics)
            value = self._run(item, "item", unclosed, (item[0].start, item[-1].end), mistakes)
            broken_column = column if len(self.diagnostics) > known or diagnostics else -1
            if not isinstance(value, s.Hole) and getattr(value, "name", None) != "":
                items.extend(self._limited(value, item))
        if any(d.code == "E0114" for d in self.diagnostics[before:]):
            # The `}` of a `{` that is missing is not one too many.
            diagnostics = [d for d in diagnostics if not closes_nothing(d, "}")]
        self.diagnostics.extend([*diagnostics, *laid.diagnostics])
        return items

    def _run(
        self, tokens: list[Token], start: str, unclosed: set[int], extent: tuple[int, int], mistakes: list[int]
    ) -> s.Item:
        """Returns the item that the tokens form, repaired if need be; a hole if that can't be."""
        tokens.append(_end(tokens[-1].end if tokens else extent[1]))

        def new_machine() -> Machine:
            return Machine(self.tables, start, self.methods)

        machine: Machine | None = new_machine()
        assert machine is not None
        known = len(self.diagnostics)
        if machine.run(tokens) < len(tokens):
            del self.diagnostics[known:]
            machine = recover(new_machine, tokens, self.source, unclosed, mistakes, self.diagnostics)
        value: s.Item = s.Hole(Span(self.source, *extent)) if machine is None else machine.values[0]
        return value


def _join_braces(items: list[list[Token]]) -> list[list[Token]]:
    """Put a `{` that begins a line behind the declaration above it, so that one message speaks of both."""
    joined: list[list[Token]] = []
    for item in items:
        if joined and item[0].kind == "{" and joined[-1][0].kind in _WITH_BODY:
            end = joined[-1][-1].end
            joined[-1] += [Token("NL", "\n", end, end), *item]
        else:
            joined.append(item)
    return joined


def _end(position: int) -> Token:
    return Token(END, "", position, position)


def _balanced_run(nesting: Iterable[int]) -> int:
    """How many parts must be joined so that as many brackets close as open; 1 if none do. nesting: of each part, how
    many more open than close."""
    depth = 0
    for joined, more in enumerate(nesting, 1):
        depth += more
        if depth <= 0:
            return joined if depth == 0 else 1
    return 1


def _module_doc(source: Source, items: tuple[s.Item, ...]) -> str:
    """The first `##` lines of a file, unless they are an item's."""
    match = _TOP_COMMENTS.match(source.text)
    if match is None or (items and items[0].span.first < match.end()):
        return ""
    if items and isinstance(items[0], _DOCUMENTED) and not source.text[match.end() : items[0].span.first].strip(" \t"):
        return ""
    return "\n".join(doc_line(line.strip()) for line in match[1].splitlines())


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
    nodes: list[s.Node] = []
    while isinstance(node, s.Binary) and isinstance(node.left, s.Binary) and node.operator != "|>":
        nodes.append(node.right)
        node = node.left
    return nodes + children(node)
