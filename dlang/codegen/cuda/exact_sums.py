"""Sums of floats that no order of threads changes: terms that several threads add to an element are added as integers.

The largest terms of an element, one of each sign, give a power of two for it. By that each term is divided and rounded
to an integer, and what this leaves to another one. Integers are added atomically, exactly in any order, and give the
sum in the end. A term loses what is smaller than 2^-55 of the largest one, of f32 2^-27, so a sum is no less exact than
one that is done in order. It would need 2^34 terms of one element for the integers to overflow.

loop i in 0..n                    loop j in 0..m: &above[j], &below[j] = -∞
  &y[k] sum= t                    loop i in 0..n: &above[k] max= t; &below[k] max= -t
                                  loop j in 0..m: &above[j] = 1 / the power of two; &high[j], &low[j] = 0
                                  loop i in 0..n: &high[k] sum= t * &above[k]; &low[k] sum= the rest
                                  loop j in 0..m: &y[j] sum= (&high[j] + &low[j]) / &above[j]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlang.codegen import loops
from dlang.codegen.cuda.expansion import with_memory
from dlang.codegen.cuda.nests import Nest, nest_of
from dlang.codegen.cuda.spaces import is_worth_it
from dlang.codegen.traverse import captures, kept, map_inside, walk, with_stmts
from dlang.ir.anf import FLOATS, Atom, Lit, Scalar, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64, dtype_of, product
from dlang.ops.monoids import ROUNDED

BITS = {"f64": (27, 28), "f32": (27,)}
"""Of the integers that a term becomes; the rest of 64 are for the sum."""
FIELD, TWICE_BIAS = (
    52,
    2046,
)  # of the exponents of f64: where they are, and the sum of those of a number and its inverse
SMALLEST, LARGEST = 23, 2045  # exponents for which both are normal numbers
INFINITY, UNDEFINED, SIGN = 2047 << 52, 4095 << 51, 1 << 63  # the bits of these


def with_exact_sums(f: loops.Function) -> loops.Function:
    """A function in which no kernel adds up floats in an order that is open, where it is known how large arrays are."""
    shapes = {out.buffer: out.shape for out in f.outs}
    shapes |= {s.buffer: s.shape for s in walk(f.body.stmts) if isinstance(s, loops.Allocate)}

    def statements(stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
        out: list[loops.Stmt] = []
        for stmt in stmts:
            exact = _exact(stmt, shapes) if isinstance(stmt, loops.Loop) and is_worth_it(stmt) else None
            out += [map_inside(stmt, statements)] if exact is None else exact
        return kept(stmts, out)

    body = with_stmts(f.body, statements(f.body.stmts))
    return f if body is f.body else replace(f, body=body)


def _exact(loop: loops.Loop, shapes: Mapping[loops.Buffer, tuple[Size, ...]]) -> list[loops.Stmt] | None:
    """The loop with those before and behind it; None if it need not be so, or can't."""
    nest = _nest(loop)
    if nest is None:
        return None
    arrays = _Arrays.of((loop,))
    targets = _targets(nest)
    if not targets or any(target not in shapes for target in targets) or arrays.are_changed_and_looked_at():
        return None
    sums = {target: _Sum.of(target, product(shapes[target])) for target in targets}
    largest, added = _Iterations(arrays, sums, True), _Iterations(arrays, sums, False)
    first = replace(_without_results(replace(loop, stmts=largest.statements(loop.stmts))), reductions=())
    second = replace(loop, stmts=added.statements(loop.stmts))
    if _nest(first) is None or (second_nest := _nest(second)) is None or _targets(second_nest):
        return None
    out: list[loops.Stmt] = [stmt for one in sums.values() for stmt in one.begins()]
    out += [first, *[stmt for one in sums.values() for stmt in one.units()]]
    out += [second, *[stmt for one in sums.values() for stmt in one.ends()]]
    return out


def _nest(loop: loops.Loop) -> Nest | None:
    """A loop as a nest for a kernel, with memory for all of its iterations if they need some."""
    nest = nest_of(loop)
    for stmt in (with_memory(loop) or ()) if nest is None else ():
        nest = nest_of(stmt) if isinstance(stmt, loops.Loop) else nest
    return nest


def _targets(nest: Nest) -> dict[loops.Buffer, None] | None:
    """The arrays to whose elements several threads add floats; None if they combine any in another way."""
    inside = [*nest.levels[0].stmts, *nest.stmts]
    sources = {s.result: s.source for s in walk(inside) if isinstance(s, loops.Slice)}
    targets: dict[loops.Buffer, None] = {}
    for s in walk(nest.stmts):
        if isinstance(s, loops.Store) and s in nest.joined and s.buffer.dtype in FLOATS and s.monoid in ROUNDED:
            if s.monoid == "prod" or s.buffer.dtype not in BITS:
                return None
            root = s.buffer
            while root in sources:
                root = sources[root]
            targets[root] = None
    return targets


def _without_results(loop: loops.Loop) -> loops.Loop:
    """The loop without reductions inside whose results nothing in it uses."""

    def statements(stmts: Sequence[loops.Stmt], used: set[object]) -> tuple[loops.Stmt, ...]:
        out: list[loops.Stmt] = []
        for stmt in reversed(stmts):
            if isinstance(stmt, loops.Loop):
                kept = tuple([r for r in stmt.reductions if r.result in used or r.position in used])
                within: set[object] = {v for r in kept for v in (r.value, r.rank) if v is not None}
                stmt = replace(stmt, stmts=statements(stmt.stmts, within), reductions=kept)
            used |= set(captures((stmt,), ()))
            out.append(stmt)
        return tuple(reversed(out))

    return replace(loop, stmts=statements(loop.stmts, set()))


# ---- arrays ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Arrays:
    """The arrays that statements use. slices: parts of others, with their offsets. own: memory of single iterations."""

    slices: Mapping[loops.Buffer, tuple[loops.Buffer, Size]]
    own: frozenset[loops.Buffer]
    stored: frozenset[loops.Buffer]
    loaded: frozenset[loops.Buffer]

    @staticmethod
    def of(stmts: Sequence[loops.Stmt]) -> _Arrays:
        inside = list(walk(stmts))
        slices = {s.result: (s.source, s.offset) for s in inside if isinstance(s, loops.Slice)}
        allocated = frozenset(s.buffer for s in inside if isinstance(s, loops.Allocate))
        arrays = _Arrays(slices, allocated, frozenset(), frozenset())
        stored = [s.buffer for s in inside if isinstance(s, loops.Store)] + [
            s.target for s in inside if isinstance(s, loops.Move)
        ]
        loaded = [s.buffer for s in inside if isinstance(s, loops.Load)] + [
            s.source for s in inside if isinstance(s, loops.Move)
        ]
        roots = [frozenset(arrays.root(buffer, ZERO)[0] for buffer in buffers) for buffers in (stored, loaded)]
        return replace(arrays, stored=roots[0], loaded=roots[1])

    def root(self, buffer: loops.Buffer, offset: Size) -> tuple[loops.Buffer, Size]:
        """The array that one is a part of, and where an element is in that."""
        while buffer in self.slices:
            buffer, start = self.slices[buffer]
            offset = offset + start
        return buffer, offset

    def are_changed_and_looked_at(self) -> bool:
        """Tells whether an array is stored to and loaded from, but for memory of single iterations: then none may run
        twice."""
        return not (self.stored & self.loaded) <= self.own


# ---- the loops -------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Writer:
    """Statements under way."""

    out: list[loops.Stmt] = field(default_factory=list)

    def compute(self, name: str, dtype: str, *args: Atom) -> Var:
        var = fresh("t", Scalar(dtype))
        self.out.append(loops.Compute(var, name, args))
        return var

    def convert(self, arg: Atom, dtype: str) -> Atom:
        if dtype_of(arg) == dtype:
            return arg
        var = fresh("t", Scalar(dtype))
        self.out.append(loops.Convert(var, arg))
        return var

    def load(self, buffer: loops.Buffer, offset: Size) -> Var:
        var = fresh("t", Scalar(buffer.dtype))
        self.out.append(loops.Load(var, buffer, offset))
        return var

    def store(self, buffer: loops.Buffer, offset: Size, value: Atom, monoid: str = "set") -> None:
        self.out.append(loops.Store(buffer, offset, value, monoid))


@dataclass(frozen=True, slots=True)
class _Sum:
    """The buffers for exact sums in an array of so many elements.

    above, below: the largest term, and the largest of those with the other sign. Afterwards `above` is the inverse of
    the power of two by which terms are divided; 0 where there are none, and what the sum is where one is not finite.
    parts: the sums of integers, of which the first takes the place of `below`.
    """

    target: loops.Buffer
    total: Size
    above: loops.Buffer
    below: loops.Buffer
    parts: tuple[loops.Buffer, ...]

    @staticmethod
    def of(target: loops.Buffer, total: Size) -> _Sum:
        parts = tuple([loops.Buffer("part", "i64") for _ in BITS[target.dtype]])
        return _Sum(target, total, loops.Buffer("above", "f64"), loops.Buffer("below", "f64"), parts)

    @property
    def buffers(self) -> tuple[loops.Buffer, ...]:
        """Returns the buffers that have memory of their own."""
        return self.above, self.below, *self.parts[1:]

    def each(self, write: Callable[[_Writer, Size], None]) -> loops.Loop:
        """A loop over all elements."""
        j, w = fresh("j", I64), _Writer()
        write(w, poly(j))
        return loops.Loop(j, (ZERO,), (self.total,), tuple(w.out))

    def begins(self) -> list[loops.Stmt]:
        """Memory, in which there is nothing yet."""

        def nothing(w: _Writer, j: Size) -> None:
            for buffer in (self.above, self.below):
                w.store(buffer, j, Lit(-math.inf, "f64"))

        return [*[loops.Allocate(buffer, (self.total,)) for buffer in self.buffers], self.each(nothing)]

    def units(self) -> list[loops.Stmt]:
        """Computes from the bits of the largest terms the powers of two by which they are divided."""
        words = loops.Buffer("above", "u64"), loops.Buffer("below", "u64")

        def word(value: int) -> Lit:
            return Lit(value, "u64")

        def unit(w: _Writer, j: Size) -> None:
            bits = [w.load(buffer, j) for buffer in words]
            sizes = [w.compute("bit_and", "u64", x, word(~SIGN & 2**64 - 1)) for x in bits]
            most = w.compute("shift_right", "u64", w.compute("maximum", "u64", *sizes), word(FIELD))
            most = w.compute("maximum", "u64", w.compute("minimum", "u64", most, word(LARGEST)), word(SMALLEST))
            power = w.compute("shift_left", "u64", w.compute("sub", "u64", word(TWICE_BIAS), most), word(FIELD))
            infinite = [w.compute("eq", "bool", x, word(INFINITY)) for x in bits]
            none = [w.compute("eq", "bool", x, word(INFINITY | SIGN)) for x in bits]
            undefined = [w.compute("gt", "bool", x, word(INFINITY)) for x in sizes]
            wrong = w.compute("or", "bool", w.compute("or", "bool", *undefined), w.compute("and", "bool", *infinite))
            for condition, value in (
                (infinite[1], INFINITY | SIGN),
                (infinite[0], INFINITY),
                (wrong, UNDEFINED),
                (w.compute("and", "bool", *none), 0),
            ):
                power = w.compute("select", "u64", condition, word(value), power)
            w.store(words[0], j, power)
            w.store(words[1], j, word(0))
            for part in self.parts[1:]:
                w.store(part, j, Lit(0, "i64"))

        views = [loops.Slice(b, whole, ZERO) for b, whole in zip(words, (self.above, self.below), strict=True)]
        return [*views, self.each(unit), loops.Slice(self.parts[0], self.below, ZERO)]

    def ends(self) -> list[loops.Stmt]:
        """Adds the sums to the array, whose other elements stay as they are."""

        def number(value: float) -> Lit:
            return Lit(value, "f64")

        def added(w: _Writer, j: Size) -> None:
            dtype, unit = self.target.dtype, w.load(self.above, j)
            total: Atom = number(0.0)
            for part, bits in reversed(list(zip(self.parts, BITS[dtype], strict=True))):
                more = w.compute("add", "f64", total, w.convert(w.load(part, j), "f64"))
                total = w.compute("mul", "f64", more, number(0.5**bits))
            total = w.compute("mul", "f64", total, w.compute("div", "f64", number(1.0), unit))
            total = w.compute("select", "f64", w.compute("isfinite", "bool", unit), total, unit)
            old = w.load(self.target, j)
            new = w.compute("add", dtype, old, w.convert(total, dtype))
            w.store(self.target, j, w.compute("select", dtype, w.compute("ne", "bool", unit, number(0.0)), new, old))

        return [self.each(added), *[loops.Free(buffer) for buffer in reversed(self.buffers)]]


@dataclass(frozen=True, slots=True)
class _Iterations:
    """The iterations of the loop, of which what is added to the arrays of sums becomes something else.

    first: whether they are to give the largest terms, and nothing else.
    """

    arrays: _Arrays
    sums: Mapping[loops.Buffer, _Sum]
    first: bool

    def statements(self, stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
        return tuple([s for stmt in stmts for s in self.statement(stmt)])

    def statement(self, stmt: loops.Stmt) -> Sequence[loops.Stmt]:
        match stmt:
            case loops.Store(buffer, offset, value, monoid):
                root, place = self.arrays.root(buffer, offset)
                if root in self.sums and monoid == "sum":
                    w = _Writer()
                    term = w.convert(value, "f64")
                    (self.largest if self.first else self.parts)(w, self.sums[root], place, term)
                    return w.out
                return [stmt] if self.keeps(root) else []
            case loops.Move(target):
                return [stmt] if self.keeps(self.arrays.root(target, ZERO)[0]) else []
            case _:
                return [map_inside(stmt, self.statements)]

    def keeps(self, root: loops.Buffer) -> bool:
        """Tells whether this pass stores to an array: the first stores only to memory of single iterations."""
        return not self.first or root in self.arrays.own

    def largest(self, w: _Writer, sum: _Sum, place: Size, term: Atom) -> None:
        opposite = w.compute("neg", "f64", term)
        w.store(sum.above, place, term, "max")
        w.store(sum.below, place, opposite, "max")

    def parts(self, w: _Writer, sum: _Sum, place: Size, term: Atom) -> None:
        left: Atom = w.compute("mul", "f64", term, w.load(sum.above, place))
        integers: list[Atom] = []
        for bits in BITS[sum.target.dtype]:
            scaled = w.compute("mul", "f64", left, Lit(2.0**bits, "f64"))
            whole = w.compute("round", "f64", scaled)
            integers.append(w.convert(whole, "i64"))
            left = w.compute("sub", "f64", scaled, whole)
        for part, integer in zip(sum.parts, integers, strict=True):
            w.store(part, place, integer, "sum")
