"""Branches, and loops whose trips go one after another: what they carry and bind becomes phis."""

from __future__ import annotations

from dlang.codegen import loops
from dlang.codegen.llvm.indices import bounds
from dlang.codegen.llvm.polls import chunk, look_every
from dlang.codegen.llvm.writer import Writer, slot_type


def branch(w: Writer, stmt: loops.Branch) -> None:
    then, otherwise, done = w.label("then"), w.label("else"), w.label("done")
    w.fork(w.scalar(stmt.condition), then, otherwise)
    arms = []
    w.conditional += 1
    for label, body in ((then, stmt.then), (otherwise, stmt.otherwise)):
        w.begin(label)
        results = w.body(body)
        arms.append((results, w.block))
        w.jump(done)
    w.conditional -= 1
    w.begin(done)
    for k, slot in enumerate(stmt.results):
        incoming = ", ".join(f"[ {results[k]}, %{block} ]" for results, block in arms)
        w.bind(slot, w.emit(f"phi {slot_type(slot)} {incoming}"))


def for_(w: Writer, stmt: loops.For) -> None:
    low, high = bounds(w, (stmt.low,), (stmt.high,))
    init = [w.scalar(v) for v in stmt.init]
    pre, head, latch, stop, done = (w.label(s) for s in ("pre", "head", "latch", "stop", "done"))
    entering = w.block
    w.fork(w.emit(f"icmp slt i64 {low}, {high}"), pre, done)
    names = [w.name("s") for _ in stmt.params]
    index, following = w.name("i"), w.name("i")
    outer = w.code
    with w.scope(loads=False) as scope:
        w.code = []
        w.begin(head)
        w.bind(stmt.index, index)
        for slot, name in zip(stmt.params, names, strict=True):
            w.bind(slot, name)
        w.conditional += 1
        results = w.body(stmt.body)
        trips = chunk(stmt.body.stmts)
        count = (stmt.high - stmt.low).constant
        if count is None or count > trips:
            look_every(w, index, trips)
        w.conditional -= 1
        if stmt.early:
            w.fork(results[0], latch, stop)
            results = results[1:]
        else:
            w.jump(latch)
        inner, w.code = w.code, outer
    w.begin(pre)
    w.code += scope.pre
    w.jump(head)
    w.code.append(inner[0])
    w.code.append(f"  {index} = phi i64 [ {low}, %{pre} ], [ {following}, %{latch} ]")
    for slot, name, first, value in zip(stmt.params, names, init, results, strict=True):
        w.code.append(f"  {name} = phi {slot_type(slot)} [ {first}, %{pre} ], [ {value}, %{latch} ]")
    w.code += inner[1:]
    w.begin(latch)
    w.code.append(f"  {following} = add nsw i64 {index}, 1")
    w.fork(w.emit(f"icmp slt i64 {following}, {high}"), head, done)
    if stmt.early:
        w.begin(stop)
        w.jump(done)
    w.begin(done)
    for slot, first, value in zip(stmt.results, init, results, strict=True):
        edges = f"[ {first}, %{entering} ], [ {value}, %{latch} ]" + (f", [ {value}, %{stop} ]" if stmt.early else "")
        w.bind(slot, w.emit(f"phi {slot_type(slot)} {edges}"))


def while_(w: Writer, stmt: loops.While) -> None:
    init = [w.scalar(v) for v in stmt.init]
    pre, head, trip, latch, stop, fall, done = (
        w.label(s) for s in ("pre", "head", "trip", "latch", "stop", "fall", "done")
    )
    w.jump(pre)
    names = [w.name("s") for _ in stmt.params]
    index, following = w.name("i"), w.name("i")
    outer = w.code
    with w.scope(loads=False) as scope:
        w.code = []
        w.begin(head)
        for slot, name in zip(stmt.params, names, strict=True):
            w.bind(slot, name)
        w.conditional += 1
        (condition,) = w.body(stmt.condition)
        w.fork(condition, trip, fall)
        w.begin(trip)
        results = w.body(stmt.body)
        look_every(w, index, chunk((*stmt.condition.stmts, *stmt.body.stmts)))
        w.conditional -= 1
        if stmt.early:
            w.fork(results[0], latch, stop)
            results = results[1:]
        else:
            w.jump(latch)
        inner, w.code = w.code, outer
    w.begin(pre)
    w.code += scope.pre
    w.jump(head)
    w.code.append(inner[0])
    w.code.append(f"  {index} = phi i64 [ 0, %{pre} ], [ {following}, %{latch} ]")
    for slot, name, first, value in zip(stmt.params, names, init, results, strict=True):
        w.code.append(f"  {name} = phi {slot_type(slot)} [ {first}, %{pre} ], [ {value}, %{latch} ]")
    w.code += inner[1:]
    w.begin(latch)
    w.code.append(f"  {following} = add i64 {index}, 1")
    w.jump(head)
    if stmt.early:
        w.begin(stop)
        w.jump(done)
    w.begin(fall)
    w.jump(done)
    w.begin(done)
    for slot, name, value in zip(stmt.results, names, results, strict=True):
        edges = f"[ {name}, %{fall} ]" + (f", [ {value}, %{stop} ]" if stmt.early else "")
        w.bind(slot, w.emit(f"phi {slot_type(slot)} {edges}"))
