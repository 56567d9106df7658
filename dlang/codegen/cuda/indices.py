"""Indices of a kernel: numbers that places alone determine, which are narrow unless they become large.

Variables of loops, sizes, and polynomials of these that are offsets or bounds are indices, of type `dl_index` in the
text: 32 bits, or 64 for a launch in which one of them might be too large for that. So are sums, quotients and
remainders of indices that offsets are made of. What else a program computes with as an i64 stays one, and so do offsets
that depend on what a kernel has loaded. How large indices become is known to the host, which knows all sizes when it
launches a kernel: polynomials of its numbers, all taken without their signs.

    loop i in 0..n, loop j in 0..m          |i| <= n - 1, |j| <= m - 1
      t = &x[m*i + j]                       |m*i + j| <= m*(n - 1) + m - 1 = n*m - 1

The statement that launches a kernel says up to where its indices go (`Launch.reach`). Machine code estimates these
polynomials as floats at each launch, and asks Python for the same kernel with indices of 64 bits if one is too large,
which is compiled when that happens. The emulation reports an index that is larger than it may be, sums on the way to
one included. A division is by 32 bits, unsigned where neither number can be negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import lcm

from dlang.codegen.loops import Compute, Convert, Evaluate, Loop, Slot, Stmt
from dlang.codegen.traverse import binds, highs, indices, lows, offsets, walk
from dlang.ir.anf import Atom, Lit, Size, Var, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64
from dlang.ops.primitives import PRIMITIVES
from dlang.polynomials import Monomial, Poly

NARROW, WIDE = "dl_index", "i64"
LARGE = 2**16  # a number that is rather none of an index
_ONE: Monomial[Var] = ()


def of_index(name: str) -> str:
    """Names the bound on the magnitude of a primitive's result; empty if it is unknown."""
    return PRIMITIVES[name].magnitude


@dataclass(frozen=True, slots=True)
class Indices:
    """bounds: what each index does not exceed, without its sign. reach: up to where indices go, the host's numbers."""

    bounds: Mapping[Var, Size]
    reach: tuple[Size, ...]

    def __contains__(self, slot: object) -> bool:
        return slot in self.bounds

    def has(self, sizes: Iterable[Size]) -> bool:
        """Tells whether all atoms of the polynomials are known to be indices."""
        return all(atom in self.bounds for size in sizes for atom in size.atoms())


@dataclass(slots=True)
class _Search:
    """The walk over the statements of a kernel.

    inside: what they bind. places: what offsets and bounds are made of. same: of indices those that they are copies of.
    divisors: of quotients; the product of both is larger than what was divided by less than the divisor.
    """

    inside: Set[Slot]
    places: Set[Var]
    bounds: dict[Var, Size] = field(default_factory=dict)
    reach: list[Size] = field(default_factory=list)
    same: dict[Var, Var] = field(default_factory=dict)
    divisors: dict[Var, Var] = field(default_factory=dict)

    def size(self, size: Size) -> Size | None:
        """Returns a bound of a polynomial and of the partial sums by which it is computed; None if it is no index."""
        for atom in size.atoms():
            if atom not in self.inside and atom.type == I64:
                self.bounds.setdefault(atom, Poly.of(atom))
        if any(atom not in self.bounds for atom in size.atoms()):
            return None
        scale, bound = lcm(*(c.denominator for c in size.terms.values())) if size.terms else 1, ZERO
        for monomial, c in (size * scale).terms.items():
            term: Size = Poly({_ONE: c if c > 0 else -c})
            atoms = [self.same.get(atom, atom) for atom in monomial]
            for atom in list(atoms):
                if atom in atoms and (divisor := self.divisors.get(atom)) in atoms:
                    atoms.remove(atom)
                    atoms.remove(divisor)
                    term = term * (self.bounds[atom] + self.bounds[divisor])
            for atom in atoms:
                term = term * self.bounds[atom]
            bound = bound + term
        self.reach = with_bound(self.reach, bound)
        return bound

    def range(self, var: Var, lows: Sequence[Size], highs: Sequence[Size]) -> None:
        """The variable of a loop, and how many iterations that has."""
        ends = [self.size(size) for size in (*lows, *highs)]
        known = [end for end in ends if end is not None]
        if len(known) < len(ends):
            return
        if lows == (ZERO,):
            self.bounds[var] = known[1] - 1
            return
        self.bounds[var] = known[0] + known[len(lows)]
        total = ZERO
        for end in known:
            total = total + end
        self.reach = with_bound(self.reach, total)

    def statement(self, stmt: Stmt) -> None:
        for offset in offsets(stmt):
            self.size(offset)
        for index in indices(stmt):
            self.range(index, lows(stmt), highs(stmt))
        match stmt:
            case Evaluate(var, size) if var in self.places:
                if (bound := self.size(size)) is not None:
                    self.bounds[var] = bound
                    if size.atom is not None:
                        self.same[var] = self.same.get(size.atom, size.atom)
            case Convert(var, arg) if var in self.places and var.type == I64 and self.is_index(arg):
                bound = self.size(poly(arg))
                assert bound is not None
                self.bounds[var] = bound
                if isinstance(arg, Var):
                    self.same[var] = self.same.get(arg, arg)
            case Compute(var, name, args) if var in self.places and of_index(name) and all(map(self.is_index, args)):
                x, y = (self.size(poly(arg)) for arg in args)
                assert x is not None and y is not None
                match of_index(name):
                    case "first":
                        bound = x
                    case "second":
                        bound = y
                    case _:
                        bound = x + y
                self.bounds[var] = bound
                self.reach = with_bound(self.reach, bound)
                if name == "floordiv" and isinstance(args[1], Var):
                    self.divisors[var] = self.same.get(args[1], args[1])
            case _:
                pass

    def is_index(self, atom: Atom) -> bool:
        if atom.type != I64:
            return False
        if isinstance(atom, Lit):
            return abs(int(atom.value)) < LARGE
        return atom in self.bounds or atom not in self.inside


def indices_of(stmts: Sequence[Stmt], spread: Sequence[Sequence[Loop]] = (), shared: Size = ZERO) -> Indices:
    """The indices of a kernel that does statements, the loops whose iterations are spread among them.

    spread: loops right inside each other whose iterations the threads of a row number. shared: what else an index goes
    to.
    """
    inside = list(walk(stmts))
    bound = {slot for stmt in inside for slot in binds(stmt)}
    search = _Search(bound, _places(inside, bound))
    for stmt in inside:
        search.statement(stmt)
    products = [shared]
    for levels in spread:
        total = ZERO + 1
        for level in levels:
            total = total * (level.highs[0] - level.lows[0])
        products.append(total)
    for size in products:
        search.size(size)
    return Indices(search.bounds, tuple(search.reach))


def with_bound(reach: Sequence[Size], bound: Size) -> list[Size]:
    """Bounds without those that others always exceed, where no number is negative."""
    if any(_exceeds(other, bound) for other in reach):
        return list(reach)
    return [*[other for other in reach if not _exceeds(bound, other)], bound]


def _exceeds(larger: Size, smaller: Size) -> bool:
    return all(c >= 0 for c in (larger - smaller).terms.values())


def _places(inside: Sequence[Stmt], bound: Set[Slot]) -> Set[Var]:
    """Finds the variables in offsets and in bounds of loops; other numbers are values, also those of polynomials.

    bound: what the statements bind.
    """
    places: set[Var] = set()
    operands: set[Var] = set()  # of operations that give such a number
    for stmt in reversed(inside):
        for size in (*offsets(stmt), *lows(stmt), *highs(stmt)):
            places.update(size.atoms())
        match stmt:
            case Evaluate(var, size) if var in places:
                places.update(size.atoms())
            case Evaluate(var, size) if var in operands:
                if _is_small(size, bound):
                    operands.update(size.atoms())
                else:
                    operands.discard(var)
            case Convert(var, Var() as arg) if var.type == I64 and (var in places or var in operands):
                (places if var in places else operands).add(arg)
            case Compute(var, name, args) if of_index(name) and (var in places or var in operands):
                operands.update(arg for arg in args if isinstance(arg, Var))
            case _:
                pass
    return places | operands


def _is_small(size: Size, bound: Set[Slot]) -> bool:
    """Tells whether a polynomial seems not to exceed array sizes: it grows slowly with the variables of a kernel."""
    return all(-LARGE < c < LARGE and sum(atom in bound for atom in m) <= 1 for m, c in size.terms.items())
