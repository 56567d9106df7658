"""The adjoint of a loop that saves its iterations in a list: one node for each iteration, of what the adjoint mentions
of it.

    for i { s = B(i, s, w) }      iterations = Iteration(saved, iterations) after each      while iterations =
    Iteration(saved, rest) { vjp B }

The loop runs once, so it may have effects; its number of iterations need not be known; and a node holds arrays of any
sizes, so the state may change its own from iteration to iteration. The backward loop carries the sizes that the
cotangents of the state have at that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlang.ad.activity import next_state
from dlang.ad.inlining import unused
from dlang.ad.rematerialise import fleeting, rematerialised
from dlang.ad.scope import NoParallelAdjoint, Scope, Sink
from dlang.ad.tape import Bundle, fields_of, with_all_sizes
from dlang.ir import anf
from dlang.ir.marks import against
from dlang.ir.sizes import defined_sizes, with_sizes
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import bound_vars, free_vars, pruned_block, type_vars

END, ITERATION = 0, 1  # the variants of a list


def needs_list(op: anf.For | anf.While, active: set[anf.Var]) -> bool:
    """Tells whether a loop may run only once because of its effects, or an active part of its state changes size."""
    params = set(op.params)
    if any(v in params for p in op.params if p in active for v in type_vars(p.type)):
        return True
    return any(isinstance(p.type, anf.Token) for p in op.params)


def body_scope(op: anf.For | anf.While, scope: Scope) -> tuple[list[int], list[anf.Var], Scope]:
    """The state of a loop and the variables from outside whose cotangents its adjoint carries, and its body's scope."""
    sink = scope.sink
    state = [k for k, p in enumerate(op.params) if p in scope.active]
    inside = set(bound_vars(op))
    outer = [v for v in free_vars(op.body) if v in scope.active and v not in inside]
    if sink is not None and any(isinstance(v.type, anf.Array) and v not in sink.inside for v in outer):
        raise NoParallelAdjoint
    inner = scope.inner(None if sink is None else Sink(sink.inside | inside, [], sink.conditional, True))
    inner.in_loop, inner.fleeting = True, scope.fleeting | fleeting(op.body, op.params)
    inner.known = scope.known.copy()
    if isinstance(op, anf.For):
        inner.known.facts.between(op.index, (op.low,), (op.high,))
    return state, outer, inner


def vjp_listed(let: anf.Let, op: anf.For | anf.While, scope: Scope) -> list[anf.Let]:
    """Emits the adjoint of a loop; gives the loop with the list that it makes."""
    b, nodes = scope.b, scope.nodes
    after = next_state(op)
    state, outer, inner = body_scope(op, scope)
    inner.segments = False
    mentioned = {v for k in state for v in type_vars(op.params[k].type)}
    sizes = [k for k, p in enumerate(op.params) if p in mentioned]
    init = [let.vars[k] for k in sizes] + [scope.take(let.vars[k]) for k in state] + [scope.take(v) for v in outer]
    # What the backward loop carries: the sizes of the cotangents, these, and the cotangents of what is outside.
    carried = Renaming({}, renew=True)
    now = [carried.bind(op.params[k]) for k in sizes]
    bars = [anf.fresh(f"{op.params[k].name}_bar", nodes.type(carried.type(op.params[k].type))) for k in state]
    outer_bars = [anf.fresh(f"{v.name}_bar", scope.nodes.type(v.type)) for v in outer]
    with b.scope() as lets:
        for v, bar in zip(outer, outer_bars, strict=True):
            inner.add(v, bar)
        for k, bar in zip(state, bars, strict=True):
            inner.add(after[k], bar)
        forward = inner.walk(op.body.lets)
        # What the body passes on is handed to the parameter before the cotangent of the next state is asked for.
        results = [inner.take(op.params[k]) for k in state] + [inner.take(v) for v in outer]
    body = pruned_block(anf.Block(tuple(lets), (*[op.params[k] for k in sizes], *results)))
    replacement, body, whole, node = _save(let, op, forward, body, scope)
    if scope.followed:
        body = against(body, op.body)
    params = (node, *now, *bars, *outer_bars)
    with b.scope() as test:
        more = b.prim("ne", b.one(anf.Tag(node)), anf.Lit(END, "i64"))
    outs = Renaming({}, renew=True)
    vars = [outs.bind(p) for p in params]
    b.emit_as(vars, anf.While(params, (whole, *init), anf.Block(tuple(test), (more,)), body))
    cotangents = vars[1 + len(sizes) :]
    for k, bar in zip(state, cotangents, strict=False):
        scope.add(op.init[k], bar)
    for v, bar in zip(outer, cotangents[len(state) :], strict=True):
        scope.add(v, bar)
    return replacement


def _save(
    let: anf.Let, op: anf.For | anf.While, forward: list[anf.Let], body: anf.Block, scope: Scope
) -> tuple[list[anf.Let], anf.Block, anf.Var, anf.Var]:
    """The loop that makes the list, the backward body, the list after the loop, and the node that the body opens.

    The body's first result is the rest of the list.
    """
    b = scope.b
    bound = {v for inner in forward for v in inner.vars} | set(op.params)
    if isinstance(op, anf.For):
        bound.add(op.index)
    defined = defined_sizes(forward)
    body = rematerialised(body, forward, bound | scope.fleeting, scope.again, let.span, followed=scope.followed)
    body = with_sizes(body, defined)
    opened = Renaming(dict(defined))
    saved = with_all_sizes([v for v in free_vars(body) if v in bound], opened)
    variant = _iteration(scope, saved, opened)
    list_type = anf.Scalar(variant.datatype)
    before, whole, node = (anf.fresh("iterations", list_type) for _ in range(3))
    with b.scope() as lets:
        for inner in forward:
            b.append(inner)
        extended = b.one(anf.Construct(variant, (*saved, before)))
    with b.scope() as start:
        empty = b.one(anf.Construct(scope.nodes.datatypes[variant.datatype].variants[END], ()))
    loop = replace(
        op,
        params=(*op.params, before),
        init=(*op.init, empty),
        body=anf.Block(tuple(lets), (*op.body.results, extended)),
    )
    with b.scope() as opening:
        *values, before_node = b.emit(anf.Fields(variant, node))
        renaming = Renaming({}, renew=True)
        Bundle(tuple(saved), variant, opened).opened(b, values, bound, renaming)
    copy = renaming.block(body)
    backward = anf.Block((*opening, *copy.lets), (before_node, *copy.results))
    return [*start, anf.Let((*let.vars, whole), loop, let.span)], backward, whole, node


def _iteration(scope: Scope, saved: Sequence[anf.Var], opened: Renaming) -> anf.Variant:
    """The variant of a node that holds the variables and the node before it, of a datatype of its own."""
    datatypes = scope.nodes.datatypes
    name = unused("iterations.0", datatypes)
    end = anf.Variant(name, END, "End", ())
    iteration = anf.Variant(
        name, ITERATION, "Iteration", (*fields_of(saved, opened), anf.fresh("rest", anf.Scalar(name)))
    )
    datatypes[name] = anf.Datatype(name, (end, iteration), "what a derivative saves of a loop")
    return iteration
