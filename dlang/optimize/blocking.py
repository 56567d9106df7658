"""Blocks: a chain of products and comprehensions along a shared axis is done a block of that axis at a time.

    s = contract q k -> [n, m]                        o = comp b in 0..blocks {
    p = comp i, j { … s[i, j] … } to keep [n, m]   →    s = contract (rows of q) k -> [count, m]
    o = contract p v -> [n, e]                          p = comp i, j { … s[i, j] … } to keep [count, m]
                                                        o = contract p v -> [count, e]
                                                      } to keep [n, e] [block * b]

What lies between the operations is then as large as a block, which stays in the cache: attention takes the memory of
its arguments and results, not that of all scores (Dao and others, FlashAttention, 2022; here a block has whole rows, so
a softmax needs no correction). A result without the shared axis, as the gradient of weights is, is the sum of those of
the blocks.

How many rows a block has is computed when the program runs: as many as fit, twice over, into a part of a core's cache.
So sizes alone decide what is added up in which order. Where all rows fit there is one block: the operations are those
that would run otherwise. A product in which a NaN was found is computed again a block at a time (`contractions.py`).

A comprehension that adds up light terms of two arrays for each pair of their rows, as squares of differences for the
distances of points from centres, is a product here: all that is made of it may be the nearest of each.

Each array of a chain is split along one of its axes, or is a sum over blocks that nothing in the chain reads. A chain
grows around the broad arrays, those of which a sum or a maximum is wanted for each value of the axis: what makes them,
what reads them, and what leads from one to another. What cannot be done by blocks, or needs all of a sum first, ends
it, and so do other products, as those of the hidden layers of a network. A chain is worth its while where no array as
large as its broad ones is kept.

This comes before `fuse_outer_axis.py`, which then goes through a block a row at a time; no pass before that expects
arrays among the values of a comprehension.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlang.ir.anf import Array, Block, Comp, Contract, Let, Program, Size, Var, poly
from dlang.ir.builder import shape_of
from dlang.ir.terms import WIDTHS
from dlang.ir.traverse import map_blocks, map_bodies, map_inner
from dlang.ir.types import dtype_of, product
from dlang.ops import figures
from dlang.optimize.chains import MOST, TRIES, Chain, Dependences
from dlang.optimize.effects import effectful_functions
from dlang.optimize.in_blocks import cut, in_blocks
from dlang.optimize.splitting import Unit, Way, is_reduction, serves_rows, units


def blocking(program: Program, device: bool = False) -> Program:
    """The program with chains of products and comprehensions done in blocks: of a device in large ones, for it has no
    cache that they could stay in, and products of several pairs of matrices are one."""
    effectful = effectful_functions(program)
    return map_bodies(program, lambda body: _block(body, effectful, device))


def _block(block: Block, effectful: frozenset[str], device: bool) -> Block:
    block = map_inner(block, lambda inner: _block(inner, effectful, device))
    while any(map(_multiplies, units(block))):
        done = _Chains(block, effectful, device).done_in_blocks()
        if done is None:
            break
        block = done
    return block


class _Chains(Dependences):
    """The chains of a block.

    broad: the shapes of arrays of which something takes a sum, or a maximum, for each value of the first axis.
    """

    def __init__(self, block: Block, effectful: frozenset[str], device: bool) -> None:
        super().__init__(block, effectful)
        self.device = device
        self.room = figures.DEVICE_CACHE if device else figures.CACHE
        self.broad = {shape for ways_of_unit in self.ways for way in ways_of_unit for shape in _reduced(way)}

    def done_in_blocks(self) -> Block | None:
        """The block with loops over blocks in the place of chains, those first that keep most arrays from memory.

        No two of them share a unit; what could be done besides is found when this is asked of the block again.
        """
        scored: list[tuple[int, Chain]] = []
        tried: set[tuple[int, int | Var | None]] = set()
        for k, unit in enumerate(self.units):
            if not self.may_be_wide(unit):
                continue
            for way in self.ways[k]:
                if way.gives[unit.vars[0]] != 0 or (k, way.name) in tried or not self.touches(way):
                    continue
                chain = self.grown(k, way)
                tried |= {(j, m.name) for j, m in chain.members.items()}
                score = len(self.wide(chain))
                if score and not (self.device and self.is_batch(chain)):
                    scored.append((score, chain))
        apart: list[Chain] = []
        taken: set[int] = set()
        for _, chain in sorted(scored, key=lambda pair: -pair[0]):
            if taken.isdisjoint(chain.members):
                apart.append(chain)
                taken |= chain.members.keys()
        if not apart:
            return None
        loops = list(map(self.loop, apart))
        return self.replaced(apart, loops) or self.replaced(apart[:1], loops[:1])

    def may_be_wide(self, unit: Unit) -> bool:
        """Tells whether a unit makes a product that a chain may keep from memory: it is read a part at a time."""
        if not _multiplies(unit):
            return False
        (var,) = unit.vars
        if var in self.results or shape_of(var) not in self.broad or self.is_small(var) or _is_narrow(var):
            return False
        return all(any((var, 0) in way.needs for way in self.ways[k]) for k in self.users.get(var, ()))

    def is_small(self, var: Var) -> bool:
        """Says whether an array is known to fit where the blocks of a chain do."""
        size = (product(shape_of(var)) * WIDTHS[dtype_of(var)]).constant
        return size is not None and size <= self.room

    # ---- growing -----------------------------------------------------------------------------------------------------
    def grown(self, seed: int, way: Way) -> Chain:
        """The chain that a unit is in; an empty one if there is none."""
        banned: set[int] = set()
        for _ in range(TRIES):
            chain = Chain(way.size)
            chain.add(seed, way)
            near = set(self.near[seed])
            while near:
                k = near.pop()
                if k in chain.members or k in banned:
                    continue
                accepted = next((w for w in self.ways[k] if chain.takes(w) and self.belongs(chain, w)), None)
                if accepted is not None:
                    chain.add(k, accepted)
                    near |= self.near[k]
                    if len(chain.members) > MOST:
                        return Chain(way.size)
            through = self.through(chain)
            bad = {k for k in chain.members if not self.fits(chain, k, through)} - {seed}
            bad = {min(bad)} if bad else chain.members.keys() - self.leading(chain) - {seed}
            if not bad:
                return chain if self.fits(chain, seed, through) else Chain(way.size)
            banned |= bad
        return Chain(way.size)

    def touches(self, way: Way) -> bool:
        """Tells whether a unit reads or makes a broad array, a part at a time."""
        arrays = [a for a, s in (*way.needs, *way.gives.items()) if s == 0]
        return any(shape_of(a) in self.broad for a in arrays)

    def belongs(self, chain: Chain, way: Way) -> bool:
        """Tells whether a unit is of the part of a program done in blocks: that from broad arrays to broad arrays."""
        reads = any(a in chain.split for a, _ in way.needs)
        return self.touches(way) or (reads and not _multiplies(way.unit))

    def leading(self, chain: Chain) -> set[int]:
        """The members that have to do with broad arrays, or come before such, or finish what a product of them is."""
        leaders: set[int] = set()
        products = {v for k, m in chain.members.items() if _multiplies(m.unit) for v in self.units[k].vars}
        for k in sorted(chain.members, reverse=True):
            users = set[int]().union(*[self.users.get(v, set()) for v in self.units[k].vars])
            way = chain.members[k]
            if self.touches(way) or users & leaders or any(a in products for a, _ in way.needs):
                leaders.add(k)
        return leaders

    # ---- choosing ----------------------------------------------------------------------------------------------------
    def wide(self, chain: Chain) -> list[Var]:
        """The arrays that are no longer made as a whole: results of products that another product or a sum takes in.

        None of them if the chain is not worth its while: an array of such sizes is kept after all, or all are small.
        """
        kept = self.outside(chain, chain.split)
        inside = [v for v, s in chain.split.items() if s == 0 and v not in kept and isinstance(v.type, Array)]
        taken: set[tuple[Size, ...]] = set()
        for way in chain.members.values():
            for array, _ in way.needs:
                if array in inside and is_reduction(way.unit.lets[0].op, array):
                    taken.add(shape_of(array))
        for var, split in chain.split.items():
            if var in kept and split is not None:
                taken.discard(shape_of(var))
        products = [v for v in inside if _multiplies(self.units[self.home[v]]) and shape_of(v) in taken & self.broad]
        wide = [v for v in products if not _is_narrow(v)]
        return [] if all(map(self.is_small, wide)) else wide

    def loop(self, chain: Chain) -> Sequence[Let]:
        """The loop over blocks that does what a chain does."""
        kept = self.outside(chain, chain.split)
        members = [chain.members[k] for k in sorted(chain.members)]
        if self.is_batch(chain):
            let = in_blocks(members, None, kept)
            op = map_blocks(let.op, lambda inner: _block(inner, self.effectful, self.device))
            return (Let(let.vars, op, let.span),)
        row = poly(0)
        for shape, dtype in dict.fromkeys((shape_of(v), dtype_of(v)) for v in self.wide(chain)):
            row = row + product(shape[1:]) * (2 * WIDTHS[dtype])
        how = cut(chain.size, row, self.room)
        return (*how.lets, in_blocks(members, how, kept))

    def is_batch(self, chain: Chain) -> bool:
        """Tells whether there is a product of matrices for each value of the axis, which need no more of each other."""
        for way in chain.members.values():
            op = way.unit.lets[0].op
            if isinstance(op, Contract) and not all(way.name in names for names in (op.left, op.right, op.out)):
                return False
            if isinstance(op, Comp) and _multiplies(way.unit) and any(split is None for _, split in way.needs):
                return False
            if isinstance(op, Comp) and any(d.into is not None and len(d.shape) < 2 for d in op.destinations):
                return False
        return True


def _multiplies(unit: Unit) -> bool:
    """Tells whether a unit is a product, or adds up other terms of two arrays for each pair of their rows."""
    op = unit.lets[0].op
    if not isinstance(op, Comp) or len(op.destinations) != 1:
        return unit.is_product
    (d,) = op.destinations
    row = next((a for a in op.axes if d.index and d.index[0].atom is a.var), None)
    return row is not None and serves_rows(op, row)


def _is_narrow(var: Var) -> bool:
    """Says whether the rows of an array are known to be short."""
    count = product(shape_of(var)[1:]).constant
    return count is not None and count <= figures.NARROW_ROW


def _reduced(way: Way) -> Iterable[tuple[Size, ...]]:
    """The shapes of the arrays of which a unit makes smaller ones that are split as they are."""
    least = min((len(shape_of(v)) for v, s in way.gives.items() if s is not None), default=None)
    for array, split in way.needs:
        if split == 0 and least is not None and least < len(shape_of(array)):
            yield shape_of(array)
