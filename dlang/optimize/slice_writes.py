"""Sets slices instead of adding to zeros, where each iteration of a loop adds to a slice of its own.

    s = zeros; for t { …; s[t] += v }        becomes        s = empty; for t { …; s[t] = v }

The cotangent of what a loop reads a slice of in each iteration is made in this way. If the slices are all of the array,
it is not filled before.
"""

from __future__ import annotations

from dlang.ir.anf import Array, Axis, Block, Comp, Empty, For, Let, Program, Reduce, Var, fresh
from dlang.ir.comprehension_queries import is_zero, sizes_named
from dlang.ir.traverse import count_uses, map_blocks, map_bodies, with_lets, with_op
from dlang.ir.types import dtype_of
from dlang.ir.writes import covers, determines, segment


def slice_writes(program: Program) -> Program:
    """The program with slices set that were added to zeros."""
    return map_bodies(program, _block)


def _block(block: Block) -> Block:
    lets: list[Let] = []
    zeros: set[Var] = set()
    for let in block.lets:
        op = map_blocks(let.op, _block)
        let = with_op(let, let.vars, op)
        lets += _loop(let, op, zeros) if isinstance(op, For) and not op.early else [let]
        if isinstance(op, Comp) and len(let.vars) == 1 and is_zero(op):
            zeros.add(let.vars[0])
    return with_lets(block, lets, block.results)


def _loop(let: Let, op: For, zeros: set[Var]) -> list[Let]:
    uses = count_uses(op.body)
    lets = list(op.body.lets)
    init = list(op.init)
    before: list[Let] = []
    for k, (param, result) in enumerate(zip(op.params, op.body.results, strict=True)):
        if op.init[k] not in zeros or uses.get(param) != 1 or not isinstance(result, Var) or uses.get(result) != 1:
            continue
        at = next((j for j, inner in enumerate(lets) if result in inner.vars), None)
        write = None if at is None else lets[at]
        if at is None or write is None or not isinstance(write.op, Comp):
            continue
        position = write.vars.index(result)
        whole = _set(write.op, position, op, param)
        if whole is None:
            continue
        destinations = list(write.op.destinations)
        to = destinations[position]
        destinations[position] = Reduce(to.shape, to.index, "set", to.into)
        lets[at] = Let(write.vars, Comp(write.op.axes, write.op.body, tuple(destinations)), write.span)
        if whole:
            assert isinstance(param.type, Array)
            empty = fresh(param.name, let.vars[k].type)
            before.append(Let((empty,), Empty(param.type.dtype, param.type.shape), let.span))
            init[k] = empty
    body = with_lets(op.body, lets, op.body.results)
    if body is op.body:
        return [let]
    return [*before, Let(let.vars, For(op.index, op.low, op.high, op.params, tuple(init), body), let.span)]


def _set(comp: Comp, k: int, loop: For, param: Var) -> bool | None:
    """Tells whether the slices a destination adds to are all of its array; None if they aren't one per iteration."""
    d = comp.destinations[k]
    if not isinstance(d, Reduce) or d.monoid != "sum" or d.into is not param or dtype_of(param) not in ("f64", "f32"):
        return None
    inside = {loop.index, *loop.params} | {v for let in loop.body.lets for v in let.vars}
    sizes = sizes_named(loop.body)
    axes = (Axis(loop.index, (loop.low,), (loop.high,)), *comp.axes)
    index = tuple([e.substitute(sizes.get) for e in d.index])
    if len(d.shape) == 1 or any(size.mentions(inside) for size in d.shape) or not determines(axes, index):
        return None
    if covers(axes, d.shape, index):
        return True
    slices = segment(axes, d.shape, index)
    if slices is None or slices.low.mentions(inside) or not index[slices.position].mentions((loop.index,)):
        return None
    return False
