"""A program as the debugger runs it: instructions, the statements that they belong to, and the scopes of locals."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from dlang.diagnostics import CallSite, Source, Span
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse
from dlang.grammar.syntax import children
from dlang.interpret.code import Step
from dlang.interpret.interpreter import step_of
from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Let, Var
from dlang.ir.marks import BACKWARD, Mark, is_mark, is_reversed, mark_of
from dlang.ir.traverse import op_blocks, used_by
from dlang.specialize.names import Name

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


Via = tuple[CallSite, ...]
Key = tuple[
    object, Via, tuple[str, ...]
]  # of a variable, or a cotangent: the local, where it is, the kinds of its mark
PLAIN, MARK, COMP, CALL, IF, FOR, WHILE, EFFECT = range(8)
_KINDS: dict[type, int] = {
    anf.Comp: COMP, anf.Call: CALL, anf.If: IF, anf.For: FOR, anf.While: WHILE, anf.Effect: EFFECT,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Spot:
    """A place as it is reached by calls in whose place its code stands (`via`, innermost first).

    parent: the statement around, or that of the call.
    """

    number: int
    place: Place
    via: tuple[CallSite, ...]
    parent: Spot | None

    def inside(self, other: Spot | None) -> bool:
        """Tells whether the other spot is around this one."""
        p = self.parent
        while p is not None:
            if p is other:
                return True
            p = p.parent
        return False

    def around(self) -> Iterator[int]:
        """The numbers of the spots around this one, and its own."""
        p: Spot | None = self
        while p is not None:
            yield p.number
            p = p.parent

    @property
    def caller(self) -> Spot | None:
        """The spot of the call in whose place the code stands."""
        p = self.parent
        while p is not None and len(p.via) >= len(self.via):
            p = p.parent
        return p

    def beginning(self, before: Spot | None, loop: Spot | None) -> list[Spot]:
        """The spot and the calls that begin with it, innermost first, where code stands in the place of calls.

        before: the spot before this one; loop: the innermost loop under way. What is around one of them has begun.
        """
        beginning, p = [self], self.parent
        while p is not None and p is not loop and p is not before and not (before is not None and before.inside(p)):
            if len(p.via) < len(beginning[-1].via):
                beginning.append(p)
            p = p.parent
        return beginning


@dataclass(slots=True, eq=False)
class Instruction:
    """kind: how the machine runs it. step: that of the interpreter, if it holds no code.

    spot: None if it belongs to no statement that a person has written. via: of a mark, the calls in whose place it
    stands; name: what it names, and key: that of what is known of it. starts: whether a person stops there. enters:
    of a comprehension, whether there is something to see at its points; rows: its axes along which each element is
    an array, named: those that have names. reversed: of a loop, whether it goes through the iterations of another, the
    last first.
    """

    kind: int
    let: Let
    spot: Spot | None
    step: Step | None
    mark: Mark | None = None
    via: tuple[CallSite, ...] = ()
    starts: bool = True
    enters: bool = False
    reversed: bool = False
    blocks: tuple[Code, ...] = ()
    name: Name | None = None
    key: Key | None = None
    rows: frozenset[Var] = frozenset()
    named: frozenset[Var] = frozenset()


@dataclass(slots=True, eq=False)
class Code:
    """A block. function: the name of the function of the IR that it stands in."""

    instructions: list[Instruction]
    results: tuple[Atom, ...]
    function: str
    block: Block


@dataclass
class Library:
    """The code of a program, made as it is needed. names: those of its marks."""

    program: anf.Program
    sources: Sources
    names: dict[str, Name]
    spots: list[Spot] = field(default_factory=list)
    _spots: dict[object, Spot | None] = field(default_factory=dict)
    _functions: dict[str, Code] = field(default_factory=dict)
    _bodies: dict[Instruction, Code] = field(default_factory=dict)
    _reached: dict[Instruction, frozenset[int]] = field(default_factory=dict)
    _remembers: dict[str, bool] = field(default_factory=dict)

    def function(self, name: str) -> Code:
        if name not in self._functions:
            self._functions[name] = self._code(self.program.functions[name].body, name, False)
        return self._functions[name]

    def element(self, i: Instruction, function: str) -> Code:
        """The body of a comprehension, to be followed at one of its points."""
        op = i.let.op
        assert isinstance(op, anf.Comp)
        if i not in self._bodies:
            code = self._bodies[i] = self._code(op.body, function, True)
            _belongs(code, i.spot)
        return self._bodies[i]

    def _code(self, block: Block, function: str, element: bool) -> Code:
        return Code([self._instruction(let, function, element) for let in block.lets], block.results, function, block)

    def _instruction(self, let: Let, function: str, element: bool) -> Instruction:
        op = let.op
        spot = self.spot(let.span, element)
        mark = mark_of(op)
        if mark is not None:
            name = self.names.get(mark.key)
            starts = spot is not None and spot.place.kind != LOOP and name is not None and not name.given
            if name is not None and name.is_result and let.span is not None and let.span.head(1).text == "{":
                starts = False  # of a body that may return before: it is no statement
            via = () if let.span is None else tuple(let.span.calls())
            key = None if name is None else (name.local, via, mark.kinds)
            return Instruction(MARK, let, spot, None, mark, via, starts, name=name, key=key)
        kind = _KINDS.get(type(op))
        if kind is None:
            return Instruction(PLAIN, let, spot, step_of(let))
        if kind == COMP:
            assert isinstance(op, anf.Comp)
            return Instruction(
                kind, let, spot, step_of(let), enters=self._enters(let), rows=_rows(op), named=_named(op)
            )
        inner = () if kind in (CALL, EFFECT) else tuple(
            [self._code(b, function, element) for b in op_blocks(op)]
        )  # fmt: skip
        back = isinstance(op, anf.For | anf.While) and is_reversed(op.body)
        if back or kind == FOR:  # one stops at the condition of a `while` that runs forward, in each iteration
            for code in inner:
                _belongs(code, spot)
        return Instruction(kind, let, spot, step_of(let) if kind == EFFECT else None, reversed=back, blocks=inner)

    @cached_property
    def tapes(self) -> frozenset[str]:
        """The datatypes of what calls leave for their backward passes."""
        given = [f.params[0].type for f in self.program.functions.values() if f.params and _begins_backward(f.body)]
        return frozenset([t.dtype for t in given if isinstance(t, anf.Scalar)])

    def remembers(self, function: anf.Function) -> bool:
        """Tells whether there is a backward pass in which somebody may ask for the variables of a call."""
        if function.name not in self._remembers:
            last = function.results[-1].type if function.results else None
            saves = isinstance(last, anf.Scalar) and last.dtype in self.tapes
            self._remembers[function.name] = saves or any(_is_backward(let) for let in function.body.lets)
        return self._remembers[function.name]

    # ---- spots
    def spot(self, span: Span | None, element: bool) -> Spot | None:
        """The spot of a span: a statement, or that of the call if nobody is to see the function."""
        if span is None:
            return None
        key = (span.source.file.path, span.first, tuple(_site(c) for c in span.calls()), element)
        if key not in self._spots:
            self._spots[key] = self._found(span, element)
        return self._spots[key]

    def _found(self, span: Span, element: bool) -> Spot | None:
        around = None if span.via is None else self.spot(span.via.span, element)
        place = self.sources.at(span, element)
        if place is None:
            return around
        return self._of(place, tuple(span.calls()), around)

    def _of(self, place: Place, via: tuple[CallSite, ...], around: Spot | None) -> Spot:
        key = (place, tuple(_site(c) for c in via))
        spot = self._spots.get(key)
        if spot is None:
            parent = around if place.parent is None else self._of(place.parent, via, around)
            spot = self._spots[key] = Spot(len(self.spots), place, via, parent)
            self.spots.append(spot)
        return spot

    # ---- comprehensions
    def _enters(self, let: Let) -> bool:
        """Tells whether a comprehension is one that somebody wrote, or calls a function that somebody wrote."""
        if let.span is not None and self.sources.is_comprehension(let.span):
            return True
        op = let.op
        assert isinstance(op, anf.Comp)
        return any(self._is_visible(f) for f in self._called(op.body))

    def _called(self, block: Block) -> Iterator[str]:
        for let in block.lets:
            if isinstance(let.op, anf.Call):
                yield let.op.function
            for inner in op_blocks(let.op):
                yield from self._called(inner)

    def _is_visible(self, function: str) -> bool:
        f = self.program.functions[function]
        return any(self.spot(let.span, True) is not None for let in f.body.lets)

    def reached(self, i: Instruction, function: str) -> frozenset[int]:
        """The spots that are passed at the points of a comprehension, by their numbers."""
        if i not in self._reached:
            self._reached[i] = frozenset(self._spots_in(self.element(i, function), set()))
        return self._reached[i]

    def _spots_in(self, code: Code, seen: set[str]) -> Iterator[int]:
        for i in code.instructions:
            if i.spot is not None and i.starts:
                yield i.spot.number
            if i.kind == CALL:
                assert isinstance(i.let.op, anf.Call)
                name = i.let.op.function
                if name not in seen:
                    seen.add(name)
                    yield from self._spots_in(self.function(name), seen)
            elif i.kind == COMP:
                yield from self._spots_in(self.element(i, code.function), seen)
            for inner in i.blocks:
                yield from self._spots_in(inner, seen)


def _rows(op: anf.Comp) -> frozenset[Var]:
    """The axes along which the elements that a person has written are arrays: these are made, and then read."""
    defined = {v for let in op.body.lets for v in let.vars}
    read: set[Var] = set()
    other: set[Atom] = set(op.body.results)
    for let in op.body.lets:
        reads = isinstance(let.op, anf.Read) and let.op.array in defined and let.vars[0] in op.body.results
        (read if reads else other).update(used_by(let))
    return frozenset([a.var for a in op.axes if a.var in read and a.var not in other])


def _named(op: anf.Comp) -> frozenset[Var]:
    """The axes that have names in the source."""
    marked = {a for let in op.body.lets if is_mark(let.op) for a in used_by(let)}
    return frozenset([a.var for a in op.axes if a.var in marked])


def _belongs(code: Code, spot: Spot | None) -> None:
    """Ends statements of a block that belong to the one around, such as the code that binds its names."""
    if spot is not None:
        for inner in code.instructions:
            inner.starts &= not (inner.spot is spot or spot.inside(inner.spot))


def _begins_backward(block: Block) -> bool:
    return bool(block.lets) and _is_backward(block.lets[0])


def _is_backward(let: Let) -> bool:
    mark = mark_of(let.op)
    return mark is not None and mark.key == BACKWARD


def _site(c: CallSite) -> object:
    return (c.label, None if c.span is None else (c.span.source.file.path, c.span.first))
