"""Branches, and loops whose iterations go one after another: what they carry and bind becomes phis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dlang.codegen import loops
from dlang.codegen.llvm.indices import bounds
from dlang.codegen.llvm.safepoints import chunk, look_every
from dlang.codegen.llvm.writer import Writer, slot_type


def branch(w: Writer, stmt: loops.Branch) -> None:
    then, otherwise, done = w.label("then"), w.label("else"), w.label("done")
    w.fork(w.scalar(stmt.condition), then, otherwise, stmt.cold)
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


@dataclass(frozen=True, slots=True)
class _Ring:
    """The blocks of a loop and what its head carries: the number of the iteration and the state."""

    ahead: str
    pre: str
    head: str
    latch: str
    stop: str
    done: str
    index: str
    following: str
    state: list[str]
    init: list[str]


def _ring(w: Writer, stmt: loops.InOrder) -> _Ring:
    pre, head, latch, stop, done = (w.label(s) for s in ("pre", "head", "latch", "stop", "done"))
    state = [w.name("s") for _ in stmt.params]
    return _Ring(
        w.ahead_of(pre), pre, head, latch, stop, done, w.name("i"), w.name("i"), state, [w.scalar(v) for v in stmt.init]
    )


def for_(w: Writer, stmt: loops.For) -> None:
    """A loop in order, which looks up from time to time and may be left early."""
    low, high = bounds(w, (stmt.low,), (stmt.high,))
    r = _ring(w, stmt)
    entering = w.block
    w.fork(w.emit(f"icmp slt i64 {low}, {high}"), r.ahead, r.done)

    def iteration() -> list[str]:
        w.bind(stmt.index, r.index)
        results = w.body(stmt.body)
        iterations = chunk(stmt.body.stmts)
        count = (stmt.high - stmt.low).constant
        if count is None or count > iterations:
            look_every(w, r.index, iterations)
        return results

    results = _iterations_around(w, stmt, r, low, iteration)
    w.code.append(f"  {r.following} = add nsw i64 {r.index}, 1")
    w.fork(w.emit(f"icmp slt i64 {r.following}, {high}"), r.head, r.done)
    _stopped(w, stmt, r)
    w.begin(r.done)
    for slot, first, value in zip(stmt.results, r.init, results, strict=True):
        _leaves(w, stmt, r, slot, f"[ {first}, %{entering} ], [ {value}, %{r.latch} ]", value)


def while_(w: Writer, stmt: loops.While) -> None:
    """A loop as long as its condition holds; its iterations are counted only to know when to look up."""
    r = _ring(w, stmt)
    going, fall = w.label("iteration"), w.label("fall")
    w.jump(r.ahead)

    def iteration() -> list[str]:
        (condition,) = w.body(stmt.condition)
        w.fork(condition, going, fall)
        w.begin(going)
        results = w.body(stmt.body)
        look_every(w, r.index, chunk((*stmt.condition.stmts, *stmt.body.stmts)))
        return results

    results = _iterations_around(w, stmt, r, "0", iteration)
    w.code.append(f"  {r.following} = add i64 {r.index}, 1")
    w.jump(r.head)
    _stopped(w, stmt, r)
    w.begin(fall)
    w.jump(r.done)
    w.begin(r.done)
    for slot, name, value in zip(stmt.results, r.state, results, strict=True):
        _leaves(w, stmt, r, slot, f"[ {name}, %{fall} ]", value)


def _iterations_around(
    w: Writer, stmt: loops.InOrder, r: _Ring, first: str, iteration: Callable[[], list[str]]
) -> list[str]:
    """Writes the head, one iteration, and the beginning of the latch; gives the state after the iteration.

    The head's phis name what the iteration gives, and what is computed once stands before the head: so the iteration is
    written first, apart.
    """
    outer = w.code
    with w.scope(loads=False) as scope:
        w.code = []
        w.begin(r.head)
        for slot, name in zip(stmt.params, r.state, strict=True):
            w.bind(slot, name)
        w.conditional += 1
        results = iteration()
        w.conditional -= 1
        if stmt.early:
            w.fork(results[0], r.latch, r.stop)
            results = results[1:]
        else:
            w.jump(r.latch)
        inner, w.code = w.code, outer
    w.begin_ahead(r.ahead, r.pre, scope)
    w.jump(r.head)
    w.code.append(inner[0])
    w.code.append(f"  {r.index} = phi i64 [ {first}, %{r.pre} ], [ {r.following}, %{r.latch} ]")
    for slot, name, start, value in zip(stmt.params, r.state, r.init, results, strict=True):
        w.code.append(f"  {name} = phi {slot_type(slot)} [ {start}, %{r.pre} ], [ {value}, %{r.latch} ]")
    w.code += inner[1:]
    w.begin(r.latch)
    return results


def _stopped(w: Writer, stmt: loops.InOrder, r: _Ring) -> None:
    """Emits the exit of a loop that ends early, by its body's own decision."""
    if stmt.early:
        w.begin(r.stop)
        w.jump(r.done)


def _leaves(w: Writer, stmt: loops.InOrder, r: _Ring, slot: loops.Slot, edges: str, value: str) -> None:
    """Binds a result: a phi of what it is on each way out."""
    edges += f", [ {value}, %{r.stop} ]" if stmt.early else ""
    w.bind(slot, w.emit(f"phi {slot_type(slot)} {edges}"))
