"""The adjoint of a branch: the saved condition picks the adjoint of the arm that ran.

    y = if c { T(x) } else { E(x) }      x̄ = if c { pull T(x̄, ȳ) } else { pull E(x̄, ȳ) }

The cotangents of what the arms use from outside go in and come out, so an arm that adds to one element of an array
costs one element. What the adjoint of an arm needs from the arm itself, the branch returns as further results; the
other arm returns dummies in their place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlang.ad.given import given
from dlang.ad.recompute import recomputed
from dlang.ad.scope import Contribution, Scope, Sink, Unplaceable, dummy, numeric
from dlang.ir.anf import Array, Atom, Block, If, Let, Scalar, Var
from dlang.ir.builder import Builder
from dlang.ir.pruning import pruned_block
from dlang.ir.substitution import Renaming, refresh
from dlang.ir.traverse import bound_vars, free_vars


@dataclass(slots=True)
class _Arm:
    """An arm, differentiated: the lets of its forward pass and the block of its adjoint."""

    forward: list[Let]
    results: tuple[Atom, ...]
    lets: list[Let]
    bars: tuple[Atom, ...]
    sink: Sink | None


def pull_if(let: Let, op: If, scope: Scope) -> list[Let]:
    """Emits the adjoint of a branch; gives the branch with what has to be saved."""
    b, sink = scope.b, scope.sink
    gs = [(k, g) for k, v in enumerate(let.vars) if v in scope.active and (g := scope.pop(v)) is not None]
    if not gs:
        return [let]
    outer = [v for v in dict.fromkeys((*free_vars(op.then), *free_vars(op.otherwise))) if v in scope.active]
    if sink is not None:  # arrays outside of a comprehension are the business of its sink
        outer = [v for v in outer if not isinstance(v.type, Array) or v in sink.inside]
    carried = [scope.take(v) for v in outer]
    arms = [_arm(arm, scope, outer, carried, gs) for arm in (op.then, op.otherwise)]
    wanted = [(a.sink, c) for a in arms if a.sink is not None for c in a.sink.wanted]
    bound = {v for a in arms for let in (*a.forward, *a.lets) for v in (*let.vars, *bound_vars(let.op))}
    if any(entry.mentions(bound) for _, c in wanted for entry in c.index):
        raise Unplaceable
    blocks = []
    for a in arms:
        # A contribution to an array outside is one more result, 0 from the other arm.
        more = tuple(c.g if s is a.sink else dummy(b, c.g.type) for s, c in wanted)
        blocks.append(pruned_block(Block(tuple(a.lets), (*a.bars, *more))))
    forward, saved, (then, otherwise) = _save(scope, let, op, arms, blocks)
    bars = b.emit(If(op.condition, then, otherwise))
    for v, bar in zip(outer, bars, strict=False):
        scope.add(v, bar)
    for (_, c), bar in zip(wanted, bars[len(outer) :], strict=True):
        assert sink is not None
        sink.wanted.append(Contribution(c.array, c.index, bar, True))
    return [Let((*let.vars, *saved), forward, let.span)]


def _arm(
    arm: Block, scope: Scope, outer: Sequence[Var], carried: Sequence[Atom], gs: Sequence[tuple[int, Atom]]
) -> _Arm:
    sink = None
    if scope.sink is not None:
        sink = Sink(scope.sink.inside | set(bound_vars(arm)), [], True, scope.sink.private)
    inner = scope.inner(sink)
    with scope.b.scope() as lets:
        for v, bar in zip(outer, carried, strict=True):
            inner.add(v, bar)
        for k, g in gs:
            inner.add(arm.results[k], g)
        forward = inner.walk(arm.lets, inner)
        bars = tuple(inner.take(v) for v in outer)
    return _Arm(forward, arm.results, lets, bars, sink)


def _save(
    scope: Scope, let: Let, op: If, arms: Sequence[_Arm], blocks: Sequence[Block]
) -> tuple[If, list[Var], tuple[Block, Block]]:
    """The branch with what its adjoint needs as further results, the variables of these, and the adjoint's arms."""
    b = scope.b
    in_memory = scope.sink is None or scope.sink.private  # at a point of a comprehension it stays in a register
    saved: list[list[Var]] = []
    sizes: list[dict[Var, int]] = []  # scalars that an arm returns already, and their positions among its results
    outside: list[Var] = []
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
        block = recomputed(block, a.forward, bound, scope.again, let.span, in_memory=in_memory, followed=scope.followed)
        renaming = Renaming(returned, fresh=True)
        mine, block = given(block, bound)
        for v in mine:
            outside.append(renaming.bind(v))
        saved.append(mine)
        backward.append(refresh(block, renaming.env))
    forward = []
    for k, a in enumerate(arms):
        with b.scope() as lets:
            for let in a.forward:
                b.append(let)
            results = list(a.results)
            for j, mine in enumerate(saved):
                results += mine if j == k else dummies(b, mine, {r: a.results[at] for r, at in sizes[j].items()})
        forward.append(Block(tuple(lets), tuple(results)))
    return If(op.condition, *forward), outside, (backward[0], backward[1])


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
