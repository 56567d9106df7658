"""The walk over one function under way: open blocks, where arrays live, and the loops that copy and fill them.

Slices of an array are written where they are made. A stack is an empty array whose slices are set one after another.
Where such a slice is nothing but a copy of an array made before, in the same block and for this alone, that array is
made in the slice in the first place, and nothing is copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from dlang.codegen import loops
from dlang.codegen.abi import holds_references
from dlang.codegen.loops import Decision, Free, Matrix, Panels, Stmt
from dlang.codegen.memory import Frame, Memory, Place, fresh_axes, whole
from dlang.codegen.peeling import peeled, unswitched, with_even_middle
from dlang.codegen.regions import Nodes
from dlang.codegen.traverse import map_inside, walk
from dlang.codegen.vectorize import Lanes
from dlang.diagnostics import Span
from dlang.inequalities import Facts
from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Block, Comp, Empty, Let, Lit, Read, Reduce, Scalar, Size, Token, Var, fresh, poly
from dlang.ir.comprehension_queries import giving
from dlang.ir.terms import ZERO
from dlang.ir.traverse import count_uses, mentioned, type_vars
from dlang.ir.types import I64, STR, product
from dlang.ir.update_chains import UpdateChains
from dlang.ir.writes import elements, is_replaced, older_of


class Owned:
    """Stands for a destination: the result is handed over with the buffer that it fills."""


OWNED = Owned()
ResultPlace = Place | Owned | None
"""The place wanted for a result of a block: a place, a buffer that is handed over, or none in particular."""


@dataclass(slots=True)
class Scheduler(ABC):
    """The walk over one function. `out` collects the statements of the innermost open body.

    span: of the let at hand. places: whether the code says
    where it comes from, which that of comprehensions says as a whole.
    wanted: where arrays are to be; joined: those whose elements are combined with what is there, and by which monoid.
    shared: those of which other points of a comprehension use the memory too, so that nothing else is made there.
    parts: those that are made in slices of others; copied: what has such a slice already, with nothing to be done.
    looping: whether the code is inside of a loop. short: whether its loops are to be little code.
    at: the block under way and the position of the let at hand; finished: what lets after it make, done already.
    outside: of the loops in order under way, the innermost last. device: whether loops and products are for one.
    sizes: the variables so far that are names of polynomials; facts: sizes so far, and between which ends the axes
    around are. holds: conditions whose value is known here. flats: the variables so far whose texts are in one piece.
    """

    program: anf.Program
    lanes: Lanes
    span: Span | None = None
    places: bool = False
    memory: Memory = field(default_factory=Memory)
    chains: UpdateChains = field(default_factory=UpdateChains)
    wanted: dict[Var, Place] = field(default_factory=dict)
    joined: dict[Var, str] = field(default_factory=dict)
    shared: set[Var] = field(default_factory=set)
    parts: dict[Var, Part] = field(default_factory=dict)
    copied: set[Var] = field(default_factory=set)
    nodes: Nodes = field(default_factory=Nodes)
    looping: bool = False
    short: bool = False
    at: tuple[Block, int] = (Block((), ()), 0)
    finished: set[Var] = field(default_factory=set)
    outside: list[Outside] = field(default_factory=list)
    device: bool = False
    sizes: dict[Var, Size] = field(default_factory=dict)
    facts: Facts[Var] = field(default_factory=Facts)
    holds: dict[Atom, bool] = field(default_factory=dict)
    flats: set[Var] = field(default_factory=set)
    out: list[loops.Stmt] = field(default_factory=list)

    @abstractmethod
    def let(self, let: Let) -> None:
        """Schedules a let."""

    # ---- blocks ------------------------------------------------------------------------------------------------------
    @contextmanager
    def collect(self) -> Iterator[list[loops.Stmt]]:
        """Statements go to a new list inside."""
        outer, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = outer

    def block(self, block: Block, wanted: Sequence[ResultPlace], frame: Frame, region: bool = False) -> loops.Body:
        """A block; arrays among its results end up where `wanted` says. What was given a place is left out.

        region: whether the nodes made in it end with it, unless it hands them on.
        """
        with self.collect() as stmts, self.region(block) if region else nullcontext():
            results = self.inline(block, wanted, frame)
        return loops.Body(tuple(stmts), results)

    @contextmanager
    def little_code(self, wanted: bool = True) -> Iterator[None]:
        """Inside, loops are to be little code, if that is wanted or was before."""
        around, self.short = self.short, self.short or wanted
        try:
            yield
        finally:
            self.short = around

    @contextmanager
    def where(self, condition: Atom, value: bool) -> Iterator[None]:
        """Inside, a condition is known."""
        around, self.holds = self.holds, {**self.holds, condition: value}
        yield
        self.holds = around

    @contextmanager
    def region(self, block: Block) -> Iterator[None]:
        """Releases what the block inside makes in the arena, if its results can't hold any of that."""
        if self.nodes.made_in(block) and not any(holds_references(r.type) for r in block.results):
            mark = fresh("mark", I64)
            self.out.append(loops.Mark(mark))
            yield
            self.out.append(loops.Release(mark))
        else:
            yield

    def inline(self, block: Block, wanted: Sequence[ResultPlace], frame: Frame) -> tuple[loops.Value, ...]:
        """The statements of a block, into the innermost open body."""
        self._direct(block, wanted, len(self.memory.frames))
        self.parts.update(parts_of(block))
        self.memory.frames.append(frame)
        around, at, holds, learned = self.span, self.at, self.holds, self.facts.mark()
        self.holds = dict(holds)
        for position, let in enumerate(block.lets):
            frame.position = position
            self.at = block, position
            self.span = let.span or around
            if self.places and let.span is not None:
                self.out.append(loops.At(let.span))
            self.let(let)
            self.note_sizes(let.vars)
            for buffer in self.memory.dead():
                self.out.append(loops.Free(buffer))
        self.span, self.at, self.holds = around, at, holds
        self.facts.undo(learned)
        frame.position = len(block.lets)
        results = self._results(block, wanted, frame)
        self.memory.leave()
        return results

    def _direct(self, block: Block, wanted: Sequence[ResultPlace], level: int) -> None:
        """Lets the let that makes a result, or the array that it grows from, write where the result is wanted."""
        bound = {var for let in block.lets for var in let.vars}
        direct: list[tuple[Atom, Place]] = []
        for result, place in zip(block.results, wanted, strict=True):
            if isinstance(place, Place) and isinstance(result, Var) and result in bound:
                if result not in self.wanted:
                    self.wanted[result] = place
                    if result not in self.shared:
                        direct.append((self.chains.root(result, level), place))
        for root, place in direct:
            if isinstance(root, Var) and root in bound and root not in self.wanted:
                self.wanted[root] = place

    def _results(self, block: Block, wanted: Sequence[ResultPlace], frame: Frame) -> tuple[loops.Value, ...]:
        copies: list[tuple[Place, Place]] = []
        results: list[loops.Value] = []
        handed: set[loops.Buffer] = set()
        for atom, want in zip(block.results, wanted, strict=True):
            if isinstance(atom.type, Scalar):
                results.append(atom)
            elif isinstance(atom.type, Array):
                assert isinstance(atom, Var)
                place = self.memory.places[atom]
                if isinstance(want, Place):
                    if not (place.buffer is want.buffer and place.whole):
                        copies.append((place, want))
                elif place.whole and place.buffer in frame.owned and place.buffer not in handed:
                    handed.add(place.buffer)
                    results.append(place.buffer)
                else:
                    buffer = self.allocate(atom.name, atom.type, own=False)
                    copies.append((place, whole(buffer, place.shape)))
                    results.append(buffer)
        self._parallel_copies(copies)
        for buffer in frame.owned:
            if buffer not in handed:
                self.out.append(loops.Free(buffer))
        return tuple(results)

    def _parallel_copies(self, copies: list[tuple[Place, Place]]) -> None:
        """All copies as if at once: none overwrites what another has yet to read."""
        while copies:
            free = [t for t in copies if not any(s.buffer is t[1].buffer for s, _ in copies if s is not t[0])]
            source, target = chosen = free[0] if free else copies[0]
            copies = [pair for pair in copies if pair is not chosen]
            if not free:  # a cycle: what the target holds is still to be read
                kept = self._spare(target)
                copies = [(kept if s.buffer is target.buffer else s, t) for s, t in copies]
            self.copy(source, target)

    def _spare(self, place: Place) -> Place:
        buffer = self.allocate("spare", Array(place.buffer.dtype, place.shape))
        spare = whole(buffer, place.shape)
        self.copy(place, spare)
        return spare

    def note_sizes(self, vars: Sequence[Var]) -> None:
        """Notes that numbers which are sizes of arrays beside them are at least 0, as `ir/affine.py` does."""
        for var in vars:
            if isinstance(var.type, Array):
                for size in var.type.shape:
                    if size.atom is not None and size.atom in vars:
                        self.facts.size(size.atom)

    def is_inside(self, axes: Sequence[anf.Axis], index: Sequence[Size], shape: Sequence[Size]) -> bool:
        """Tells whether an index is in range wherever axes have a point, by what is known here."""
        ends: dict[Var | None, tuple[Size, ...]] = {axis.var: axis.highs for axis in axes if axis.lows == (ZERO,)}
        unsure = [(e, n) for e, n in zip(index, shape, strict=False) if n not in ends.get(e.atom, ())]
        if not unsure:
            return True
        mark = self.facts.mark()
        for axis in axes:
            self.facts.between(axis.var, axis.lows, axis.highs)
        opened = [(e.substitute(self.sizes.get), n.substitute(self.sizes.get)) for e, n in unsure]
        inside = all(self.facts.proves_nonnegative(e) and self.facts.proves_less(e, n) for e, n in opened)
        self.facts.undo(mark)
        return inside

    # ---- arrays ------------------------------------------------------------------------------------------------------
    def allocate(self, name: str, type: Array, own: bool = True, extra: int = 0) -> loops.Buffer:
        """Allocates an array, freed by the innermost block if it is to own it."""
        buffer = loops.Buffer(name, type.dtype)
        self.out.append(loops.Allocate(buffer, type.shape, extra, self.span))
        self.memory.writable.add(buffer)
        if own:
            self.memory.frames[-1].own(buffer)
        return buffer

    def target(self, var: Var) -> Place:
        """Returns the place that a new array is written to: the one wanted for it, or a buffer of its own."""
        assert isinstance(var.type, Array)
        place = self.take_wanted(var)
        if place is None:
            part = self.parts.get(var)
            place = self.new_place(var) if part is None else self.slice_of(part, var.type.shape)
        self.memory.settle(var, place)
        return place

    def take_wanted(self, var: Var) -> Place | None:
        """Takes the place that is wanted for an array, or None. If it is in the memory of a parameter that the function
        changes, nothing else may need that memory any more."""
        place = self.wanted.pop(var, None)
        if place is None or len(self.memory.frames) > 1:
            return place
        others = {v for v in self.memory.holders.get(place.buffer, ()) if not self.chains.grows_from(v, var)}
        block, position = self.at
        if any(map(self.memory.live, others)) or not others.isdisjoint(mentioned(block.lets[position].op)):
            return None
        return place

    def slice_of(self, part: Part, shape: tuple[Size, ...]) -> Place:
        """A slice of an array which is allocated now, if it has not been."""
        place = self.memory.places.get(part.whole) or self.target(part.whole)
        assert place.start is not None
        self.copied.add(part.copy)
        buffer = self.slice(place.buffer, place.start + offset(part))
        self.memory.writable.add(buffer)
        return whole(buffer, shape)

    def without_copies(self, op: Comp, vars: Sequence[Var]) -> tuple[Comp, tuple[Var, ...]]:
        """A comprehension without the slices that have been written in their places already."""
        for var, d in zip(vars, op.destinations, strict=True):
            if var in self.copied and d.into is not None:
                before = self.place(d.into)
                assert self.continued(var, d.into) is before
        return without_copies(op, vars, self.copied)

    def new_place(self, var: Var) -> Place:
        """Allocates an array: in the arena if a node will hold it."""
        assert isinstance(var.type, Array)
        if var not in self.nodes.held:
            return whole(self.allocate(var.name, var.type), var.type.shape)
        return whole(self.arena_buffer(var.name, var.type), var.type.shape)

    def arena_buffer(self, name: str, type: Array) -> loops.Buffer:
        """Allocates an array that a node will hold in the arena."""
        buffer = loops.Buffer(name, type.dtype)
        self.out.append(loops.ArenaAllocate(buffer, type.shape, self.span))
        self.memory.writable.add(buffer)
        self.nodes.arrays.add(buffer)
        return buffer

    def continued(self, var: Var, array: Var, overwritten: bool = False) -> Place:
        """The place of an array that is about to be changed into `var`: its own, or that of a copy.

        overwritten: whether all of it is, so that there is nothing to copy; then it may as well be somewhere else.
        """
        place = self.memory.consumable(array)
        wanted = self.wanted.get(var)
        if place is not None and (wanted is None or wanted.buffer is place.buffer):
            if not (overwritten and wanted is None and var in self.parts):
                self.wanted.pop(var, None)
                self.memory.settle(var, place)
                return place
        target = self.target(var)
        if not overwritten:
            self.copy(self.place(array), target)
        else:
            assert target.buffer is not self.place(array).buffer
        return target

    def consumed(self, array: Var) -> Place:
        """The place of an array that is about to be changed and then used no more: its own, or that of a copy."""
        return self.memory.consumable(array) or self._spare(self.place(array))

    def own_result(self, var: Var, results: list[loops.Slot]) -> None:
        """A result handed over with its buffer, which the innermost block then owns."""
        assert isinstance(var.type, Array)
        buffer = loops.Buffer(var.name, var.type.dtype)
        self.memory.writable.add(buffer)
        self.memory.frames[-1].own(buffer)
        self.memory.settle(var, whole(buffer, var.type.shape))
        results.append(buffer)

    def alias(self, var: Var, atom: Atom) -> None:
        """Another name for a value."""
        if isinstance(atom.type, Array):
            assert isinstance(atom, Var) and isinstance(var.type, Array)
            place = self.place(atom)
            self.memory.settle(var, Place(place.buffer, var.type.shape, place.axes, place.offset, place.start))
        elif isinstance(atom.type, Scalar):
            self.out.append(loops.Convert(var, atom))

    def place(self, array: Var) -> Place:
        return self.memory.places[array]

    def in_a_row(self, array: Var) -> Place:
        """The place of an array, or of a copy, whose elements lie in a row."""
        place = self.place(array)
        return place if place.start is not None else self._spare(place)

    def pointer(self, array: Var) -> loops.Buffer:
        """A buffer that begins with the elements of an array, in order."""
        return self.address(self.in_a_row(array))

    def address(self, place: Place) -> loops.Buffer:
        """A buffer that begins with the first element of a place in a row."""
        assert place.start is not None
        return self.slice(place.buffer, place.start)

    def slice(self, buffer: loops.Buffer, offset: Size) -> loops.Buffer:
        """The buffer from an element on."""
        if not offset.terms:
            return buffer
        part = loops.Buffer(buffer.name, buffer.dtype)
        self.out.append(loops.Slice(part, buffer, offset))
        return part

    def value(self, atom: Atom) -> loops.Value | None:
        """A scalar or the pointer of an array; None for a token."""
        if isinstance(atom.type, Token):
            return None
        if isinstance(atom.type, Array):
            assert isinstance(atom, Var)
            return self.pointer(atom)
        return atom

    def operands(self, atoms: Iterable[Atom]) -> tuple[loops.Operand, ...]:
        """Values for the host."""
        out: list[loops.Operand] = []
        for atom in atoms:
            if isinstance(atom.type, Array):
                assert isinstance(atom, Var)
                out.append(loops.ArrayValue(self.pointer(atom), atom.type.shape))
            elif isinstance(atom.type, Scalar):
                out.append(self.flat(atom))
        return tuple(out)

    def flat(self, atom: Atom) -> Atom:
        """A scalar for an array, a node or the host: a text in one piece."""
        if not self.nodes.joins or atom.type != STR or isinstance(atom, Lit) or atom in self.flats:
            return atom
        var = fresh(atom.name, STR)
        self.out.append(loops.TextOp(var, "flat", (atom,), self.span))
        self.flats.add(var)
        return var

    # ---- loops -------------------------------------------------------------------------------------------------------
    def loop(
        self,
        var: Var,
        lows: tuple[Size, ...],
        highs: tuple[Size, ...],
        stmts: Sequence[loops.Stmt],
        reductions: Sequence[loops.Reduction] = (),
        disjoint: tuple[loops.Buffer, ...] = (),
        low_trip_count: bool = False,
    ) -> None:
        """Emits a loop of independent iterations."""
        loop = loops.Loop(
            var, lows, highs, tuple(stmts), tuple(reductions),
            disjoint=disjoint, short=self.short, low_trip_count=low_trip_count,
        )  # fmt: skip
        parts = None if self.device else peeled(loop, self.sizes, self.facts)
        if parts is not None and (parts.before or parts.after):
            split = Decision("ends split off", "comparisons are decided between the first and the last iterations")
            between = self._in_lanes(replace(parts.between, why=(split,)))
            if any(isinstance(s, loops.Loop) and s.lanes > 1 for s in walk(between)):
                self.out += [*parts.before, *between, *parts.after, *parts.totals(loop.reductions)]
                return
        elif parts is not None:
            given = [replace(r, result=w.result) for r, w in zip(parts.between.reductions, reductions, strict=True)]
            loop = replace(parts.between, reductions=tuple(given))
        elif self.lanes.bits and (parts := with_even_middle(loop, self.facts)) is not None:
            middle = self.lanes.chosen(parts.between)
            if middle.lanes > 1:
                split = Decision("ends split off", "loops inside have the same bounds in all iterations between")
                before, after = [
                    [stmt for end in ends for stmt in self._in_lanes(end)] for ends in (parts.before, parts.after)
                ]
                self.out += [*before, replace(middle, why=(split, *middle.why)), *after]
                return
        self.out += self._in_lanes(loop)

    def _in_lanes(self, loop: loops.Loop) -> list[loops.Stmt]:
        """A loop with lanes, if it can have some: behind the choice between two loops perhaps."""
        lanes_loop = self.lanes.chosen(loop)
        asks = lanes_loop.lanes == 1 or any(isinstance(s, loops.Branch) for s in lanes_loop.stmts)
        if asks and self.lanes.bits and not self.device and (split := unswitched(loop)) is not None:
            setup, choice = split
            chosen = map_inside(choice, self._loops_in_lanes)
            if any(isinstance(s, loops.Loop) and s.lanes > 1 for s in walk((chosen,))):
                assert isinstance(chosen, loops.Branch)
                why = Decision("two loops", "the condition of a branch inside is the same in all iterations")
                return [*setup, replace(chosen, why=(why,))]
        return [lanes_loop]

    def _loops_in_lanes(self, stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
        return tuple(
            [self.lanes.chosen(s) if isinstance(s, loops.Loop) else map_inside(s, self._loops_in_lanes) for s in stmts]
        )

    def nest(self, axes: Sequence[Var], shape: Sequence[Size], stmts: Sequence[loops.Stmt]) -> None:
        """Emits loops over a whole shape."""
        for axis, size in zip(reversed(axes), reversed(shape), strict=True):
            with self.collect() as outer:
                self.loop(axis, (ZERO,), (size,), stmts)
            stmts = outer
        self.out.extend(stmts)

    def copy(self, source: Place, target: Place) -> None:
        """Copies an array."""
        if source.start is not None and target.start is not None:
            count = product(source.shape)
            self.out.append(loops.Move(self.address(target), self.address(source), count))
            return
        axes = fresh_axes(len(source.shape))
        index = tuple(poly(a) for a in axes)
        x = fresh("x", Scalar(source.buffer.dtype))
        stmts: list[loops.Stmt] = [
            loops.Load(x, source.buffer, source.at(index)),
            loops.Store(target.buffer, target.at(index), x),
        ]
        self.nest(axes, source.shape, stmts)

    def combine(self, source: Place, target: Place, monoid: str, sure: bool) -> None:
        """Joins an array by a monoid with what is in memory; both lie in a row. sure: as that of a `Store`."""
        assert source.start is not None and target.start is not None
        (axis,) = fresh_axes(1)
        x = fresh("x", Scalar(source.buffer.dtype))
        stmts: list[loops.Stmt] = [
            loops.Load(x, source.buffer, poly(axis) + source.start),
            loops.Store(target.buffer, poly(axis) + target.start, x, monoid, sure),
        ]
        self.loop(axis, (ZERO,), (product(source.shape),), stmts)

    def fill(self, place: Place, value: Lit) -> None:
        """Sets every element of an array in a row."""
        (axis,) = fresh_axes(1)
        assert place.start is not None
        stmts = [loops.Store(place.buffer, poly(axis) + place.start, value)]
        self.nest((axis,), (product(place.shape),), stmts)


# ---- values that do not change in a loop -----------------------------------------------------------------------------
@dataclass(slots=True)
class Outside:
    """The surroundings of a loop under way. known: arrays and scalars from outside that the loop mentions.

    frame: of the loop's body; around: of the block that the loop is in. panels: the matrices that are packed in front,
    each with its rows and columns; a matrix and its transpose are two, although they are one array.
    """

    known: frozenset[Var]
    frame: Frame
    around: Frame
    before: list[Stmt] = field(default_factory=list)
    panels: dict[tuple[Matrix, Size, Size], Panels] = field(default_factory=dict)

    @property
    def after(self) -> list[Stmt]:
        """Returns the statements behind the loop: they free the panels."""
        return [Free(panels.buffer) for panels in self.panels.values()]


def outermost(loops: Sequence[Outside], frame: Frame, var: Var) -> Outside | None:
    """The outermost loop that has a variable from outside, of those that run a block, known by its frame, in a
    iteration."""
    outermost_loop = None
    for loop in reversed(loops):
        if loop.frame is not frame or var not in loop.known:
            break
        outermost_loop, frame = loop, loop.around
    return outermost_loop


# ---- slices that are written where they are made ---------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Part:
    """whole: the empty array; position: of the slice in it. copy: the result that has the slice set."""

    whole: Var
    position: int
    copy: Var


def parts_of(block: Block) -> dict[Var, Part]:
    """The arrays of a block that can be made as parts of others."""
    empty = {let.vars[0] for let in block.lets if isinstance(let.op, Empty)}
    if not empty:
        return {}
    uses = count_uses(block)
    makers: dict[Var, int] = {}
    bound: dict[Var, int] = {}
    root: dict[Var, Var] = {var: var for var in empty}
    parts: dict[Var, Part] = {}
    written: Counter[tuple[Var, int | None]] = Counter()
    for k, let in enumerate(block.lets):
        bound.update(dict.fromkeys(let.vars, k))
        if not isinstance(let.op, Comp):
            continue
        for position, (var, d) in enumerate(zip(let.vars, let.op.destinations, strict=True)):
            older = older_of(d, let.vars)
            if older in root and (d.into is None or uses[older] == 1):
                whole = root[var] = root[older]
                slice = _slice(d.index)
                written[whole, slice] += 1
                source = _copied(let.op, position) if d.into is not None else None
                last = all(older_of(o, let.vars) is not var for o in let.op.destinations)
                if slice is not None and last and source in makers and uses[source] == 1:
                    parts[source] = Part(whole, slice, var)
            elif older is None or (older not in root and is_replaced(let.op, position)):
                makers[var] = k
    return {
        source: part
        for source, part in parts.items()
        if written[part.whole, part.position] == 1
        and not written[part.whole, None]
        and all(bound.get(v, -1) < makers[source] for v in type_vars(part.whole.type))
    }


def _slice(index: Sequence[Size]) -> int | None:
    """Returns the number of the slice that a destination is, if it is one."""
    if not index or (index[0].terms and index[0].constant is None):
        return None
    return int(index[0].constant or 0)


def _copied(op: Comp, position: int) -> Var | None:
    """The array, all of which is copied to a slice."""
    d = op.destinations[position]
    if not isinstance(d, Reduce) or d.monoid != "set" or d.shape[1:] == ():
        return None
    value = op.body.results[position]
    read = next((let.op for let in op.body.lets if value in let.vars), None)
    shape = d.shape[1:]
    if not isinstance(read, Read) or read.index != d.index[1:] or elements(op.axes, shape, read.index) is None:
        return None
    return read.array if isinstance(read.array.type, Array) and read.array.type.shape == shape else None


def without_copies(op: Comp, vars: Sequence[Var], copies: Set[Var]) -> tuple[Comp, tuple[Var, ...]]:
    """A comprehension without those of its results that are copies of what is in its place already."""
    kept = [k for k, var in enumerate(vars) if var not in copies]
    new = giving(op, kept)
    gone = {r for k, r in enumerate(op.body.results) if k not in kept}
    uses = count_uses(new.body)
    lets = tuple([let for let in op.body.lets if not (gone.issuperset(let.vars) and let.vars[0] not in uses)])
    return replace(new, body=Block(lets, new.body.results)), tuple([vars[k] for k in kept])


def offset(part: Part) -> Size:
    """Returns the offset of a part in its whole, which lies in a row."""
    assert isinstance(part.whole.type, Array)
    return product(part.whole.type.shape[1:]) * part.position
