"""A loop over arrays whose elements never meet is a loop at each point: recurrences of numbers.

    for t (a = z) {                                         a = comp i {
      a' = comp i { … a[i] … c[t] … } to keep [n] [i] set     s' = for t (s = z[i]) { … s … c[t] … }
      yield a'                                          →     yield s'
    }                                                       } to keep [n] [i] set

So what an iteration makes of the one before is in registers, and not in memory, and such a loop is the same whether it
is written around arrays or at a point. What each point reads of other arrays depends on the iteration or on the point:
a table of both would be read down its columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from dlang.ir import anf
from dlang.ir.builder import axis
from dlang.ir.comprehension_queries import sizes_named
from dlang.ir.sharing import additions
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_blocks, mentioned, used_by, walk, with_lets, with_op
from dlang.ir.types import array_type, dtype_of, product
from dlang.ops import figures
from dlang.ops.dtypes import WHOLE
from dlang.optimize.accumulation import may_be_a_point


def pointwise(let: anf.Let, loop: anf.For, fills: Set[anf.Atom]) -> anf.Let | None:
    """The comprehension of loops over numbers that a loop over arrays is; None if it is none.

    fills: arrays of which all elements are one value. A loop that is the same along an axis of its points is none.
    """
    if loop.early or not loop.params or len(set(loop.body.results)) < len(loop.params):
        return None
    if not all(isinstance(p.type, anf.Array) and p.type.dtype in WHOLE for p in loop.params):
        return None
    shape = array_type(loop.params[0]).shape
    elements = product(shape).constant
    few = elements is not None and elements <= figures.WRITTEN_OUT_POINTS
    if few or any(array_type(p).shape != shape for p in loop.params):
        return None
    body = _Point(loop, shape)
    lets = [new for inner in loop.body.lets for new in body.code(inner)]
    if body.failed or not all(r in body.values for r in loop.body.results):
        return None
    if not _differs_everywhere(loop, body, lets, fills):
        return None
    if len(list(walk(anf.Block(tuple(lets), ())))) > figures.POINTWISE_BODY:
        return None
    begun = [anf.fresh(p.name, anf.Scalar(dtype_of(p))) for p in loop.params]
    ended = [anf.fresh(v.name, s.type) for v, s in zip(let.vars, begun, strict=True)]
    results = tuple([body.values[r] for r in loop.body.results])
    state = tuple([body.values[p] for p in loop.params])
    assert all(isinstance(s, anf.Var) for s in state)
    numbers = tuple([s for s in state if isinstance(s, anf.Var)])
    inner_loop = anf.For(loop.index, loop.low, loop.high, numbers, tuple(begun), anf.Block(tuple(lets), results), False)
    reads = [
        anf.Let((s,), anf.Read(first, body.at), let.span)
        for s, first in zip(begun, loop.init, strict=True)
        if isinstance(first, anf.Var)
    ]
    at_point = anf.Block((*reads, anf.Let(tuple(ended), inner_loop, let.span)), tuple(ended))
    keep = anf.Reduce(shape, body.at, "set")
    return anf.Let(let.vars, anf.Comp(body.axes, at_point, (keep,) * len(ended)), let.span)


def _differs_everywhere(loop: anf.For, body: _Point, lets: Sequence[anf.Let], fills: Set[anf.Atom]) -> bool:
    """Tells whether each part of the state differs along all axes of the points, as far as can be seen."""
    points = frozenset([a.var for a in body.axes])
    depends: dict[anf.Atom, frozenset[anf.Var]] = {v: frozenset([v]) for v in points}
    for p, first in zip(loop.params, loop.init, strict=True):
        depends[body.values[p]] = frozenset() if first in fills else points

    def of(atoms: Iterable[anf.Atom]) -> frozenset[anf.Var]:
        return frozenset[anf.Var]().union(*[depends.get(a, frozenset()) for a in atoms])

    while True:
        for let in lets:
            depends.update(dict.fromkeys(let.vars, of(used_by(let))))
        following = [of([body.values[r]]) for r in loop.body.results]
        before = [depends[body.values[p]] for p in loop.params]
        state = [one | other for one, other in zip(before, following, strict=True)]
        if state == before:
            return all(axes == points for axes in following)
        depends.update(zip([body.values[p] for p in loop.params], state, strict=True))


class _Point:
    """The body of a loop at one point of its arrays. values: the number that each array is there."""

    def __init__(self, loop: anf.For, shape: Sequence[anf.Size]) -> None:
        self.axes = tuple([axis(size) for size in shape])
        self.at = tuple([anf.poly(a.var) for a in self.axes])
        self.shape = tuple(shape)
        self.values: dict[anf.Atom, anf.Atom] = {p: anf.fresh(p.name, anf.Scalar(dtype_of(p))) for p in loop.params}
        self.varying = {loop.index, *[v for let in loop.body.lets for v in let.vars]}
        self.named = sizes_named(loop.body)
        self.failed = False

    def code(self, let: anf.Let) -> list[anf.Let]:
        """The code of a let of the body at the point; notes it if there is none."""
        op = let.op
        if isinstance(op, anf.Comp):
            return self.element(let, op)
        simple = all(isinstance(v.type, anf.Scalar) for v in let.vars) and op.IS.point
        if not simple or op.IS.fails or additions(op) > figures.ADDITION or not self.outside(op):
            self.failed = True
        return [let]

    def element(self, let: anf.Let, op: anf.Comp) -> list[anf.Let]:
        """The code of a comprehension over all elements at one of them."""
        whole = [a.lows == (anf.ZERO,) and a.highs == (size,) for a, size in zip(op.axes, self.shape, strict=False)]
        names = tuple([anf.poly(a.var) for a in op.axes])
        sets = [
            isinstance(d, anf.Reduce)
            and (d.monoid, d.into, d.after, d.index, d.shape) == ("set", None, None, names, self.shape)
            for d in op.destinations
        ]
        nests = any(i.op.IS.fails or isinstance(i.op, anf.Comp) for i in walk(op.body))
        points = all(map(may_be_a_point, op.body.lets)) and not nests
        if len(op.axes) != len(self.axes) or not all(whole) or not all(sets) or not points:
            self.failed = True
            return []
        here = Renaming({a.var: b.var for a, b in zip(op.axes, self.axes, strict=True)}, renew=True)
        block = self.seen(here.block(op.body))
        bound = {v for inner in walk(block) for v in inner.vars}
        if not all(self.outside(inner.op, bound) for inner in walk(block)):
            self.failed = True
        self.values.update(zip(let.vars, block.results, strict=True))
        return list(block.lets)

    def seen(self, block: anf.Block) -> anf.Block:
        """A body in which the elements of the loop's arrays at the point are numbers."""
        env: dict[anf.Var, anf.Atom] = {}
        lets: list[anf.Let] = []
        for let in block.lets:
            op = let.op
            if isinstance(op, anf.Read) and op.index == self.at and op.array in self.values:
                env[let.vars[0]] = self.values[op.array]
                continue
            lets.append(with_op(let, let.vars, map_blocks(Renaming(env).op(op), self.seen)))
        return with_lets(block, lets, tuple([env.get(r, r) if isinstance(r, anf.Var) else r for r in block.results]))

    def outside(self, op: anf.Op, bound: set[anf.Var] | None = None) -> bool:
        """Tells whether code reads no array of the loop as a whole, and of others no table of iterations and points."""
        if any(v in self.values and isinstance(v.type, anf.Array) for v in mentioned(op)):
            return False
        if not isinstance(op, anf.Read):
            return True
        atoms = {v for e in op.index for v in e.substitute(self.named.get).atoms()}
        points = {a.var for a in self.axes}
        if bound and not atoms.isdisjoint(bound):
            return False
        return atoms.isdisjoint(points) or atoms.isdisjoint(self.varying)
