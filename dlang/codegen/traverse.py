"""Statements inside of others, and what a statement binds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from dlang.codegen.loops import (
    Allocate,
    Body,
    Branch,
    CallC,
    Collect,
    Compute,
    Convert,
    Evaluate,
    Fetch,
    For,
    Invoke,
    Load,
    LoadField,
    LoadTag,
    Loop,
    Mark,
    Node,
    OnDevice,
    OnHost,
    Parallel,
    Pieces,
    Room,
    Runtime,
    Slice,
    Slot,
    Stmt,
    TextOp,
    While,
)


def walk(stmts: Iterable[Stmt]) -> Iterator[Stmt]:
    """Statements and those inside them, in order."""
    pending = [iter(stmts)]  # not generators in generators, which would pass each statement up through all of them
    while pending:
        stmt = next(pending[-1], None)
        if stmt is None:
            pending.pop()
            continue
        yield stmt
        match stmt:
            case Loop() | Parallel() | OnHost():
                pending.append(iter(stmt.stmts))
            case For():
                pending.append(iter(stmt.body.stmts))
            case While():
                pending += [iter(stmt.body.stmts), iter(stmt.condition.stmts)]
            case Branch():
                pending += [iter(stmt.otherwise.stmts), iter(stmt.then.stmts)]
            case _:
                pass


def map_inside(stmt: Stmt, change: Callable[[Sequence[Stmt]], tuple[Stmt, ...]]) -> Stmt:
    """A statement with the lists of statements right inside it changed."""

    def body(b: Body) -> Body:
        return Body(change(b.stmts), b.results)

    match stmt:
        case Loop() | Parallel() | OnHost():
            return replace(stmt, stmts=change(stmt.stmts))
        case For():
            return replace(stmt, body=body(stmt.body))
        case While():
            return replace(stmt, condition=body(stmt.condition), body=body(stmt.body))
        case Branch():
            return replace(stmt, then=body(stmt.then), otherwise=body(stmt.otherwise))
        case _:
            return stmt


def bound_by(stmt: Stmt) -> tuple[Slot, ...]:
    """What a statement binds for those behind it."""
    match stmt:
        case (
            Compute(var)
            | Convert(var)
            | Evaluate(var)
            | Load(var)
            | Node(var)
            | LoadTag(var)
            | Mark(var)
            | Fetch(var)
            | TextOp(var)
        ):
            return (var,)
        case Slice(buffer) | Allocate(buffer) | Room(buffer):
            return (buffer,)
        case LoadField(slot) | Pieces(slot):
            return (slot,)
        case OnDevice(inner):
            return bound_by(inner)
        case OnHost(stmts):
            return tuple([slot for inner in stmts for slot in bound_by(inner)])
        case CallC(result=result):
            return () if result is None else (result,)
        case Runtime(results=results) | Invoke(results=results):
            return results
        case Collect(results=handles, following=following):
            return (*handles, following)
        case Loop() | Parallel():
            return tuple([slot for r in stmt.reductions for slot in (r.result, r.position) if slot is not None])
        case For() | While() | Branch():
            return stmt.results
        case _:
            return ()


def binds(stmt: Stmt) -> tuple[Slot, ...]:
    """What a statement binds, for those behind it and for those inside it."""
    match stmt:
        case Loop():
            return (stmt.var, *bound_by(stmt))
        case For():
            return (stmt.index, *stmt.params, *bound_by(stmt))
        case While():
            return (*stmt.params, *bound_by(stmt))
        case _:
            return bound_by(stmt)
