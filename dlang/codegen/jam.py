"""Unroll and jam: several iterations of a loop at once, whose inner loops of lanes become one (Allen and Cocke 1971).

    for i { for j by 16 { r[i, ·], r[j, ·] … } }    becomes    for i by 4 { for j by 16 { r[j, ·] once, … four times } }

What is loaded for the columns serves several rows. It gains where that is expensive: numbers that lie every so many
apart, which are taken out of whole vectors by shuffles. Iterations are independent, and sums get their terms in the
same order.

Two or four iterations of the outer loop have one inner loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dlang.codegen.loops import Compute, Convert, Evaluate, Load, Loop, Reduction, Stmt, Store
from dlang.codegen.neighbours import groups
from dlang.codegen.traverse import captures, rebuild
from dlang.codegen.vectorize import known_iterations
from dlang.ir.anf import Atom, Scalar, Size, Var, fresh, poly
from dlang.ops import figures
from dlang.ops.primitives import COST

_STRAIGHT = (Load, Compute, Convert, Evaluate)


@dataclass(frozen=True, slots=True)
class Jam:
    """So many iterations of a loop as one, by its own variable for the first of them. reductions: those of each
    iteration."""

    rows: int
    stmts: tuple[Stmt, ...]
    reductions: tuple[tuple[Reduction, ...], ...]


def jammed(loop: Loop) -> Jam | None:
    """Several iterations of a loop; None if they gain nothing by being done at once."""
    inner = _inner(loop)
    if inner is None:
        return None
    at = next(k for k, s in enumerate(loop.stmts) if s is inner)
    before, after = loop.stmts[:at], loop.stmts[at + 1 :]
    varying = {loop.var}
    for stmt in before:
        if not isinstance(stmt, _STRAIGHT):
            return None
        varying.add(stmt.var)
    shared, of_rows = _by_row(inner.stmts, varying)
    rows = min(figures.JAMMED_ROWS, figures.JAMMED_SUMS // len(inner.reductions))
    iterations = known_iterations(loop)
    if rows < 2 or len(of_rows) > figures.JAMMED_BODY or (iterations is not None and iterations < rows):
        return None
    if any(b.mentions(varying) for b in (*inner.lows, *inner.highs)) or not groups(shared, inner.var):
        return None
    if not all(isinstance(s, (*_STRAIGHT, Store)) for s in after):
        return None

    copies = [_Row(loop.var, r) for r in range(rows)]
    first = [copy.stmt(s) for copy in copies for s in (*copy.start(), *before)]
    body = [*shared, *[copy.stmt(s) for copy in copies for s in of_rows]]
    totals = tuple([copy.reduction(r) for copy in copies for r in inner.reductions])
    last = [copy.stmt(s) for copy in copies for s in after]
    stmts = (*first, replace(inner, stmts=tuple(body), reductions=totals), *last)
    results = [tuple([replace(r, value=copy.atom(r.value)) for r in loop.reductions]) for copy in copies]
    return Jam(rows, stmts, tuple(results))


def _inner(loop: Loop) -> Loop | None:
    """The one loop of lanes in a loop, if it only adds up, by light operations."""
    loops_inside = [s for s in loop.stmts if isinstance(s, Loop)]
    if len(loops_inside) != 1 or (loop.lanes > 1 and not loop.few) or loop.short or loop.scratch:
        return None
    (inner,) = loops_inside
    if inner.lanes == 1 or inner.short or inner.scratch or not inner.reductions:
        return None
    if any(r.position is not None for r in (*loop.reductions, *inner.reductions)):
        return None
    expensive = any(isinstance(s, Compute) and COST[s.name] >= figures.DIVISION for s in inner.stmts)
    light = not expensive and all(isinstance(s, _STRAIGHT) for s in inner.stmts)
    return inner if light else None


def _by_row(stmts: Sequence[Stmt], varying: set[Var]) -> tuple[list[Stmt], list[Stmt]]:
    """The statements that are the same for all rows, and those of each; `varying` gets what the latter bind."""
    shared: list[Stmt] = []
    of_rows: list[Stmt] = []
    for stmt in stmts:
        assert isinstance(stmt, _STRAIGHT)
        if varying.isdisjoint(captures((stmt,), ())):
            shared.append(stmt)
        else:
            varying.add(stmt.var)
            of_rows.append(stmt)
    return shared, of_rows


@dataclass(slots=True)
class _Row:
    """Code of one of the iterations: the first keeps its names."""

    var: Var
    number: int
    names: dict[Var, Atom] = field(default_factory=dict)

    def start(self) -> list[Stmt]:
        """Returns the statements that compute the number of the iteration."""
        return [Evaluate(self.var, poly(self.var) + self.number)] if self.number else []

    def atom(self, x: Atom) -> Atom:
        return self.names.get(x, x) if isinstance(x, Var) else x

    def stmt(self, stmt: Stmt) -> Stmt:
        return rebuild(stmt, value=self.atom, size=self._size, bind=self._bound)

    def reduction(self, r: Reduction) -> Reduction:
        value = self.atom(r.value)
        return Reduction(r.monoid, self._bound(r.result), value)

    def _bound(self, var: Var) -> Var:
        if not self.number:
            return var
        assert isinstance(var.type, Scalar)
        new = fresh(var.name, var.type)
        self.names[var] = new
        return new

    def _size(self, size: Size) -> Size:
        def replaced(v: Var) -> Size | None:
            name = self.names.get(v)
            return None if name is None else poly(name)

        return size.substitute(replaced)
