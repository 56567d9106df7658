"""Loads whose values count only where a selection takes them, so that what they read may never have been written.

As in the half of a triangular matrix: `select(j <= i, &a[i*n + j], 0)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlang.codegen import loops
from dlang.codegen.traverse import walk
from dlang.ir.anf import Size, Var


def uncertain_loads(stmts: Sequence[loops.Stmt], reductions: Sequence[loops.Reduction]) -> frozenset[Var]:
    """Finds loads that only selections use; the reductions are of the loop around the statements."""
    needed: set[loops.Value] = set()

    def sizes(found: Iterable[Size]) -> None:
        for size in found:
            needed.update(size.atoms())

    def values(found: Iterable[loops.Value | None]) -> None:
        needed.update(v for v in found if v is not None)

    def reduced(found: Sequence[loops.Reduction]) -> None:
        values([v for r in found for v in (r.value, r.rank)])

    inside = list(walk(stmts))
    reduced(reductions)
    for stmt in inside:
        match stmt:
            case loops.Store(_, offset, value):
                sizes((offset,))
                values((value,))
            case loops.Load(_, _, offset) | loops.Slice(_, _, offset):
                sizes((offset,))
            case loops.Evaluate(_, size):
                sizes((size,))
            case loops.Only(wanted):
                values((wanted,))
            case loops.Assert():
                values((stmt.condition, *[v for v in stmt.values if isinstance(v, Var)]))
            case loops.Loop():
                sizes((*stmt.lows, *stmt.highs))
                reduced(stmt.reductions)
            case loops.For():
                sizes((stmt.low, stmt.high))
                values((*stmt.init, *stmt.body.results))
            case loops.While():
                values((*stmt.init, *stmt.condition.results, *stmt.body.results))
            case loops.Branch():
                values((stmt.condition, *stmt.then.results, *stmt.otherwise.results))
            case _:
                pass
    for stmt in reversed(inside):  # from what is used to what it is made of
        match stmt:
            case loops.Compute(_, "select", (condition, _, _)):
                values((condition,))
            case loops.Compute(var, _, args) if var in needed:
                values(args)
            case loops.Convert(var, arg) if var in needed:
                values((arg,))
            case _:
                pass
    loads = frozenset([stmt.var for stmt in inside if isinstance(stmt, loops.Load)])
    return loads - needed
