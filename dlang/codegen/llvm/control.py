"""Branches, and loops whose iterations go one after another: what they carry and bind becomes phis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dlang.codegen import loops
from dlang.codegen.llvm.indices import bounds
from dlang.codegen.llvm.safepoints import chunk, look_every
from dlang.codegen.llvm.scalars import register_type
from dlang.codegen.llvm.writer import Writer, slot_type
from dlang.codegen.vectorize import moving_state
from dlang.ir.anf import Var
from dlang.ir.types import dtype_of


def branch(w: Writer, stmt: loops.Branch) -> None:
    """Code that is sanitised has jumps, so that an access of an arm is compared only where it happens."""
    if stmt.predicated and not w.module.sanitizes:
        _in_one_path(w, stmt)
        return
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


def _in_one_path(w: Writer, stmt: loops.Branch) -> None:
    """Both arms, one behind the other, each under the condition that it is taken."""
    condition = w.scalar(stmt.condition)
    around, arms = w.taken, []
    w.conditional += 1
    for holds, body in ((condition, stmt.then), (f"xor i1 {condition}, true", stmt.otherwise)):
        if body.stmts:
            holds = w.emit(holds) if " " in holds else holds
            w.taken = holds if around is None else w.emit(f"select i1 {around}, i1 {holds}, i1 false")
        arms.append(w.body(body))
    w.taken = around
    w.conditional -= 1
    for slot, a, b in zip(stmt.results, *arms, strict=True):
        w.bind(slot, w.emit(f"select i1 {condition}, {slot_type(slot)} {a}, {slot_type(slot)} {b}, !unpredictable !2"))


@dataclass(frozen=True, slots=True)
class _Ring:
    """The blocks of a loop and what its head carries: the number of the iteration and the state.

    moving: what of the state is a vector, in a loop of lanes.
    """

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
    moving: list[bool]


def _ring(w: Writer, stmt: loops.InOrder) -> _Ring:
    pre, head, latch, stop, done = (w.label(s) for s in ("pre", "head", "latch", "stop", "done"))
    state = [w.name("s") for _ in stmt.params]
    moving = [False] * len(stmt.params)
    if w.lane is not None:
        assert isinstance(stmt, loops.For)
        moving_params = moving_state(stmt, w.lane.var, w.lane.vectors.keys())
        moving = [p in moving_params for p in stmt.params]
    init = [_value(w, v, m) for v, m in zip(stmt.init, moving, strict=True)]
    return _Ring(w.ahead_of(pre), pre, head, latch, stop, done, w.name("i"), w.name("i"), state, init, moving)


def _value(w: Writer, value: loops.Value, moving: bool) -> str:
    """A value as a loop carries it: for each lane, or for all."""
    if not moving:
        return w.scalar(value)
    assert not isinstance(value, loops.Buffer)
    return w.vector(value)


def _type(w: Writer, slot: loops.Slot, moving: bool) -> str:
    return register_type(dtype_of(slot), w.width()) if moving and isinstance(slot, Var) else slot_type(slot)


def _bind(w: Writer, slot: loops.Slot, value: str, moving: bool) -> None:
    if moving and w.lane is not None and isinstance(slot, Var):
        w.bind_lanes(slot, value)
    else:
        w.bind(slot, value)


def for_(w: Writer, stmt: loops.For) -> None:
    """A loop in order, which looks up from time to time and may be left early."""
    low, high = bounds(w, (stmt.low,), (stmt.high,))
    r = _ring(w, stmt)
    entering = w.block
    w.fork(w.emit(f"icmp slt i64 {low}, {high}"), r.ahead, r.done)

    def iteration() -> list[str]:
        w.bind(stmt.index, r.index)
        w.statements(stmt.body.stmts)
        results = [_value(w, x, m) for x, m in zip(stmt.body.results, [False] * stmt.early + r.moving, strict=True)]
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
    for k, (first, value) in enumerate(zip(r.init, results, strict=True)):
        _leaves(w, stmt, r, k, f"[ {first}, %{entering} ], [ {value}, %{r.latch} ]", value)


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
    for k, (name, value) in enumerate(zip(r.state, results, strict=True)):
        _leaves(w, stmt, r, k, f"[ {name}, %{fall} ]", value)


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
        for slot, name, moving in zip(stmt.params, r.state, r.moving, strict=True):
            _bind(w, slot, name, moving)
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
    for k, (name, start, value) in enumerate(zip(r.state, r.init, results, strict=True)):
        type = _type(w, stmt.params[k], r.moving[k])
        w.code.append(f"  {name} = phi {type} [ {start}, %{r.pre} ], [ {value}, %{r.latch} ]")
    w.code += inner[1:]
    w.begin(r.latch)
    return results


def _stopped(w: Writer, stmt: loops.InOrder, r: _Ring) -> None:
    """Emits the exit of a loop that ends early, by its body's own decision."""
    if stmt.early:
        w.begin(r.stop)
        w.jump(r.done)


def _leaves(w: Writer, stmt: loops.InOrder, r: _Ring, k: int, edges: str, value: str) -> None:
    """Binds a result: a phi of what it is on each way out."""
    slot, moving = stmt.results[k], r.moving[k]
    edges += f", [ {value}, %{r.stop} ]" if stmt.early else ""
    _bind(w, slot, w.emit(f"phi {_type(w, slot, moving)} {edges}"), moving)
