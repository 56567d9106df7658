"""A program as the debugger runs it: instructions, each with the statement that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from dlang.diagnostics import CallSite, Span
from dlang.interpret.code import Step
from dlang.interpret.compile import step_of
from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Let, Var
from dlang.ir.marks import BACKWARD, Mark, is_mark, is_reversed, mark_of
from dlang.ir.traverse import free_vars, op_blocks
from dlang.specialize.names import Name
from dlang.tools.debugger.places import LOOP, Place, Sources

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
        found, p = [self], self.parent
        while p is not None and p is not loop and p is not before and not (before is not None and before.inside(p)):
            if len(p.via) < len(found[-1].via):
                found.append(p)
            p = p.parent
        return found


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
        found = self._spots.get(key)
        if found is None:
            parent = around if place.parent is None else self._of(place.parent, via, around)
            found = self._spots[key] = Spot(len(self.spots), place, via, parent)
            self.spots.append(found)
        return found

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
    made = {v for let in op.body.lets for v in let.vars}
    read: set[Var] = set()
    other: set[Atom] = set(op.body.results)
    for let in op.body.lets:
        reads = isinstance(let.op, anf.Read) and let.op.array in made and let.vars[0] in op.body.results
        (read if reads else other).update(free_vars(let.op))
    return frozenset([a.var for a in op.axes if a.var in read and a.var not in other])


def _named(op: anf.Comp) -> frozenset[Var]:
    """The axes that have names in the source."""
    marked = {a for let in op.body.lets if is_mark(let.op) for a in free_vars(let.op)}
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


def vars_of(atoms: tuple[Atom, ...]) -> list[Var]:
    return [a for a in atoms if isinstance(a, Var)]
