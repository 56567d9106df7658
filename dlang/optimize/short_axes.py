"""Short axes of known length, beside longer ones, are written out: an array along one is as many arrays.

    d = comp i, j, k < 3 { x[i, k] - x[j, k] } to keep [n, n, 3] [i, j, k] set
    r = comp i, j, k < 3 { d[i, j, k] * d[i, j, k] } to keep [n, n] [i, j] sum

    d₀, d₁, d₂ = comp i, j { x[i, 0] - x[j, 0], … } to keep [n, n] [i, j] set, …
    r = comp i, j { d₀[i, j] * d₀[i, j] + d₁[i, j] * d₁[i, j] + … } to keep [n, n] [i, j] set

So the three coordinates of points cost the same as numbers, rows, or fields of a struct; and what is left is scalar
code, of which the longer axes do several points at once. An array stays whole if it is used otherwise than by elements
whose place along the axis is known. Factors of a product that is added up along a longer axis stay as they are, too: a
product of matrices takes them together (`contractions.py`).
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from dlang.ir import anf
from dlang.ir.comprehension_queries import arms_giving, done_whole, taken_apart
from dlang.ir.traverse import map_bodies, map_inner, mentioned
from dlang.ops.monoids import COMBINE
from dlang.optimize.unroll import unrolled
from dlang.optimize.write_out import Around, Short, adds_products, are_few, is_choice, values, written


def short_axes(program: anf.Program) -> anf.Program:
    """The program with such axes written out."""
    return map_bodies(program, lambda body: _block(unrolled(body, early=True)))


def _block(block: anf.Block) -> anf.Block:
    block = map_inner(block, _block)
    short = {let.vars: s for let in block.lets if isinstance(let.op, anf.Comp) and (s := _short(let.op)) is not None}
    writer = written(block, short, Around(block.results))
    if writer is None:
        return block
    results = tuple(map(writer.atom, block.results))
    parts_made = {part for _, parts in writer.apart.values() for part in parts.values()}
    return anf.Block(_of_use(writer.lets, results, parts_made), results)


def _of_use(lets: Sequence[anf.Let], results: Sequence[anf.Atom], parts_made: Set[anf.Atom]) -> tuple[anf.Let, ...]:
    """The lets without the parts of arrays that nothing reads; parts_made: all parts."""
    used: set[anf.Atom] = set(results)
    kept: list[anf.Let] = []
    for let in reversed(lets):
        if not parts_made.isdisjoint(let.vars):
            read = [k for k, v in enumerate(let.vars) if v in used]
            if not read:
                continue
            match let.op:
                case anf.Comp() if len(read) < len(let.vars):
                    (let,) = taken_apart(let, (read,))
                case anf.If() as branch if len(read) < len(let.vars):
                    let = anf.Let(tuple([let.vars[k] for k in read]), arms_giving(branch, read), let.span)
                case _:
                    pass  # what a loop carries it may need itself
        used.update(mentioned(let.op))
        kept.append(let)
    return tuple(reversed(kept))


# ---- what can be written out -----------------------------------------------------------------------------------------
def _short(op: anf.Comp) -> Short | None:
    """The short axes of a comprehension, if it can be written out along them."""
    axes = tuple([axis for axis in op.axes if values(axis)])
    variables = [axis.var for axis in axes]
    longer = [axis for axis in op.axes if axis not in axes]
    if not axes or not longer or not are_few(axes, len(op.body.lets)):
        return None
    if any(size.mentions(variables) for axis in longer for size in (*axis.lows, *axis.highs)):
        return None
    if not all(let.op.IS.point for let in op.body.lets) or adds_products(op, longer):
        return None
    inside = {v for let in op.body.lets for v in let.vars}
    if any(entry.mentions(inside) for d in op.destinations for entry in d.index):
        return None
    dimensions = [_dimensions(d, value, axes) for d, value in zip(op.destinations, op.body.results, strict=True)]
    return Short(axes, tuple([d for d in dimensions if d is not None])) if None not in dimensions else None


def _dimensions(d: anf.Destination, value: anf.Atom, axes: Sequence[anf.Axis]) -> tuple[int, ...] | None:
    """The dimensions of a result that lie along the axes; None if it can't be taken apart along these."""
    if not isinstance(d, anf.Reduce) or d.into is not None or d.after is not None or isinstance(value.type, anf.Array):
        return None
    if done_whole(value.type) or d.monoid not in (*COMBINE, "set") or is_choice(d):
        return None
    by_variable = {axis.var: axis for axis in axes}
    dimensions = []
    for k, (entry, size) in enumerate(zip(d.index, d.shape, strict=True)):
        atom = entry.atom
        if isinstance(atom, anf.Var) and atom in by_variable:
            axis = by_variable.pop(atom)
            if axis.lows[0].constant != 0 or axis.highs[0] != size:
                return None
            dimensions.append(k)
        elif entry.mentions([axis.var for axis in axes]):
            return None
    return None if d.monoid == "set" and by_variable else tuple(dimensions)
