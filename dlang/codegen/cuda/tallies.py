"""Loops that count what other loops move and compute, where that depends on what these find in their iterations.

A kernel that counted would be another kernel; so one that does nothing else is launched in front of it.

loop i in 0..n                    loop i in 0..n
  t = &x[i]                         t = &x[i]
  c = gt(t, 0.0)                    c = gt(t, 0.0)
  if c                              b = if c: 8, else: 0
    count 8 bytes                   sum b
    &y[i] = t
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dlang.codegen import loops
from dlang.codegen.traverse import bound_by, captures, map_bodies, map_inside, walk, written
from dlang.ir.anf import Lit, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64

Amounts = tuple[Size, Size]
"""Bytes and operations."""
NOTHING: Amounts = ZERO, ZERO


@dataclass(frozen=True, slots=True)
class Tally:
    """A loop whose reductions are the bytes and operations of another."""

    loop: loops.Loop
    bytes: Var
    operations: Var


def tally_of(loop: loops.Loop) -> Tally | None:
    """Returns a loop that counts the bytes and operations of another; None if they depend on what that loop stores."""
    counting = _counting(loop.stmts)
    if counting is None:
        return None
    stmts, amounts = counting
    values = [fresh(name, I64) for name in ("bytes", "operations")]
    stmts = (*stmts, *map(loops.Evaluate, values, amounts))
    kept = _needed(stmts, set(values))
    stored = _stored(loop.stmts)
    if any(isinstance(s, loops.Load) and _root(loop.stmts, s.buffer) in stored for s in walk(kept)):
        return None
    bytes, operations = fresh("bytes", I64), fresh("operations", I64)
    sums = loops.Reduction("sum", bytes, values[0]), loops.Reduction("sum", operations, values[1])
    return Tally(replace(loop, stmts=kept, reductions=sums, disjoint=()), bytes, operations)


def _stored(stmts: Sequence[loops.Stmt]) -> set[loops.Buffer]:
    return {_root(stmts, buffer) for s in walk(stmts) for buffer in written(s)}


def _root(stmts: Sequence[loops.Stmt], buffer: loops.Buffer) -> loops.Buffer:
    parents = {s.result: s.source for s in walk(stmts) if isinstance(s, loops.Slice)}
    while buffer in parents:
        buffer = parents[buffer]
    return buffer


# ---- counts as values ------------------------------------------------------------------------------------------------
def _counting(stmts: Sequence[loops.Stmt]) -> tuple[tuple[loops.Stmt, ...], Amounts] | None:
    """Statements that store nothing, and what those have counted that did."""
    out: list[loops.Stmt] = []
    total = NOTHING
    for stmt in stmts:
        match stmt:
            case loops.Count(_, bytes, operations):
                total = total[0] + bytes, total[1] + operations
                continue
            case _ if any(isinstance(s, loops.Count) for s in walk((stmt,))):
                counting = _inside(stmt)
                if counting is None:
                    return None
                stmts_of_it, amounts = counting
                out += stmts_of_it
                total = total[0] + amounts[0], total[1] + amounts[1]
            case _ if not written(stmt):
                out.append(map_inside(stmt, _without_stores))
    return tuple(out), total


def _without_stores(stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
    return tuple([map_inside(s, _without_stores) for s in stmts if not written(s)])


def _inside(stmt: loops.Stmt) -> tuple[list[loops.Stmt], Amounts] | None:
    """A statement with others inside that gives what these count."""
    results = fresh("bytes", I64), fresh("operations", I64)
    amounts = poly(results[0]), poly(results[1])
    match stmt:
        case loops.Loop():
            counting = _counting(stmt.stmts)
            if counting is None:
                return None
            values, added = _values(counting[1])
            sums = [loops.Reduction("sum", result, value) for result, value in zip(results, values, strict=True)]
            return [replace(stmt, stmts=(*counting[0], *added), reductions=(*stmt.reductions, *sums))], amounts
        case loops.Branch():
            arms = [_arm(body) for body in (stmt.then, stmt.otherwise)]
            if arms[0] is None or arms[1] is None:
                return None
            return [replace(stmt, then=arms[0], otherwise=arms[1], results=(*stmt.results, *results))], amounts
        case loops.InOrder():
            counting = _counting(stmt.body.stmts)
            if counting is None:
                return None
            first, each = NOTHING, counting[1]
            head: tuple[loops.Stmt, ...] = ()
            if isinstance(stmt, loops.While):  # its condition is also looked at when no iteration follows
                condition = _counting(stmt.condition.stmts)
                if condition is None or any(list(amount.atoms()) for amount in condition[1]):
                    return None
                head, first = condition
                each = each[0] + first[0], each[1] + first[1]
            params = fresh("bytes", I64), fresh("operations", I64)
            values, added = _values((poly(params[0]) + each[0], poly(params[1]) + each[1]))
            begins = [Lit(int(amount.constant or 0), "i64") for amount in first]
            body = loops.Body((*counting[0], *added), (*stmt.body.results, *values))
            carried = (*stmt.params, *params), (*stmt.init, *begins), (*stmt.results, *results)
            again = replace(stmt, body=body, params=carried[0], init=carried[1], results=carried[2])
            if isinstance(again, loops.While):
                again = replace(again, condition=loops.Body(head, again.condition.results))
            return [again], amounts
        case _:
            return None


def _arm(body: loops.Body) -> loops.Body | None:
    counting = _counting(body.stmts)
    if counting is None:
        return None
    values, added = _values(counting[1])
    return loops.Body((*counting[0], *added), (*body.results, *values))


def _values(amounts: Amounts) -> tuple[list[Var], list[loops.Stmt]]:
    """Amounts as variables, and what computes them."""
    values = [fresh(name, I64) for name in ("bytes", "operations")]
    return values, [loops.Evaluate(value, amount) for value, amount in zip(values, amounts, strict=True)]


# ---- what is needed for them -----------------------------------------------------------------------------------------
def _needed(stmts: Sequence[loops.Stmt], wanted: set[loops.Slot]) -> tuple[loops.Stmt, ...]:
    """The statements by which some values are found, and what may fail."""
    needed = set(wanted)
    out: list[loops.Stmt] = []
    for stmt in reversed(stmts):
        if needed.isdisjoint(bound_by(stmt)) and not any(isinstance(s, loops.Assert) for s in walk((stmt,))):
            continue
        kept = _with_needed(stmt, needed)
        needed.update(captures((kept,), ()))
        out.append(kept)
    return tuple(reversed(out))


def _with_needed(stmt: loops.Stmt, needed: set[loops.Slot]) -> loops.Stmt:
    def body(b: loops.Body) -> loops.Body:
        return loops.Body(_needed(b.stmts, _slots(b.results)), b.results)

    match stmt:
        case loops.Loop():
            reductions = [r for r in stmt.reductions if r.result in needed or r.position in needed]
            values = [v for r in reductions for v in (r.value, r.rank) if v is not None]
            return replace(stmt, stmts=_needed(stmt.stmts, _slots(values)), reductions=tuple(reductions))
        case _:
            return map_bodies(stmt, body)


def _slots(values: Iterable[loops.Value]) -> set[loops.Slot]:
    return {v for v in values if not isinstance(v, Lit)}
