"""Products of half precision that are added up in f32, for devices that multiply such numbers as they are.

x = [f32(a[i, j]) for i, j]; y = [f32(b[j, k]) for j, k]; x @ y        a @ b, in f32
"""

from __future__ import annotations

from collections.abc import Mapping

from dlang.ir.anf import HALF, Array, Block, Cast, Comp, Contract, Let, Program, Read, Reduce, Var
from dlang.ir.terms import ZERO
from dlang.ir.traverse import map_blocks, map_bodies
from dlang.ir.update_chains import last_uses

Casts = Mapping[Var, tuple[Var, tuple[int, ...]]]


def half_operands(program: Program) -> Program:
    """The program whose products of f32 take numbers of half precision as they are, where they were only cast."""
    return map_bodies(program, _block)


def _block(block: Block) -> Block:
    casts: dict[Var, tuple[Var, tuple[int, ...]]] = {}
    lets: list[Let] = []
    for let in block.lets:
        op = map_blocks(let.op, _block)
        if isinstance(op, Comp) and (cast := _cast(op)) is not None:
            casts[let.vars[0]] = cast
        elif isinstance(op, Contract):
            op = _product(op, casts)
        lets.append(let if op is let.op else Let(let.vars, op, let.span))
    if all(x is y for x, y in zip(lets, block.lets, strict=True)):
        return block
    used = last_uses(Block(tuple(lets), block.results))
    return Block(
        tuple([let for let in lets if not let.vars or let.vars[0] not in casts or let.vars[0] in used]), block.results
    )


def _cast(op: Comp) -> tuple[Var, tuple[int, ...]] | None:
    """The array of half precision of which a comprehension is a copy in f32, and where each of its axes is there."""
    match op:
        case Comp(
            axes,
            Block((Let((x,), Read(array, index)), Let((y,), Cast("f32", arg))), (result,)),
            (Reduce(shape=shape, index=place, monoid="set", into=None, after=None),),
        ) if arg is x and result is y and isinstance(array.type, Array) and array.type.dtype in HALF:
            pass
        case _:
            return None
    order = [entry.atom for entry in place]
    at = [entry.atom for entry in index]
    sizes = dict(zip(order, shape, strict=True))
    if len(set(order)) < len(order) or len(at) != len(order) or set(at) != set(order):
        return None
    if {axis.var for axis in axes} != set(order) or any(
        axis.lows != (ZERO,) or axis.highs != (sizes[axis.var],) for axis in axes
    ):
        return None
    if [sizes[v] for v in at] != list(array.type.shape):
        return None
    return array, tuple([order.index(v) for v in at])


def _product(op: Contract, casts: Casts) -> Contract:
    left, right = casts.get(op.a), casts.get(op.b)
    if left is None or right is None:
        return op
    (a, of_a), (b, of_b) = left, right
    assert isinstance(a.type, Array) and isinstance(b.type, Array)
    if a.type.dtype != b.type.dtype:
        return op
    return Contract(a, b, tuple([op.left[k] for k in of_a]), tuple([op.right[k] for k in of_b]), op.out, wide=True)
