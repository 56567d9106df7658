"""Counts of what code moves and computes, written into it.

Operations are those of floating-point numbers: one for an addition, subtraction, multiplication, division, root, or
maximum; for `exp` and its like, those of the polynomials that stand for them; 2·m·n·k for a product of matrices. What
does not depend on an inner loop runs, and counts, outside of it.

Bytes are what a nest has to read and write at least: an access counts once for each iteration of the loops that its
index depends on, so an element that is used again in a loop which does not choose it counts once; reads of an array
whose indices differ by a constant count together.

A count is written once in front of a block, as polynomials over the iterations of the loops in it, unless their bounds
are not known there: what such a loop costs is counted right in front of it, each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from dlang.codegen import loops
from dlang.codegen.instructions import width
from dlang.codegen.traverse import binds, bound_by, map_bodies, mentions
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


@dataclass(slots=True)
class Counter:
    """Writes counts for a nest into code. callee: what a call becomes.

    front: what computes the counts of the block at hand, in front of it. around: the iterations of the loops between
    there and the code at hand. bound: what is not known there. depends: for what is bound in these loops, on which of
    them it depends, by their depth from 0.
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
        return tuple(made for stmt in stmts for made in self.statement(stmt))

    # ---- amounts -----------------------------------------------------------------------------------------------------
    def all_around(self) -> frozenset[int]:
        return frozenset(range(len(self.around)))

    def of(self, values: Iterable[object]) -> frozenset[int]:
        """The loops that values depend on."""
        found: frozenset[int] = frozenset()
        for value in values:
            if isinstance(value, Var | loops.Buffer):
                found |= self.depends.get(value, frozenset())
        return found

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

    def moves(self, bytes: int, over: frozenset[int]) -> None:
        self.bytes = self.bytes + self.iterations(over) * bytes

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
                depends = self.of((buffer, *offset.atoms()))
                self.moves(width(buffer.dtype) * (2 if combines else 1), depends)
                if combines and buffer.dtype in FLOATS:
                    self.computes(1, self.all_around())
                return (stmt,)
            case _:
                self.bind(binds(stmt), depends)
        match stmt:
            case loops.Compute(_, name, args):
                self.computes(operations(name, args, self.routines), depends)
            case loops.Evaluate(var, size):
                if (resolved := self.resolved(size)) is not None:
                    self.known[var] = resolved
            case loops.Load(_, buffer, offset):
                place = buffer, offset - poly(int(offset.terms.get((), 0)))
                if place not in self.seen:
                    self.seen.add(place)
                    self.moves(width(buffer.dtype), depends)
            case loops.Invoke():
                return (self.callee(stmt, self.nest),)
            case _ if (work := loops.work_of(stmt)) is not None:
                return self.here(stmt, work, depends)
            case _:
                return (map_bodies(stmt, self.block),)
        return (stmt,)

    def block(self, body: loops.Body) -> loops.Body:
        """A block that does not run as often as this one."""
        return self.for_block().body(body)

    # ---- loops -------------------------------------------------------------------------------------------------------
    def loop(self, stmt: loops.Loop | loops.For) -> tuple[loops.Stmt, ...]:
        lows, highs = (stmt.lows, stmt.highs) if isinstance(stmt, loops.Loop) else ((stmt.low,), (stmt.high,))
        bounds = [self.resolved(size) for size in (*lows, *highs)]
        known = [size for size in bounds if size is not None]
        if isinstance(stmt, loops.For) and stmt.early:
            self.bind((stmt.index, *stmt.params, *stmt.results), self.all_around())
            return (replace(stmt, body=self.block(stmt.body)),)
        if len(known) < len(bounds):  # its iterations are known here and not in front of the block
            inner = self.for_block()
            made = inner.loop(stmt)
            self.bind(bound_by(stmt), self.all_around())
            return (*inner.front, *inner.count(), *made)
        iterations = self.iterations_of(known[: len(lows)], known[len(lows) :])
        depth = len(self.around)
        self.around.append(iterations)
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
        found = sizes[0]
        for size in sizes[1:]:
            a, b, most = (fresh("bound", I64) for _ in range(3))
            self.front += [loops.Evaluate(a, found), loops.Evaluate(b, size), loops.Compute(most, name, (a, b))]
            found = poly(most)
        return found
