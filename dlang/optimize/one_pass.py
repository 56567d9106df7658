"""The arrays of a block that need not be there, since one pass over their points can do all that reads them.

A comprehension makes such an array, an element at each point; only comprehensions over the same points read it, each
the element of its own point, and none of them waits for what another one has reduced. Then fusion puts the code of the
element where it is read, and a product of such a matrix and a vector would have it stored for nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dlang.ir import anf
from dlang.ir.comprehension_queries import extent, point_of
from dlang.ir.traverse import mentioned
from dlang.ir.writes import read_at
from dlang.optimize.producers import Producer


def in_one_pass(block: anf.Block) -> frozenset[anf.Var]:
    """The arrays of a block with two axes or more that need not be there."""
    passes = _Passes()
    for let in block.lets:
        passes.add(let)
    excluded = {v for v in block.results if isinstance(v, anf.Var)}
    return frozenset(v for k, v in enumerate(passes.arrays) if not passes.stored >> k & 1 and v not in excluded)


class _Passes:
    """The lets of a block so far. Sets of arrays are bits, of their positions in `arrays`.

    stored: those that have to be there. within: of each array, those whose elements its own are made of, point by
    point. behind: of each variable, those of which a reduction, or something else that is no point of the same pass, is
    made for it.
    """

    def __init__(self) -> None:
        self.arrays: list[anf.Var] = []
        self.positions: dict[anf.Var, int] = {}
        self.stored = 0
        self.within: dict[anf.Var, int] = {}
        self.behind: dict[anf.Var, int] = {}

    def add(self, let: anf.Let) -> None:
        """Adds the next let."""
        op = let.op
        if not self.within and not (isinstance(op, anf.Comp) and len(op.axes) > 1):
            return
        used = Counter(mentioned(op))
        shape, index = _points(op) if isinstance(op, anf.Comp) else ((), ())
        at_own = read_at(op.body, index) if isinstance(op, anf.Comp) and shape else Counter[anf.Var]()
        within = behind = 0
        for v, times in used.items():
            behind |= self.behind.get(v, 0)
            own = self.within.get(v, 0)
            if not own:
                continue
            assert isinstance(v.type, anf.Array)
            if at_own[v] == times and v.type.shape == shape:
                within |= own
            else:
                behind |= own
                self.stored |= 1 << self.positions[v] if v in self.positions else 0
        self.stored |= within & behind
        for k, var in enumerate(let.vars):
            waits_for = within | behind
            if isinstance(op, anf.Comp) and len(shape) > 1 and _is_of_points(op, k, index):
                made_of, waits_for = within, behind
                if _computes(op, k):
                    self.positions[var] = len(self.arrays)
                    made_of |= 1 << len(self.arrays)
                    self.arrays.append(var)
                if made_of:
                    self.within[var] = made_of
            if waits_for:
                self.behind[var] = waits_for


def _points(op: anf.Comp) -> tuple[tuple[anf.Size, ...], tuple[anf.Size, ...]]:
    """The shape of an array with an element for each point of a comprehension, and its index at a point; none if the
    points are no box that begins at 0."""
    extents = [size for axis in op.axes if (size := extent(axis)) is not None]
    if len(extents) < len(op.axes):
        return (), ()
    return tuple(extents), tuple([anf.poly(axis.var) for axis in op.axes])


def _computes(op: anf.Comp, k: int) -> bool:
    """Tells whether a result is computed by total code of a point, and no copy of what another array has."""
    code = Producer(op).code(k) or []
    return all(let.op.IS.point for let in op.body.lets) and any(isinstance(let.op, anf.Prim) for let in code)


def _is_of_points(op: anf.Comp, k: int, index: Sequence[anf.Size]) -> bool:
    """Tells whether a result has the value of each point, at the index of the point."""
    d = op.destinations[k]
    return isinstance(d, anf.Reduce) and d.index == tuple(index) and point_of(op, k) is not None
