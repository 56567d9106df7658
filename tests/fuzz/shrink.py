"""Makes a program with which something is wrong as small as it can be, such that the same is wrong with it.

An edit replaces a part of the text by less: a declaration, a statement, or some of them, by nothing; a statement with a
body by the body; an expression by one inside of it, or a literal; a parameter by nothing, there and in all calls; what
is mentioned once, a local or a function, goes where it is mentioned. Edits that take most come first, and what the
checker refuses is never run. What is left is no longer made smaller by any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import process_time

from dlang.diagnostics import DlangError, Source
from dlang.driver import check, errors_of
from dlang.format.formatting import format_source
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse
from dlang.grammar.syntax import walk

Edit = tuple[tuple[int, int, str], ...]
"""Parts of a text, from and to, and what comes in their places; they do not overlap."""
LITERALS = ("0.5", "1", "true")
TRIES = 300
KEPT = frozenset({"main"})


@dataclass(slots=True)
class Shrinker:
    """fails: whether what was wrong with the first program is wrong with another.

    tries, seconds: how often that is asked at most, and how much time of the processor all may take.
    """

    fails: Callable[[str], bool]
    tries: int = TRIES
    seconds: float = 90.0
    start: float = field(default_factory=process_time)
    seen: set[str] = field(default_factory=set)

    def shrunk(self, text: str) -> str:
        """The smallest program that is found. Edits that save most are tried again when none saves less."""
        while True:
            before, largest = text, len(text)
            while (smaller := self.smaller(text, largest)) is not None:
                largest = len(text) - len(smaller)
                text = smaller
            if text == before:
                return self.written(text)

    def smaller(self, text: str, largest: int) -> str | None:
        """A smaller program with which the same is wrong, by an edit that saves no more than a number of characters."""
        edits = sorted({e for e in edits_of(text) if 0 < saved(e) <= largest}, key=lambda e: -saved(e))
        for candidate in dict.fromkeys([edited(text, e) for e in edits]):
            if self.tries <= 0 or process_time() - self.start > self.seconds:
                break
            if candidate not in self.seen:
                self.seen.add(candidate)
                if well_typed(candidate):
                    self.tries -= 1
                    if self.fails(candidate):
                        return candidate
        return None

    def written(self, text: str) -> str:
        """The program in the one style, if that is as wrong."""
        try:
            styled = format_source(Source("program.dl", re.sub(r"\n\s*\n+", "\n", text).strip() + "\n"))
        except DlangError:
            return text
        return styled if styled == text or self.fails(styled) else text


def well_typed(text: str) -> bool:
    try:
        return not errors_of(check(Source("program.dl", text)))
    except DlangError:
        return False


def saved(edit: Edit) -> int:
    """How many characters less there are."""
    return sum(end - start - len(text) for start, end, text in edit)


def edited(text: str, edit: Edit) -> str:
    for start, end, new in sorted(edit, reverse=True):
        text = text[:start] + new + text[end:]
    return text


# ---- edits -----------------------------------------------------------------------------------------------------------
def edits_of(text: str) -> Iterator[Edit]:
    """The edits of a program that may make it smaller."""
    module, _ = parse(Source("program.dl", text))
    items = [i for i in module.items if getattr(i, "name", "") not in KEPT]
    yield from removals(text, items)
    for node in walk(*module.items):
        match node:
            case s.Block(statements=statements):
                yield from removals(text, statements)
                for k, statement in enumerate(statements):
                    yield from unwrapped(text, statement)
                    yield from in_place(text, statement, statements[k + 1 :])
            case s.Fn():
                if node.result is not None:
                    yield (arrow_to(text, node.result),)
                if node.name not in KEPT:
                    yield from without_parameters(text, module, node)
                    yield from inlined(text, module, node)
            case s.Call(arguments=several) | s.Array(items=several) | s.Comprehension(binders=several):
                yield from without_one(text, several)
            case s.Match(arms=arms):
                yield from without_one(text, arms)
            case _:
                pass
        if isinstance(node, EXPRESSIONS) and not isinstance(node, s.Block):
            yield from replacements(text, node)


EXPRESSIONS = (
    s.Number, s.Boolean, s.String, s.Name, s.Tuple, s.Array, s.Comprehension, s.Call, s.Index, s.Field, s.Unary,
    s.Binary, s.Cast, s.Lambda, s.If, s.Match, s.Block,
)  # fmt: skip


def of(text: str, node: s.Node) -> str:
    return text[node.span.first : node.span.last]


def removals(text: str, nodes: Sequence[s.Node]) -> Iterator[Edit]:
    """Some that follow one another, by halves, and each for itself."""
    count = len(nodes)
    width = count
    while width:
        for first in range(0, count, width):
            part = nodes[first : first + width]
            yield tuple([(n.span.first, end_of(text, n.span.last), "") for n in part])
        width //= 2


def end_of(text: str, end: int) -> int:
    """Behind the sign that ends a statement, on the same line."""
    rest = re.match(r"[ \t]*;", text[end:])
    return end + (rest.end() if rest else 0)


def unwrapped(text: str, statement: s.Node) -> Iterator[Edit]:
    """A statement with blocks by what is in one of them."""
    blocks: list[s.Node | None] = []
    match statement:
        case s.For(body=body) | s.While(body=body):
            blocks = [body]
        case s.If(then=then, otherwise=otherwise):
            blocks = [then, otherwise]
            if otherwise is not None:
                yield ((then.span.last, otherwise.span.last, ""),)
        case _:
            pass
    for block in [*blocks, statement]:
        if isinstance(block, s.Block):
            yield ((statement.span.first, statement.span.last, inside(text, block)),)


def inside(text: str, block: s.Node) -> str:
    """The statements of a block."""
    return of(text, block).strip()[1:-1].strip()


def in_place(text: str, statement: s.Node, rest: Sequence[s.Node]) -> Iterator[Edit]:
    """The value of a local that is mentioned once in the place where it is."""
    if isinstance(statement, s.Let | s.Var) and isinstance(statement.pattern, s.PatternName):
        uses = [n for n in walk(*rest) if isinstance(n, s.Name) and n.name == statement.pattern.name]
        if len(uses) <= 1:
            value = of(text, statement.value)
            value = value if isinstance(statement.value, s.Block | s.Name | s.Call) else f"({value})"
            gone = (statement.span.first, end_of(text, statement.span.last), "")
            yield (gone, *[(use.span.first, use.span.last, value) for use in uses])


def inlined(text: str, module: s.Module, fn: s.Fn) -> Iterator[Edit]:
    """A function that is mentioned once, in a call, as a block in the place of that."""
    mentions = [n for n in walk(*module.items) if isinstance(n, s.Name) and n.name == fn.name]
    calls = [n for n in walk(*module.items) if isinstance(n, s.Call) and n.function in mentions]
    if len(mentions) == 1 == len(calls) and len(calls[0].arguments) == len(fn.parameters):
        (call,) = calls
        pairs = zip(fn.parameters, call.arguments, strict=True)
        lets = [f"let {of(text, p.pattern)} = {of(text, a.value)}" for p, a in pairs]
        body = inside(text, fn.body) if isinstance(fn.body, s.Block) else of(text, fn.body)
        block = "{ " + "; ".join([*lets, body]) + " }"
        if all(n is not call for n in walk(fn)):
            yield ((fn.span.first, fn.span.last, ""), (call.span.first, call.span.last, block))


def replacements(text: str, node: s.Node) -> Iterator[Edit]:
    """An expression by one inside, or by a literal."""
    start, end = node.span.first, node.span.last
    for inner in walk(node):
        if inner is not node and isinstance(inner, EXPRESSIONS):
            part = of(text, inner)
            if isinstance(inner, s.Block):
                continue
            if isinstance(inner, s.Binary | s.Unary | s.Cast | s.Lambda) and not part.startswith("("):
                part = f"({part})"
            yield ((start, end, part),)
    for literal in LITERALS:
        yield ((start, end, literal),)


def without_one(text: str, nodes: Sequence[s.Node]) -> Iterator[Edit]:
    """A list without one of its parts."""
    for k in range(len(nodes) if len(nodes) > 1 else 0):
        yield (left_out(nodes, k),)


def left_out(nodes: Sequence[s.Node], k: int) -> tuple[int, int, str]:
    """The part of a text that is one of several and the comma beside it."""
    if len(nodes) == 1:
        return nodes[0].span.first, nodes[0].span.last, ""
    if k:
        return nodes[k - 1].span.last, nodes[k].span.last, ""
    return nodes[0].span.first, nodes[1].span.first, ""


def without_parameters(text: str, module: s.Module, fn: s.Fn) -> Iterator[Edit]:
    """A function without one of its parameters, and all calls without that argument."""
    calls = [
        n for n in walk(*module.items) if isinstance(n, s.Call) and isinstance(n.function, s.Name)
        if n.function.name == fn.name
    ]  # fmt: skip
    for k in range(len(fn.parameters)):
        cuts = [left_out(fn.parameters, k)]
        for call in calls:
            if len(call.arguments) != len(fn.parameters):
                break
            cuts.append(left_out(call.arguments, k))
        else:
            cuts.sort()
            if all(a[1] <= b[0] for a, b in pairwise(cuts)):
                yield tuple(cuts)


def arrow_to(text: str, result: s.Node) -> tuple[int, int, str]:
    """The type of a result with the arrow before it."""
    start = text.rindex("->", 0, result.span.first)
    return start, result.span.last, ""
