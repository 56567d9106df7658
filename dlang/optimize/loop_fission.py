"""Loop fission: the arrays of a loop's state that need nothing of the rest of it get a loop of their own.

    for j (a = z, top = first) {             for j (a = z) { a' = update a[j] = f(j); yield a' }
      a' = update a[j] = f(j)            →   for j (top = first) {
      t = read a'[j]                           t = read a[j]
      yield a', max(top, t)                    yield max(top, t)
    }                                        }

An iteration sets, and reads, only the part of such an array that its number determines. So what the rest of the
iteration reads is there when all iterations have set theirs, or before any has, and each of both loops may be done for
all iterations at once, where the loop as it was may not.

What needs nothing of the state at all is a comprehension, if it comes to numbers:

    for p (sums = zeros) {                               c = [nearest(p, centres) for p]
      c = nearest(p, centres)                        →   for p (sums = zeros) { sums[c[p]] += x[p] }
      sums[c] += x[p]
    }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.comprehension_queries import with_state
from dlang.ir.sharing import additions
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import (
    map_blocks,
    mentioned,
    needed,
    op_blocks,
    outer_mentions,
    own_consumed,
    pruned,
    split_by_need,
    walk,
    with_lets,
    with_op,
)
from dlang.ir.types import dtype_of
from dlang.ops import figures
from dlang.optimize.accumulation import may_be_a_point
from dlang.optimize.iterations import Iteration


@dataclass(frozen=True, slots=True)
class _Part:
    """An array of the state, in the loop: what it is before and behind it, and the index entries of an iteration."""

    first: anf.Var
    last: anf.Var
    own: frozenset[tuple[int, anf.Size]]


def split_by_state(let: anf.Let, loop: anf.For, cheaply: bool) -> list[anf.Let]:
    """The loop that sets arrays, and that of the rest of the state, in order; none if the loop is not of that kind.

    cheaply: both may do nothing that costs more than an addition. It would be done twice, unless both are done at once
    and so together.
    """
    if loop.early or len(loop.params) < 2 or any(isinstance(p.type, anf.Token) for p in loop.params):
        return []
    lets = loop.body.lets
    apart = _closed(loop)
    if not 0 < len(apart) < len(loop.params):
        return []
    rest = [k for k in range(len(loop.params)) if k not in apart]
    one = Iteration.of(loop)
    by = {v: inner.op for inner in lets for v in inner.vars}
    parts = {k: part for k in apart if (part := _part(let, loop, k, by, one)) is not None}
    if len(parts) < len(apart):
        return []
    fails = {n for n, inner in enumerate(lets) if any(part.op.IS.fails for part in walk(anf.Block((inner,), ())))}
    of_rest = {loop.params[k] for k in rest}
    early = {n for n in fails if of_rest.isdisjoint(_free(lets, n))}
    code = [lets[n] for n in needed(lets, [loop.body.results[k] for k in apart], stay=early)]
    first = with_state(anf.Let(let.vars, replace(loop, body=replace(loop.body, lets=tuple(code))), let.span), apart)
    updates = [inner.op for inner in code if isinstance(inner.op, anf.Update) and inner.op.array in loop.params]
    stored = {update.value: update for update in updates if isinstance(update.value, anf.Var)}
    before: dict[anf.Atom, _Part] = {loop.params[k]: part for k, part in parts.items()}
    behind: dict[anf.Atom, _Part] = {loop.body.results[k]: part for k, part in parts.items()}
    block = _Moved(before, behind, loop, one).rest(rest, stored, fails - early)
    if block is None:
        return []
    both = {v for inner in code for v in inner.vars} & {v for inner in block.lets for v in inner.vars} - set(stored)
    twice = [inner for inner in code if not both.isdisjoint(inner.vars) and not isinstance(inner.op, anf.Update)]
    if any(inner.op.IS.long or (cheaply and additions(inner.op) > figures.ADDITION) for inner in twice):
        return []
    params, init = tuple([loop.params[k] for k in rest]), tuple([loop.init[k] for k in rest])
    second = Renaming({}, renew=True).op(replace(loop, params=params, init=init, body=block))
    others = anf.Let(tuple([let.vars[k] for k in rest]), second, let.span)
    read = {inner.op.array for inner in walk(block) if isinstance(inner.op, anf.Read)}
    if read.isdisjoint(part.first for part in parts.values()):
        return [first, others]
    # what reads an array as it was goes first: it would be copied
    return [others, first] if read.isdisjoint(part.last for part in parts.values()) else []


def branches_apart(loop: anf.For) -> anf.For:
    """The loop in which a branch that gives several results, which share no more than additions, is one for each.

    x', n' = if c { yield f(x), n + 1 } else { yield x, n }  →  x' = if c { yield f(x) } else { yield x }; n' = if c { …
    """
    lets = [part for let in loop.body.lets for part in _branches_apart(let)]
    return loop if len(lets) == len(loop.body.lets) else replace(loop, body=replace(loop.body, lets=tuple(lets)))


def _branches_apart(let: anf.Let) -> list[anf.Let]:
    op = let.op
    if not isinstance(op, anf.If) or len(let.vars) < 2 or any(part.op.IS.fails for part in walk(anf.Block((let,), ()))):
        return [let]
    groups: list[tuple[list[int], set[anf.Var]]] = []  # results, and what costs more than an addition that they need
    for k in range(len(let.vars)):
        code = [part for arm in op_blocks(op) for part in pruned(arm.lets, (arm.results[k],))]
        costly = {v for part in code if not _costs_little(part) for v in part.vars}
        shared = [group for group in groups if not costly.isdisjoint(group[1])]
        groups = [group for group in groups if group not in shared]
        positions = sorted([k, *[j for group in shared for j in group[0]]])
        groups.append((positions, costly.union(*[group[1] for group in shared])))
    if len(groups) < 2:
        return [let]
    out = []
    for positions, _ in groups:
        results = [tuple([arm.results[k] for k in positions]) for arm in op_blocks(op)]
        arms = [anf.Block(tuple(pruned(a.lets, r)), r) for a, r in zip(op_blocks(op), results, strict=True)]
        branch = Renaming({}, renew=True).op(replace(op, then=arms[0], otherwise=arms[1]))
        out.append(anf.Let(tuple([let.vars[k] for k in positions]), branch, let.span))
    return out


def _costs_little(let: anf.Let) -> bool:
    """Tells whether a let may be done twice."""
    return let.op.IS.point and additions(let.op) <= figures.ADDITION


def numbers_first(let: anf.Let, loop: anf.For, known: Knowledge) -> list[anf.Let]:
    """A comprehension of the numbers that iterations find by comprehensions of their own, without the state, and the
    loop that reads them; none if there are no such numbers, or if none of them says where an array is changed.

    Terms of sums are left to `loop_points.py`, which keeps no number of all iterations. A check may be in one of both
    alone, so that the one that fails first is the same. An iteration gives the other loop no array, and what costs
    nothing is computed again there.
    """
    count = loop.high - loop.low
    if loop.early or not loop.params or not known.at_least_zero(count):
        return []
    before, rest = split_by_need(loop.body.lets, loop.params)
    before, arrays_of = _without_arrays(before, rest)
    rest = [*arrays_of, *rest]
    if not any(isinstance(inner.op, anf.Comp) for inner in before) or not all(map(_is_pointwise, before)):
        return []
    if all(any(part.op.IS.fails for part in walk(anf.Block(tuple(lets), ()))) for lets in (before, rest)):
        return []
    found: dict[anf.Var, None] = {}
    again: list[anf.Let] = []
    for inner in before:
        if inner.op.IS.point and not inner.op.IS.fails and found.keys().isdisjoint(mentioned(inner.op)):
            again.append(inner)
        else:
            found.update(dict.fromkeys(inner.vars))
    body = anf.Block(tuple(rest), loop.body.results)
    numbers = [v for v in outer_mentions(body) if v in found]
    if not numbers or not all(isinstance(v.type, anf.Scalar) and v.type.dtype in anf.DTYPES for v in numbers):
        return []
    places = {v for inner in rest for e in _changed_at(inner.op) for v in e.atoms()}
    if places.isdisjoint(numbers):
        return []
    if not {v for let in arrays_of for v in let.vars}.isdisjoint(v for let in before for v in mentioned(let.op)):
        return []  # it would be computed twice
    keep = anf.Reduce((count,), (anf.poly(loop.index) - loop.low,), "set")
    axis = anf.Axis(loop.index, (loop.low,), (loop.high,))
    comp = anf.Comp((axis,), anf.Block(tuple(before), tuple(numbers)), tuple([keep] * len(numbers)))
    arrays = tuple([anf.fresh(v.name, anf.Array(dtype_of(v), keep.shape)) for v in numbers])
    reads = [anf.Let((v,), anf.Read(a, keep.index), let.span) for v, a in zip(numbers, arrays, strict=True)]
    body = anf.Block((*pruned(again, outer_mentions(body)), *reads, *rest), loop.body.results)
    return [
        anf.Let(arrays, Renaming({}, renew=True).op(comp), let.span),
        anf.Let(let.vars, replace(loop, body=body), let.span),
    ]


def _changed_at(op: anf.Op) -> list[anf.Size]:
    """The entries of the indices at which an operation changes arrays that are there before."""
    match op:
        case anf.Update(_, index, _):
            return [*index]
        case anf.Comp(destinations=destinations):
            return [e for d in destinations if d.into is not None for e in d.index]
        case _:
            return []


def _without_arrays(lets: Sequence[anf.Let], rest: Sequence[anf.Let]) -> tuple[list[anf.Let], list[anf.Let]]:
    """The lets without those that compute arrays for the rest of an iteration, and these."""
    wanted = {v for let in rest for v in mentioned(let.op)}
    without: list[anf.Let] = []
    arrays: list[anf.Let] = []
    for let in reversed(lets):
        if any(v in wanted and isinstance(v.type, anf.Array) for v in let.vars):
            arrays.append(let)
            wanted.update(mentioned(let.op))
        else:
            without.append(let)
    return without[::-1], arrays[::-1]


def _is_pointwise(let: anf.Let) -> bool:
    """Tells whether a let may be done at each point of a comprehension, and nothing long in it only at some points."""
    inner = walk(anf.Block((let,), ()))
    in_part = isinstance(let.op, anf.If | anf.For) and any(isinstance(part.op, anf.Comp) for part in inner)
    return may_be_a_point(let) and not in_part and not own_consumed(let.op)


def _free(lets: Sequence[anf.Let], position: int) -> set[anf.Var]:
    """The variables that a let of a body is computed from."""
    return {v for n in needed(lets, lets[position].vars, stay={position}) for v in mentioned(lets[n].op)}


def _closed(loop: anf.For) -> list[int]:
    """The arrays of the state that are computed from no other state than such arrays."""
    of: dict[anf.Atom, int] = {p: 1 << k for k, p in enumerate(loop.params)}  # the state behind a value, a bit each
    for let in loop.body.lets:
        behind = 0
        for v in mentioned(let.op):
            behind |= of.get(v, 0)
        if behind:
            of.update(dict.fromkeys(let.vars, behind))
    apart = sum(1 << k for k, p in enumerate(loop.params) if isinstance(p.type, anf.Array))
    uses = [of.get(result, 0) for result in loop.body.results]
    while wrong := sum(1 << k for k, used in enumerate(uses) if apart >> k & 1 and used & ~apart):
        apart &= ~wrong
    return [k for k in range(len(loop.params)) if apart >> k & 1]


def _part(let: anf.Let, loop: anf.For, k: int, by: Mapping[anf.Var, anf.Op], one: Iteration) -> _Part | None:
    """An array of the state, of which each iteration sets in one place what its number determines; None if not.

    by: what binds each variable of the body.
    """
    first, result = loop.init[k], loop.body.results[k]
    if not isinstance(first, anf.Var) or not isinstance(result, anf.Var) or result not in by:
        return None
    match by[result]:
        case anf.Update(array, index, _) if array is loop.params[k]:
            own = one.apart(index)
        case anf.Comp(axes, _, destinations):
            mine = [d for d in destinations if d.into is loop.params[k]]
            own = one.apart(mine[0].index, {a.var for a in axes}) if len(mine) == 1 else frozenset()
        case _:
            return None
    return _Part(first, let.vars[k], own) if own else None


@dataclass(frozen=True, slots=True)
class _Moved:
    """The body of a loop, for the state that has to wait for some arrays, which it knows before and after a change."""

    before: Mapping[anf.Atom, _Part]
    after: Mapping[anf.Atom, _Part]
    loop: anf.For
    one: Iteration

    def rest(
        self,
        state: Sequence[int],
        stored: Mapping[anf.Var, anf.Update],
        fails: Set[int],
    ) -> anf.Block | None:
        """The body that computes the rest of the state; None if it needs more of the arrays than an iteration's part.

        stored: what is stored in the arrays, which is read there instead of being computed once more.
        """
        results = tuple([self.loop.body.results[k] for k in state])
        lets: list[anf.Let] = []
        for inner in self.loop.body.lets:
            update = stored.get(inner.vars[0]) if len(inner.vars) == 1 else None
            if update is None or set(inner.vars) & {v for e in update.index for v in e.atoms()}:
                lets.append(inner)
            else:
                lets.append(anf.Let(inner.vars, anf.Read(self.before[update.array].last, update.index), inner.span))
        moved = self.block(anf.Block(tuple(lets), results)).lets
        block = anf.Block(tuple([moved[n] for n in needed(moved, results, stay=fails)]), results)
        wrong = {*self.before, *self.after}
        if not wrong.isdisjoint(results) or any(not wrong.isdisjoint(mentioned(inner.op)) for inner in walk(block)):
            return None
        return block

    def block(self, block: anf.Block) -> anf.Block:
        """The block, which reads parts of the arrays as they are when the loop has ended, or before it."""
        lets = []
        for let in block.lets:
            op = map_blocks(let.op, self.block)
            if isinstance(op, anf.Read) and (op.array in self.before or op.array in self.after):
                part = self.before.get(op.array) or self.after[op.array]
                entries = list(enumerate(map(self.one.opened, op.index)))
                if not part.own.isdisjoint(entries):
                    op = anf.Read(part.first if op.array in self.before else part.last, op.index)
            lets.append(with_op(let, let.vars, op))
        return with_lets(block, lets, block.results)
