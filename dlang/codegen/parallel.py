"""Loops that run in pieces, on several threads where there are any.

The outermost loops of a function whose iterations are independent and large enough are cut into pieces of consecutive
iterations. How many is decided by their sizes alone, and reductions combine what the pieces give in order: so a result
has the same bits with any number of threads. What has an order of its own stays in it: effects, functions of Python and
C, nodes, recursion, and results that several iterations change.

Large enough are loops whose work, as `costs.py` estimates it over the sizes, takes more than some 80 µs. Each piece is
a call of a function of its own (`llvm/parallel.py`). Sums in registers are combined in the order of the pieces, and so
are sums in memory, unless they are large beside the work.

Results in memory that all pieces of a loop add to: each piece but the first has an array of its own for them.

So no two threads write to one element, and what is added up in which order depends on sizes alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dlang.codegen import loops
from dlang.codegen.costs import Costs, whole
from dlang.codegen.loops import Buffer, Decision, Partial, Slice, Stmt, Store
from dlang.codegen.traverse import blocks, callee, captures, kept, map_inside, rebuild, walk, with_stmts
from dlang.codegen.vectorize import in_flight, known_iterations, lanes_inside
from dlang.ir.anf import Size, fresh, poly
from dlang.ir.types import I64, product
from dlang.ops import figures
from dlang.ops.dtypes import PARTIAL

MESSAGE = 64  # words of the values of a message that a thread has room for


def in_pieces(program: loops.Program, grain: int = figures.GRAIN) -> loops.Program:
    """The program with its large loops in pieces; as it is if the grain, the least work of a piece, is 0."""
    if not grain:
        return program
    costs, callable = Costs(program), dict[str, bool]()
    functions = {}
    for name, f in program.functions.items():
        cutter = _Cutter(program, grain, sizes_of_buffers(f), costs, callable)
        body = f.body if f.recursive else cutter.body(f.body)
        functions[name] = f if body is f.body else replace(f, body=body)
    return replace(program, functions=functions)


@dataclass(slots=True)
class _Cutter:
    """The walk over a function. sizes: of its buffers. callable: the functions that several threads may run at once.

    products: how many products of matrices have been met so far, at least one for a loop with some.
    """

    program: loops.Program
    grain: int
    sizes: dict[loops.Buffer, Size]
    costs: Costs
    callable: dict[str, bool]
    products: int = 0

    # ---- where -------------------------------------------------------------------------------------------------------
    def body(self, body: loops.Body) -> loops.Body:
        return with_stmts(body, self.statements(body.stmts))

    def statements(self, stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
        out: list[loops.Stmt] = []
        for stmt in stmts:
            match stmt:
                case loops.Loop():
                    self.products += any(isinstance(s, loops.Product) for s in walk(stmt.stmts))
                    out += self.loop(stmt)
                case loops.Branch(_, then, otherwise):
                    first = self.products
                    cut = self.body(then)
                    second = self.products
                    other = self.body(otherwise)
                    if first < second == self.products:  # the other arm is the same product where it is small
                        other = otherwise
                    same = cut is then and other is otherwise
                    out.append(stmt if same else replace(stmt, then=cut, otherwise=other))
                case loops.Product():
                    self.products += 1
                    out.append(stmt)
                case _:
                    out.append(map_inside(stmt, self.statements))
        return kept(stmts, out)

    def loop(self, loop: loops.Loop) -> list[loops.Stmt]:
        if loop.short:
            return [loop]
        count = known_iterations(loop)
        inside = loop.lanes == 1 and any(blocks(s) or isinstance(s, loops.Product) for s in loop.stmts)
        if count is None or count >= figures.PIECES_FROM or not inside:
            match self.cut(loop):
                case Decision() as why:
                    pass
                case pieces:
                    return pieces
        else:
            why = Decision("one thread", "{} iterations are few: those inside are cut instead", (count,))
        loop = replace(loop, why=(*loop.why, why))
        if inside and not self.small(self.costs.of_loop(loop)):
            return [map_inside(loop, self.statements)]
        return [loop]

    def small(self, work: Size) -> bool:
        """Tells whether work is known to be too little for two pieces."""
        return work.constant is not None and work.constant < 2 * self.grain

    # ---- loops -------------------------------------------------------------------------------------------------------
    def cut(self, loop: loops.Loop) -> list[loops.Stmt] | Decision:
        """A loop in pieces, or why it is none."""
        work = self.costs.of_loop(loop)
        if self.small(work):
            return Decision("one thread", "{} ps of work, less than two pieces of {}", (whole(work), self.grain))
        loop = in_flight(loop)
        inside = list(walk(loop.stmts))
        partials = partials_of(inside, loop.disjoint, _made_in(loop.stmts), captures(loop.stmts, ()), self.sizes)
        if partials is None:
            return Decision("one thread", "iterations change elements of an array that may be the same")
        if (alone := next((s for s in inside if not self.can_run(s)), None)) is not None:
            return Decision("one thread", f"`{type(alone).__name__}` has an order of its own")
        stmts = split(loop.stmts, partials)
        if stmts is None:
            return Decision("one thread", "iterations read the sums that they add to")
        number, first, last, length = (fresh(name, I64) for name in ("piece", "first", "last", "length"))
        inner: list[loops.Reduction] = []
        outer: list[loops.Reduction] = []
        for r in loop.reductions:
            part = fresh(r.result.name, r.result.type)
            rank = None if r.position is None else fresh("rank", I64)
            inner.append(replace(r, result=part, position=rank))
            outer.append(replace(r, value=part, rank=rank))
        # in one piece the loops in it are cut; inside of several, and of lanes, they run in one thread
        if loop.low_trip_count and loop.lanes == 1:
            stmts = self.statements(stmts)
        grain = poly(self.grain)
        for p in partials:
            grain = grain + p.size * (figures.OWN_ELEMENT_OF_BLOCKS if loop.low_trip_count else figures.OWN_ELEMENT)
        why = Decision("threads", "{} ps of work, in pieces of at least {}", (whole(work), grain))
        iterations = (
            replace(
                loop,
                lows=(poly(first),), highs=(poly(last),), stmts=stmts, reductions=tuple(inner), why=(*loop.why, why),
            ),
        )  # fmt: skip
        bounds, used = (loop.lows, loop.highs), captures(iterations, (number, first, last, *[p.own for p in partials]))
        return [
            loops.Pieces(length, *bounds, whole(work), grain, loop.lanes, loop.lanes > 1 and lanes_inside(loop.stmts)),
            loops.Parallel(number, first, last, *bounds, length, used, iterations, tuple(outer), partials),
        ]

    def can_call(self, function: loops.Function) -> bool:
        """Tells whether several threads may run a function at once."""
        if function.name not in self.callable:
            self.callable[function.name] = False
            self.callable[function.name] = not function.recursive and all(map(self.can_run, walk(function.body.stmts)))
        return self.callable[function.name]

    def can_run(self, stmt: loops.Stmt) -> bool:
        """Tells whether several threads may run a statement at once: no message shows an array, which may be gone."""
        if (function := callee(stmt)) is not None:
            return self.can_call(self.program.functions[function])
        if isinstance(stmt, loops.Assert):
            return len(stmt.values) <= MESSAGE and not any(isinstance(v, loops.ArrayValue) for v in stmt.values)
        return stmt.IS.threads


def _made_in(stmts: Iterable[loops.Stmt], outside: frozenset[loops.Value] = frozenset()) -> frozenset[loops.Value]:
    """The buffers that statements make, parts of them, and states that are one of them in every iteration.

    outside: those made before.
    """
    made = outside
    for stmt in stmts:
        match stmt:
            case loops.Allocate(buffer):
                made |= {buffer}
            case loops.Slice(result, source) if source in made:
                made |= {result}
            case loops.InOrder():
                state = {k for k, init in enumerate(stmt.init) if init in made}
                inside = made
                while state:
                    inside = _made_in(stmt.body.stmts, made | {stmt.params[k] for k in state})
                    lost = {k for k in state if stmt.following[k] not in inside}
                    if not lost:
                        break
                    state -= lost
                made = (inside if state else _made_in(stmt.body.stmts, made)) | {stmt.results[k] for k in state}
            case loops.Branch(_, then, otherwise, results):
                first, second = _made_in(then.stmts, made), _made_in(otherwise.stmts, made)
                chosen = zip(results, then.results, otherwise.results, strict=True)
                made = first | second | {r for r, x, y in chosen if x in first and y in second}
            case _:
                for block in blocks(stmt):
                    made = _made_in(block, made)
    return made


def sizes_of_buffers(function: loops.Function) -> dict[loops.Buffer, Size]:
    """How many elements the buffers of a function have, where that is known."""
    extents: dict[loops.Value, Size] = {out.buffer: product(out.shape) for out in function.outs}
    extents = _extents(function.body.stmts, extents)
    return {buffer: size for buffer, size in extents.items() if isinstance(buffer, Buffer)}


def _extents(stmts: Iterable[Stmt], known: dict[loops.Value, Size]) -> dict[loops.Value, Size]:
    """The sizes of buffers that are known, and of those that statements bind. What a loop carries has one where it has
    the same in every iteration: an array may grow from one to the next."""
    extents = dict(known)
    for stmt in stmts:
        match stmt:
            case loops.Allocate(buffer, shape, 0):
                extents[buffer] = product(shape)
            case loops.InOrder():
                same = {k for k, init in enumerate(stmt.init) if init in extents}
                while True:
                    inside = extents | {stmt.params[k]: extents[stmt.init[k]] for k in same}
                    for block in blocks(stmt):
                        inside = _extents(block, inside)
                    lost = {k for k in same if inside.get(stmt.following[k]) != extents[stmt.init[k]]}
                    if not lost:
                        break
                    same -= lost
                extents = inside | {stmt.results[k]: extents[stmt.init[k]] for k in same}
            case loops.Branch(_, then, otherwise, results):
                extents = _extents(otherwise.stmts, _extents(then.stmts, extents))
                for slot, x, y in zip(results, then.results, otherwise.results, strict=True):
                    if x in extents and extents[x] == extents.get(y):
                        extents[slot] = extents[x]
            case _:
                for block in blocks(stmt):
                    extents = _extents(block, extents)
    return extents


def partials_of(
    stmts: Sequence[Stmt],
    disjoint: Sequence[Buffer],
    local: Collection[loops.Value],
    outside: Collection[loops.Slot],
    sizes: Mapping[Buffer, Size],
) -> tuple[Partial, ...] | None:
    """An array for each buffer that several iterations add to; None if they do more with one, or its size isn't known.

    stmts: all of a loop, one after another. local: the buffers made in an iteration. outside: what the loop uses of
    outside; an array that has another name in it may be one of these. disjoint: those in which iterations never meet.
    """
    replaced: dict[Buffer, Partial] = {}
    alone = {*local, *disjoint}
    parts: dict[Buffer, Buffer] = {}
    for stmt in stmts:
        match stmt:
            case Slice(part, source) if source in alone:
                alone.add(part)
            case Slice(part, source):
                parts[part] = parts.get(source, source)
            case Store(place, _, _, monoid) if monoid != "set" and place not in alone:
                whole = parts.get(place, place)
                if whole not in outside or whole not in sizes or monoid != "sum" or whole.dtype not in PARTIAL:
                    return None
                replaced[whole] = Partial(whole, Buffer(whole.name, whole.dtype), sizes[whole])
            case _:
                pass
    return tuple(replaced.values())


def split(stmts: Sequence[Stmt], partials: Sequence[Partial]) -> tuple[Stmt, ...] | None:
    """Statements that add to the arrays of a piece; None if they do more with one than that."""
    part_of = {p.whole: p.own for p in partials}
    if _is_used_otherwise(stmts, set(part_of)):
        return None

    def redirected(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple([rebuild(s, value=lambda v: part_of.get(v, v), block=redirected) for s in stmts])

    return redirected(stmts)


def _is_used_otherwise(stmts: Sequence[Stmt], shared: set[Buffer]) -> bool:
    """Tells whether statements do more with some buffers, or with parts of them, than add to them."""
    used = set(shared)

    def rest(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in stmts:
            match stmt:
                case Store(buffer, _, _, monoid) if monoid != "set" and buffer in used:
                    pass
                case Slice(part, source) if source in used:
                    used.add(part)
                case _:
                    out.append(map_inside(stmt, rest))
        return tuple(out)

    return not used.isdisjoint(captures(rest(stmts), ()))
