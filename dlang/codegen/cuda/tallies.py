"""Loops that count what other loops move and compute, where that depends on what these find in their trips.

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

from dlang.codegen.captures import captures
from dlang.codegen.loops import (
    Body,
    Branch,
    Buffer,
    Count,
    Evaluate,
    For,
    Guard,
    Load,
    Loop,
    Reduction,
    Slice,
    Slot,
    Stmt,
    Store,
    Value,
    While,
)
from dlang.codegen.traverse import bound_by, map_inside, walk
from dlang.ir.anf import Lit, Size, Var, fresh, poly
from dlang.ir.terms import ZERO
from dlang.ir.types import I64

Amounts = tuple[Size, Size]
"""Bytes and operations."""
NOTHING: Amounts = ZERO, ZERO


@dataclass(frozen=True, slots=True)
class Tally:
    """A loop whose reductions are the bytes and operations of another."""

    loop: Loop
    bytes: Var
    operations: Var


def tally_of(loop: Loop) -> Tally | None:
    """What the statements in a loop count; None where that depends on what the loop itself stores."""
    counting = _counting(loop.stmts)
    if counting is None:
        return None
    stmts, amounts = counting
    values = [fresh(name, I64) for name in ("bytes", "operations")]
    stmts = (*stmts, *map(Evaluate, values, amounts))
    kept = _needed(stmts, set(values))
    stored = _stored(loop.stmts)
    if any(isinstance(s, Load) and _root(loop.stmts, s.buffer) in stored for s in walk(kept)):
        return None
    bytes, operations = fresh("bytes", I64), fresh("operations", I64)
    sums = Reduction("sum", bytes, values[0]), Reduction("sum", operations, values[1])
    return Tally(replace(loop, stmts=kept, reductions=sums, apart=()), bytes, operations)


def _stored(stmts: Sequence[Stmt]) -> set[Buffer]:
    return {_root(stmts, s.buffer) for s in walk(stmts) if isinstance(s, Store)}


def _root(stmts: Sequence[Stmt], buffer: Buffer) -> Buffer:
    parents = {s.result: s.source for s in walk(stmts) if isinstance(s, Slice)}
    while buffer in parents:
        buffer = parents[buffer]
    return buffer


# ---- counts as values ------------------------------------------------------------------------------------------------
def _counting(stmts: Sequence[Stmt]) -> tuple[tuple[Stmt, ...], Amounts] | None:
    """Statements that store nothing, and what those have counted that did."""
    out: list[Stmt] = []
    total = NOTHING
    for stmt in stmts:
        match stmt:
            case Count(_, bytes, operations):
                total = total[0] + bytes, total[1] + operations
                continue
            case Loop() | For() | While() | Branch() if any(isinstance(s, Count) for s in walk((stmt,))):
                made = _inside(stmt)
                if made is None:
                    return None
                stmts_of_it, amounts = made
                out += stmts_of_it
                total = total[0] + amounts[0], total[1] + amounts[1]
            case Store():
                pass
            case _:
                out.append(map_inside(stmt, _without_stores))
    return tuple(out), total


def _without_stores(stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    return tuple([map_inside(s, _without_stores) for s in stmts if not isinstance(s, Store)])


def _inside(stmt: Loop | For | While | Branch) -> tuple[list[Stmt], Amounts] | None:
    """A statement with others inside that gives what these count."""
    results = fresh("bytes", I64), fresh("operations", I64)
    amounts = poly(results[0]), poly(results[1])
    match stmt:
        case Loop():
            made = _counting(stmt.stmts)
            if made is None:
                return None
            values, added = _values(made[1])
            sums = [Reduction("sum", result, value) for result, value in zip(results, values, strict=True)]
            return [replace(stmt, stmts=(*made[0], *added), reductions=(*stmt.reductions, *sums))], amounts
        case Branch():
            arms = [_arm(body) for body in (stmt.then, stmt.otherwise)]
            if arms[0] is None or arms[1] is None:
                return None
            return [replace(stmt, then=arms[0], otherwise=arms[1], results=(*stmt.results, *results))], amounts
        case For() | While():
            made = _counting(stmt.body.stmts)
            if made is None:
                return None
            first, each = NOTHING, made[1]
            head: tuple[Stmt, ...] = ()
            if isinstance(stmt, While):  # its condition is also looked at when no trip follows
                condition = _counting(stmt.condition.stmts)
                if condition is None or any(list(amount.atoms()) for amount in condition[1]):
                    return None
                head, first = condition
                each = each[0] + first[0], each[1] + first[1]
            params = fresh("bytes", I64), fresh("operations", I64)
            values, added = _values((poly(params[0]) + each[0], poly(params[1]) + each[1]))
            begins = [Lit(int(amount.constant or 0), "i64") for amount in first]
            body = Body((*made[0], *added), (*stmt.body.results, *values))
            carried = (*stmt.params, *params), (*stmt.init, *begins), (*stmt.results, *results)
            again = replace(stmt, body=body, params=carried[0], init=carried[1], results=carried[2])
            if isinstance(again, While):
                again = replace(again, condition=Body(head, again.condition.results))
            return [again], amounts


def _arm(body: Body) -> Body | None:
    made = _counting(body.stmts)
    if made is None:
        return None
    values, added = _values(made[1])
    return Body((*made[0], *added), (*body.results, *values))


def _values(amounts: Amounts) -> tuple[list[Var], list[Stmt]]:
    """Amounts as variables, and what computes them."""
    values = [fresh(name, I64) for name in ("bytes", "operations")]
    return values, [Evaluate(value, amount) for value, amount in zip(values, amounts, strict=True)]


# ---- what is needed for them -----------------------------------------------------------------------------------------
def _needed(stmts: Sequence[Stmt], wanted: set[Slot]) -> tuple[Stmt, ...]:
    """The statements by which some values are found, and what may fail."""
    needed = set(wanted)
    out: list[Stmt] = []
    for stmt in reversed(stmts):
        if needed.isdisjoint(bound_by(stmt)) and not any(isinstance(s, Guard) for s in walk((stmt,))):
            continue
        kept = _with_needed(stmt, needed)
        needed.update(captures((kept,), ()))
        out.append(kept)
    return tuple(reversed(out))


def _with_needed(stmt: Stmt, needed: set[Slot]) -> Stmt:
    def body(b: Body) -> Body:
        return Body(_needed(b.stmts, _slots(b.results)), b.results)

    match stmt:
        case Loop():
            reductions = [r for r in stmt.reductions if r.result in needed or r.position in needed]
            values = [v for r in reductions for v in (r.value, r.rank) if v is not None]
            return replace(stmt, stmts=_needed(stmt.stmts, _slots(values)), reductions=tuple(reductions))
        case For():
            return replace(stmt, body=body(stmt.body))
        case While():
            return replace(stmt, condition=body(stmt.condition), body=body(stmt.body))
        case Branch():
            return replace(stmt, then=body(stmt.then), otherwise=body(stmt.otherwise))
        case _:
            return stmt


def _slots(values: Iterable[Value]) -> set[Slot]:
    return {v for v in values if not isinstance(v, Lit)}
