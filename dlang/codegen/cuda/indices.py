"""Indices of a kernel: numbers that places alone determine, which are narrow unless they become large.

Variables of loops, sizes, and polynomials of these that are offsets or bounds are indices, of type `dl_index` in the
text: 32 bits, or 64 for a launch in which one of them might be too large for that. What a program computes with as an
i64 stays one, and so do offsets that depend on what a kernel has loaded. How large indices become is known to the host,
which knows all sizes when it launches a kernel: polynomials of its numbers, all taken without their signs.

    loop i in 0..n, loop j in 0..m          |i| <= n - 1, |j| <= m - 1
      t = &x[m*i + j]                       |m*i + j| <= m*(n - 1) + m - 1 = n*m - 1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm

from dlang.codegen.loops import Evaluate, For, Load, Loop, Slice, Slot, Stmt, Store, While
from dlang.codegen.traverse import bound_by, walk
from dlang.ir.anf import Size, Var
from dlang.ir.terms import ZERO
from dlang.ir.types import I64
from dlang.polynomials import Monomial, Poly

NARROW, WIDE = "dl_index", "i64"
_ONE: Monomial[Var] = ()


@dataclass(frozen=True, slots=True)
class Indices:
    """bounds: what each index does not exceed, without its sign. reach: up to where indices go, the host's numbers."""

    bounds: Mapping[Var, Size]
    reach: tuple[Size, ...]

    def __contains__(self, slot: object) -> bool:
        return slot in self.bounds

    def has(self, sizes: Iterable[Size]) -> bool:
        """Whether polynomials are indices."""
        return all(_bound(size, self.bounds) is not None for size in sizes)


@dataclass(slots=True)
class _Search:
    """The walk over the statements of a kernel. inside: what they bind. places: what offsets and bounds are made of."""

    inside: set[Slot]
    places: set[Var]
    bounds: dict[Var, Size] = field(default_factory=dict)
    reach: list[Size] = field(default_factory=list)

    def size(self, size: Size) -> Size | None:
        """What a polynomial does not exceed, and none of the sums that it is computed by; None if it is no index."""
        for atom in size.atoms():
            if atom not in self.inside and atom.type == I64:
                self.bounds.setdefault(atom, Poly.of(atom))
        bound = _bound(size, self.bounds)
        if bound is not None:
            self.reach = with_bound(self.reach, bound)
        return bound

    def range(self, var: Var, lows: Sequence[Size], highs: Sequence[Size]) -> None:
        """The variable of a loop, and how many trips that has."""
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
        match stmt:
            case Load(_, _, offset) | Store(_, offset) | Slice(_, _, offset):
                self.size(offset)
            case Evaluate(var, size) if var in self.places:
                if (bound := self.size(size)) is not None:
                    self.bounds[var] = bound
            case Loop():
                self.range(stmt.var, stmt.lows, stmt.highs)
            case For():
                self.range(stmt.index, (stmt.low,), (stmt.high,))
            case _:
                pass


def indices_of(stmts: Sequence[Stmt], spread: Sequence[Sequence[Loop]] = (), shared: Size = ZERO) -> Indices:
    """The indices of a kernel that does statements, the loops whose trips are spread among them.

    spread: loops right inside each other whose trips the threads of a row number. shared: what else an index goes to.
    """
    inside = list(walk(stmts))
    search = _Search({slot for stmt in inside for slot in _binds(stmt)}, _places(inside))
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


def _bound(size: Size, bounds: Mapping[Var, Size]) -> Size | None:
    scale = lcm(*(c.denominator for c in size.terms.values())) if size.terms else 1
    total = ZERO
    for monomial, c in (size * scale).terms.items():
        if any(atom not in bounds for atom in monomial):
            return None
        term: Size = Poly({_ONE: c if c > 0 else -c})
        for atom in monomial:
            term = term * bounds[atom]
        total = total + term
    return total


def _places(inside: Sequence[Stmt]) -> set[Var]:
    """What offsets and the bounds of loops are made of; any other number is a value, also one of a polynomial."""
    found: set[Var] = set()
    for stmt in reversed(inside):
        match stmt:
            case Load(_, _, offset) | Store(_, offset) | Slice(_, _, offset):
                found.update(offset.atoms())
            case Loop():
                found.update(atom for size in (*stmt.lows, *stmt.highs) for atom in size.atoms())
            case For():
                found.update((*stmt.low.atoms(), *stmt.high.atoms()))
            case Evaluate(var, size) if var in found:
                found.update(size.atoms())
            case _:
                pass
    return found


def _binds(stmt: Stmt) -> tuple[Slot, ...]:
    match stmt:
        case Loop():
            return (stmt.var, *bound_by(stmt))
        case For():
            return (stmt.index, *stmt.params, *bound_by(stmt))
        case While():
            return (*stmt.params, *bound_by(stmt))
        case _:
            return bound_by(stmt)
