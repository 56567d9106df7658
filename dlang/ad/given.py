"""Finds the values that a block of the backward pass takes from the forward pass."""

from __future__ import annotations

from dlang.ir.anf import Block, Var
from dlang.ir.traverse import free_vars, type_vars


def given(block: Block, bound: set[Var]) -> tuple[list[Var], Block]:
    """The variables of `bound` that a pure block needs, each after the sizes in its type, and the block.

    A size that is given so is not computed in the block as well: types would then speak of two sizes that are one.
    """
    vars: dict[Var, None] = {}
    for v in free_vars(block):
        if v in bound:
            vars |= dict.fromkeys(size for size in type_vars(v.type) if size in bound)
            vars[v] = None
    lets = [let for let in block.lets if not vars.keys() >= set(let.vars)]
    return list(vars), Block(tuple(lets), block.results)
