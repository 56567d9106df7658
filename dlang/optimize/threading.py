"""Branches on what an earlier branch has decided become part of that branch.

An early `return` is a flag, on which all that follows branches:

    done, x = if c { yield true, a } else { yield false, 0 }         x = if c { yield a } else { … yield b }
    y = if done { yield x } else { … yield b }

So what comes last stands in the arms again, where a call in tail position can be seen.
"""

from __future__ import annotations

from dlang.ir.anf import Atom, Block, Cast, If, Let, Lit, Prim, Program, SizeOf, Token, Var
from dlang.ir.substitution import Replacement, refresh
from dlang.ir.traverse import free_vars, map_blocks, map_bodies, mentioned, walk, with_lets, with_op

SMALL = 8  # lets that may be doubled


def threading(program: Program) -> Program:
    """The program in which no branch asks what an earlier one has decided."""
    return map_bodies(program, threaded)


def threaded(block: Block) -> Block:
    """The block with branches merged, here and in the blocks inside."""
    lets: list[Let] = []
    for let in block.lets:
        _append(lets, with_op(let, let.vars, map_blocks(let.op, threaded)))
    return with_lets(block, lets, block.results)


def _append(lets: list[Let], let: Let) -> None:
    """Adds a let; a branch joins an earlier one that decides it, if only scalars are computed in between."""
    if isinstance(let.op, If):
        at = len(lets) - 1
        while at >= 0 and isinstance(lets[at].op, Prim | Cast | SizeOf):
            at -= 1
        first = lets[at] if at >= 0 else None
        if first is not None and isinstance(first.op, If):
            between = lets[at + 1 :]
            if not any(v in first.vars for b in between for v in mentioned(b.op)):
                merged = _merged(first, first.op, let, let.op)
                if merged is not None:
                    lets[at:] = [*between, merged]
                    return
    lets.append(let)


def _merged(first: Let, a: If, second: Let, b: If) -> Let | None:
    if isinstance(b.condition, Lit):
        return None
    then = _value(b.condition, first, a, a.then, True)
    otherwise = _value(b.condition, first, a, a.otherwise, False)
    if then is None or otherwise is None:
        known = otherwise if then is None else then
        if known is None or not _is_small(b.then if known else b.otherwise):
            return None  # what is chosen where it is known would stand in both arms
    arms = _continued(first, a.then, second, b, then), _continued(first, a.otherwise, second, b, otherwise)
    vars = (*first.vars, *second.vars)
    spent = {v for v in free_vars(b) if isinstance(v.type, Token)}  # the later branch goes on from the earlier one's
    left = [k for k, v in enumerate(vars) if v not in spent]
    first_arm, second_arm = (Block(arm.lets, tuple([arm.results[k] for k in left])) for arm in arms)
    return Let(tuple([vars[k] for k in left]), If(a.condition, first_arm, second_arm, rare=a.rare), first.span)


def _value(condition: Atom, first: Let, a: If, arm: Block, taken: bool) -> bool | None:
    """What the later condition is in an arm of the earlier branch, if that is known."""
    if condition == a.condition:
        return taken
    if condition in first.vars:
        result = arm.results[first.vars.index(condition)]
        return bool(result.value) if isinstance(result, Lit) else None
    return None


def _is_small(block: Block) -> bool:
    return sum(1 for _ in walk(block)) <= SMALL


def _continued(first: Let, arm: Block, second: Let, b: If, value: bool | None) -> Block:
    """An arm of the earlier branch, and then what the later one does there."""
    mapping: dict[Var, Replacement] = dict(zip(first.vars, arm.results, strict=True))
    lets = list(arm.lets)
    if value is None:
        whole = threaded(refresh(Block((second,), second.vars), mapping))
        for let in whole.lets:
            _append(lets, let)
        return Block(tuple(lets), (*arm.results, *whole.results))
    chosen = threaded(refresh(b.then if value else b.otherwise, mapping))  # again: more is known here
    for let in chosen.lets:
        _append(lets, let)
    return Block(tuple(lets), (*arm.results, *chosen.results))
