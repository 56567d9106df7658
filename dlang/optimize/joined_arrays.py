"""The elements of joined arrays, computed where they are read: each is one of a piece, by where it is.

    t = concat(a, b)                t = comp i, j { v = if i < n { read a[i, j] } else { read b[i - n, j] }; yield v }
    … = comp i, j {            →    … = comp i, j {
      x = read t[i, j]                x = read t[i, j]

So an array that is moved by a place, with a border put before or behind it, is no array: where a comprehension reads
it, fusion leaves a branch at the borders, and derivatives know it as that. What is used as a whole stays a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlang.ir import anf
from dlang.ir.builder import Builder
from dlang.ir.traverse import count_uses, map_bodies, map_inner, walk, with_lets
from dlang.ir.types import array_type
from dlang.ops import figures
from dlang.ops.dtypes import WHOLE


def joined_arrays(program: anf.Program) -> anf.Program:
    """The program with branches in the place of joined arrays of which elements are read."""
    return map_bodies(program, _block)


def _block(block: anf.Block) -> anf.Block:
    block = map_inner(block, _block)
    if not any(isinstance(let.op, anf.Concat) for let in block.lets):
        return block
    uses = count_uses(block)
    read: dict[anf.Var, int] = {}
    for let in walk(block):
        if isinstance(let.op, anf.Read | anf.View):
            read[let.op.array] = read.get(let.op.array, 0) + 1
    lets = [
        anf.Let(let.vars, _by_elements(let.op, let.vars[0]), let.span)
        if isinstance(let.op, anf.Concat)
        and 1 < len(let.op.arrays) <= figures.JOINED_PIECES
        and array_type(let.vars[0]).dtype in WHOLE
        and 0 < uses[let.vars[0]] == read.get(let.vars[0], 0)
        else let
        for let in block.lets
    ]
    return with_lets(block, lets, block.results)


def _by_elements(op: anf.Concat, var: anf.Var) -> anf.Op:
    """The comprehension that gives each element of joined arrays."""
    b = Builder()

    def element(at: tuple[anf.Var, ...], pieces: Sequence[anf.Var], before: anf.Size) -> anf.Atom:
        piece, *others = pieces
        place = anf.poly(at[0]) - before
        rest = tuple(map(anf.poly, at[1:]))
        if not others:
            return b.one(anf.Read(piece, (place, *rest)))
        end = before + array_type(piece).shape[0]
        here = b.prim("lt", at[0], b.size(end), name="here")
        then = b.block(lambda: b.one(anf.Read(piece, (place, *rest))))
        (value,) = b.emit(anf.If(here, then, b.block(lambda: element(at, others, end))))
        return value

    made = b.map(array_type(var).shape, lambda *at: element(at, op.arrays, anf.ZERO))
    comp = b.definition(made)
    assert comp is not None
    return comp
