"""Tells the effects of an operation besides binding values: whether it has to stay, and which arrays it consumes."""

from __future__ import annotations

from collections.abc import Set

from dlang.ir import anf
from dlang.ir.traverse import ACTING, block_acts, named_function, op_blocks, own_consumed, reaching, walk


def effectful_functions(program: anf.Program) -> frozenset[str]:
    """The functions that may end the run or be seen by the world, themselves or through what they call."""
    of = {name: block_acts(f.body) for name, f in program.functions.items()}
    refusing = [name for name, a in of.items() if a.refuses]
    return frozenset(reaching({name: a.calls for name, a in of.items()}, refusing))


def is_effectful(op: anf.Op, functions: Set[str]) -> bool:
    """Tells whether an operation must stay, itself or for its blocks; `functions` are the effectful ones."""
    if not ACTING[type(op)]:
        return False
    inside = map(block_acts, op_blocks(op))
    return (
        op.IS.stays
        or named_function(op) in functions
        or any(a.refuses or not functions.isdisjoint(a.calls) for a in inside)
    )


def acts(let: anf.Let) -> bool:
    """Tells whether a let may end the run, be seen by the world, or not end; of a function that it calls it may."""
    return any(
        part.op.IS.fails or part.op.IS.stays or part.op.IS.endless or named_function(part.op) is not None
        for part in walk(anf.Block((let,), ()))
    )


def consumed_by(op: anf.Op) -> list[anf.Var]:
    """The arrays that an operation, or one in its blocks, would like to change in place."""
    if not ACTING[type(op)]:
        return []
    out = own_consumed(op)
    for block in op_blocks(op):
        out += block_acts(block).consumed
    return out
