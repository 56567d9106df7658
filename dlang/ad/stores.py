"""Where a saved value is written: into the memory that its tape has in the loop around, and where it is made.

The tape of a loop in a loop is an array that the inner loop writes trip by trip. Instead of copying it into the tape of
the outer loop afterwards, the inner loop is given the outer tape and writes each trip's part there. What an arm of a
branch saves is written in the arm; the other arm, which has nothing to save, hands the tape on as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dlang.ir.anf import Array, Atom, Block, Comp, Empty, For, If, Keep, Let, Read, Size, Update, Var, fresh, poly
from dlang.ir.builder import Builder, axis
from dlang.ir.traverse import free_vars
from dlang.ir.types import array_type

# The index in a tape of an element, given the shape of the value and its index there.
Where = Callable[[Sequence[Size], Sequence[Size]], tuple[Size, ...]]


def stored(lets: Sequence[Let], var: Var, tape: Var, where: Where, used: Sequence[Atom] = ()) -> tuple[list[Let], Var]:
    """A block's lets that also write a value of theirs into a tape, and the tape then.

    used: what else needs the values of the block.
    """
    if isinstance(var.type, Array):
        made = next((k for k, let in enumerate(lets) if var in let.vars), None)
        if made is not None and isinstance(lets[made].op, Empty | For | If):
            uses = _uses(Block(tuple(lets), tuple(used)))
            if uses.get(var, 0) == 0 and (found := _where_made(lets, made, var, tape, where, uses)) is not None:
                return found
    b = Builder({}, lets[-1].span if lets else None)
    with b.scope() as more:
        after = written(b, var, tape, where)
    return [*lets, *more], after


def written(b: Builder, var: Atom, tape: Var, where: Where) -> Var:
    """tape[…] = var."""
    if not isinstance(var, Var) or not isinstance(var.type, Array):
        return b.update(tape, where((), ()), var)
    axes = [axis(size) for size in var.type.shape]
    index = tuple(poly(a.var) for a in axes)
    into = Keep(array_type(tape).shape, where(var.type.shape, index), "set", tape)
    (out,) = b.comp(axes, lambda *_: b.one(Read(var, index)), [into], (tape.name,))
    return out


def _uses(block: Block) -> dict[Var, int]:
    """How often a block uses variables: as results, and how many of its lets mention them."""
    found: dict[Var, int] = {}
    for v in (v for let in block.lets for v in free_vars(let.op)):
        found[v] = found.get(v, 0) + 1
    for r in block.results:
        if isinstance(r, Var):
            found[r] = found.get(r, 0) + 1
    return found


def _where_made(
    lets: Sequence[Let], made: int, var: Var, tape: Var, where: Where, uses: dict[Var, int]
) -> tuple[list[Let], Var] | None:
    """The lets in which the operation that makes a value writes it into a tape; None if it cannot."""
    let = lets[made]
    k = let.vars.index(var)
    after = fresh(tape.name, tape.type)
    new: For | If | None = None
    match let.op:
        case Empty():
            return list(lets), tape
        case For():
            start = let.op.init[k]
            if isinstance(start, Var) and uses[start] == 1 and _is_empty(lets, start):
                new = _loop(let.op, k, tape, where)
        case If():
            arms = []
            for arm in (let.op.then, let.op.otherwise):
                result = arm.results[k]
                if not isinstance(result, Var):
                    return None
                others = (*arm.results[:k], *arm.results[k + 1 :])
                arm_lets, end = stored(arm.lets, result, tape, where, others)
                arms.append(Block(tuple(arm_lets), (*arm.results[:k], end, *arm.results[k + 1 :])))
            new = If(let.op.condition, *arms)
        case _:
            pass
    if new is None:
        return None
    vars = tuple([after if v is var else v for v in let.vars])
    return [*lets[:made], Let(vars, new, let.span), *lets[made + 1 :]], after


def _is_empty(lets: Sequence[Let], var: Var) -> bool:
    return any(var in let.vars and isinstance(let.op, Empty) for let in lets)


def _loop(op: For, k: int, tape: Var, where: Where) -> For | None:
    """The loop with a tape in place of an array of its state that starts empty; None if it does more than write it."""
    param, end = op.params[k], op.body.results[k + op.early]
    mine = fresh(tape.name, tape.type)
    found = _chain(op.body, param, end, mine, array_type(param).shape, where)
    if found is None:
        return None
    lets, last = found
    results = tuple([last if j == k + op.early else r for j, r in enumerate(op.body.results)])
    return replace(
        op,
        params=tuple([mine if p is param else p for p in op.params]),
        init=tuple([tape if j == k else a for j, a in enumerate(op.init)]),
        body=Block(tuple(lets), results),
    )


def _chain(
    block: Block, start: Var, end: Atom, tape: Var, shape: Sequence[Size], where: Where
) -> tuple[list[Let], Var] | None:
    """The lets of a block that write into a tape what they wrote into an array, from `start` to `end`."""
    uses = _uses(block)
    lets = list(block.lets)
    now, then = start, tape
    while now is not end:
        if uses.get(now) != 1:
            return None
        at = next((j for j, let in enumerate(lets) if now in free_vars(let.op)), None)
        if at is None:
            return None
        step = _step(lets[at], now, then, shape, where)
        if step is None:
            return None
        lets[at], now, then = step
    return (lets, then) if uses.get(now) == 1 else None


def _step(let: Let, now: Var, then: Var, shape: Sequence[Size], where: Where) -> tuple[Let, Var, Var] | None:
    """A let that changes an array, with a tape in its place; the array and the tape afterwards."""
    op = let.op
    new: Update | Comp | For | If | None = None
    k = 0
    match op:
        case Update(array=array) if array is now and op.value is not now:
            new = Update(then, where(shape, op.index), op.value)
        case Comp() if now in (into := [d.into for d in op.destinations]):
            k = into.index(now)
            d = op.destinations[k]
            if isinstance(d, Keep) and d.monoid == "set" and now not in free_vars(op.body):
                moved = Keep(array_type(then).shape, where(shape, d.index), "set", then)
                destinations = tuple([moved if j == k else other for j, other in enumerate(op.destinations)])
                new = Comp(op.axes, op.body, destinations)
        case For() if now in op.init and now not in free_vars(op.body):
            k = op.init.index(now)
            new = _loop(op, k, then, where)
        case If() if op.condition is not now:
            ends = [j for j, v in enumerate(let.vars) if v.type == now.type]
            for k in ends:
                found = [_chain(arm, now, arm.results[k], then, shape, where) for arm in (op.then, op.otherwise)]
                arms = [
                    Block(tuple(f[0]), (*arm.results[:k], f[1], *arm.results[k + 1 :]))
                    for arm, f in zip((op.then, op.otherwise), found, strict=True)
                    if f is not None
                ]
                if len(arms) == 2:
                    new = If(op.condition, *arms)
                    break
        case _:
            pass
    if new is None:
        return None
    after = fresh(then.name, then.type)
    was = let.vars[k]
    return Let(tuple([after if v is was else v for v in let.vars]), new, let.span), was, after
