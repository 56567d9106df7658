"""The adjoint of a branch: the saved condition picks the adjoint of the arm that ran.

    y = if c { T(x) } else { E(x) }      x̄ = if c { vjp T(x̄, ȳ) } else { vjp E(x̄, ȳ) }

The cotangents of what the arms use from outside go in and come out, so an arm that adds to one element of an array
costs one element. One that is zero so far stays so: an arm whose result continues an array of outside continues ȳ in
place as x̄, and what neither arm adds to goes past the branch. Only where one arm adds to a zero does the other build
it. What the adjoint of an arm needs from the arm itself, the branch returns as further results. One serves both arms
where both need something of its type; in the place of others the other arm returns a dummy. Arrays among them are in a
node, and their dummy is none, where they may be larger than what there is anyhow, and in loops.

Where ȳ is known before the branch runs, as that of a branch in which a function ends, each arm computes its adjoint
behind itself. Then nothing is saved, and branches inside of one another, as early returns are, cost what they contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dlang.ad.rematerialise import rematerialised
from dlang.ad.scope import ArmWithAdjoint, Contribution, NoParallelAdjoint, Scope, Sink, dummy, numeric
from dlang.ad.tape import Bundle, bundle, given
from dlang.ir import anf
from dlang.ir.affine import outgrows
from dlang.ir.anf import Array, Atom, Block, Construct, Copy, Fields, If, Let, Scalar, Size, Type, Var, fresh, poly
from dlang.ir.builder import Builder
from dlang.ir.substitution import Renaming, substitute
from dlang.ir.traverse import block_mentions, bound_vars, free_vars, mentioned, pruned_block, type_vars, with_op
from dlang.ir.types import I64, dtype_of, is_fixed, product


@dataclass(slots=True)
class _Arm:
    """An arm, differentiated: the lets of its forward pass and the block of its adjoint."""

    forward: list[Let]
    results: tuple[Atom, ...]
    lets: list[Let]
    bars: dict[Var, Atom]  # of what is used from outside; one that is not there is zero
    sink: Sink | None

    def bar(self, v: Var, scope: Scope) -> Atom:
        """The cotangent of a variable of outside, with its zero built in this arm."""
        if v not in self.bars:
            with scope.b.scope() as more:
                self.bars[v] = scope.zero(v)
            self.lets += more
        return self.bars[v]


def vjp_if(let: Let, op: If, scope: Scope) -> list[Let]:
    """Emits the adjoint of a branch; gives the branch with what has to be saved."""
    b, sink = scope.b, scope.sink
    gs = [(k, g) for k, v in enumerate(let.vars) if v in scope.active and (g := scope.pop(v)) is not None]
    if not gs:
        return [let]
    used = scope.with_chosen((*free_vars(op.then), *free_vars(op.otherwise)))
    outer = [v for v in used if v in scope.active]
    if sink is not None:  # arrays outside of a comprehension are the business of its sink
        outer = [v for v in outer if not isinstance(v.type, Array) or v in sink.inside]
    if sink is None and all(g in scope.early for _, g in gs) and not any(scope.bars.get(v) for v in outer):
        return [_with_adjoint(let, op, scope, outer, gs)]
    coming = {v: g for v in outer if (g := scope.pop(v)) is not None}
    arms = [_arm(arm, scope, outer, coming, gs) for arm in (op.then, op.otherwise)]
    same = {v: g for v, g in coming.items() if all(a.bars.get(v) is g for a in arms)}
    outer = [v for v in outer if v not in same and any(v in a.bars for a in arms)]
    wanted = [(a.sink, _outside(a, c)) for a in arms if a.sink is not None for c in a.sink.wanted]
    bound = {v for a in arms for let in (*a.forward, *a.lets) for v in (*let.vars, *bound_vars(let.op))}
    if any(entry.mentions(bound) for _, c in wanted for entry in c.index):
        raise NoParallelAdjoint
    blocks = []
    for a in arms:
        # A contribution to an array outside is one more result, 0 from the other arm.
        more = tuple(c.g if s is a.sink else dummy(b, c.g.type) for s, c in wanted)
        bars = tuple([a.bar(v, scope) for v in outer])
        blocks.append(pruned_block(Block(tuple(a.lets), (*bars, *more))))
    forward, saved, (then, otherwise) = _save(scope, let, op, arms, blocks)
    cotangents = b.emit(If(op.condition, then, otherwise)) if then.results else ()
    for v, bar in (*same.items(), *zip(outer, cotangents, strict=False)):
        scope.add(v, bar)
    for (s, c), bar in zip(wanted, cotangents[len(outer) :], strict=True):
        assert sink is not None
        where = ((op.condition, s is arms[0].sink), *c.where)
        sink.wanted.append(Contribution(c.array, c.index, bar, True, where))
    return [Let((*let.vars, *saved), forward, let.span)]


def _outside(arm: _Arm, c: Contribution) -> Contribution:
    """A contribution of an arm at an index without names that the arm has for numbers, certified ones among them."""
    names: dict[Var, Size] = {}
    for let in arm.forward:
        match let.op:
            case anf.IndexExpr(size):
                names[let.vars[0]] = size.substitute(names.get)
            case anf.Assert(guarded=guarded):
                certified = [(v, a) for v, a in zip(let.vars, guarded, strict=True) if v.type == I64]
                names.update({v: poly(a).substitute(names.get) for v, a in certified})
            case _:
                pass
    return replace(c, index=tuple([entry.substitute(names.get) for entry in c.index])) if names else c


def _with_adjoint(let: Let, op: If, scope: Scope, outer: Sequence[Var], gs: Sequence[tuple[int, Atom]]) -> Let:
    """The branch with the adjoint of each arm behind it; the cotangents are further results."""
    arms = [_arm(arm, scope, outer, {}, gs) for arm in (op.then, op.otherwise)]
    outer = [v for v in outer if any(v in a.bars for a in arms)]
    cotangents = [fresh(f"{v.name}_bar", scope.bar_type(v)) for v in outer]
    blocks = []
    for a in arms:
        bars = tuple([a.bar(v, scope) for v in outer])
        scope.arms.append(ArmWithAdjoint(a.forward, Block(tuple(a.lets), bars), cotangents))
        blocks.append(Block((*a.forward, *a.lets), (*a.results, *bars)))
    for v, bar in zip(outer, cotangents, strict=True):
        scope.add(v, bar)
    return Let((*let.vars, *cotangents), If(op.condition, *blocks), let.span)


def _arm(
    arm: Block, scope: Scope, outer: Sequence[Var], coming: Mapping[Var, Atom], gs: Sequence[tuple[int, Atom]]
) -> _Arm:
    sink = None
    if scope.sink is not None:
        sink = Sink(scope.sink.inside | set(bound_vars(arm)), [], True, scope.sink.private)
    inner = scope.inner(sink)
    with scope.b.scope() as lets:
        for v, bar in coming.items():
            inner.add(v, bar)
        for k, g in gs:
            inner.add(arm.results[k], g)
        forward = inner.walk(arm.lets)
        totals = {v: total for v in outer if (total := inner.pop(v)) is not None}
    return _Arm(forward, arm.results, lets, totals, sink)


def _save(
    scope: Scope, let: Let, op: If, arms: Sequence[_Arm], blocks: Sequence[Block]
) -> tuple[If, list[Var], tuple[Block, Block]]:
    """The branch with what its adjoint needs as further results, the variables of these, and the adjoint's arms."""
    b = scope.b
    in_memory = scope.sink is None or scope.sink.private  # at a point of a comprehension it stays in a register
    saved: list[list[Var]] = []
    sizes: list[dict[Var, int]] = []  # scalars that an arm returns already, and their positions among its results
    names: list[list[Var]] = []  # of what is saved, outside
    backward: list[Block] = []
    for a, block in zip(arms, blocks, strict=True):
        # A scalar that the branch returns already stands for itself; sizes must: the types of cotangents have them.
        inside = {v for let in a.forward for v in let.vars}
        positions = {
            r: k
            for k, (r, v) in enumerate(zip(a.results, let.vars, strict=True))
            if isinstance(r, Var) and r in inside and isinstance(v.type, Scalar)
        }
        sizes.append(positions)
        returned = {r: let.vars[k] for r, k in positions.items()}
        bound = inside - returned.keys()
        unsaved = bound | scope.fleeting
        block = rematerialised(
            block,
            a.forward,
            unsaved,
            scope.again,
            let.span,
            None,
            in_memory,
            scope.followed,
            scope.lasting,
            scope.known,
        )
        renaming = Renaming(returned, renew=True)
        mine, block = given(block, bound)
        together: Bundle | None = None
        sizes_of_types: list[Var] = []
        if in_memory:
            later = scope.lasting.arrays()
            copies = _copies(b, [v for v in free_vars(block) if v in scope.fleeting - bound and v not in later], a)
            block, mine, bound = substitute(block, copies), [*mine, *copies.values()], bound | {*copies.values()}
            large = [v for v in mine if isinstance(v.type, Array) and not is_fixed(v.type.shape)]
            if large and (scope.in_loop or outgrows(_elements(large), _elements((*free_vars(op), *let.vars)))):
                together = bundle(large, a.forward, scope.nodes)
                sizes_of_types = together.computed(mine, bound)
                saved_apart = [v for v in mine if v not in together.saved and v not in sizes_of_types]
                mine = [*saved_apart, _made(b, together, a)]
        inner = _only_saved(mine, a)
        outside = [v if v in inner else renaming.bind(v) for v in mine]
        names.append(outside)
        saved.append([inner.get(v, v) for v in mine])
        with b.scope() as opening:
            if together is not None:
                together.opened(b, b.emit(Fields(together.variant, outside[-1])), bound, renaming)
                together.compute(b, sizes_of_types, bound, renaming)
        block = renaming.copied(block, inside)
        backward.append(Block((*opening, *block.lets), block.results))
    pairs = _shared(names[0], names[1], scope)
    few = min((0, 1), key=lambda k: len(block_mentions(backward[k])[0]))
    common = {names[few][pair[few]]: names[1 - few][pair[1 - few]] for pair in pairs}
    backward[few] = substitute(backward[few], common)
    forward = []
    for k, a in enumerate(arms):
        values = {names[1 - k][pair[1 - k]]: saved[k][pair[k]] for pair in pairs}
        with b.scope() as lets:
            for let in a.forward:
                b.append(let)
            results = list(a.results)
            for j, mine in enumerate(saved):
                if j == k:
                    results += [v for v, name in zip(mine, names[j], strict=True) if name not in common]
                    continue
                blanks = dummies(b, mine, {r: a.results[at] for r, at in sizes[j].items()})
                others = zip(mine, names[j], blanks, strict=True)
                results += [values.get(name, blank) for _, name, blank in others if name not in common]
        forward.append(Block(tuple(lets), tuple(results)))
    outside = [name for name in (*names[0], *names[1]) if name not in common]
    return If(op.condition, *forward), outside, (backward[0], backward[1])


def _shared(then: Sequence[Var], otherwise: Sequence[Var], scope: Scope) -> list[tuple[int, int]]:
    """The positions of what one result serves for: something of each arm, as just one of them runs.

    So a branch with many arms inside of one another saves as much as one of these does, and hands on no more. What is
    known of a variable by its name has one of its own: a size, and a version of an array that a loop carries.
    """
    known = scope.lasting.finals.keys() | scope.chosen.keys() | scope.fleeting
    free: dict[Type, list[int]] = {}
    for k, v in enumerate(otherwise):
        free.setdefault(v.type, []).append(k)
    waiting = {type: iter(k for k in positions if otherwise[k] not in known) for type, positions in free.items()}
    pairs: list[tuple[int, int]] = []
    for k, v in enumerate(then):
        if v in known or dtype_of(v) == "i64":
            continue
        other = next(waiting.get(v.type, iter(())), None)
        if other is not None:
            pairs.append((k, other))
    return pairs


def _elements(vars: Iterable[Var]) -> Size:
    """How many elements those of some variables have that are arrays."""
    return sum((product(v.type.shape) for v in vars if isinstance(v.type, Array)), poly(0))


def _only_saved(mine: Sequence[Var], arm: _Arm) -> dict[Var, Var]:
    """New names in an arm for values that nothing uses there: what is saved further in keeps its name outside.

    So the adjoint, which has that name at any depth, is not gone through again for each branch around it. Names of
    sizes, and of arrays with sizes that the arm makes, stay.
    """
    used = {v for let in arm.forward for v in mentioned(let.op)} | set(arm.results)
    inside = {v for let in arm.forward for v in let.vars}
    free = [v for v in mine if v not in used and v.type != I64 and inside.isdisjoint(type_vars(v.type))]
    renamed = {v: fresh(v.name, v.type) for v in free}
    arm.forward[:] = [with_op(let, tuple([renamed.get(v, v) for v in let.vars]), let.op) for let in arm.forward]
    return renamed


def _copies(b: Builder, arrays: Sequence[Var], arm: _Arm) -> dict[Var, Var]:
    """Copies, made where an arm runs, of arrays that its adjoint needs whole and may not have."""
    with b.scope() as lets:
        copies = {v: b.one(Copy(v)) for v in arrays}
    arm.forward += lets
    return copies


def _made(b: Builder, together: Bundle, arm: _Arm) -> Var:
    """A node of what an arm saves: so it takes memory where the arm runs, in a loop in these iterations."""
    with b.scope() as lets:
        node = b.one(Construct(together.variant, together.saved), "saved")
    arm.forward += lets
    return node


def dummies(b: Builder, vars: Sequence[Var], sizes: Mapping[Var, Atom]) -> list[Atom]:
    """Values of the types of variables, which nothing looks at; a size among them is 0, others are as given."""
    renaming = Renaming(sizes)
    out = []
    for v in vars:
        type = renaming.type(v.type)
        value = b.empty(type.dtype, type.shape) if isinstance(type, Array) and numeric(type) else dummy(b, type)
        renaming.env[v] = value
        out.append(value)
    return out
