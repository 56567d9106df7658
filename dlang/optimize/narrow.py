"""Computes elements where they are read, of an array that is read at fewer points than it has.

    a[i, j] = exp(x[i, j])
    r = sum(a[i, i] for i)    becomes    r = sum(exp(x[i, i]) for i)

Fusion does so too, by the same rules, but behind derivatives: one would save all elements, and its adjoint would go
through all of them.
"""

from __future__ import annotations

from dlang.ir.anf import Block, Comp, Program
from dlang.ir.traverse import map_bodies, map_inner
from dlang.optimize.fuse import inlined_producers


def narrow(program: Program) -> Program:
    """The program without such arrays."""
    return map_bodies(program, _narrowed)


def _narrowed(block: Block) -> Block:
    block = map_inner(block, _narrowed)
    while any(isinstance(let.op, Comp) for let in block.lets):
        new = inlined_producers(block, fewer=True)  # then what it is made of may be read at fewer points, too
        if new is block:
            break
        block = new
    return block
