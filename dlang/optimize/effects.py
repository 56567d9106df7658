"""Tells the effects of an operation besides binding values: whether it has to stay, and which arrays it consumes."""

from __future__ import annotations

from collections.abc import Set

from dlang.ir import anf
from dlang.ir.traverse import block_acts, named_function, op_blocks, own_consumed


def effectful_functions(program: anf.Program) -> frozenset[str]:
    """The functions that may end the run or be seen by the world, themselves or through what they call."""
    callers: dict[str, list[str]] = {}
    work: list[str] = []
    for name, function in program.functions.items():
        acts = block_acts(function.body)
        if acts.refuses:
            work.append(name)
        for callee in acts.calls:
            callers.setdefault(callee, []).append(name)
    found: set[str] = set()
    while work:
        name = work.pop()
        if name not in found:
            found.add(name)
            work += callers.get(name, [])
    return frozenset(found)


def is_effectful(op: anf.Op, functions: Set[str]) -> bool:
    """Tells whether an operation must stay, itself or for its blocks; `functions` are the effectful ones."""
    inside = map(block_acts, op_blocks(op))
    return (
        op.IS.stays
        or named_function(op) in functions
        or any(acts.refuses or not functions.isdisjoint(acts.calls) for acts in inside)
    )


def consumed_by(op: anf.Op) -> list[anf.Var]:
    """The arrays that an operation, or one in its blocks, would like to change in place."""
    out = own_consumed(op)
    for block in op_blocks(op):
        out += block_acts(block).consumed
    return out
