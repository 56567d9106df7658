"""Writes saved values into the memory that their tape has in the loop around, where they are computed.

The tape of a loop in a loop is an array that the inner loop writes iteration by iteration. Instead of copying it into
the tape of the outer loop afterwards, the inner loop is given the outer tape and writes each iteration's part there.
What an arm of a branch saves is written in the arm; the other arm, which has nothing to save, hands the tape on as it
is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dlang.ir.anf import Array, Atom, Block, Comp, Empty, For, If, Let, Read, Reduce, Size, Update, Var, fresh, poly
from dlang.ir.builder import Builder, axis
from dlang.ir.traverse import free_vars, used_by
from dlang.ir.types import array_type

# The index in a tape of an element, given the shape of the value and its index there.
Where = Callable[[Sequence[Size], Sequence[Size]], tuple[Size, ...]]
Place = tuple[Var, Where]  # a tape, and where in it a value is written


def stored(
    lets: Sequence[Let], values: Sequence[tuple[Var, Var, Where]], used: Sequence[Atom] = ()
) -> tuple[list[Let], list[Var]]:
    """A block's lets that also write values of theirs into tapes, and the tapes then.

    values: each with its tape and where it is there. used: what else needs the values of the block. All values that one
    operation makes are followed into it at once, so the nest inside is gone through once.
    """
    lets = list(lets)
    uses, makers = _uses(Block(tuple(lets), (*used, *(v for v, *_ in values)))), _made(lets)
    groups: dict[int, dict[int, Place]] = {}
    for var, tape, where in values:
        at = makers.get(var)
        if at is not None and uses[var] == 1:  # this one
            groups.setdefault(at, {})[lets[at].vars.index(var)] = (tape, where)
    ends: dict[Var, Var] = {}
    for at, places in groups.items():
        lets[at], tapes_after = _where_made(lets, makers, lets[at], places, uses)
        ends |= tapes_after
    b = Builder({}, lets[-1].span if lets else None)
    with b.scope() as more:
        tapes = [ends[var] if var in ends else written(b, var, tape, where) for var, tape, where in values]
    return [*lets, *more], tapes


def written(b: Builder, var: Atom, tape: Var, where: Where) -> Var:
    """tape[…] = var."""
    if not isinstance(var, Var) or not isinstance(var.type, Array):
        return b.update(tape, where((), ()), var)
    axes = [axis(size) for size in var.type.shape]
    index = tuple(poly(a.var) for a in axes)
    into = Reduce(array_type(tape).shape, where(var.type.shape, index), "set", tape)
    (out,) = b.comp(axes, lambda *_: b.one(Read(var, index)), [into], (tape.name,))
    return out


def _uses(block: Block) -> dict[Var, int]:
    """How often a block uses variables: as results, and how many of its lets mention them."""
    counts: dict[Var, int] = {}
    for v in (v for let in block.lets for v in used_by(let)):
        counts[v] = counts.get(v, 0) + 1
    for r in block.results:
        if isinstance(r, Var):
            counts[r] = counts.get(r, 0) + 1
    return counts


def _made(lets: Sequence[Let]) -> dict[Var, int]:
    """Returns the positions of the lets that make arrays which may be written into a tape as they are."""
    positions: dict[Var, int] = {}
    for at, let in enumerate(lets):
        if isinstance(let.op, Empty | For | If):
            positions.update((v, at) for v in let.vars if isinstance(v.type, Array))
    return positions


def _where_made(
    lets: Sequence[Let], makers: Mapping[Var, int], let: Let, places: dict[int, Place], uses: Mapping[Var, int]
) -> tuple[Let, dict[Var, Var]]:
    """A let that writes some of the arrays that it makes into tapes, and the tapes afterwards of those that it can.

    places: of the positions of these arrays among what the let binds.
    """
    match let.op:
        case Empty():
            return let, {let.vars[k]: tape for k, (tape, _) in places.items()}
        case For():
            init = let.op.init
            starts = {k: a for k, a in enumerate(init) if k in places and isinstance(a, Var) and uses[a] == 1}
            left = {k: places[k] for k, a in starts.items() if a in makers and isinstance(lets[makers[a]].op, Empty)}
            while left:
                loop, done = _loop(let.op, left)
                if done == left.keys():
                    return _bound(let, loop, left)
                left = {k: left[k] for k in done}
            return let, {}
        case If():
            left = {k: p for k, p in places.items() if all(isinstance(a.results[k], Var) for a in _arms(let.op))}
            arms = []
            for arm in _arms(let.op):
                values = [(r, *place) for k, place in left.items() if isinstance(r := arm.results[k], Var)]
                others = [r for k, r in enumerate(arm.results) if k not in left]
                inside, tapes = stored(arm.lets, values, others)
                ends = dict(zip(left, tapes, strict=True))
                arms.append(Block(tuple(inside), tuple([ends.get(k, r) for k, r in enumerate(arm.results)])))
            return _bound(let, If(let.op.condition, *arms), left)
        case _:
            return let, {}


def _arms(op: If) -> tuple[Block, Block]:
    return op.then, op.otherwise


def _bound(let: Let, op: For | If, places: Mapping[int, Place]) -> tuple[Let, dict[Var, Var]]:
    """A let with tapes in the place of arrays that it binds, and the tape for each of these."""
    after = {let.vars[k]: fresh(tape.name, tape.type) for k, (tape, _) in places.items()}
    return Let(tuple([after.get(v, v) for v in let.vars]), op, let.span), after


def _loop(op: For, places: Mapping[int, Place]) -> tuple[For, set[int]]:
    """A loop with tapes in the place of arrays of its state that start empty, and for which of them that is right.

    It is if the loop does no more than write them; the loop is of use only if all are right.
    """
    mine = {k: fresh(tape.name, tape.type) for k, (tape, _) in places.items()}
    starts = {op.params[k]: (mine[k], where) for k, (_, where) in places.items()}
    body, reached = _through(op.body, starts)
    done = {k for k in places if op.params[k] in reached and reached[op.params[k]] == k + op.early}
    return replace(
        op,
        params=tuple([mine.get(k, p) for k, p in enumerate(op.params)]),
        init=tuple([places[k][0] if k in places else a for k, a in enumerate(op.init)]),
        body=body,
    ), done


def _through(block: Block, starts: Mapping[Var, Place]) -> tuple[Block, dict[Var, int]]:
    """A block that writes into tapes what it wrote into arrays, and where among the results each of the arrays ends.

    An array is not among these if something else is done with it; the block is of use only if all are.
    """
    uses = _uses(block)
    now = {v: (v, place) for v, place in starts.items() if uses.get(v) == 1}
    lets = []
    for let in block.lets:
        places = {v: now[v][1] for v in used_by(let) if v in now}
        if places:
            let, moved = _step(let, places)
            for v, (was, then) in moved.items():
                start, (_, where) = now[v]
                if uses.get(was) == 1:
                    now[was] = start, (then, where)
            for v in places:
                del now[v]
        lets.append(let)
    positions: dict[Var, int] = {}
    results = list(block.results)
    for k, r in enumerate(block.results):
        if isinstance(r, Var) and r in now:
            start, (results[k], _) = now[r]
            positions[start] = k
    return Block(tuple(lets), tuple(results)), positions


def _step(let: Let, places: Mapping[Var, Place]) -> tuple[Let, dict[Var, tuple[Var, Var]]]:
    """A let that changes arrays, with tapes in their place; of each, what was bound to it and the tape afterwards.

    An array is not among these if something else is done with it.
    """
    op = let.op
    new: Update | Comp | For | If | None = None
    bound: dict[Var, int] = {}  # the array to its position among what the let binds
    match op:
        case Update() if op.array in places and op.value is not op.array:
            then, where = places[op.array]
            new, bound = Update(then, where(array_type(op.array).shape, op.index), op.value), {op.array: 0}
        case Comp():
            read, destinations = {*free_vars(op.body)}, list(op.destinations)
            for k, d in enumerate(op.destinations):
                array = d.into
                if (
                    array is None
                    or array in read
                    or array not in places
                    or not isinstance(d, Reduce)
                    or d.monoid != "set"
                ):
                    continue
                then, where = places[array]
                index = where(array_type(array).shape, d.index)
                destinations[k], bound[array] = Reduce(array_type(then).shape, index, "set", then), k
            new = Comp(op.axes, op.body, tuple(destinations))
        case For():
            read = {*free_vars(op.body)}
            ks = {k: v for k, v in enumerate(op.init) if isinstance(v, Var) and v in places and v not in read}
            new, done = _loop(op, {k: places[v] for k, v in ks.items()})
            bound = {ks[k]: k for k in done}
        case If() if op.condition not in places:
            (then_arm, first), (other_arm, second) = [_through(arm, places) for arm in _arms(op)]
            new = If(op.condition, then_arm, other_arm)
            bound = {v: k for v, k in first.items() if second.get(v) == k}
        case _:
            pass
    if new is None:
        return let, {}
    moved = {v: (let.vars[k], fresh(places[v][0].name, places[v][0].type)) for v, k in bound.items()}
    after = dict(moved.values())
    return Let(tuple([after.get(v, v) for v in let.vars]), new, let.span), moved
