"""Comprehensions over a few points, known now, become scalar code where they stand in a larger one, or in a loop.

An array of such a comprehension whose every use names an element is its elements, and takes no memory: a vector of
three numbers costs what a struct of three does. What is left is scalar code, of which the loop around does several
points at once. This comes after `fuse_outer_axis.py`, which brings together what belongs to one point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from math import prod
from typing import TypeVar

from dlang.ir import anf
from dlang.ir.sharing import is_scalar_code
from dlang.ir.substitution import Renaming, substitute
from dlang.ir.traverse import map_blocks, map_bodies, mentioned, walk, with_lets, with_op
from dlang.ir.types import array_type, dtype_of, name_of
from dlang.ir.writes import determines, sums_in
from dlang.ops import figures
from dlang.ops.monoids import COMBINE, STAYS
from dlang.optimize.write_out import (
    Around,
    Place,
    Short,
    Writer,
    adds_products,
    are_few,
    is_choice,
    places,
    values,
    with_arms,
    written,
)

Loop = TypeVar("Loop", bound=anf.For | anf.While)


def unroll(program: anf.Program) -> anf.Program:
    """The program with small comprehensions inside of others written out."""
    return map_bodies(program, unrolled)


def unrolled(block: anf.Block, early: bool = False) -> anf.Block:
    """The block with small comprehensions inside of others written out.

    early: but for what has a better form for derivatives and products: extremes, whose derivative is one element's, and
    sums of more than a few products.
    """
    lets: list[anf.Let] = []
    for let in block.lets:
        op = map_blocks(let.op, partial(unrolled, early=early))
        match op:
            case anf.Comp(axes=(_, *_)):
                longer = any(values(axis) is None for axis in op.axes)
                if (writer := _written(op.body, early, Around(), longer=longer)) is not None:
                    lets += _comprehension(let, op, writer)
                    continue
            case anf.For() | anf.While():
                lets += of_loop(with_op(let, let.vars, op), op, early)
                continue
            case _:
                pass
        lets.append(with_op(let, let.vars, op))
    return with_lets(block, lets, block.results)


def of_loop(let: anf.Let, op: Loop, early: bool = False) -> list[anf.Let]:
    """A loop with the small comprehensions of its iterations written out; `early` as for `unrolled`.

    Small arrays of its state whose every use is of elements at known places are numbers; what else it carries stays an
    array, made where it lies.
    """
    results = op.body.results[op.early :]
    state = {p: r for p, r in zip(op.params, results, strict=True) if places(p.type)}
    whole = tuple([r for p, r in zip(op.params, results, strict=True) if p not in state])
    beside = (op.condition,) if isinstance(op, anf.While) else ()
    sums = {v for k in range(len(op.params)) if isinstance(op, anf.For) for v in sums_in(op, k)}
    writer = _written(op.body, early, Around(whole, state, beside), sums)
    if writer is None:
        return [let]
    in_front = Writer({})
    behind: list[anf.Let] = []
    params: list[anf.Var] = []
    init: list[anf.Atom] = []
    vars: list[anf.Var] = []
    unchanged: dict[anf.Var, anf.Atom] = {}
    after = [writer.atom(r) for r in op.body.results[: op.early]]
    for var, param, first, result in zip(let.vars, op.params, op.init, results, strict=True):
        if param not in writer.apart:
            params.append(param)
            init.append(first)
            vars.append(var)
            after.append(writer.atom(result))
            continue
        begun, next = in_front.elements(first), writer.elements(result)
        last: dict[Place, anf.Atom] = {}
        for place, number in writer.apart[param][1].items():
            assert isinstance(number, anf.Var)
            if next[place] is number:
                unchanged[number] = last[place] = begun[place]
                continue
            params.append(number)
            init.append(begun[place])
            after.append(next[place])
            vars.append(anf.fresh(var.name, number.type))
            last[place] = vars[-1]
        behind += _together(var, last)
    body = substitute(anf.Block(_without_unread_views(writer.lets, after), tuple(after)), unchanged)
    new = replace(op, params=tuple(params), init=tuple(init), body=body)
    if isinstance(new, anf.While):
        new = replace(new, condition=substitute(writer.block(new.condition), unchanged))
    return [*in_front.lets, anf.Let(tuple(vars), new, let.span), *behind]


def _without_unread_views(lets: Sequence[anf.Let], results: Sequence[anf.Atom]) -> tuple[anf.Let, ...]:
    """The lets without views of which all elements that are needed have been read elsewhere."""
    used = {*results, *[v for let in lets for v in mentioned(let.op)]}
    return tuple([let for let in lets if not isinstance(let.op, anf.View) or let.vars[0] in used])


def _comprehension(let: anf.Let, op: anf.Comp, writer: Writer) -> list[anf.Let]:
    """A comprehension with the small ones inside of it written out, and what puts its results together.

    A small array that is reduced as a whole is reduced element by element, and so never made at a point.
    """
    vars: list[anf.Var] = []
    results: list[anf.Atom] = []
    destinations: list[anf.Destination] = []
    after: list[anf.Let] = []
    for var, value, d in zip(let.vars, op.body.results, op.destinations, strict=True):
        elements = writer.elements(value) if isinstance(value, anf.Var) and value in writer.apart else None
        if elements is None or not (
            isinstance(d, anf.Reduce) and not d.index and d.into is None and d.monoid in COMBINE
        ):
            if elements is not None:
                value = anf.fresh(name_of(value), value.type)
                writer.lets += _together(value, elements)
            vars.append(var)
            results.append(writer.atom(value))
            destinations.append(replace(d, index=tuple(map(writer.size, d.index))))
            continue
        parts = {place: anf.fresh(var.name, anf.Scalar(dtype_of(var))) for place in elements}
        vars += parts.values()
        results += elements.values()
        destinations += [replace(d, shape=()) for _ in parts]
        after += _together(var, parts)
    new = anf.Comp(op.axes, anf.Block(tuple(writer.lets), tuple(results)), tuple(destinations))
    return [anf.Let(tuple(vars), new, let.span), *after]


def _together(array: anf.Var, elements: Mapping[Place, anf.Atom]) -> Iterator[anf.Let]:
    """The lets that make an array of its elements."""
    whole = anf.fresh(array.name, array.type)
    yield anf.Let((whole,), anf.Empty(dtype_of(array), array_type(array).shape))
    for k, (place, value) in enumerate(elements.items()):
        new = array if k == len(elements) - 1 else anf.fresh(array.name, array.type)
        yield anf.Let((new,), anf.Update(whole, tuple(map(anf.poly, place)), value))
        whole = new


def _written(
    body: anf.Block, early: bool, around: Around, sums: Set[anf.Var] = frozenset(), longer: bool = False
) -> Writer | None:
    """A body with its small comprehensions written out, but for those of arrays that are used whole; None without.

    sums: arrays that are only added to, in memory. longer: the body is that of a comprehension with a longer axis, of
    which several points are done at once if what is left is scalar code, with branches or without.
    """
    lets = [let for block in (body, *around.beside) for let in with_arms(block)]
    small = {
        let.vars: short
        for let in lets
        if isinstance(let.op, anf.Comp) and (let.op.axes or not any(d.into in sums for d in let.op.destinations))
        if (short := _short(let.vars, let.op, early, longer))
    }
    return written(body, small, around)


def _short(vars: Sequence[anf.Var], op: anf.Comp, early: bool, branches: bool) -> Short | None:
    """How a comprehension can be written out; None if it can't. branches: whether one with branches may be."""
    if not op.axes:
        return _one_point(vars, op)
    scalar = all(is_scalar_code(let.op) if branches else let.op.IS.point for let in op.body.lets)
    if not scalar or not are_few(op.axes, len([*walk(op.body)])):
        return None
    if _changes_elements(op):
        return Short(op.axes, ((),) * len(op.destinations))
    return (
        Short(op.axes, tuple([tuple(range(len(d.shape))) for d in op.destinations])) if _is_small(op, early) else None
    )


def _one_point(vars: Sequence[anf.Var], op: anf.Comp) -> Short | None:
    """How a comprehension of one point is code as any other: its results are numbers, or change elements of arrays."""
    dimensions: list[tuple[int, ...]] = []
    for var, d, value in zip(vars, op.destinations, op.body.results, strict=True):
        if not isinstance(d, anf.Reduce) or d.monoid not in ("set", "sum") or isinstance(value.type, anf.Array):
            return None
        known = places(var.type) and all(e.constant is not None for e in d.index)
        if d.after is not None or (d.into is None and d.shape and not known):
            return None
        dimensions.append(tuple(range(len(d.shape))) if known else ())
    return Short((), tuple(dimensions))


def _changes_elements(op: anf.Comp) -> bool:
    """Tells whether all that a comprehension does is to change elements of large arrays that it does not read."""
    read = mentioned(op.body)
    return bool(op.destinations) and all(
        isinstance(d, anf.Reduce)
        and d.monoid in ("set", "sum")
        and d.after is None
        and d.into is not None
        and d.into not in read
        and not places(d.into.type)
        and determines(op.axes, d.index)
        and isinstance(value.type, anf.Scalar)
        and value.type.dtype not in anf.HALF
        for d, value in zip(op.destinations, op.body.results, strict=True)
    )


def _is_small(op: anf.Comp, early: bool) -> bool:
    """Tells whether a comprehension of few points has result elements at known indices."""
    points = [Renaming(point) for point in Short(op.axes, ()).points()]
    many = len(points) > figures.WRITTEN_OUT_AXIS
    if early and (any(map(is_choice, op.destinations)) or (many and adds_products(op, op.axes))):
        return False
    for value, d in zip(op.body.results, op.destinations, strict=True):
        if not isinstance(d, anf.Reduce) or d.monoid not in (*COMBINE, *STAYS, "set") or dtype_of(value) in anf.HALF:
            return False
        if isinstance(value.type, anf.Array) or (d.monoid in STAYS and d.into is not None):
            return False
        shape = [s.constant for s in d.shape]
        reached = {tuple([point.size(entry).constant for entry in d.index]) for point in points}
        if None in shape or any(None in place for place in reached):
            return False
        count = prod([int(s or 0) for s in shape])
        if count > figures.WRITTEN_OUT_POINTS or (d.into is None and len(reached) != count):
            return False
    return True
