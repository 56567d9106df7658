"""Branches, and loops whose iterations go one after another: what they carry and bind becomes phis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlang.codegen import loops
from dlang.codegen.llvm.indices import bounds, size_varies
from dlang.codegen.llvm.safepoints import chunk, look_every
from dlang.codegen.llvm.scalars import register_type
from dlang.codegen.llvm.writer import Writer, slot_type
from dlang.codegen.traverse import walk
from dlang.codegen.vectorize import differing_results, moving_state, work
from dlang.ir.anf import Var
from dlang.ir.types import dtype_of
from dlang.ops import figures


def branch(w: Writer, stmt: loops.Branch) -> None:
    """Code that is sanitised has jumps, so that an access of an arm is compared only where it happens."""
    if w.varies(stmt.condition):
        _in_lanes(w, stmt)
        return
    if stmt.predicated and not w.module.sanitizes:
        _in_one_path(w, stmt)
        return
    moving = [False] * len(stmt.results)
    if w.lane is not None:
        differing = differing_results(stmt, w.lane.var, w.lane.vectors.keys())
        moving = [r in differing for r in stmt.results]
    then, otherwise, done = w.label("then"), w.label("else"), w.label("done")
    w.fork(w.scalar(stmt.condition), then, otherwise, stmt.cold)
    arms = []
    w.conditional += 1
    for label, body in ((then, stmt.then), (otherwise, stmt.otherwise)):
        w.begin(label)
        w.statements(body.stmts)
        arms.append(([_value(w, r, m) for r, m in zip(body.results, moving, strict=True)], w.block))
        w.jump(done)
    w.conditional -= 1
    w.begin(done)
    for k, (slot, m) in enumerate(zip(stmt.results, moving, strict=True)):
        incoming = ", ".join(f"[ {results[k]}, %{block} ]" for results, block in arms)
        _bind(w, slot, w.emit(f"phi {_type(w, slot, m)} {incoming}"), m)


def _in_lanes(w: Writer, stmt: loops.Branch) -> None:
    """Both arms, one behind the other, each for the lanes that take it."""
    assert w.lane is not None
    condition, around = w.vector(stmt.condition), w.lane.mask
    mask = f"<{w.lane.width} x i1>"
    arms = []
    w.conditional += 1
    for negated, body in ((False, stmt.then), (True, stmt.otherwise)):
        if body.stmts:
            holds = w.emit(f"xor {mask} {condition}, splat (i1 true)") if negated else condition
            if around is not None:
                holds = w.emit(f"select {mask} {around}, {mask} {holds}, {mask} zeroinitializer")
            w.lane.mask = holds
        arms.append(_arm_of_lanes(w, body, stmt.results, stmt.cold and not negated))
        w.lane.mask = around
    w.conditional -= 1
    for slot, a, b in zip(stmt.results, *arms, strict=True):
        type = _type(w, slot, True)
        _bind(w, slot, w.emit(f"select {mask} {condition}, {type} {a}, {type} {b}"), True)


def _arm_of_lanes(w: Writer, body: loops.Body, slots: Sequence[loops.Slot], cold: bool) -> list[str]:
    """An arm for the lanes of the mask: not at all where there is none, if it is long, or has what all lanes share."""
    assert w.lane is not None
    over = w.label("over")
    before = w.block
    jumps = cold or _is_done_for_some(w, body)
    if jumps:
        width, arm = w.lane.width, w.label("arm")
        w.module.declare(f"llvm.vector.reduce.or.v{width}i1", "i1", f"<{width} x i1>")
        some = w.emit(f"call i1 @llvm.vector.reduce.or.v{width}i1(<{width} x i1> {w.lane.mask})")
        w.fork(some, arm, over, cold)
        w.begin(arm)
    w.statements(body.stmts)
    results = [_value(w, r, True) for r in body.results]
    if not jumps:
        return results
    leaving = w.block
    w.jump(over)
    w.begin(over)
    edges = [f"[ {r}, %{leaving} ], [ zeroinitializer, %{before} ]" for r in results]
    return [w.emit(f"phi {_type(w, slot, True)} {edge}") for slot, edge in zip(slots, edges, strict=True)]


def _is_done_for_some(w: Writer, body: loops.Body) -> bool:
    """Tells whether an arm must not, or need not, be done for no lane."""
    for stmt in walk(body.stmts):
        match stmt:
            case loops.Assert() | loops.Loop() | loops.For():
                return True
            case loops.Load(_, _, offset) if not size_varies(w, offset):
                return True  # unless it depends on a load of the arm; a jump more then
    return work(body.stmts) >= figures.ARM_WORTH_A_JUMP


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
