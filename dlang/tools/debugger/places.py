"""The places of a source where a run can stop: its statements; and the scopes of its locals."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from dlang.diagnostics import Source, Span
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse
from dlang.grammar.trees import children

STATEMENT, LOOP, ELEMENT = "statement", "loop", "element"


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A statement, or an expression that stands in the place of one: the body of a function, an arm, an element.

    function: how the function around is called.
    """

    source: Source
    start: int
    end: int
    kind: str
    parent: Place | None
    function: str

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope `first..last` of names that are declared in `start..end`."""

    start: int
    end: int
    first: int
    last: int


@dataclass(slots=True)
class Places:
    """The places of one source. starts: of `places`, in order, with inner ones behind outer ones."""

    source: Source
    places: list[Place] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    comprehensions: set[tuple[int, int]] = field(default_factory=set)
    functions: dict[str, list[Place]] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    seen: dict[int, Scope] = field(default_factory=dict)

    @staticmethod
    def of(source: Source) -> Places:
        out = Places(source)
        module, _ = parse(source)
        for item in module.items:
            out._item(item, len(source.text))
        out.places.sort(key=lambda p: (p.start, -p.end))
        out.starts = [p.start for p in out.places]
        return out

    def at(self, first: int, elements: bool) -> Place | None:
        """The innermost place around a position. elements: whether that may be an element of a comprehension."""
        k = bisect_right(self.starts, first) - 1
        while k >= 0:
            p: Place | None = self.places[k]
            while p is not None and not (p.start <= first < p.end and (elements or p.kind != ELEMENT)):
                p = p.parent
            if p is not None:
                return p
            k -= 1
        return None

    def scope(self, declared: int) -> Scope:
        """Returns the scope of a name that is declared at a position."""
        if declared not in self.seen:
            around = [c for c in self.scopes if c.start <= declared < c.end]
            everywhere = Scope(0, 0, 0, len(self.source.text))
            self.seen[declared] = min(around, key=lambda c: c.end - c.start, default=everywhere)
        return self.seen[declared]

    # ---- the tree
    def _item(self, item: s.Item, end: int) -> None:
        match item:
            case s.Fn() | s.Rule():
                self._function(item, None)
            case s.Test() | s.Bench():
                self._block(item.body, None, f'"{item.name}"')
            case s.Const():
                self._body(item.value, None, item.name)
            case s.Struct() | s.Enum() | s.Alias() | s.Import() | s.Extern():
                pass
            case _:
                self._statement(item, None, "the script", end)

    def _function(self, node: s.Fn | s.Rule, parent: Place | None) -> None:
        name = node.name if isinstance(node, s.Fn) else f"the {node.kind} of {node.name}"
        before = len(self.places)
        for p in node.parameters:
            self._declares(p.span, Span(p.span.source, node.body.span.start, node.span.end))
        if isinstance(node, s.Rule):
            head = Span(node.span.source, node.span.start, node.body.span.start)
            self._declares(head, Span(node.span.source, node.body.span.start, node.span.end))
        self._body(node.body, parent, name)
        self.functions.setdefault(name, []).extend(self.places[before : before + 1])

    def _body(self, body: s.Expr, parent: Place | None, function: str, kind: str = STATEMENT) -> None:
        """A block, or an expression that stands in the place of one."""
        if isinstance(body, s.Block):
            self._block(body, parent, function)
        else:
            self._place(body, parent, function, kind)

    def _block(self, block: s.Block, parent: Place | None, function: str) -> None:
        for statement in block.statements:
            self._statement(statement, parent, function, block.span.end)

    def _statement(self, node: s.Statement, parent: Place | None, function: str, end: int) -> None:
        """end: of the block around it."""
        if isinstance(node, s.Fn):
            self._declares(node.name_span, Span(node.span.source, node.span.end, end))
            self._function(node, parent)
            return
        if isinstance(node, s.Let | s.Var):
            head = Span(node.span.source, node.span.start, node.value.span.start)
            self._declares(head, Span(node.span.source, node.span.end, end))
        kind = LOOP if isinstance(node, s.For | s.While) else STATEMENT
        self._place(node, parent, function, kind)

    def _place(self, node: s.Node, parent: Place | None, function: str, kind: str) -> None:
        place = Place(self.source, node.span.first, node.span.last, kind, parent, function)
        self.places.append(place)
        self._inside(node, place, function)

    def _inside(self, node: s.Node, place: Place, function: str) -> None:
        """The places inside of a node that is no place itself, or whose place is known."""
        match node:
            case s.Block():
                self._block(node, place, function)
                return
            case s.Lambda():
                for p in node.parameters:
                    self._declares(p.span, node.body.span)
                self._body(node.body, place, function)
                return
            case s.Comprehension():
                self.comprehensions.add((node.span.first, node.span.last))
                for b in node.binders:
                    self._declares(b.span, node.span)
                    self._inside(b, place, function)
                if node.condition is not None:
                    self._inside(node.condition, place, function)
                self._body(node.element, place, function, ELEMENT)
                return
            case s.For():
                for b in node.binders:
                    self._declares(b.span, node.span)
            case s.Match():
                self._inside(node.value, place, function)
                for arm in node.arms:
                    self._declares(arm.pattern.span, arm.span)
                    if arm.guard is not None:
                        self._inside(arm.guard, place, function)
                    if isinstance(arm.body, s.Block):
                        self._block(arm.body, place, function)
                    else:
                        self._statement(arm.body, place, function, arm.span.end)
                return
        for child in children(node):
            self._inside(child, place, function)

    def _declares(self, head: Span, seen: Span) -> None:
        self.scopes.append(Scope(head.first, head.last, seen.first, seen.last))


@dataclass(slots=True)
class Sources:
    """The places of all sources that a program comes from. hidden: of these nobody wants to see any."""

    hidden: tuple[str, ...] = ()
    known: dict[str, Places] = field(default_factory=dict)

    def of(self, source: Source) -> Places:
        file = source.file
        if file.path not in self.known:
            self.known[file.path] = Places(file) if file.path.startswith(self.hidden) else Places.of(file)
        return self.known[file.path]

    def at(self, span: Span, elements: bool) -> Place | None:
        return self.of(span.source).at(span.first, elements)

    def is_comprehension(self, span: Span) -> bool:
        """Tells whether a span is that of a comprehension that somebody wrote."""
        return (span.first, span.last) in self.of(span.source).comprehensions

    def functions(self, name: str) -> Iterator[Place]:
        """The first places of functions of a name."""
        for places in self.known.values():
            yield from places.functions.get(name, ())
