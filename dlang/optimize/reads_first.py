"""Puts what reads an array before what consumes it, with all that it needs, where that may stand there.

    y = update x[i] = v                     ok = check … for (j)
    ok = check … for (j)           →        old = read x[ok]
    old = read x[ok]                        y = update x[i] = v

So an element that is read as it was before a change takes no copy of the array. What is in range only because of what
was checked before it (`independence.py`) stays behind the last let that may end the run.

What is written into an array, of one that has been consumed before, is computed in an array of its own, which may stand
before that: two rows of a matrix that are swapped take a copy of one row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

from dlang.ir import anf
from dlang.ir.comprehension_queries import extent
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_bodies, map_inner, mentioned, type_vars, with_op
from dlang.ir.types import dtype_of, type_of
from dlang.ir.writes import determines, is_replaced, reads_its_place
from dlang.optimize.effects import consumed_by, effectful_functions, is_effectful
from dlang.optimize.independence import stands_alone

MOST = 32  # lets that are moved together: what an index takes, and no more
Consumed = Callable[[anf.Op], list[anf.Var]]


def early_reads(program: anf.Program) -> anf.Program:
    """The program in that order, as far as what is consumed can be seen before calls hand arrays over.

    Backwards, the cotangent of an array is then that of its change, and what a read adds to it is added in place.
    """
    effectful = effectful_functions(program)
    return map_bodies(program, lambda body: _ordered(body, effectful))


def _ordered(block: anf.Block, effectful: Set[str]) -> anf.Block:
    return reads_first(map_inner(block, lambda inner: _ordered(inner, effectful)), consumed_by, effectful)


def reads_first(block: anf.Block, consumed: Consumed, effectful: Set[str]) -> anf.Block:
    """The block in that order. consumed: the arrays that an operation consumes; effectful: functions."""
    apart, values = _values_apart(block, consumed)
    order = _in_order(apart, consumed, effectful)
    if values and not all(k in order.place for k in values):  # some would be computed apart for nothing
        apart, _ = _values_apart(block, consumed, late=False)
        order = _in_order(apart, consumed, effectful)
    if not order.place:
        return apart
    block = apart
    ahead: dict[int, list[int]] = {}
    for k in sorted(order.place):
        ahead.setdefault(order.place[k], []).append(k)
    numbers = [j for k in range(len(block.lets)) for j in (*ahead.get(k, ()), k) if j != k or k not in order.place]
    return anf.Block(tuple([block.lets[k] for k in numbers]), block.results)


def _in_order(block: anf.Block, consumed: Consumed, effectful: Set[str]) -> _Order:
    order = _Order(block, consumed, effectful)
    for k, let in enumerate(block.lets):
        if not (isinstance(let.op, anf.Read | anf.Comp | anf.Contract) and order.moves(k)):
            order.note(k)
    return order


def _values_apart(block: anf.Block, consumed: Consumed, late: bool = True) -> tuple[anf.Block, list[int]]:
    """The block in which comprehensions that write into arrays are two, one that computes values and one that writes
    them, if they read at other points what they consume or, where that is asked for, what others before them do. Gives
    the positions of the values that are to stand before those.

    What the block gives, or consumes twice, is copied for that, so its consumer may read it at any point.
    """
    given = {r for r in block.results if isinstance(r, anf.Var)}
    shown: dict[anf.Var, anf.Var] = {}
    spent: set[anf.Var] = set()
    lets: list[anf.Let] = []
    values: list[int] = []
    for let in block.lets:
        op = let.op
        if isinstance(op, anf.View | anf.Reshape):
            shown[let.vars[0]] = shown.get(op.array, op.array)
        if isinstance(op, anf.Comp) and any(d.into is not None for d in op.destinations):
            read = {shown.get(v, v) for v in mentioned(op.body)}
            behind = late and not (read & spent) <= {shown.get(v, v) for v in consumed(op)}
            pair = _two(let, op) if behind or _reads_elsewhere(op, read - given, shown) else [let]
            if behind and len(pair) > 1:
                values.append(len(lets))
            lets += pair
        else:
            lets.append(let)
        spent |= {shown.get(v, v) for v in consumed(op)}
    return (anf.Block(tuple(lets), block.results), values) if len(lets) > len(block.lets) else (block, values)


def _reads_elsewhere(op: anf.Comp, read: Set[anf.Var], shown: Mapping[anf.Var, anf.Var]) -> bool:
    """Tells whether a comprehension reads an array that it changes at other places than the one that a point writes."""
    for k, d in enumerate(op.destinations):
        if d.into is not None and shown.get(d.into, d.into) in read:
            if not (is_replaced(op, k) or reads_its_place(op, k)):
                return True
    return False


def _two(let: anf.Let, op: anf.Comp) -> list[anf.Let]:
    """A comprehension that computes what another one writes into arrays, and that one.

    The first has the body as it was: whoever knows what is consumed in it knows that of the same variables.
    """
    shape = [extent(a) for a in op.axes]
    scalars = all(isinstance(r.type, anf.Scalar) for r in op.body.results)
    inner = {v for inner in op.body.lets for v in inner.vars}
    for d in op.destinations:
        single = isinstance(d, anf.Reduce) and d.into is not None and determines(op.axes, d.index)
        if not single or any(e.mentions(inner) for e in d.index):
            return [let]
    if None in shape or not scalars:
        return [let]
    sizes = tuple([s for s in shape if s is not None])
    destination = anf.Reduce(sizes, tuple([anf.poly(a.var) for a in op.axes]), "set")
    kept = tuple(
        [anf.fresh(v.name, type_of(dtype_of(r), sizes)) for v, r in zip(let.vars, op.body.results, strict=True)]
    )
    first = anf.Let(kept, anf.Comp(op.axes, op.body, (destination,) * len(kept)), let.span)
    reads = [
        anf.Let((anf.fresh("t", r.type),), anf.Read(v, destination.index))
        for v, r in zip(kept, op.body.results, strict=True)
    ]
    body = anf.Block(tuple(reads), tuple([read.vars[0] for read in reads]))
    second = Renaming({}, renew=True).op(anf.Comp(op.axes, body, op.destinations))
    return [first, with_op(let, let.vars, second)]


@dataclass(slots=True)
class _Order:
    """The lets of a block, and what some are moved ahead of.

    consumer: of an array, the first let that consumes it. shown: what a view or a reshape is of. home: the let that
    binds a variable. place: of a let that is moved, the one that it is to stand before. ends: those that may end the
    run. seen: those that the world sees, which no check passes. certified: what checks have given.
    """

    block: anf.Block
    consumed: Consumed
    effectful: Set[str]
    consumer: dict[anf.Var, int] = field(default_factory=dict)
    shown: dict[anf.Var, anf.Var] = field(default_factory=dict)
    home: dict[anf.Var, int] = field(default_factory=dict)
    place: dict[int, int] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    certified: set[anf.Var] = field(default_factory=set)

    def moves(self, k: int) -> bool:
        """Moves a let ahead of the first that consumes what it reads, with what it needs; whether that is possible."""
        arrays = [self.shown.get(v, v) for v in mentioned(self.op(k))]
        at = min([self.consumer[a] for a in arrays if a in self.consumer], default=k)
        group = self.needed(k, at) if at < k else None
        if group is None:
            return False
        if any(j >= at for j in self.seen) and any(isinstance(self.op(j), anf.Assert) for j in group):
            return False
        certified = self.certified.union(
            *[self.block.lets[j].vars for j in group if isinstance(self.op(j), anf.Assert)]
        )
        if any(j >= at and j not in group for j in self.ends):
            if not all(isinstance(self.op(j), anf.Assert) or stands_alone(self.op(j), certified) for j in group):
                return False
        self.place.update(dict.fromkeys(group, at))
        self.home.update(dict.fromkeys(self.block.lets[k].vars, k))
        return True

    def needed(self, k: int, at: int) -> set[int] | None:
        """A let and all that it needs from behind another; None if not all of that can be moved, or it is much."""
        group, work = {k}, [k]
        while work:
            let = self.block.lets[work.pop()]
            if not self.is_pure(let.op) or len(group) > MOST:
                return None
            used = {*mentioned(let.op)}.union(*[type_vars(v.type) for v in let.vars])
            behind = {self.home[v] for v in used if v in self.home} - group
            behind = {j for j in behind if self.place.get(j, j + 1) > at}
            group |= behind
            work += behind
        return group

    def is_pure(self, op: anf.Op) -> bool:
        """Tells whether an operation changes nothing and nobody sees it; a check of numbers may stand earlier, too."""
        match op:
            case anf.Assert(guarded=guarded):
                return not any(isinstance(s.type, anf.Array) for s in guarded)
            case anf.Comp(destinations=destinations):
                fresh = all(d.into is None for d in destinations) and not is_effectful(op, self.effectful)
                return fresh and set(self.consumed(op)).isdisjoint(mentioned(op))  # nor do loops in it change anything
            case _:
                return op.IS.point or op.IS.view or isinstance(op, anf.Contract)

    def note(self, k: int) -> None:
        """Notes what a let that stays binds and consumes."""
        let = self.block.lets[k]
        op = let.op
        if isinstance(op, anf.View | anf.Reshape):
            self.shown[let.vars[0]] = self.shown.get(op.array, op.array)
        for var in self.consumed(op):
            self.consumer.setdefault(self.shown.get(var, var), k)
        self.home.update(dict.fromkeys(let.vars, k))
        if isinstance(op, anf.Assert):
            self.certified.update(let.vars)
        if is_effectful(op, self.effectful):
            self.ends.append(k)
        if any(isinstance(v.type, anf.Token) for v in let.vars):
            self.seen.append(k)

    def op(self, k: int) -> anf.Op:
        return self.block.lets[k].op
