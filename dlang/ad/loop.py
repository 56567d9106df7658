"""The adjoints of loops.

    for i in low..high { s = B(i, s, w) }

runs backwards with the cotangents of the state and of what the body uses from outside, both changed in place:

    for i in reversed(low..high) { (s̄, w̄) = vjp B(i, saved[i], s̄, w̄) }

It saves what the backward body mentions of the forward body and nothing else, or values from which that is cheaply
computed (`rematerialise.py`): an array over the iterations for each scalar, and for each array that an iteration makes
as a whole, or for the slices of it that are read (`slices.py`). An array that is carried and changed by `Update` is
never among them: of it the elements are saved that the adjoint mentions, but for those that are in the array that the
loops leave (`lasting.py`). A loop that ends early, or `while`, keeps a list of its iterations, as does one that changes
its sizes. Under `checkpoint` a loop is taken apart into segments; if its number of iterations is not known, it first
runs once to count them.

A state that is needed before and after an iteration is saved once.

Loops of a function under `checkpoint`: taken apart into segments, of which the states at their starts are saved.

    for i in 0..n { s = B(i, s) }     becomes     for j in 0..⌈n/m⌉ { for i in j·m..min((j+1)·m, n) { s = B(i, s) } }

with m about √n. The adjoint of the outer loop saves s at the start of each segment; for each, last first, it runs the
segment again, which now saves what its adjoint needs, and then that backwards. So the body runs once more than it would
have, and the memory is that of √n states and of √n iterations (Griewank: Achieving logarithmic growth of temporal and
spatial complexity in reverse automatic differentiation, 1992; with two levels). A loop in the body is taken apart, too,
and runs once more again.

A loop that changes elements of arrays saves numbers in each iteration, and arrays at the start of each segment: with k
elements in these m is about √(n k), so that both take as much, and a loop of fewer iterations than elements is one
segment. A loop that begins with an array which a loop around it changes, or reads one, is taken apart only where it is
known to have as many iterations as there are elements: the array would be saved each time that it runs, though it may
look at a few.

A list of iterations has one node for each, of what the adjoint mentions of it.

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
from dlang.ad.scope import NoParallelAdjoint, Scope, Sink, carry
from dlang.ad.slices import sliced
from dlang.ad.summed import reads_as_many
from dlang.ad.tape import Bundle, fields_of, save, with_all_sizes
from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.anf import Block, For, IndexExpr, Let, Lit, Size, Var, While, fresh, poly
from dlang.ir.builder import Builder
from dlang.ir.marks import against
from dlang.ir.sizes import defined_sizes, with_sizes
from dlang.ir.substitution import Renaming, refresh, substitute
from dlang.ir.traverse import bound_vars, free_vars, pruned_block, type_vars
from dlang.ir.types import I64, array_type, product
from dlang.ops import figures


def vjp_for(let: anf.Let, op: anf.For, scope: Scope) -> list[anf.Let]:
    """Emits the adjoint of a loop over a range; gives the loop with what has to be saved."""
    if needs_list(op, scope.active):
        return vjp_listed(let, op, scope)
    if has_segments(op, scope):
        count: list[anf.Let] = []
        if op.early:
            count, let, op = _counted(let, op, scope)
        before, let = segmented(let, op, scope)
        assert isinstance(let.op, anf.For)
        states = [(v in scope.summed, v, p) for v, p in zip(let.vars, let.op.params, strict=True)]
        scope.note_summed([let])
        for is_sum, *ends in states:  # as it was where the uses of what the loop gives were walked
            scope.summed = scope.summed.union(ends) if is_sum else scope.summed.difference(ends)
        return [*count, *before, *_vjp_loop(let, let.op, scope, op)]
    if op.early:
        return vjp_listed(let, op, scope)
    return _vjp_loop(let, op, scope)


def vjp_while(let: anf.Let, op: anf.While, scope: Scope) -> list[anf.Let]:
    """Emits the adjoint of a loop with a condition; gives the loop with what has to be saved."""
    if has_segments(op, scope) and not needs_list(op, scope.active):
        count, let, counted = _counted(let, op, scope)
        return [*count, *vjp_for(let, counted, scope)]
    return vjp_listed(let, op, scope)


def _vjp_loop(let: anf.Let, op: anf.For, scope: Scope, segments_of: anf.For | None = None) -> list[anf.Let]:
    """Emits the adjoint of a counted loop. segments_of: the loop, if this one is over its segments."""
    b = scope.b
    state, outer, inner = body_scope(op, scope)
    inner.lasting = scope.lasting.within(let, op)
    state_in = [scope.take(let.vars[k]) for k in state]
    outer_in = [_taken(v, scope, inner) for v in outer]
    state_bars = tuple(anf.fresh(f"{op.params[k].name}_bar", inner.bar_type(op.params[k])) for k in state)
    outer_bars = tuple(anf.fresh(f"{v.name}_bar", inner.bar_type(v)) for v in outer)
    with b.scope() as lets:
        for v, bar in zip(outer, outer_bars, strict=True):
            inner.add(v, bar)
        for k, bar in zip(state, state_bars, strict=True):
            inner.add(op.body.results[k], bar)
        if segments_of is None:
            forward = inner.walk(op.body.lets)
        else:
            forward = run_again(op.body.lets, inner, segments_of.low, segments_of.high)
        # What the body passes on is handed to the parameter before the cotangent of the next state is asked for.
        results = [inner.take(op.params[k]) for k in state] + [inner.take(v) for v in outer]
    body = pruned_block(anf.Block(tuple(lets), tuple(results)))
    replacement, body, index = save(let, op, forward, body, scope, inner)
    if scope.followed:
        body = against(body, op.body)
    loop = anf.For(index, op.low, op.high, (*state_bars, *outer_bars), (*state_in, *outer_in), body)
    vars = tuple(anf.fresh(v.name, v.type) for v in (*state_bars, *outer_bars))
    b.emit_as(vars, loop)
    for k, bar in zip(state, vars, strict=False):
        scope.add(op.init[k], bar)
    for v, bar in zip(outer, vars[len(state) :], strict=True):
        scope.add(v, bar)
    return replacement


def _counted(let: anf.Let, op: anf.For | anf.While, scope: Scope) -> tuple[list[anf.Let], anf.Let, anf.For]:
    """The loop as one of which the number of iterations is known, after it ran once without its derivative to count
    them.

    A loop that ends early runs its last body too, with the state of which it ends.
    """
    b = scope.b
    # Whether the state changes type (a size that another part of the state gives) or not, the parameters say it.
    renaming = Renaming({}, renew=True)
    params = tuple(renaming.bind(p) for p in op.params)
    iterations = anf.fresh("iterations", I64)
    with b.scope() as lets:
        if isinstance(op, anf.While):
            condition = refresh(op.condition, renaming.env)
        else:
            renaming.env[op.index] = anf.fresh(op.index.name, I64)
        body = renaming.block(op.body)
        for inner in body.lets:
            b.append(inner)
        more = b.add(iterations, anf.Lit(1, "i64"))
    results = (*body.results, more)
    block = anf.Block(tuple(lets), results)
    zero_iterations = anf.Lit(0, "i64")
    run: anf.For | anf.While
    if isinstance(op, anf.While):
        run = anf.While((*params, iterations), (*op.init, zero_iterations), condition, block, op.early)
    else:
        index = renaming.env[op.index]
        assert isinstance(index, anf.Var)
        run = anf.For(index, op.low, op.high, (*params, iterations), (*op.init, zero_iterations), block, True)
    outs = Renaming({}, renew=True)
    ran = (*(outs.bind(p) for p in op.params), anf.fresh("iterations", I64))
    n = anf.poly(ran[-1])
    scope.known.facts.size(ran[-1])
    if isinstance(op, anf.While):
        low, index = anf.poly(0), anf.fresh("iteration", I64)
    else:
        low, index = op.low, op.index
    inner_block = anf.Block(op.body.lets, op.body.results[1:] if op.early else op.body.results)
    counted = anf.For(index, low, low + n, op.params, op.init, inner_block)
    return [anf.Let(ran, run, let.span)], anf.Let(let.vars, counted, let.span), counted


def has_segments(op: For | While, scope: Scope) -> bool:
    """Tells whether to strip-mine a loop."""
    if not scope.segments or scope.sink is not None:
        return False
    elements: Size = poly(0)
    for v in free_vars(op):
        if v in scope.fleeting:
            elements = elements + product(array_type(v).shape)
    if isinstance(op, For):
        iterations = op.high - op.low
        if op.index in scope.parts or (iterations.constant is not None and iterations.constant <= figures.WHOLE_LOOP):
            return False
        return not elements.terms or scope.known.at_least_zero(iterations - elements)
    return not elements.terms


def _changed(op: For) -> Size:
    """How many elements the arrays of the state have of which the loop changes elements."""
    cheap = fleeting(op.body, op.params)
    elements: Size = poly(0)
    for p, after in zip(op.params, next_state(op), strict=True):
        if after is not p and after in cheap:
            elements = elements + product(array_type(p).shape)
    return elements


def segmented(let: Let, op: For, scope: Scope) -> tuple[list[Let], Let]:
    """The lets that decide how long a segment is, and the loop over the segments."""
    b = scope.b
    with b.scope() as before:
        iterations = b.prim("maximum", b.size(op.high - op.low), Lit(0, "i64"), name="iterations")
        changed = _changed(op)
        states = b.prim("maximum", b.size(changed), Lit(1, "i64")) if changed.terms else Lit(1, "i64")
        points = b.prim("mul", b.cast("f64", iterations), b.cast("f64", states))
        root = b.cast("i64", b.prim("sqrt", points))
        length = b.add(root, Lit(1, "i64"), name="length")
        count = b.prim("floordiv", b.size(poly(iterations) + poly(length) - 1), length, name="segments")
    assert isinstance(count, Var) and isinstance(length, Var)
    scope.known.facts.size(count)
    outer = Renaming({}, renew=True)
    j = fresh("segment", I64)
    params = tuple([outer.bind(p) for p in op.params])
    inner = Renaming({}, renew=True)
    ends = tuple([inner.bind(p) for p in op.params])
    with b.scope() as lets:
        low = b.one(IndexExpr(op.low + poly(j) * poly(length)), "low")
        high = b.prim("minimum", b.size(poly(low) + poly(length)), b.size(op.high), name="high")
        b.emit_as(ends, replace(op, low=poly(low), high=poly(high), init=params))
    carry(scope.active, outer)
    carry(scope.active, inner)
    whole = For(j, poly(0), poly(count), params, op.init, Block(tuple(lets), ends))
    return before, Let(let.vars, whole, let.span)


def run_again(lets: Sequence[Let], scope: Scope, low: Size, high: Size) -> list[Let]:
    """Emits the adjoint of a segment: the segment once more, and that backwards. Its first run saves nothing."""
    b = scope.b
    renaming = Renaming({}, renew=True)
    copies = [renaming.let(let) for let in lets]
    carry(scope.active, renaming)
    scope.note_summed(copies)
    for old, new in renaming.env.items():
        if old in scope.bars and isinstance(new, Var):
            scope.bars[new] = scope.bars.pop(old)
    scope.parts |= {let.op.index for let in copies if isinstance(let.op, For)}
    for let in copies:
        if isinstance(let.op, For):
            for end in (*let.op.low.atoms(), *let.op.high.atoms()):
                scope.known.facts.between(end, (low,), (high + 1,))
    with b.scope() as back:
        forward = scope.walk(copies)
    for let in (*forward, *back):
        b.append(let)
    return list(lets)


# ---- iterations in a list --------------------------------------------------------------------------------------------
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
    inner.early = frozenset()
    inner.in_loop, inner.fleeting = True, scope.fleeting | fleeting(op.body, op.params)
    inner.known = scope.known.copy()
    if isinstance(op, anf.For):
        inner.known.facts.between(op.index, (op.low,), (op.high,))
        whole = anf.Block((anf.Let((), op),), ())
        many = {
            v for v in outer if v in scope.summed and any(reads_as_many(b, v, scope.known) for b in (op.body, whole))
        }
        inner.summed = inner.summed - many
    return state, outer, inner


def _taken(v: anf.Var, scope: Scope, inner: Scope) -> anf.Atom:
    """The cotangent of a variable as a loop carries it: an array, if it adds to many elements, where outside is a
    sum."""
    return scope.take_array(v) if v in scope.summed - inner.summed else scope.take(v)


def vjp_listed(let: anf.Let, op: anf.For | anf.While, scope: Scope) -> list[anf.Let]:
    """Emits the adjoint of a loop; gives the loop with the list that it makes."""
    b = scope.b
    after = next_state(op)
    state, outer, inner = body_scope(op, scope)
    inner.segments = False
    mentioned = {v for k in state for v in type_vars(op.params[k].type)}
    sizes = [k for k, p in enumerate(op.params) if p in mentioned]
    init = [let.vars[k] for k in sizes] + [scope.take(let.vars[k]) for k in state]
    init += [_taken(v, scope, inner) for v in outer]
    # What the backward loop carries: the sizes of the cotangents, these, and the cotangents of what is outside.
    carried = Renaming({}, renew=True)
    now = [carried.bind(op.params[k]) for k in sizes]
    bars = [anf.fresh(f"{op.params[k].name}_bar", carried.type(inner.bar_type(op.params[k]))) for k in state]
    outer_bars = [anf.fresh(f"{v.name}_bar", inner.bar_type(v)) for v in outer]
    with b.scope() as lets:
        for v, bar in zip(outer, outer_bars, strict=True):
            inner.add(v, bar)
        for k, bar in zip(state, bars, strict=True):
            inner.add(after[k], bar)
        forward = inner.walk(op.body.lets)
        # What the body passes on is handed to the parameter before the cotangent of the next state is asked for.
        results = [inner.take(op.params[k]) for k in state] + [inner.take(v) for v in outer]
    body = pruned_block(anf.Block(tuple(lets), (*[op.params[k] for k in sizes], *results)))
    replacement, body, whole, node = _save(let, op, forward, body, scope, inner)
    if scope.followed:
        body = against(body, op.body)
    params = (node, *now, *bars, *outer_bars)
    if isinstance(op, anf.For) and not scope.known.positive(op.high - op.low):
        body = _certified(b, body, op, {v for p in params for v in type_vars(p.type)}, scope.known)
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


def _certified(b: Builder, body: anf.Block, op: anf.For, sizes: set[anf.Var], known: Knowledge) -> anf.Block:
    """The backward body, in which a check certifies the integers from outside that it mentions, but for sizes.

    What was checked in front of the loop may hold only if that has an iteration, as it has where its list is not empty.
    """
    outside = free_vars(body)
    sizes = sizes.union(known.facts.sizes, *[type_vars(v.type) for v in outside])
    numbers = [v for v in outside if v.type == I64 and v not in sizes]
    if not numbers:
        return body
    with b.scope() as lets:
        some = b.prim("lt", b.size(op.low), b.size(op.high), name="some")
        certified = [anf.fresh(v.name, I64) for v in numbers]
        b.emit_as(certified, anf.Assert(some, "E0706", ("an iteration of a loop that has none",), (), tuple(numbers)))
    body = substitute(body, dict(zip(numbers, certified, strict=True)))
    return anf.Block((*lets, *body.lets), body.results)


def _save(
    let: anf.Let, op: anf.For | anf.While, forward: list[anf.Let], body: anf.Block, scope: Scope, inner_scope: Scope
) -> tuple[list[anf.Let], anf.Block, anf.Var, anf.Var]:
    """The loop that makes the list, the backward body, the list after the loop, and the node that the body opens.

    The body's first result is the rest of the list. inner_scope: of the body.
    """
    b = scope.b
    bound = {v for inner in forward for v in inner.vars} | set(op.params)
    if isinstance(op, anf.For):
        bound.add(op.index)
    body = rematerialised(body, forward, bound | scope.fleeting, scope.again, let.span, followed=scope.followed)
    forward, body = sliced(b, forward, body, bound, inner_scope.known)
    bound |= {v for inner in forward for v in inner.vars}
    defined = defined_sizes(forward)
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
