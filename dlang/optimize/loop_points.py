"""Loops that only add up numbers, and set a part of arrays in each iteration, are comprehensions of one axis.

    s = for i (s = 0.0, y = z) {                 s, y = comp i {
      r = comp j { … } to keep [k] [j] set         r = comp j { … } to keep [k] [j] set
      t = comp j { … r[j] … } to keep [] [] sum    t = comp j { … r[j] … } to keep [] [] sum
      s' = add(s, t)                          →    yield t, t
      y' = update y[i] = t                       } to keep [] [] sum, keep [n] [i] set into z
      yield s', y'
    }

What an iteration makes for itself is made at a point, so there is as much memory in use as before; earlier, where
comprehensions are perfect nests, it would be there for all iterations at once (`accumulation.py`). Points are done
side by side, in vectors and by threads; so are iterations of which a derivative saves something, a part of arrays each.
"""

from __future__ import annotations

from dataclasses import replace

from dlang.ir import anf
from dlang.ir.substitution import substitute
from dlang.ir.traverse import (
    bound_vars,
    map_blocks,
    map_bodies,
    map_inner,
    mentioned,
    outer_mentions,
    with_lets,
    with_op,
)
from dlang.ir.types import array_type, dtype_of, type_of
from dlang.ops import figures
from dlang.ops.monoids import COMBINE, identity
from dlang.optimize.accumulation import Lets, may_be_a_point, total
from dlang.optimize.iterations import Iteration

Placed = tuple[Lets, anf.Atom, anf.Destination]


def loop_points(program: anf.Program) -> anf.Program:
    """The program with comprehensions in the place of such loops."""
    return map_bodies(program, _block)


def _block(block: anf.Block) -> anf.Block:
    block = map_inner(block, _block)
    lets: list[anf.Let] = []
    for let in block.lets:
        lets += (_points(let, let.op) or [let]) if isinstance(let.op, anf.For) else [let]
    return with_lets(block, lets, block.results)


def _points(let: anf.Let, loop: anf.For) -> list[anf.Let]:
    """The comprehension that a loop is, and what follows it; nothing if it is none."""
    if loop.early or not loop.params:
        return []
    loop = replace(loop, body=_seen_through(loop.body))
    if not all(map(_is_local, loop.body.lets)):
        return []
    count = (loop.high - loop.low).constant
    makes = any(isinstance(v.type, anf.Array) for inner in loop.body.lets for v in inner.vars)
    if count is not None and count < figures.LOOP_POINTS and makes:
        return []  # the comprehensions in it have more points to do side by side
    one = Iteration.of(loop)
    lets: Lets = loop.body.lets
    values: list[anf.Atom] = []
    destinations: list[anf.Destination] = []
    vars: list[anf.Var] = []
    after: list[anf.Let] = []
    for var, param, first, result in zip(let.vars, loop.params, loop.init, loop.body.results, strict=True):
        if isinstance(param.type, anf.Array):
            placed = _part(lets, param, first, result, one)
            if placed is None:
                return []
            lets, value, to = placed
            vars.append(var)
        else:
            split = total(lets, param, result)
            if split is None or split[1].beside is not None:
                return []
            lets, value, monoid = split[0], split[1].value, split[1].monoid
            to = anf.Reduce((), (), monoid)
            dtype = dtype_of(param)
            vars.append(var if first == anf.Lit(identity(monoid, dtype), dtype) else anf.fresh("r", var.type))
            if vars[-1] is not var:
                after.append(anf.Let((var,), anf.Prim(COMBINE[monoid], (first, vars[-1])), let.span))
        values.append(value)
        destinations.append(to)
    axis = anf.Axis(loop.index, (loop.low,), (loop.high,))
    comp = anf.Comp((axis,), anf.Block(lets, tuple(values)), tuple(destinations))
    made = [anf.Let(tuple(vars), comp, let.span), *after]
    inside = {*loop.params, *bound_vars(loop.body)}
    return made if inside.isdisjoint(outer_mentions(anf.Block(tuple(made), let.vars))) else []


def _seen_through(block: anf.Block) -> anf.Block:
    """The body, which reads the arrays that views show, without these views."""
    views = {let.vars[0]: let.op for let in block.lets if isinstance(let.op, anf.View)}
    if not views:
        return block

    def inside(block: anf.Block) -> anf.Block:
        return with_lets(block, [read(let) for let in block.lets], block.results)

    def read(let: anf.Let) -> anf.Let:
        op = map_blocks(let.op, inside)
        while isinstance(op, anf.Read) and (view := views.get(op.array)) is not None:
            at = dict(zip(view.axes, op.index, strict=True))
            op = anf.Read(view.array, tuple([substitute(entry, at) for entry in view.index]))
        return with_op(let, let.vars, op)

    seen = inside(block)
    used = {v for let in seen.lets if views.keys().isdisjoint(let.vars) for v in mentioned(let.op)} | {*seen.results}
    kept = [let for let in seen.lets if views.keys().isdisjoint(let.vars) or let.vars[0] in used]
    return with_lets(seen, kept, seen.results)


def _is_local(let: anf.Let) -> bool:
    """Tells whether a let of an iteration may be one of a point: it is code of points, or makes an array for itself."""
    return isinstance(let.op, anf.Empty) or (not isinstance(let.op, anf.Copy | anf.View) and may_be_a_point(let))


def _part(lets: Lets, param: anf.Var, first: anf.Atom, result: anf.Atom, one: Iteration) -> Placed | None:
    """The lets without the one that sets a part of an array, what it sets, and where; None if it does anything else."""
    at = next((k for k, let in enumerate(lets) if result in let.vars), None)
    if at is None or not isinstance(first, anf.Var):
        return None
    match lets[at].op:
        case anf.Update(array, index, value) if array is param and one.apart(index):
            index = tuple(map(one.opened, index))
            to = anf.Reduce(array_type(param).shape, index, "set", first)
            return (*lets[:at], *lets[at + 1 :]), value, to
        case anf.Comp(destinations=(anf.Reduce(_, index, "set", into, None) as d,)) as op if into is param:
            return _row(lets, at, op, replace(d, index=tuple(map(one.opened, index)), into=first), one)
        case _:
            return None


def _row(lets: Lets, at: int, op: anf.Comp, d: anf.Reduce, one: Iteration) -> Placed | None:
    """The same of a comprehension that sets a whole row of an array, of an iteration's own."""
    axes = {a.var: a for a in op.axes}
    outer, inner = d.index[: -len(axes)], d.index[-len(axes) :]
    rows = [axes.get(e.atom) if isinstance(e.atom, anf.Var) else None for e in inner]
    ends = [(a.lows, a.highs) for a in rows if a is not None]
    whole = ends == [((anf.ZERO,), (size,)) for size in d.shape[-len(axes) :]] and len(set(inner)) == len(axes)
    (value,) = op.body.results
    if not axes or not whole or not one.apart(outer, axes) or isinstance(value.type, anf.Array):
        return None
    if any(e.mentions(axes) for e in outer):
        return None
    row = anf.fresh("row", type_of(dtype_of(value), d.shape[-len(axes) :]))
    made = replace(op, destinations=(anf.Reduce(d.shape[-len(axes) :], inner, "set"),))
    changed = (*lets[:at], anf.Let((row,), made, lets[at].span), *lets[at + 1 :])
    return changed, row, replace(d, index=outer)
