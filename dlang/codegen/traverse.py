"""Statements inside of others, and what a statement binds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import is_

from dlang.codegen import loops


def walk(stmts: Iterable[loops.Stmt]) -> Iterator[loops.Stmt]:
    """Statements and those inside them, in order."""
    pending = [iter(stmts)]  # not generators in generators, which would pass each statement up through all of them
    while pending:
        stmt = next(pending[-1], None)
        if stmt is None:
            pending.pop()
            continue
        yield stmt
        match stmt:
            case loops.Loop() | loops.Parallel() | loops.OnHost():
                pending.append(iter(stmt.stmts))
            case loops.For():
                pending.append(iter(stmt.body.stmts))
            case loops.While():
                pending += [iter(stmt.body.stmts), iter(stmt.condition.stmts)]
            case loops.Branch():
                pending += [iter(stmt.otherwise.stmts), iter(stmt.then.stmts)]
            case _:
                pass


def map_inside(stmt: loops.Stmt, change: Callable[[Sequence[loops.Stmt]], tuple[loops.Stmt, ...]]) -> loops.Stmt:
    """A statement with the lists of statements right inside it changed; itself, if none of them becomes another."""

    def body(b: loops.Body) -> loops.Body:
        return with_stmts(b, change(b.stmts))

    match stmt:
        case loops.Loop() | loops.Parallel() | loops.OnHost():
            stmts = change(stmt.stmts)
            return stmt if stmts is stmt.stmts else replace(stmt, stmts=stmts)
        case loops.For():
            inside = body(stmt.body)
            return stmt if inside is stmt.body else replace(stmt, body=inside)
        case loops.While():
            condition, inside = body(stmt.condition), body(stmt.body)
            same = condition is stmt.condition and inside is stmt.body
            return stmt if same else replace(stmt, condition=condition, body=inside)
        case loops.Branch():
            then, otherwise = body(stmt.then), body(stmt.otherwise)
            same = then is stmt.then and otherwise is stmt.otherwise
            return stmt if same else replace(stmt, then=then, otherwise=otherwise)
        case _:
            return stmt


def with_stmts(body: loops.Body, stmts: tuple[loops.Stmt, ...]) -> loops.Body:
    """A body with other statements; itself, if they are its own."""
    return body if stmts is body.stmts else loops.Body(stmts, body.results)


def kept(before: Sequence[loops.Stmt], after: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
    """Statements that became others; the tuple that they came in, if each is what it was."""
    return tuple(before if len(before) == len(after) and all(map(is_, before, after)) else after)


def bound_by(stmt: loops.Stmt) -> tuple[loops.Slot, ...]:
    """What a statement binds for those behind it."""
    match stmt:
        case (
            loops.Compute(var)
            | loops.Convert(var)
            | loops.Evaluate(var)
            | loops.Load(var)
            | loops.Node(var)
            | loops.LoadTag(var)
            | loops.Mark(var)
            | loops.Fetch(var)
            | loops.TextOp(var)
        ):
            return (var,)
        case loops.Slice(buffer) | loops.Allocate(buffer) | loops.Room(buffer):
            return (buffer,)
        case loops.LoadField(slot) | loops.Pieces(slot):
            return (slot,)
        case loops.OnDevice(inner):
            return bound_by(inner)
        case loops.OnHost(stmts):
            return tuple([slot for inner in stmts for slot in bound_by(inner)])
        case loops.CallC(result=result):
            return () if result is None else (result,)
        case loops.Runtime(results=results) | loops.Invoke(results=results):
            return results
        case loops.Collect(results=handles, following=following):
            return (*handles, following)
        case loops.Loop() | loops.Parallel():
            return tuple([slot for r in stmt.reductions for slot in (r.result, r.position) if slot is not None])
        case loops.For() | loops.While() | loops.Branch():
            return stmt.results
        case _:
            return ()


def binds(stmt: loops.Stmt) -> tuple[loops.Slot, ...]:
    """What a statement binds, for those behind it and for those inside it."""
    match stmt:
        case loops.Loop():
            return (stmt.var, *bound_by(stmt))
        case loops.For():
            return (stmt.index, *stmt.params, *bound_by(stmt))
        case loops.While():
            return (*stmt.params, *bound_by(stmt))
        case _:
            return bound_by(stmt)
