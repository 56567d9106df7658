"""A loop adds up in a number what its iterations add to one element, which gets the total behind the loop.

    for t (s = z) { …; s[k] += v }        becomes        for t (r = 0.0) { …; r += v };  if 0 <= k < n { z[k] += r }

The cotangent of an element that each iteration reads is added up in this way, where the element could not be read in
front of the loop: in an arm, or behind a check. A number stays in a register, and the points of a comprehension around
the loop need no array of their own for it.

A place is steady if it depends on nothing that the loop binds. The loop may do no more with the array than add to its
elements, here and in its branches; what it adds at other places, it adds to the array as before. Where no iteration
adds to a place it may be out of range, so that is asked behind the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from dlang.ir import anf
from dlang.ir.builder import Builder
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_blocks, map_bodies, outer_mentions, used_by, with_lets, with_op
from dlang.ir.types import I64, array_type, dtype_of
from dlang.ops.dtypes import SCATTERED, WHOLE
from dlang.ops.monoids import identity

Place = tuple[int, tuple[anf.Size, ...]]
"""A place in an array: which part of the state of the loop that is, and the index."""


def steady_sums(program: anf.Program) -> anf.Program:
    """The program with numbers for what loops add to one element."""
    return map_bodies(program, _block)


def _block(block: anf.Block) -> anf.Block:
    lets: list[anf.Let] = []
    for let in block.lets:
        op = map_blocks(let.op, _block)
        let = with_op(let, let.vars, op)
        lets += _loop(let, op) if isinstance(op, anf.For) and not op.early else [let]
    return with_lets(block, lets, block.results)


def _loop(let: anf.Let, op: anf.For) -> Sequence[anf.Let]:
    """The lets in the place of a loop."""
    summed = {p: k for k, p in enumerate(op.params) if isinstance(p.type, anf.Array) and p.type.dtype in _SUMMED}
    found = _Sums(op)
    found.iteration(summed)
    places = [place for place in found.totals if place[0] not in found.refused]
    if not places:
        return [let]
    zeros = {place: _zero(op.params[place[0]]) for place in places}
    params = {place: anf.fresh("total", zero.type) for place, zero in zeros.items()}
    changed = {k for k, _ in places}
    sums = _Sums(op, dict(params))
    body = sums.iteration({p: k for p, k in summed.items() if k in changed})
    stay = [k for k, p in enumerate(op.params) if not (k in changed and body.results[k] is p)]
    ends = [anf.fresh(v.name, v.type) if k in changed else v for k, v in enumerate(let.vars)]
    totals = {place: anf.fresh("total", zero.type) for place, zero in zeros.items()}
    loop = replace(
        op,
        params=(*[op.params[k] for k in stay], *params.values()),
        init=(*[op.init[k] for k in stay], *zeros.values()),
        body=replace(body, results=(*[body.results[k] for k in stay], *[sums.totals[place] for place in places])),
    )
    b = Builder({}, let.span)
    with b.scope() as lets:
        b.emit_as((*[ends[k] for k in stay], *totals.values()), loop)
        for k in sorted(changed):
            array = ends[k] if k in stay else op.init[k]
            assert isinstance(array, anf.Var)
            *first, last = [(index, total) for (at, index), total in totals.items() if at == k]
            for index, total in first:
                array = _added(b, array, index, total, anf.fresh(array.name, array.type))
            _added(b, array, *last, let.vars[k])
    return lets


_SUMMED = tuple([dtype for dtype in WHOLE if dtype in SCATTERED])


def _zero(array: anf.Var) -> anf.Lit:
    dtype = dtype_of(array)
    return anf.Lit(identity("sum", dtype), dtype)


def _added(b: Builder, array: anf.Var, index: tuple[anf.Size, ...], total: anf.Atom, result: anf.Var) -> anf.Var:
    """The array with a number added to an element, if it has that element. result: bound to it."""
    shape = array_type(array).shape
    asked = [
        test
        for entry, size in zip(index, shape, strict=True)
        for test in (b.prim("le", anf.Lit(0, "i64"), b.size(entry)), b.prim("lt", b.size(entry), b.size(size)))
    ]

    def added() -> anf.Var:
        return b.update(array, index, b.add(b.read(array, index), total))

    b.if_(reduce(lambda x, y: b.prim("and", x, y), asked), added, lambda: array, results=(result,))
    return result


@dataclass(slots=True)
class _Sums:
    """The findings of a walk through an iteration.

    totals: of each steady place, what is added to it so far; from the start those that the iteration has parameters
    for, while the others begin at 0. refused: the parts of the state with which the loop does more than that. bound:
    what the iteration has bound so far; named: the numbers among that which are the same in all iterations.
    """

    loop: anf.For
    totals: dict[Place, anf.Atom] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    bound: set[anf.Var] = field(default_factory=set)
    named: dict[anf.Var, anf.Size] = field(default_factory=dict)

    def iteration(self, arrays: Mapping[anf.Var, int]) -> anf.Block:
        """The body of the loop without what it adds to steady places. arrays: of its state, with their positions."""
        body = self.loop.body
        self.bound.update((self.loop.index, *self.loop.params))
        walk = _Walk(self, arrays, body)
        for k, array in walk.last.items():
            if body.results[k] is not array or body.results.count(array) != 1:
                self.refused.add(k)
        return walk.block(body.results)

    def total(self, place: Place) -> anf.Atom:
        return self.totals.get(place, _zero(self.loop.params[place[0]]))

    def steady(self, index: Iterable[anf.Size]) -> tuple[anf.Size, ...] | None:
        """The index in terms of what is there before the loop; None if it depends on anything else."""
        opened = tuple([entry.substitute(self.named.get) for entry in index])
        return None if any(entry.mentions(self.bound) for entry in opened) else opened

    def bind(self, let: anf.Let) -> None:
        """Takes down what a let of the iteration binds, and what of that is the same in each."""
        self.bound.update(let.vars)
        match let.op:
            case anf.IndexExpr(size):
                values = {let.vars[0]: size}
            case anf.Assert(guarded=guarded):
                values = {v: anf.poly(a) for v, a in zip(let.vars, guarded, strict=True) if a.type == I64}
            case _:
                return
        for var, value in values.items():
            if (opened := self.steady((value,))) is not None:
                self.named[var] = opened[0]


@dataclass(frozen=True, slots=True)
class _Addition:
    """An update that adds to an element. old, sum: what it reads of the array, and writes; primitive: add or sub."""

    old: anf.Var
    sum: anf.Var
    primitive: str
    value: anf.Atom


def _additions(block: anf.Block) -> dict[anf.Var, _Addition]:
    """The updates that only add to an element, by what they bind."""
    by: dict[anf.Var, anf.Let] = {}
    uses = Counter([r for r in block.results if isinstance(r, anf.Var)])
    for let in block.lets:
        uses.update(used_by(let))
        by.update(dict.fromkeys(let.vars, let))
    found = {}
    for let in block.lets:
        if not isinstance(let.op, anf.Update) or not isinstance(let.op.value, anf.Var) or let.op.value not in by:
            continue
        read = anf.Read(let.op.array, let.op.index)
        match by[let.op.value].op:
            case anf.Prim("add" | "sub" as primitive, (anf.Var() as a, b)):
                ways = [(a, b), *([(b, a)] if primitive == "add" and isinstance(b, anf.Var) else [])]
            case anf.Prim("add" as primitive, (b, anf.Var() as a)):
                ways = [(a, b)]
            case _:
                continue
        for old, value in ways:
            once = uses[old] == 1 == uses[let.op.value] and old is not value
            if once and old in by and by[old].op == read:
                found[let.vars[0]] = _Addition(old, let.op.value, primitive, value)
    return found


class _Walk:
    """A walk through a block. now: the arrays as they are, each with its part of the state; gone: as they were before.

    lets: what the block becomes; last: the array that each part of the state is behind it.
    """

    def __init__(self, sums: _Sums, arrays: Mapping[anf.Var, int], block: anf.Block) -> None:
        self.sums = sums
        self.now = dict(arrays)
        self.gone: dict[anf.Var, int] = {}
        self.renaming = Renaming({})
        self.lets: list[anf.Let] = []
        self.additions = _additions(block)
        self.olds = {a.old: a.sum for a in self.additions.values()}
        self.taken: set[anf.Var] = set()
        for let in block.lets:
            self.let(let)
            sums.bind(let)
        self.last = {k: v for v, k in self.now.items()}
        sums.refused.update([self.gone[v] for v in block.results if v in self.gone])

    def block(self, results: Sequence[anf.Atom]) -> anf.Block:
        new = anf.Block(tuple(self.lets), tuple(results))
        return self.renaming.block(new) if self.renaming.env else new

    def let(self, let: anf.Let) -> None:
        used = used_by(let)
        self.sums.refused.update([self.gone[v] for v in used if v in self.gone])
        arrays = [v for v in used if v in self.now]
        match let.op:
            case anf.Read(array, index) if array in self.now and let.vars[0] in self.olds:
                if self.sums.steady(index) is not None:
                    self.taken.update((let.vars[0], self.olds[let.vars[0]]))
            case anf.Update(array, index) if array in self.now and let.vars[0] in self.additions:
                addition = self.additions[let.vars[0]]
                steady = self.sums.steady(index)
                if steady is not None:
                    self.add((self.now[array], steady), addition.primitive, addition.value, let)
                    self.taken.add(let.vars[0])
                    self.renaming.env[let.vars[0]] = self.renaming.atom(array)
                self.go_on(array, let.vars[0])
            case anf.Comp() as op if arrays:
                let = self.comprehension(let, op, arrays)
            case anf.If() as op if arrays:
                let = self.branch(let, op, arrays)
            case _:
                self.refuse(arrays)
        if self.taken.isdisjoint(let.vars):
            self.lets.append(let)

    def refuse(self, arrays: Iterable[anf.Var]) -> None:
        for array in arrays:
            self.sums.refused.add(self.now.pop(array))

    def go_on(self, array: anf.Var, new: anf.Var) -> None:
        self.gone[array] = k = self.now.pop(array)
        self.now[new] = k

    def add(self, place: Place, primitive: str, value: anf.Atom, let: anf.Let) -> None:
        """Adds to what was added to a place, or subtracts from it."""
        after = anf.fresh("total", value.type)
        self.lets.append(anf.Let((after,), anf.Prim(primitive, (self.sums.total(place), value)), let.span))
        self.sums.totals[place] = after

    def comprehension(self, let: anf.Let, op: anf.Comp, arrays: Sequence[anf.Var]) -> anf.Let:
        """The let with numbers, which are added to a total behind it, for what points add to one place."""
        read = outer_mentions(op.body)
        self.sums.bound.update([a.var for a in op.axes], *[inner.vars for inner in op.body.lets])
        vars, destinations = list(let.vars), list(op.destinations)
        totals: list[tuple[Place, anf.Var]] = []
        for array in arrays:
            (k, *more) = [k for k, d in enumerate(op.destinations) if d.into is array] or [-1]
            if k < 0 or more or array in read or not _adds(op, k):
                self.refuse([array])
                continue
            index = self.sums.steady(op.destinations[k].index)
            if index is not None and isinstance(op.body.results[k].type, anf.Scalar):
                vars[k] = anf.fresh("t", op.body.results[k].type)
                destinations[k] = anf.Reduce((), ())
                totals.append(((self.now[array], index), vars[k]))
                self.renaming.env[let.vars[k]] = self.renaming.atom(array)
            self.go_on(array, let.vars[k])
        if not totals:
            return let
        self.lets.append(anf.Let(tuple(vars), replace(op, destinations=tuple(destinations)), let.span))
        for place, value in totals:
            self.add(place, "add", value, let)
        self.taken.update(let.vars)
        return let

    def branch(self, let: anf.Let, op: anf.If, arrays: Sequence[anf.Var]) -> anf.Let:
        """The branch, whose arms give the totals that they add to."""
        mine = {array: self.now[array] for array in arrays}
        before = dict(self.sums.totals)
        walks, ends = [], []
        for arm in (op.then, op.otherwise):
            walks.append(_Walk(self.sums, mine, arm))
            ends.append(self.sums.totals)
            self.sums.totals = dict(before)
        results = list(zip(op.then.results, op.otherwise.results, strict=True))
        kept = list(range(len(results)))
        for array, k in mine.items():
            last = [walk.last.get(k) for walk in walks]
            (at, *more) = [at for at, pair in enumerate(results) if list(pair) == last] or [-1]
            if at < 0 or more:
                self.refuse([array])
                continue
            if all(walk.renaming.atom(v) is array for walk, v in zip(walks, results[at], strict=True)):
                self.renaming.env[let.vars[at]] = self.renaming.atom(array)
                kept.remove(at)
            self.go_on(array, let.vars[at])
        places = [p for p in {**ends[0], **ends[1]} if any(end.get(p) is not before.get(p) for end in ends)]
        blocks = []
        for n, (walk, end) in enumerate(zip(walks, ends, strict=True)):
            totals = [end.get(p, self.sums.total(p)) for p in places]
            blocks.append(walk.block([*[results[at][n] for at in kept], *totals]))
        after = [anf.fresh("total", self.sums.total(p).type) for p in places]
        self.sums.totals.update(zip(places, after, strict=True))
        vars = (*[let.vars[at] for at in kept], *after)
        return with_op(let, vars, replace(op, then=blocks[0], otherwise=blocks[1]))


def _adds(op: anf.Comp, k: int) -> bool:
    """Tells whether a destination only adds to the array that it goes on with."""
    d = op.destinations[k]
    shared = any(isinstance(other, anf.Reduce) and other.after == k for other in op.destinations)
    return not shared and (isinstance(d, anf.ScatterAdd) or (d.monoid == "sum" and d.after is None))
