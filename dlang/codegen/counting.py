"""Counts of what code moves and computes, written into it.

Operations are those of floating-point numbers: one for an addition, subtraction, multiplication, division, root, or
maximum; for `exp` and its like, those of the polynomials that stand for them; 2·m·n·k for a product of matrices. What
does not depend on an inner loop runs, and counts, outside of it.

Bytes are what a nest has to read and write at least: an access counts once for each iteration of the loops that its
index depends on, so an element that is used again in a loop which does not choose it counts once; and no more elements
count than the index comes by, so that windows which overlap count once. Reads of an array whose indices differ by a
constant count together. An access that only happens under a condition counts each time that it does, unless the loops
around come to its elements again: then it counts as if it always happened.

A count is written once in front of a block, as polynomials over the iterations of the loops in it, unless their bounds
are not known there: what such a loop costs is counted right in front of it, each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace

from dlang.codegen import loops
from dlang.codegen.instructions import width
from dlang.codegen.traverse import binds, binds_inside, bound_by, map_bodies, mentions
from dlang.ir.anf import FLOATS, Atom, Lit, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64, dtype_of, product
from dlang.ops.monoids import ARITHMETIC
from dlang.ops.primitives import PRIMITIVES

Callee = Callable[[loops.Invoke, Atom], loops.Invoke]
Routines = Callable[[str, str], int]
"""How many operations a function of mathematics is, by its name and dtype."""


def operations(name: str, args: Sequence[Atom], routines: Routines) -> int:
    """How many operations of floating-point numbers a primitive is."""
    dtype = dtype_of(args[-1] if name == "select" else args[0])
    if dtype not in FLOATS:
        return 0
    single = PRIMITIVES[name].flops
    if single is not None:
        return single
    exponent = args[1].value if name in ("pow", "powi") and isinstance(args[1], Lit) else None
    if exponent is not None and float(exponent).is_integer():
        n = abs(int(exponent))
        return max(n.bit_length() + n.bit_count() - 2, 0) + (int(exponent) < 0)
    return routines(name, "f64" if dtype == "f64" else "f32")


@dataclass(frozen=True, slots=True)
class _Access:
    """Loads or stores at one place in the code. times: how often each element moves."""

    buffer: loops.Buffer
    offset: Size
    times: int
    stores: bool

    @property
    def place(self) -> tuple[loops.Buffer, Size]:
        """The part of an access that is the same in loads whose indices differ by a constant."""
        return self.buffer, self.offset - poly(int(self.offset.terms.get((), 0)))

    @property
    def bytes(self) -> int:
        return width(self.buffer.dtype) * self.times


def _is_at_least(a: Size, b: Size) -> bool:
    """Tells whether one size is known to be as large as another."""
    more = (a - b).constant
    return more is not None and more >= 0


@dataclass(slots=True)
class Counter:
    """Writes counts for a nest into code. callee: what a call becomes.

    front: what computes the counts of the block at hand, in front of it. around: the iterations of the loops between
    there and the code at hand. bound: what is not known there. depends: for what is bound in these loops, on which of
    them it depends, by their depth from 0. variables: of these loops; indices: for integers bound in them, what they
    are over the variables.

    outside: the counter of the code around a block that does not run as often as that, and `own` what only the block
    knows.
    """

    nest: Atom
    callee: Callee
    routines: Routines
    front: list[loops.Stmt] = field(default_factory=list)
    bytes: Size = ZERO
    operations: Size = ZERO
    around: list[Size] = field(default_factory=list)
    bound: set[loops.Slot] = field(default_factory=set)
    depends: dict[loops.Slot, frozenset[int]] = field(default_factory=dict)
    known: dict[Var, Size] = field(default_factory=dict)
    seen: set[tuple[loops.Buffer, Size]] = field(default_factory=set)
    indices: dict[Var, Size] = field(default_factory=dict)
    variables: list[Var] = field(default_factory=list)
    outside: Counter | None = None
    own: frozenset[loops.Slot] = frozenset()

    # ---- blocks ------------------------------------------------------------------------------------------------------
    def body(self, body: loops.Body) -> loops.Body:
        return loops.Body(self.statements(body.stmts), body.results)

    def statements(self, stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
        """A block with its count in front of it."""
        inner = self.for_block()
        out = inner.walk(stmts)
        return (*inner.front, *inner.count(), *out)

    def for_block(self) -> Counter:
        """The same for a block with a count of its own."""
        return Counter(self.nest, self.callee, self.routines)

    def count(self) -> tuple[loops.Stmt, ...]:
        if not self.bytes.terms and not self.operations.terms:
            return ()
        return (loops.Count(self.nest, self.bytes, self.operations),)

    def walk(self, stmts: Iterable[loops.Stmt]) -> tuple[loops.Stmt, ...]:
        return tuple(counted for stmt in stmts for counted in self.statement(stmt))

    # ---- amounts -----------------------------------------------------------------------------------------------------
    def all_around(self) -> frozenset[int]:
        return frozenset(range(len(self.around)))

    def of(self, values: Iterable[object]) -> frozenset[int]:
        """The loops that values depend on."""
        dependences: frozenset[int] = frozenset()
        for value in values:
            if isinstance(value, Var | loops.Buffer):
                dependences |= self.depends.get(value, frozenset())
        return dependences

    def bind(self, slots: Iterable[loops.Slot], depends: frozenset[int]) -> None:
        for slot in slots:
            self.bound.add(slot)
            self.depends[slot] = depends

    def iterations(self, over: frozenset[int]) -> Size:
        return product(tuple(self.around[k] for k in sorted(over)))

    def computes(self, count: int, depends: frozenset[int]) -> None:
        """Operations that run in the innermost loop on which they depend."""
        if count:
            self.operations = self.operations + self.iterations(frozenset(range(max(depends, default=-1) + 1))) * count

    def moves(self, buffer: loops.Buffer, offset: Size, times: int = 1, stores: bool = False) -> None:
        """Counts an access, of which each element moves so many times, unless it reads what is read beside it."""
        access = _Access(buffer, offset.substitute(self.indices.get), times, stores)
        if access.place in self.seen and not stores:
            return
        if not stores:
            self.seen.add(access.place)
        if self.outside is None or not self.outside.comes_again(access, {*self.bound, *self.own}):
            self.bytes = self.bytes + self.elements(access) * access.bytes

    def comes_again(self, access: _Access, inside: Set[loops.Slot]) -> bool:
        """Counts an access of a block inside, if the loops come to its elements again; tells whether they do.

        inside: what only the block knows.
        """
        access = replace(access, offset=access.offset.substitute(self.indices.get))
        if not inside.isdisjoint((access.buffer, *access.offset.atoms())):
            return False
        if access.place in self.seen and not access.stores:
            return True
        if _is_at_least(self.most(access), self.iterations(self.all_around())):
            inside = {*inside, *self.bound, *self.own}
            return self.outside is not None and self.outside.comes_again(access, inside)
        if not access.stores:
            self.seen.add(access.place)
        self.bytes = self.bytes + self.elements(access) * access.bytes
        return True

    def most(self, access: _Access) -> Size:
        """How many elements an access comes to at most, if each iteration of the loops that it depends on has one; or
        those that lie between the first and the last, if these are known to be fewer, or may be."""
        iterations = self.iterations(self.of((access.buffer, *access.offset.atoms())))
        between = self.between(access)
        return iterations if between is None or _is_at_least(between, iterations) else between

    def elements(self, access: _Access) -> Size:
        """How many elements an access comes to at most, computed in front of the block where it has to be."""
        iterations = self.iterations(self.of((access.buffer, *access.offset.atoms())))
        between = self.most(access)
        if between == iterations:
            return iterations
        return self.extremum("maximum", (self.extremum("minimum", (iterations, between)), ZERO))

    def between(self, access: _Access) -> Size | None:
        """How many elements lie from the first to the last that an access comes to; None if that is not known."""
        if access.buffer in self.depends:
            return None
        reach, offset = poly(1), access.offset
        for var, iterations in zip(self.variables, self.around, strict=True):
            try:
                step = offset.coefficient(var)
            except ValueError:
                return None
            offset = offset.without(var)
            step = step * -1 if any(c < 0 for c in step.terms.values()) else step
            if any(c < 0 for c in step.terms.values()):
                return None
            reach = reach + step * (iterations - 1)
        return None if any(v in self.bound for v in offset.atoms()) else self.resolved(reach)

    def resolved(self, size: Size) -> Size | None:
        """A size in terms of what is known in front of the block; None if it is not."""
        size = size.substitute(self.known.get)
        return None if any(v in self.bound for v in size.atoms()) else size

    def here(self, stmt: loops.Stmt, work: loops.Work, depends: frozenset[int]) -> tuple[loops.Stmt, ...]:
        """A statement that does some work; counted in front of it where sizes are known only there."""
        moved, computed = self.resolved(work.bytes), self.resolved(work.operations)
        if moved is None or computed is None:
            return (loops.Count(self.nest, work.bytes, work.operations), stmt)
        times = self.iterations(depends)
        self.bytes, self.operations = self.bytes + moved * times, self.operations + computed * times
        return (stmt,)

    # ---- statements --------------------------------------------------------------------------------------------------
    def statement(self, stmt: loops.Stmt) -> tuple[loops.Stmt, ...]:
        depends = self.of(mentions(stmt)) if stmt.IS.follows else self.all_around()
        match stmt:
            case loops.Loop() | loops.For():
                return self.loop(stmt)
            case loops.Store(buffer, offset, _, monoid):
                combines = monoid != "set"
                self.moves(buffer, offset, 2 if combines else 1, stores=True)
                if combines and buffer.dtype in FLOATS:
                    self.computes(1, self.all_around())
                return (stmt,)
            case _:
                self.bind(binds(stmt), depends)
        match stmt:
            case loops.Compute(_, name, args):
                self.computes(operations(name, args, self.routines), depends)
            case loops.Evaluate(var, size):
                self.indices[var] = size.substitute(self.indices.get)
                if (resolved := self.resolved(size)) is not None:
                    self.known[var] = resolved
            case loops.Load(_, buffer, offset):
                self.moves(buffer, offset)
            case _ if stmt.IS.scalar:  # a conversion
                integers = [v for v in (*bound_by(stmt), *mentions(stmt)) if isinstance(v, Var) and v.type == I64]
                if len(integers) == 2:
                    self.indices[integers[0]] = poly(integers[1]).substitute(self.indices.get)
            case loops.Invoke():
                return (self.callee(stmt, self.nest),)
            case _ if (work := loops.work_of(stmt)) is not None:
                return self.here(stmt, work, depends)
            case _:
                return (map_bodies(stmt, lambda body: self.block(body, binds_inside(stmt))),)
        return (stmt,)

    def block(self, body: loops.Body, bound: Iterable[loops.Slot]) -> loops.Body:
        """A block that does not run as often as this one. bound: what only it knows."""
        inner = replace(self.for_block(), outside=self, own=frozenset(bound))
        out = inner.walk(body.stmts)
        return loops.Body((*inner.front, *inner.count(), *out), body.results)

    # ---- loops -------------------------------------------------------------------------------------------------------
    def loop(self, stmt: loops.Loop | loops.For) -> tuple[loops.Stmt, ...]:
        lows, highs = (stmt.lows, stmt.highs) if isinstance(stmt, loops.Loop) else ((stmt.low,), (stmt.high,))
        bounds = [self.resolved(size) for size in (*lows, *highs)]
        known = [size for size in bounds if size is not None]
        if isinstance(stmt, loops.For) and stmt.early:
            self.bind((stmt.index, *stmt.params, *stmt.results), self.all_around())
            return (replace(stmt, body=self.block(stmt.body, binds_inside(stmt))),)
        if len(known) < len(bounds):  # its iterations are known here and not in front of the block
            inner = self.for_block()
            counted = inner.loop(stmt)
            self.bind(bound_by(stmt), self.all_around())
            return (*inner.front, *inner.count(), *counted)
        iterations = self.iterations_of(known[: len(lows)], known[len(lows) :])
        depth = len(self.around)
        self.around.append(iterations)
        self.variables.append(stmt.var if isinstance(stmt, loops.Loop) else stmt.index)
        everything = self.all_around()
        if isinstance(stmt, loops.Loop):
            self.bind((stmt.var,), frozenset((depth,)))
            stmts = self.walk(stmt.stmts)
            for r in stmt.reductions:
                if r.monoid in ARITHMETIC and dtype_of(r.result) in FLOATS:
                    self.computes(1, everything)
            made_loop: loops.Stmt = replace(stmt, stmts=stmts)
        else:
            self.bind((stmt.index,), frozenset((depth,)))
            self.bind(stmt.params, everything)
            made_loop = replace(stmt, body=loops.Body(self.walk(stmt.body.stmts), stmt.body.results))
        self.around.pop()
        self.variables.pop()
        for slot, over in self.depends.items():
            self.depends[slot] = over - {depth}
        self.bind(bound_by(stmt), self.all_around())
        return (made_loop,)

    def iterations_of(self, lows: Sequence[Size], highs: Sequence[Size]) -> Size:
        """How many iterations a loop has; computed in front of the block where that is no constant."""
        if len(lows) == len(highs) == 1 and (count := (highs[0] - lows[0]).constant) is not None:
            return poly(max(int(count), 0))
        low, high = self.extremum("maximum", lows), self.extremum("minimum", highs)
        difference, iterations = fresh("iterations", I64), fresh("iterations", I64)
        self.front += [
            loops.Evaluate(difference, high - low),
            loops.Compute(iterations, "maximum", (difference, Lit(0, "i64"))),
        ]
        return poly(iterations)

    def extremum(self, name: str, sizes: Sequence[Size]) -> Size:
        extremum = sizes[0]
        for size in sizes[1:]:
            a, b, most = (fresh("bound", I64) for _ in range(3))
            self.front += [loops.Evaluate(a, extremum), loops.Evaluate(b, size), loops.Compute(most, name, (a, b))]
            extremum = poly(most)
        return extremum
