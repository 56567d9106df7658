"""What each trip of a loop adds to a slice of zeros of its own, it sets.

    s = zeros; for t { …; s[t] += v }        becomes        s = empty; for t { …; s[t] = v }

The cotangent of what a loop reads a slice of in each trip is made in this way. If the slices are all of the array, it
is not filled before.
"""

from __future__ import annotations

from dlang.ir.anf import Array, Block, Comp, Empty, For, Function, Keep, Let, Lit, Program, Size, SizeOf, Var, fresh
from dlang.ir.traverse import count_uses, map_blocks, map_functions, with_body
from dlang.ir.types import dtype_of, is_float
from dlang.optimize.comps import ZERO, extent, point_of


def slices(program: Program) -> Program:
    """The program with slices set that were added to zeros."""

    def function(f: Function) -> Function:
        body = _block(f.body)
        return with_body(f, body)

    return map_functions(program, function)


def _block(block: Block) -> Block:
    lets: list[Let] = []
    zeros: set[Var] = set()
    for let in block.lets:
        op = map_blocks(let.op, _block)
        let = let if op is let.op else Let(let.vars, op, let.span)
        lets += _loop(let, op, zeros) if isinstance(op, For) and not op.early else [let]
        if isinstance(op, Comp) and len(let.vars) == 1 and is_zero(op):
            zeros.add(let.vars[0])
    if len(lets) == len(block.lets) and all(a is b for a, b in zip(lets, block.lets, strict=True)):
        return block
    return Block(tuple(lets), block.results)


def is_zero(op: Comp) -> bool:
    """Whether all elements of the first result of a comprehension are 0."""
    value = op.body.results[0]
    return isinstance(value, Lit) and value.value == 0 and op.destinations[0].into is None


def sizes_named(body: Block) -> dict[Var, Size]:
    """The i64 variables that a body names sizes by, and these."""
    found: dict[Var, Size] = {}
    for let in body.lets:
        if isinstance(let.op, SizeOf):
            found[let.vars[0]] = let.op.size.substitute(found.get)
    return found


def slope(entry: Size, trip: Var) -> int:
    """By how much an entry of an index grows with each trip of a loop; 0 if there is no such number."""
    try:
        c = entry.coefficient(trip)
    except ValueError:
        return 0
    return c.constant if isinstance(c.constant, int) else 0


def _loop(let: Let, op: For, zeros: set[Var]) -> list[Let]:
    uses = count_uses(op.body)
    lets = list(op.body.lets)
    init = list(op.init)
    before: list[Let] = []
    for k, (param, result) in enumerate(zip(op.params, op.body.results, strict=True)):
        if op.init[k] not in zeros or uses.get(param) != 1 or not isinstance(result, Var) or uses.get(result) != 1:
            continue
        at = next((j for j, inner in enumerate(lets) if result in inner.vars), None)
        made = None if at is None else lets[at]
        if at is None or made is None or not isinstance(made.op, Comp):
            continue
        position = made.vars.index(result)
        whole = _set(made.op, position, op, param)
        if whole is None:
            continue
        destinations = list(made.op.destinations)
        to = destinations[position]
        destinations[position] = Keep(to.shape, to.index, "set", to.into)
        lets[at] = Let(made.vars, Comp(made.op.axes, made.op.body, tuple(destinations)), made.span)
        if whole:
            assert isinstance(param.type, Array)
            empty = fresh(param.name, let.vars[k].type)
            before.append(Let((empty,), Empty(param.type.dtype, param.type.shape), let.span))
            init[k] = empty
    if all(a is b for a, b in zip(lets, op.body.lets, strict=True)):
        return [let]
    body = Block(tuple(lets), op.body.results)
    return [*before, Let(let.vars, For(op.index, op.low, op.high, op.params, tuple(init), body), let.span)]


def _set(comp: Comp, k: int, loop: For, param: Var) -> bool | None:
    """Whether the slices that a destination adds to are all of its array; None if they aren't one for each trip."""
    d = comp.destinations[k]
    if not isinstance(d, Keep) or d.monoid != "sum" or d.into is not param or not is_float(param.type):
        return None
    inside = {loop.index, *loop.params} | {v for let in loop.body.lets for v in let.vars}
    if dtype_of(param) not in ("f64", "f32") or any(a.mentions(inside) for a in d.shape):
        return None
    own = sizes_named(loop.body)
    index = [e.substitute(own.get) for e in d.index]
    moving = [j for j, e in enumerate(index) if e.mentions((loop.index,))]
    if len(moving) != 1:
        return None
    (j,) = moving
    entry = index[j]
    if slope(entry, loop.index) not in (1, -1) or entry.mentions(inside - {loop.index} | {a.var for a in comp.axes}):
        return None
    rest = Keep((*d.shape[:j], *d.shape[j + 1 :]), (*d.index[:j], *d.index[j + 1 :]))
    if not rest.shape or point_of(Comp(comp.axes, comp.body, (rest,)), 0) is None:
        return None
    if any(extent(a) is None for a in comp.axes):
        return None
    ends = {loop.index: loop.low}, {loop.index: loop.high - 1}
    first, last = (entry.substitute(end.get) for end in ends)
    low, high = (first, last) if slope(entry, loop.index) == 1 else (last, first)
    return low == ZERO and high == d.shape[j] - 1
