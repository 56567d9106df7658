"""Arrays that cost less to make than to save: what an adjoint needs of them is saved element by element.

In a loop, an arm or a recursion, an array that is changed in place, chosen, or handed on takes one operation however
long it is. So the adjoint may not have it whole: it would be saved in every iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.ir import anf
from dlang.ir.traverse import walk


def fleeting(block: anf.Block, params: Sequence[anf.Var]) -> frozenset[anf.Var]:
    """The arrays of a block and of the blocks in it that are made in less time than they have elements.

    params: what the block is given anew each time that it runs.
    """
    found = {p for p in params if isinstance(p.type, anf.Array)}
    for let in walk(block):
        op = let.op
        match op:
            case (
                anf.If()
                | anf.Update()
                | anf.Assert()
                | anf.View()
                | anf.Reshape()
                | anf.Call()
                | anf.Fields()
                | anf.Empty()
            ):
                made = let.vars
            case anf.For() | anf.While():
                made = (*op.params, *let.vars)
            case anf.Comp():
                made = tuple([v for v, d in zip(let.vars, op.destinations, strict=True) if d.into is not None])
            case _:
                continue
        found.update(v for v in made if isinstance(v.type, anf.Array))
    return frozenset(found)
