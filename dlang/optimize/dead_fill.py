"""Arrays that are made of one value and then overwritten slice by slice, as a stack is, need not be filled first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

from dlang.ir import anf
from dlang.ir.comprehension_queries import point_of
from dlang.ir.traverse import count_uses, map_blocks, map_bodies, with_lets, with_op
from dlang.ir.types import dtype_of
from dlang.ir.writes import older_of, write_all

Step = tuple[anf.Comp, int, anf.Var]
"""A comprehension, which of its destinations goes on from an array, and what that gives."""
Following = dict[anf.Var, list[Step]]


def dead_fill(program: anf.Program) -> anf.Program:
    """The program with arrays left empty whose every element is set before anything reads it."""
    return map_bodies(program, _block)


def _block(block: anf.Block) -> anf.Block:
    following: Following = {}
    filled: list[anf.Var] = []
    lets = []
    for let in block.lets:
        op = map_blocks(let.op, _block)
        lets.append(with_op(let, let.vars, op))
        if isinstance(op, anf.Comp):
            for k, d in enumerate(op.destinations):
                if (older := older_of(d, let.vars)) is not None:
                    following.setdefault(older, []).append((op, k, let.vars[k]))
            if len(let.vars) == 1 and not op.body.lets and point_of(op, 0) is not None:
                filled.append(let.vars[0])
    block = with_lets(block, lets, block.results)
    candidates = [var for var in filled if var in following]
    if not candidates:
        return block
    uses = count_uses(block)
    empty = {var for var in candidates if _is_overwritten(var, following, uses)}
    return _without_fills(block, empty, following) if empty else block


def _without_fills(block: anf.Block, empty: Set[anf.Var], following: Following) -> anf.Block:
    """An empty array for each of those that go on from one that was filled."""
    empties: dict[anf.Var, list[anf.Var]] = {}
    lets: list[anf.Let] = []
    for let in block.lets:
        op = let.op
        if empty.isdisjoint(let.vars):
            if isinstance(op, anf.Comp) and any(d.into in empty for d in op.destinations):
                destinations = tuple([_into(d, empties) for d in op.destinations])
                let = anf.Let(let.vars, replace(op, destinations=destinations), let.span)
            lets.append(let)
            continue
        (var,) = let.vars
        assert isinstance(var.type, anf.Array)
        empties[var] = [var, *[anf.fresh(var.name, var.type) for _ in following[var][1:]]]
        lets += [anf.Let((new,), anf.Empty(var.type.dtype, var.type.shape), let.span) for new in empties[var]]
    return anf.Block(tuple(lets), block.results)


def _into(d: anf.Destination, empties: dict[anf.Var, list[anf.Var]]) -> anf.Destination:
    return replace(d, into=empties[d.into].pop()) if d.into in empties else d


def _is_overwritten(var: anf.Var, following: Following, uses: dict[anf.Var, int]) -> bool:
    """Tells whether comprehensions that continue an array set all of it: each of them, if several do."""
    if anf.is_reference(dtype_of(var)) or uses[var] != len(following[var]):
        return False
    return all(write_all(_following(step, following, uses)) for step in following[var])


def _following(
    step: Step, following: Following, uses: dict[anf.Var, int]
) -> Iterator[tuple[Sequence[anf.Axis], anf.Destination]]:
    """The destinations that set elements of an array one after another, while nothing else looks at it."""
    while True:
        op, k, var = step
        d = op.destinations[k]
        if not isinstance(d, anf.Reduce) or d.monoid != "set":
            return
        yield op.axes, d
        steps = following.get(var, [])
        if len(steps) != 1 or uses.get(var, 0) > sum(d.into is var for d in steps[0][0].destinations):
            return
        (step,) = steps
