"""The adjoints of loops.

    for i in low..high { s = B(i, s, w) }

runs backwards with the cotangents of the state and of what the body uses from outside, both changed in place:

    for i in reversed(low..high) { (s̄, w̄) = pull B(i, saved[i], s̄, w̄) }

Saved is what the backward body mentions of the forward body and nothing else: an array over the trips for each scalar,
and for each array that is made whole in a trip. An array that is carried and changed by `Update` is never among them,
because no adjoint of `Read` or `Update` mentions it. A loop that ends early, or `while`, first runs once to count its
trips and then is a counted loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.ad.branch import with_sizes
from dlang.ad.scope import Scope, Sink, Unplaceable, cheap, dummy, pruned_block
from dlang.diagnostics import error
from dlang.ir.anf import (
    Array,
    Block,
    Effect,
    For,
    Keep,
    Let,
    Lit,
    Read,
    Scalar,
    Size,
    SizeOf,
    Update,
    Var,
    While,
    fresh,
    poly,
)
from dlang.ir.builder import Builder, axis
from dlang.ir.traverse import Renaming, bound_vars, free_vars, refresh, type_vars, walk
from dlang.ir.types import I64, array_type, dtype_of


def pull_for(let: Let, op: For, scope: Scope) -> list[Let]:
    """Emits the adjoint of a counted loop; gives the loop with what has to be saved."""
    if op.early:
        count, loop = _counted(let, op, scope)
        forward = pull_for(loop, loop.op, scope) if isinstance(loop.op, For) else [loop]
        return [*count, *forward]
    b, sink = scope.b, scope.sink
    state = [k for k, p in enumerate(op.params) if p in scope.active]
    _refuse_changing_sizes(let, op, state)
    inside = set(bound_vars(op))
    outer = [v for v in free_vars(op.body) if v in scope.active and v not in inside]
    if sink is not None and any(isinstance(v.type, Array) and v not in sink.inside for v in outer):
        raise Unplaceable
    state_in = [scope.take(let.vars[k]) for k in state]
    outer_in = [scope.take(v) for v in outer]
    state_bars = tuple(fresh(f"{op.params[k].name}_bar", op.params[k].type) for k in state)
    outer_bars = tuple(fresh(f"{v.name}_bar", v.type) for v in outer)
    inner = scope.inner(
        sink=None if sink is None else Sink(sink.inside | inside, [], sink.conditional, True),
        loop=_changed_in_place(op),
    )
    inner.known = scope.known.copy()
    inner.known.facts.between(op.index, (op.low,), (op.high,))
    with b.scope() as lets:
        for v, bar in zip(outer, outer_bars, strict=True):
            inner.add(v, bar)
        for k, bar in zip(state, state_bars, strict=True):
            inner.add(op.body.results[k], bar)
        forward = inner.walk(op.body.lets, inner)
        # What the body passes on is handed to the parameter before the cotangent of the next state is asked for.
        results = [inner.take(op.params[k]) for k in state] + [inner.take(v) for v in outer]
    body = pruned_block(Block(tuple(lets), tuple(results)))
    replacement, body, index = _save(let, op, forward, body, scope)
    loop = For(index, op.low, op.high, (*state_bars, *outer_bars), (*state_in, *outer_in), body)
    vars = tuple(fresh(v.name, v.type) for v in (*state_bars, *outer_bars))
    b.emit_as(vars, loop)
    for k, bar in zip(state, vars, strict=False):
        scope.add(op.init[k], bar)
    for v, bar in zip(outer, vars[len(state) :], strict=True):
        scope.add(v, bar)
    return replacement


def _changed_in_place(op: For) -> frozenset[Var]:
    """The arrays of the state, and what `Update` makes of arrays: saving one whole would cost more than its change."""
    found = {p for p in op.params if isinstance(p.type, Array)}
    for let in walk(op.body):
        if isinstance(let.op, Update):
            found |= set(let.vars)
        elif isinstance(let.op, For):
            found |= {v for v in (*let.op.params, *let.vars) if isinstance(v.type, Array)}
    return frozenset(found)


def _refuse_changing_sizes(let: Let, op: For, state: Sequence[int]) -> None:
    params = set(op.params)
    if any(v in params for k in state for v in type_vars(op.params[k].type)):
        raise error(
            "E0704",
            "derivatives of a loop whose arrays change size are not supported yet",
            let.span,
            label="an array of this loop may have another size after every trip",
            help=("give the array its greatest size before the loop",),
        )


def _save(let: Let, op: For, forward: list[Let], body: Block, scope: Scope) -> tuple[list[Let], Block, Var]:
    """The forward loop with a tape, the backward body that reads it, and the index of the backward loop."""
    b = scope.b
    bound = {v for inner in forward for v in inner.vars} | set(op.params)
    again = cheap(free_vars(body), forward, lambda v: v not in bound)
    body = Block((*again, *body.lets), body.results)
    needed = with_sizes([v for v in free_vars(body) if v in bound], bound)
    for v in needed:
        _refuse_local_size(let, v, bound | {op.index})
    with b.scope() as before:
        trips = _trips(op, scope) if needed else poly(0)
        tapes = [b.full((trips, *_shape(v)), dummy(b, Scalar(dtype_of(v))), name=f"{v.name}_tape") for v in needed]
    params = tuple(fresh(t.name, t.type) for t in tapes)
    with b.scope() as lets:
        for inner in forward:
            b.append(inner)
        at = poly(op.index) - op.low
        stored = [_store(b, p, at, v) for p, v in zip(params, needed, strict=True)]
    block = Block(tuple(lets), (*op.body.results, *stored))
    saved = tuple(fresh(t.name, t.type) for t in tapes)
    loop = For(op.index, op.low, op.high, (*op.params, *params), (*op.init, *tapes), block)
    # Backward trip j undoes forward trip i = low + high - 1 - j, so both run over low..high.
    j = fresh(op.index.name, I64)
    renaming = Renaming({}, fresh=True)
    with b.scope() as start:
        i = b.one(SizeOf(op.low + op.high - 1 - poly(j)), op.index.name)
        renaming.env[op.index] = i
        for v, tape in zip(needed, saved, strict=True):
            renaming.env[v] = _load(b, tape, poly(i) - op.low, v)
    copy = renaming.block(body)
    backward = pruned_block(Block((*start, *copy.lets), copy.results))
    return [*before, Let((*let.vars, *saved), loop, let.span)], backward, j


def _trips(op: For, scope: Scope) -> Size:
    """How often a loop runs: high - low, or 0 if that is negative."""
    b = scope.b
    trips = op.high - op.low
    if scope.known.at_least_zero(trips):
        return trips
    return poly(b.prim("maximum", b.size(trips), Lit(0, "i64"), name="trips"))


def _shape(v: Var) -> tuple[Size, ...]:
    return v.type.shape if isinstance(v.type, Array) else ()


def _store(b: Builder, tape: Var, at: Size, v: Var) -> Var:
    """tape[at] = v."""
    if not isinstance(v.type, Array):
        return b.update(tape, (at,), v)
    axes = [axis(size) for size in v.type.shape]
    index = tuple(poly(a.var) for a in axes)
    into = Keep(array_type(tape).shape, (at, *index), "set", tape)
    (out,) = b.comp(axes, lambda *_: b.one(Read(v, index)), [into], (tape.name,))
    return out


def _load(b: Builder, tape: Var, at: Size, v: Var) -> Var:
    """tape[at]."""
    if not isinstance(v.type, Array):
        return b.one(Read(tape, (at,)), v.name)
    return b.view(tape, v.type.shape, lambda *index: (at, *index), v.name)


def _refuse_local_size(let: Let, v: Var, bound: set[Var]) -> None:
    if isinstance(v.type, Array) and any(size in bound for size in type_vars(v.type)):
        raise error(
            "E0704",
            f"derivatives of a loop that makes arrays of changing sizes are not supported yet: `{v.name}`",
            let.span,
            label="the size of an array that the derivative needs changes from trip to trip",
            help=("give the array its greatest size",),
        )


def pull_while(let: Let, op: While, scope: Scope) -> list[Let]:
    """Emits the adjoint of a loop with a condition; gives the counting and the counted loop."""
    count, loop = _counted(let, op, scope)
    assert isinstance(loop.op, For)
    return [*count, *pull_for(loop, loop.op, scope)]


def _counted(let: Let, op: For | While, scope: Scope) -> tuple[list[Let], Let]:
    """The loop as one of which the number of trips is known, after it ran once without its derivative to count them.

    A loop that ends early runs its last body too, with the state of which it ends.
    """
    for inner in walk(op.body):
        if isinstance(inner.op, Effect):
            raise error(
                "E0705",
                "derivatives of a loop that is not counted and has effects are not supported yet",
                inner.span or let.span,
                label="this would happen twice",
                help=("move the effect out of the loop, or use a `for` without `break`",),
            )
    b = scope.b
    # Whether the state changes type (a size that another part of the state gives) or not, the parameters say it.
    renaming = Renaming({}, fresh=True)
    params = tuple(renaming.bind(p) for p in op.params)
    trips = fresh("trips", I64)
    with b.scope() as lets:
        if isinstance(op, While):
            condition = refresh(op.condition, renaming.env)
        else:
            renaming.env[op.index] = fresh(op.index.name, I64)
        body = renaming.block(op.body)
        for inner in body.lets:
            b.append(inner)
        more = b.add(trips, Lit(1, "i64"))
    results = (*body.results, more)
    block = Block(tuple(lets), results)
    zero_trips = Lit(0, "i64")
    run: For | While
    if isinstance(op, While):
        run = While((*params, trips), (*op.init, zero_trips), condition, block, op.early)
    else:
        index = renaming.env[op.index]
        assert isinstance(index, Var)
        run = For(index, op.low, op.high, (*params, trips), (*op.init, zero_trips), block, True)
    outs = Renaming({}, fresh=True)
    ran = (*(outs.bind(p) for p in op.params), fresh("trips", I64))
    n = poly(ran[-1])
    scope.known.facts.size(ran[-1])
    if isinstance(op, While):
        low, index = poly(0), fresh("trip", I64)
    else:
        low, index = op.low, op.index
    inner_block = Block(op.body.lets, op.body.results[1:] if op.early else op.body.results)
    counted = For(index, low, low + n, op.params, op.init, inner_block)
    return [Let(ran, run, let.span)], Let(let.vars, counted, let.span)
