"""What a loop reads of its state and never changes is read before the loop.

    for i in k + 1..n (a = z) {                   row = comp j in k..n { z[k, j] }
      for j in k..n (b = a) {                     p = read z[k, k]
        t = read b[k, j]                          for i in k + 1..n (a = z) {
        p = read b[k, k]                    →       for j in k..n (b = a) {
        b' = update b[i, j] = f(t, p)                 b' = update b[i, j] = f(row[j - k], p)
        yield b'                                      yield b'
      }                                             }
    }                                             }

Where the indices alone say that the elements differ, as those of the row above do, they may stay where they are. So
an iteration of an elimination reads what only itself changes, and what is the same for all: it may be done at once,
and its derivative, too. What is read is in range whether or not the loop has an iteration, and there is as much of it
as one iteration reads, or one element for each iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.builder import shape_of
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import bound_vars, map_blocks, mentioned, with_op
from dlang.ir.types import dtype_of
from dlang.ir.writes import apart, ranges
from dlang.ops.dtypes import WHOLE

Index = tuple[anf.Size, ...]
Axes = tuple[anf.Axis, ...]


def invariant_reads(loop: anf.For, known: Knowledge) -> tuple[list[anf.Let], anf.For]:
    """The reads of a loop's state that its iterations do not change, as lets before it, and the loop without them."""
    own = anf.Axis(loop.index, (loop.low,), (loop.high,))
    within = known.within((own,))
    lets: list[anf.Let] = []
    for param, first in zip(loop.params, loop.init, strict=True):
        if not isinstance(first, anf.Var) or not isinstance(param.type, anf.Array) or dtype_of(param) not in WHOLE:
            continue
        uses = _Uses({param})
        uses.block(loop.body, (own,))
        if uses.others or not uses.writes:
            continue
        inside = {loop.index, *loop.params, *bound_vars(loop.body)}
        made: dict[anf.Var, anf.Op | anf.Var] = {}
        for let, index, axes in uses.reads:
            needed = tuple([a for a in axes if any(e.mentions((a.var,)) for e in index)])
            free = {*inside}.difference([a.var for a in needed])
            ends = [end for a in needed for end in (*a.lows, *a.highs)]
            if any(s.mentions(free) for s in index) or any(s.mentions(inside) for s in ends):
                continue
            fixed = [None if e.mentions(inside) else r for e, r in zip(index, ranges((), index), strict=True)]
            if not all(apart(fixed, ranges(a, w), within) for w, a in uses.writes):
                continue
            if all(apart(fixed, ranges((), w), Knowledge()) for w, _ in uses.writes):
                continue
            lengths = [high - low for a in needed for low in a.lows for high in a.highs]
            if len(lengths) > len(needed) or not all(map(known.at_least_zero, lengths)):
                continue
            if not known.within(needed).inside(index, shape_of(first)):
                continue
            before, instead = _before(first, index, needed, let)
            lets.append(before)
            made[let.vars[0]] = instead
        if made:
            loop = replace(loop, body=_reading(loop.body, made))
    return lets, loop


@dataclass(slots=True)
class _Uses:
    """How a loop uses an array of its state. versions: what the array is called as it changes; writes and reads: the
    indices, with the axes around, of the loop itself first. others: whether it is used in any other way."""

    versions: set[anf.Atom]
    writes: list[tuple[Index, Axes]] = field(default_factory=list)
    reads: list[tuple[anf.Let, Index, Axes]] = field(default_factory=list)
    others: bool = False

    def block(self, block: anf.Block, axes: Axes) -> None:
        for let in block.lets:
            self.let(let, axes)

    def let(self, let: anf.Let, axes: Axes) -> None:
        match let.op:
            case anf.Read(array, index):
                if array in self.versions:
                    self.reads.append((let, index, axes))
            case anf.Update(array, index, value):
                self.others |= value in self.versions
                if array in self.versions:
                    self.writes.append((index, axes))
                    self.versions.update(let.vars)
            case anf.For(index, low, high, params, init, body):
                for p, x in zip(params, init, strict=True):
                    if x in self.versions:
                        self.versions.add(p)
                self.block(body, (*axes, anf.Axis(index, (low,), (high,))))
                self.joined(let, (body,), let.op.early)
            case anf.If(_, then, otherwise):
                self.block(then, axes)
                self.block(otherwise, axes)
                self.joined(let, (then, otherwise), 0)
            case anf.Comp(inner, body, destinations):
                self.block(body, (*axes, *inner))
                self.others |= not self.versions.isdisjoint(body.results)
                for var, d in zip(let.vars, destinations, strict=True):
                    if d.into in self.versions:
                        self.writes.append((d.index, (*axes, *inner)))
                        self.versions.add(var)
            case op:
                self.others |= any(v in self.versions for v in mentioned(op))

    def joined(self, let: anf.Let, blocks: Sequence[anf.Block], skipped: int) -> None:
        """Notes what an operation gives that is the array in one of its blocks."""
        for k, var in enumerate(let.vars):
            if any(b.results[k + skipped] in self.versions for b in blocks):
                self.versions.add(var)


def _before(first: anf.Var, index: Index, axes: Axes, let: anf.Let) -> tuple[anf.Let, anf.Op | anf.Var]:
    """The let before the loop that reads elements, and what takes the place of a read in it."""
    (t,) = let.vars
    if not axes:
        number = anf.fresh(t.name, t.type)
        return anf.Let((number,), anf.Read(first, index), let.span), number
    shape = tuple([a.highs[0] - a.lows[0] for a in axes])
    place = tuple([anf.poly(a.var) - a.lows[0] for a in axes])
    row = anf.fresh(first.name, anf.Array(dtype_of(first), shape))
    body = anf.Block((anf.Let((t,), anf.Read(first, index), let.span),), (t,))
    comp = Renaming({}, renew=True).op(anf.Comp(axes, body, (anf.Reduce(shape, place, "set"),)))
    return anf.Let((row,), comp, let.span), anf.Read(row, place)


def _reading(block: anf.Block, made: dict[anf.Var, anf.Op | anf.Var]) -> anf.Block:
    """The block, which reads what was read before the loop."""
    renaming = Renaming({v: x for v, x in made.items() if isinstance(x, anf.Var)})

    def rest(block: anf.Block) -> anf.Block:
        lets: list[anf.Let] = []
        for let in block.lets:
            instead = made.get(let.vars[0]) if len(let.vars) == 1 else None
            if instead is None:
                lets.append(with_op(let, let.vars, map_blocks(renaming.op(let.op), rest)))
            elif not isinstance(instead, anf.Var):
                lets.append(anf.Let(let.vars, instead, let.span))
        return anf.Block(tuple(lets), tuple(map(renaming.atom, block.results)))

    return rest(block)
