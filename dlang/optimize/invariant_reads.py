"""Elements of its state that a loop reads and never changes are read before the loop.

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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.builder import shape_of
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import bound_vars, map_blocks, mentioned, with_lets, with_op
from dlang.ir.types import dtype_of
from dlang.ir.writes import apart, ranges
from dlang.ops.dtypes import WHOLE

Index = tuple[anf.Size, ...]
Axes = tuple[anf.Axis, ...]


def invariant_reads(loop: anf.For, known: Knowledge) -> tuple[list[anf.Let], anf.For]:
    """The reads of a loop's state that its iterations do not change, as lets before it, and the loop without them."""
    own = anf.Axis(loop.index, (loop.low,), (loop.high,))
    firsts = {
        p: x
        for p, x in zip(loop.params, loop.init, strict=True)
        if isinstance(x, anf.Var) and isinstance(p.type, anf.Array) and dtype_of(p) in WHOLE
    }
    if not firsts:
        return [], loop
    uses = _Uses({p: p for p in firsts}, {p: [] for p in firsts})
    uses.block(loop.body, (own,))
    reads = [read for read in uses.reads if uses.writes[read[0]] and read[0] not in uses.others]
    if not reads:
        return [], loop
    inside = {loop.index, *loop.params, *bound_vars(loop.body)}
    within = known.within((own,))
    lets: list[anf.Let] = []
    made: dict[anf.Var, anf.Op | anf.Var] = {}
    for param, let, index, axes in reads:
        named = {v for e in index for v in e.atoms()}
        needed = tuple([a for a in axes if a.var in named])
        points = {a.var for a in needed}
        ends = [end for a in needed for end in (*a.lows, *a.highs)]
        if any(v in inside and v not in points for s in index for v in s.atoms()) or any(
            s.mentions(inside) for s in ends
        ):
            continue
        fixed = [None if e.mentions(inside) else r for e, r in zip(index, ranges((), index), strict=True)]
        writes = uses.writes[param]
        if not all(apart(fixed, ranges(a, w), within) for w, a in writes):
            continue
        if all(apart(fixed, ranges((), w), Knowledge()) for w, _ in writes):
            continue
        lengths = [high - low for a in needed for low in a.lows for high in a.highs]
        if len(lengths) > len(needed) or not all(map(known.at_least_zero, lengths)):
            continue
        if known.within(needed).inside(index, shape_of(firsts[param])):
            before, instead = _before(firsts[param], index, needed, let)
            lets.append(before)
            made[let.vars[0]] = instead
    return (lets, replace(loop, body=_reading(loop.body, made))) if made else ([], loop)


@dataclass(slots=True)
class _Uses:
    """How a loop uses arrays of its state.

    versions: what they are called as they change, with the parameter that they are. writes: the indices of each, with
    the axes around; reads: parameter, let, index and axes, that of the loop itself first. others: the parameters that
    are used in any other way.
    """

    versions: dict[anf.Atom, anf.Var]
    writes: dict[anf.Var, list[tuple[Index, Axes]]]
    reads: list[tuple[anf.Var, anf.Let, Index, Axes]] = field(default_factory=list)
    others: set[anf.Var] = field(default_factory=set)

    def block(self, block: anf.Block, axes: Axes) -> None:
        for let in block.lets:
            self.let(let, axes)

    def let(self, let: anf.Let, axes: Axes) -> None:
        match let.op:
            case anf.Read(array, index):
                if (param := self.versions.get(array)) is not None:
                    self.reads.append((param, let, index, axes))
            case anf.Update(array, index, value):
                self.used_otherwise((value,))
                self.written(let.vars[0], array, index, axes)
            case anf.For(index, low, high, params, init, body):
                for p, x in zip(params, init, strict=True):
                    self.is_version(p, x)
                self.block(body, (*axes, anf.Axis(index, (low,), (high,))))
                self.joined(let, (body,), let.op.early)
            case anf.If(_, then, otherwise):
                self.block(then, axes)
                self.block(otherwise, axes)
                self.joined(let, (then, otherwise), 0)
            case anf.Comp(inner, body, destinations):
                self.block(body, (*axes, *inner))
                self.used_otherwise(body.results)
                for var, d in zip(let.vars, destinations, strict=True):
                    if d.into is not None:
                        self.written(var, d.into, d.index, (*axes, *inner))
            case op:
                self.used_otherwise(mentioned(op))

    def is_version(self, var: anf.Var, of: anf.Atom) -> None:
        if of in self.versions:
            self.versions[var] = self.versions[of]

    def written(self, var: anf.Var, array: anf.Var, index: Index, axes: Axes) -> None:
        if (param := self.versions.get(array)) is not None:
            self.writes[param].append((index, axes))
            self.versions[var] = param

    def used_otherwise(self, atoms: Iterable[anf.Atom]) -> None:
        self.others.update([self.versions[x] for x in atoms if x in self.versions])

    def joined(self, let: anf.Let, blocks: Sequence[anf.Block], skipped: int) -> None:
        """Notes what an operation gives that is an array in one of its blocks; of several arrays, none is followed."""
        for k, var in enumerate(let.vars):
            found = {self.versions[r] for b in blocks if (r := b.results[k + skipped]) in self.versions}
            if len(found) > 1:
                self.others |= found
            for param in found:
                self.versions[var] = param


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


def _reading(block: anf.Block, made: Mapping[anf.Var, anf.Op | anf.Var]) -> anf.Block:
    """The block, which reads what was read before the loop."""

    def rest(block: anf.Block) -> anf.Block:
        lets: list[anf.Let] = []
        for let in block.lets:
            instead = made.get(let.vars[0]) if len(let.vars) == 1 else None
            if instead is None:
                lets.append(with_op(let, let.vars, map_blocks(let.op, rest)))
            elif not isinstance(instead, anf.Var):
                lets.append(anf.Let(let.vars, instead, let.span))
        return with_lets(block, lets, block.results)

    return Renaming({v: x for v, x in made.items() if isinstance(x, anf.Var)}).block(rest(block))
