"""Saves residuals: in nodes, and iteration after iteration in arrays that the forward loop carries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dlang.ad.conditions import conditions_first
from dlang.ad.conversions import Conversions
from dlang.ad.inlining import unused
from dlang.ad.rematerialise import rematerialised
from dlang.ad.scope import Scope, dummy, numeric
from dlang.ad.slices import sliced
from dlang.ad.tangent_types import retyped
from dlang.ir import anf
from dlang.ir.affine import span
from dlang.ir.anf import Block, Datatype, Let, Var, Variant, fresh, poly
from dlang.ir.builder import Builder
from dlang.ir.sizes import defined_sizes
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import free_vars, pruned_block, type_vars, used_by, with_op
from dlang.ir.types import I64, array_type, dtype_of, product
from dlang.optimize.dce import live_block
from dlang.optimize.stores import Where, stored, written
from dlang.polynomials import Poly


@dataclass(slots=True)
class _Saved:
    """A variable of the forward body and its tape.

    offset: where an iteration's part of a flat tape starts. row: of an iteration, counted from the iteration.
    """

    var: anf.Var
    param: anf.Var
    after: anf.Var
    offset: anf.Var | None = None
    row: int = 0


def save(
    let: anf.Let, op: anf.For, forward: list[anf.Let], body: anf.Block, scope: Scope, inner_scope: Scope
) -> tuple[list[anf.Let], anf.Block, anf.Var]:
    """The forward loop with its tapes, the backward body that reads them, and the index of the backward loop.

    inner_scope: of the body.
    """
    b = scope.b
    forward, body = conditions_first(b, forward, live_block(body), op.params)
    numbers, forward = _same_numbers(op, forward)
    bound = {v for inner in forward for v in inner.vars} | set(op.params)
    alone = not scope.in_loop or op.index in scope.parts  # the tape of a loop in a loop is part of another
    alike, unsaved = _alike(op) if alone else {}, bound | scope.fleeting
    body = rematerialised(
        body,
        forward,
        unsaved,
        scope.again,
        let.span,
        alike,
        followed=scope.followed,
        lasting=inner_scope.lasting,
        known=inner_scope.known,
    )
    forward, body = sliced(b, forward, body, [*op.params, op.index], inner_scope.known)
    bound |= {v for inner in forward for v in inner.vars}
    needed, body = given(body, bound)
    at = anf.poly(op.index) - op.low
    state: list[anf.Var] = list(op.params)
    init: list[anf.Atom] = list(op.init)
    next_state: list[anf.Atom] = list(op.body.results)
    saved: list[_Saved] = []
    with b.scope() as before:
        shapes = {v: _fixed_shape(v, op, bound, scope) for v in needed}
        ragged = [v for v in needed if shapes[v] is None]
        iterations = _iterations(op, scope) if needed else Poly[anf.Var]({})
        totals = _totals(op, forward, ragged, scope) if ragged else {}
        offsets = {v: anf.fresh(f"{v.name}_at", I64) for v in ragged}

        before_and_after = _handed_on(op, shapes) if alone else {}
        shared = dict(before_and_after.values())

        def tape(v: anf.Var, shape: tuple[anf.Size, ...]) -> anf.Var:
            name = f"{v.name}_tape"
            dtype = dtype_of(v)
            empty = b.empty(dtype, shape, name) if numeric(v.type) else b.full(shape, dummy(b, anf.Scalar(dtype)), name)
            if v in shared:
                empty = written(b, shared[v], empty, lambda shape, index: (Poly({}), *index))
            init.append(empty)
            state.append(anf.fresh(name, empty.type))
            return state[-1]

        for v in (*offsets.values(), *needed):
            if v in before_and_after:
                continue
            shape = shapes.get(v, ())
            rows = iterations + 1 if v in shared else iterations
            param = tape(v, (totals[v],) if shape is None else (rows, *shape))
            saved.append(_Saved(v, param, anf.fresh(param.name, param.type), offsets.get(v), int(v in shared)))
    tapes = {s.var: s for s in saved}
    earlier = [replace(tapes[after], var=v, row=0) for v, (after, _) in before_and_after.items()]
    with b.scope() as lets:
        inside, ends = stored(forward, [(s.var, s.param, _where(s, at + s.row)) for s in saved], op.body.results)
        for inner in inside:
            b.append(inner)
        next_state += ends
        for v, offset in offsets.items():
            state.append(offset)
            init.append(anf.Lit(0, "i64"))
            next_state.append(b.add(offset, b.size(product(array_type(v).shape))))
    vars = (*let.vars, *(s.after for s in saved), *(anf.fresh(o.name, I64) for o in offsets.values()))
    loop = anf.For(op.index, op.low, op.high, tuple(state), tuple(init), anf.Block(tuple(lets), tuple(next_state)))
    # Backward iteration j undoes forward iteration i = low + high - 1 - j, so both run over low..high.
    j = anf.fresh(op.index.name, I64)
    renaming = Renaming({})
    standing = {v for inner in inside for v in inner.vars}.union(op.params, offsets.values())
    with b.scope() as start:
        i = b.one(anf.IndexExpr(op.low + op.high - 1 - anf.poly(j)), op.index.name)
        renaming.env[op.index] = i
        for s in (*saved, *earlier):
            loaded = _load(b, s, anf.poly(i) - op.low + s.row, renaming)
            if s.var in standing or loaded.type != s.var.type:
                renaming.env[s.var] = loaded
            else:  # no other let has the name, so the backward body can keep it
                start[-1] = with_op(start[-1], (s.var,), start[-1].op)
    copy = renaming.copied(body, bound)
    backward = pruned_block(anf.Block((*start, *copy.lets), copy.results))
    return [*numbers, *before, anf.Let(vars, loop, let.span)], backward, j


def _same_numbers(op: anf.For, forward: Sequence[anf.Let]) -> tuple[list[anf.Let], list[anf.Let]]:
    """The integers of a forward body that are the same in all iterations, sizes among them, and the rest of the body.

    So the tape of a loop in the body, whose size such a number is, is one more axis of that of the loop around.
    """
    inside = {op.index, *op.params}
    same: list[anf.Let] = []
    rest: list[anf.Let] = []
    for let in forward:
        is_number = let.op.IS.scalar and let.op.IS.total and all(v.type == I64 for v in let.vars)
        if is_number and inside.isdisjoint(used_by(let)):
            same.append(let)
        else:
            rest.append(let)
            inside.update(let.vars)
    return same, rest


def _alike(op: anf.For) -> dict[anf.Var, anf.Var]:
    """The states of which one tape may hold the values before and after an iteration."""
    pairs = zip(op.params, op.body.results, strict=True)
    return {p: after for p, after in pairs if isinstance(after, anf.Var) and p.type == after.type}


def _handed_on(
    op: anf.For, shapes: Mapping[anf.Var, tuple[anf.Size, ...] | None]
) -> dict[anf.Var, tuple[anf.Var, anf.Atom]]:
    """The states that are saved before and after an iteration, each with its value after it and its initial one."""
    handed_on: dict[anf.Var, tuple[anf.Var, anf.Atom]] = {}
    taken: set[anf.Var] = set()
    for param, start, after in zip(op.params, op.init, op.body.results, strict=True):
        if param not in shapes or not isinstance(after, anf.Var) or after not in shapes or after in op.params:
            continue
        fixed = shapes[param] is not None and shapes[param] == shapes[after] and param.type == after.type
        if fixed and after not in taken and not any(s.mentions((op.index,)) for s in shapes[param] or ()):
            taken.add(after)
            handed_on[param] = (after, start)
    return handed_on


def _fixed_shape(v: anf.Var, op: anf.For, bound: set[anf.Var], scope: Scope) -> tuple[anf.Size, ...] | None:
    """The sizes of an iteration's part of a tape, of a scalar (); None if they are known only when the loop runs."""
    if not isinstance(v.type, anf.Array):
        return ()
    shape: list[anf.Size] = []
    for size in v.type.shape:
        if size.mentions(bound):
            return None
        ends = span(size, {op.index: (op.low, op.high - 1)}, scope.known)
        if ends is None:
            return None
        if size.mentions((op.index,)) and not scope.known.at_least_zero(ends[1]):
            greatest = scope.b.prim("maximum", scope.b.size(ends[1]), anf.Lit(0, "i64"), name="greatest")
            shape.append(anf.poly(greatest))
        else:
            shape.append(ends[1])
    return tuple(shape)


def _iterations(op: anf.For, scope: Scope) -> anf.Size:
    """How often a loop runs: high - low, or 0 if that is negative."""
    b = scope.b
    iterations = op.high - op.low
    if scope.known.at_least_zero(iterations):
        return iterations
    return anf.poly(b.prim("maximum", b.size(iterations), anf.Lit(0, "i64"), name="iterations"))


def _totals(
    op: anf.For, forward: Sequence[anf.Let], ragged: Sequence[anf.Var], scope: Scope
) -> dict[anf.Var, anf.Size]:
    """Runs the loop once without saving to add up the sizes of arrays."""
    b = scope.b
    renaming = Renaming({}, renew=True)
    index = renaming.bind(op.index)
    params = tuple(renaming.bind(p) for p in op.params)
    counters = tuple(anf.fresh("count", I64) for _ in ragged)
    with b.scope() as lets:
        for inner in forward:
            b.append(renaming.let(inner))
        sizes = [b.size(renaming.size(product(array_type(v).shape))) for v in ragged]
        more = [b.add(c, size) for c, size in zip(counters, sizes, strict=True)]
    results = tuple(renaming.atom(r) for r in op.body.results)
    init = (*op.init, *(anf.Lit(0, "i64") for _ in ragged))
    loop = anf.For(index, op.low, op.high, (*params, *counters), init, anf.Block(tuple(lets), (*results, *more)))
    outs = Renaming({}, renew=True)
    vars = (*(outs.bind(p) for p in op.params), *(anf.fresh("total", I64) for _ in ragged))
    b.emit_as(vars, loop)
    totals = vars[len(params) :]
    for total in totals:
        scope.known.facts.size(total)
    return {v: anf.poly(total) for v, total in zip(ragged, totals, strict=True)}


def _row_major(shape: Sequence[anf.Size], index: Sequence[anf.Size]) -> anf.Size:
    out: anf.Size = Poly({})
    for size, entry in zip(shape, index, strict=True):
        out = out * size + entry
    return out


def _where(s: _Saved, at: anf.Size) -> Where:
    """The place of an element in a tape: the row of its iteration, or of a flat tape in the part of its iteration."""
    if s.offset is None:
        return lambda shape, index: (at, *index)
    start = anf.poly(s.offset)
    return lambda shape, index: (start + _row_major(shape, index),)


def _load(b: Builder, s: _Saved, at: anf.Size, renaming: Renaming) -> anf.Var:
    """tape[at], of the type of the variable at that iteration."""
    if not isinstance(s.var.type, anf.Array):
        return b.one(anf.Read(s.after, (at,)), s.var.name)
    shape = tuple(renaming.size(size) for size in s.var.type.shape)
    if s.offset is not None:
        start = renaming.size(anf.poly(s.offset))
        return b.view(s.after, shape, lambda *i: (start + _row_major(shape, [anf.poly(v) for v in i]),), s.var.name)
    return b.view(s.after, shape, lambda *index: (at, *index), s.var.name)


# ---- values of the forward pass --------------------------------------------------------------------------------------
# Finds the values that a block of the backward pass takes from the forward pass.


def given(block: Block, bound: set[Var]) -> tuple[list[Var], Block]:
    """The variables of `bound` that a pure block needs, each after the sizes in its type, and the block.

    A size that is given so is not computed in the block as well: types would then speak of two sizes that are one.
    """
    vars: dict[Var, None] = {}
    for v in free_vars(block):
        if v in bound:
            vars |= dict.fromkeys(size for size in type_vars(v.type) if size in bound)
            vars[v] = None
    return list(vars), without_given(block, vars)


def without_given(block: Block, vars: Collection[Var]) -> Block:
    """The block without the lets of variables that are given."""
    return Block(tuple([let for let in block.lets if not all(v in vars for v in let.vars)]), block.results)


# ---- values in a node ------------------------------------------------------------------------------------------------
# Values that are saved together in a node, and what they are when it is opened.
#
# A node holds arrays of any sizes, and has every size in it that these mention.


@dataclass(frozen=True, slots=True)
class Bundle:
    """saved: the variables that a node holds, each after the sizes in its type. variant: of the node."""

    saved: tuple[Var, ...]
    variant: Variant
    types: Renaming

    def opened(self, b: Builder, values: Sequence[Var], bound: Collection[Var], renaming: Renaming) -> None:
        """Has a renaming give what is in a node in place of the variables in `bound`; other sizes are known outside.

        A size that is defined by others is computed from these, as types say it, and so is known to be the same.
        """
        renaming.env.update((v, value) for v, value in zip(self.saved, values, strict=True) if v in bound)
        self.compute(b, self.saved, bound, renaming)
        given = {v for v in self.saved if v not in bound}
        for v, value in zip(self.saved, values, strict=True):
            if v in bound and any(size in given for size in type_vars(self.types.type(v.type))):
                renaming.env[v] = retyped(b, value, renaming.type(self.types.type(v.type)))

    def computed(self, vars: Iterable[Var], bound: Collection[Var]) -> list[Var]:
        """The sizes among variables that what is known outside, or in the node, defines."""
        missing = set(bound) - set(self.saved)
        return [v for v in vars if v in self.types.env and missing.isdisjoint(self.types.size(poly(v)).atoms())]

    def compute(self, b: Builder, vars: Iterable[Var], bound: Collection[Var], renaming: Renaming) -> None:
        """Has a renaming give such sizes as types say them, so that both are known to be the same."""
        for v in self.computed(vars, bound):
            if v in bound:
                renaming.env[v] = b.size(renaming.size(self.types.size(poly(v))))


def bundle(vars: Sequence[Var], lets: Sequence[Let], nodes: Conversions) -> Bundle:
    """A node for variables that an arm saves. lets: what defines sizes among them.

    It is a variant of its own of a datatype that all arms share, so that one variable serves for the nodes of arms of
    which just one runs.
    """
    types = Renaming(dict(defined_sizes(lets)))
    saved = with_all_sizes(vars, types)
    if nodes.arms is None:
        nodes.arms = unused("arm.0", nodes.datatypes)
        nodes.datatypes[nodes.arms] = Datatype(nodes.arms, (), "what a derivative saves of an arm")
    others = nodes.datatypes[nodes.arms].variants
    variant = Variant(nodes.arms, len(others), f"Saved{len(others)}", fields_of(saved, types))
    nodes.datatypes[nodes.arms] = replace(nodes.datatypes[nodes.arms], variants=(*others, variant))
    return Bundle(tuple(saved), variant, types)


def with_all_sizes(vars: Iterable[Var], types: Renaming) -> list[Var]:
    """Variables, each after all that its type mentions."""
    out: dict[Var, None] = {}

    def go(some: Iterable[Var]) -> None:
        for v in some:
            go(type_vars(types.type(v.type)))
            out[v] = None

    go(vars)
    return list(out)


def fields_of(saved: Sequence[Var], types: Renaming) -> tuple[Var, ...]:
    """The fields of a node that holds variables."""
    renaming = Renaming({}, renew=True)
    for v in saved:
        renaming.env[v] = fresh(v.name, renaming.type(types.type(v.type)))
    return tuple([field for v in saved if isinstance(field := renaming.env[v], Var)])
