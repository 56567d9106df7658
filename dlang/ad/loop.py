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

from dlang.ad.scope import Scope, Sink, Unplaceable, pruned_block
from dlang.ad.tape import refuse_effects, save
from dlang.diagnostics import error
from dlang.ir.anf import (
    Array,
    Block,
    For,
    Let,
    Lit,
    Update,
    Var,
    While,
    fresh,
    poly,
)
from dlang.ir.traverse import Renaming, bound_vars, free_vars, refresh, type_vars, walk
from dlang.ir.types import I64


def pull_for(let: Let, op: For, scope: Scope) -> list[Let]:
    """Emits the adjoint of a counted loop; gives the loop with what has to be saved."""
    if op.early:
        count, again = _counted(let, op, scope)
        assert isinstance(again.op, For)
        return [*count, *pull_for(again, again.op, scope)]
    b, sink = scope.b, scope.sink
    state = [k for k, p in enumerate(op.params) if p in scope.active]
    _refuse_changing_sizes(let, op, state)
    inside = set(bound_vars(op))
    outer = [v for v in free_vars(op.body) if v in scope.active and v not in inside]
    if sink is not None and any(isinstance(v.type, Array) and v not in sink.inside for v in outer):
        raise Unplaceable
    state_in = [scope.take(let.vars[k]) for k in state]
    outer_in = [scope.take(v) for v in outer]
    state_bars = tuple(fresh(f"{op.params[k].name}_bar", scope.nodes.type(op.params[k].type)) for k in state)
    outer_bars = tuple(fresh(f"{v.name}_bar", scope.type(v)) for v in outer)
    inner = scope.inner(None if sink is None else Sink(sink.inside | inside, [], sink.conditional, True))
    inner.loop = _changed_in_place(op)
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
    replacement, body, index = save(let, op, forward, body, scope)
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
            "E0712",
            "derivatives of a loop whose arrays change size are not supported yet",
            let.span,
            label="an array of this loop may have another size after every trip",
            help=("give the array its greatest size before the loop",),
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
    refuse_effects(op.body.lets, let)
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
