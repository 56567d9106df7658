"""Text → the same program in the one style."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from dlang.diagnostics import DlangError, Source
from dlang.format import expressions
from dlang.format.document import WIDTH, Break, Concat, Doc, Line, Trailing, layout
from dlang.format.printer import Rule, concrete, printer, trivia
from dlang.grammar import syntax as s
from dlang.grammar.lexer import tokenize
from dlang.grammar.parser import parse
from dlang.process import gc_paused, recursion

RULES: dict[str, Rule] = {
    **expressions.TYPE_RULES,
    **expressions.RULES,
    **expressions.STATEMENT_RULES,
    **expressions.ITEM_RULES,
}
_FRAMES = 20_000  # for trees as deep as the grammar allows


def format_source(source: Source) -> str:
    """The text of a file in the one style. Lines end as the first one of the file does; a byte order mark goes.

    Raises `DlangError` with the messages if there are syntax errors. What is given has the same syntax tree and the
    same comments in the same order, and is given back unchanged when it is formatted again.
    """
    ending = "\r\n" if source.text.split("\n", 1)[0].endswith("\r") else "\n"
    before = Source(source.path, source.text.removeprefix("\ufeff").replace("\r\n", "\n"))
    with recursion(_FRAMES), gc_paused():
        tree, diagnostics = parse(before)
        if any(d.severity == "error" for d in diagnostics):
            raise DlangError(diagnostics)
        after = Source(source.path, _formatted(before))
        again, wrong = parse(after)
        if wrong or not same_tree(tree, again) or comments(before.text) != comments(after.text):
            raise AssertionError(f"formatting would change what {source.path} means")
    return after.text.replace("\n", ending)


def _formatted(source: Source) -> str:
    tokens, trees = concrete(source)
    trivia_of_tokens = trivia(source.text, tokens)
    p = printer(RULES, tokens, trivia_of_tokens)
    parts: list[Doc] = []
    for tree in trees:
        parts += [Break(blank=p.apart(tree)), p.doc(tree)]
    end = trivia_of_tokens[-1]
    if end.above:
        parts += [Break(blank=end.apart), *end.above]
    lines = written(layout(Concat(parts)))
    return "".join(f"{line}\n" for line in lines)


_LEAST = 2  # spaces before a comment


def written(lines: list[Line]) -> list[str]:
    """The lines with their comments."""
    texts = [line.text for line in lines]
    for group in _groups(lines):
        end = max(len(texts[number]) for number, _ in group)
        gap = max(_LEAST, min(comment.gap for _, comment in group))
        longest = max(len(comment.text) for _, comment in group)
        column = max(end + _LEAST, min(end + gap, WIDTH - longest))
        for number, comment in group:
            texts[number] = texts[number].ljust(column) + comment.text
    return texts


def _groups(lines: list[Line]) -> Iterator[list[tuple[int, Trailing]]]:
    """The numbers and comments of lines near each other whose comments stood in one column; a group ends with a
    paragraph or a block."""
    group: list[tuple[int, Trailing]] = []
    indent = 0
    for number, line in enumerate(lines):
        ended = not line.text or line.text[:indent].strip()
        if group and (ended or (line.comment and line.comment.column != group[0][1].column)):
            yield group
            group = []
        if line.comment is not None:
            if not group:
                indent = len(line.text) - len(line.text.lstrip())
            group.append((number, line.comment))
    if group:
        yield group


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
    texts: list[str] = []
    before = 0
    for start, end in [*((t.start, t.end) for t in tokenize(text) if t.kind != "newline"), (len(text), len(text))]:
        texts += [line[line.index("#") :].rstrip() for line in text[before:start].splitlines() if "#" in line]
        before = end
    return texts
