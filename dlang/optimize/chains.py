"""Chains: units of a block that share an axis, and what of a block depends on what.

A chain takes the place of its members: a loop over the axis, or over blocks of it, does them one after another, for
some of its values at a time. So all members agree on how each array that they share is split, none needs all of what
another makes, and nothing outside stands between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from dlang.ir.anf import Assert, Block, Comp, Let, Scalar, Size, Var
from dlang.ir.traverse import mentioned, type_vars
from dlang.optimize.effects import consumed_by, is_effectful
from dlang.optimize.independence import stands_alone
from dlang.optimize.splitting import Split, Unit, Way, units, ways

TRIES = 32  # times that a chain is grown without a unit that could not stay; one that takes more is given up
MOST = 48  # members of a chain; one that grows beyond is given up, so that growing each takes a time that is bounded


@dataclass(slots=True)
class Chain:
    """Units that share an axis. split: how what they make is; needed: how they need what they read; continued: the sums
    that they add to."""

    size: Size
    members: dict[int, Way] = field(default_factory=dict)
    split: dict[Var, Split] = field(default_factory=dict)
    needed: dict[Var, set[Split]] = field(default_factory=dict)
    continued: set[Var] = field(default_factory=set)

    def takes(self, way: Way) -> bool:
        """Tells whether a unit may join: it shares an array, and all agree on how each is split."""
        if way.size != self.size:
            return False
        shares = any(a in self.split for a, _ in way.needs) or any(
            s is not None and s in self.needed.get(v, ()) for v, s in way.gives.items()
        )
        given = [(v, s) for v, s in way.gives.items() if v in self.needed]
        read = all(s is not None and self.split[a] == s for a, s in way.needs if a in self.split)
        sums = [*way.continues, *(v for v in way.gives if v in self.continued)]
        alike = all(self.split.get(v, way.gives.get(v)) is None for v in sums)
        return shares and read and alike and all(s is not None and self.needed[v] == {s} for v, s in given)

    def add(self, k: int, way: Way) -> None:
        self.members[k] = way
        self.split.update(way.gives)
        for array, split in way.needs:
            self.needed.setdefault(array, set()).add(split)
        self.continued |= way.continues


class Dependences:
    """The units of a block, and what depends on what.

    used: for each unit the variables from outside that it mentions. ways: those in which it splits. needs: the units
    that it comes after; above: all that it depends on, a bit for each; below: all that depends on it. near: the units
    that make what one reads, or read what it makes. home: the unit that makes a variable; users: those that use it.
    """

    def __init__(self, block: Block, effectful: frozenset[str], loops: bool = False) -> None:
        """loops: whether loops, and what else splits at points alone, are to be split."""
        self.block = block
        self.effectful = effectful
        self.units = units(block)
        self.ways: list[list[Way]] = []
        self.home: dict[Var, int] = {}
        self.users: dict[Var, set[int]] = {}
        self.used = [_used(unit) for unit in self.units]
        self.above: list[int] = []
        self.needs: list[set[int]] = []
        self.results = {r for r in block.results if isinstance(r, Var)}
        last_effect: int | None = None
        certified: set[Var] = set()
        for k, unit in enumerate(self.units):
            used = self.used[k]
            direct = {self.home[v] for v in used if v in self.home}
            for let in unit.lets:
                for array in consumed_by(let.op):
                    direct |= self.users.get(array, set()) - {k}
            effects = any(is_effectful(let.op, effectful) for let in unit.lets)
            alone = effects or all(stands_alone(let.op, certified) for let in unit.lets)
            certified.update(v for let in unit.lets if isinstance(let.op, Assert) for v in let.vars)
            if last_effect is not None and (effects or not alone):
                direct.add(last_effect)
            last_effect = k if effects else last_effect
            mask = 0
            for j in direct:
                mask |= 1 << j | self.above[j]
            self.above.append(mask)
            for var in used:
                self.users.setdefault(var, set()).add(k)
            for let in unit.lets:
                self.home.update(dict.fromkeys(let.vars, k))
            self.ways.append([] if effects else list(ways(unit, loops=loops)))
            self.needs.append(direct)
        self.numbers = {v for v in self.home if isinstance(v.type, Scalar)}
        self.below = [0] * len(self.units)
        for k, direct in reversed(list(enumerate(self.needs))):
            for j in direct:
                self.below[j] |= 1 << k | self.below[k]
        self.near = [self.neighbours(k) for k in range(len(self.units))]

    def neighbours(self, k: int) -> frozenset[int]:
        """The units that make what a unit reads, or read what it makes."""
        makers = {self.home[v] for v in self.used[k] if v in self.home}
        return frozenset(makers.union(*[self.users.get(v, set()) for v in self.units[k].vars]) - {k})

    def through(self, chain: Chain) -> int:
        """The units outside of a chain that depend on it, a bit for each: what depends on them can't be a member."""
        members, depending = 0, 0
        for j in chain.members:
            members |= 1 << j
            depending |= self.below[j]
        return depending & ~members

    def fits(self, chain: Chain, k: int, through: int) -> bool:
        """Tells whether a unit can stay: its operands are there, and results that are used elsewhere can be kept."""
        if self.above[k] & through or any(v in chain.split and v in self.numbers for v in self.used[k]):
            return False
        way = chain.members[k]
        op = way.unit.lets[0].op
        if isinstance(op, Comp):  # a part of an array from outside can't be continued
            for var, d in zip(way.unit.vars, op.destinations, strict=True):
                if d.into is not None and d.into not in chain.split and way.gives[var] is not None:
                    return False
        outside = self.outside(chain, way.unit.vars)
        return all(way.gives[v] in (0, None) for v in outside)

    def outside(self, chain: Chain, vars: Iterable[Var]) -> set[Var]:
        """Returns the arrays that a chain makes and that are used elsewhere."""
        return {v for v in vars if v in self.results or not self.users.get(v, set()) <= chain.members.keys()}

    def replaced(self, chains: Sequence[Chain], loops: Sequence[Sequence[Let]]) -> Block | None:
        """The block with the lets of a loop in the place of the members of each chain; None if two need each other."""
        chain_of = {k: n for n, chain in enumerate(chains) for k in chain.members}
        place = {k: max(chains[n].members) for k, n in chain_of.items()}  # where the loop stands, if it may
        users: dict[int, list[int]] = {}
        waits: dict[int, int] = {}
        for k in range(len(self.units)):
            own_place = place.get(k, k)
            waits.setdefault(own_place, 0)
            for j in self.needs[k]:
                there = place.get(j, j)
                if there != own_place:
                    users.setdefault(there, []).append(own_place)
                    waits[own_place] += 1
        ready = [k for k, count in waits.items() if count == 0]
        heapify(ready)
        lets: list[Let] = []
        while ready:
            k = heappop(ready)
            waits.pop(k)
            lets += loops[chain_of[k]] if k in chain_of else self.units[k].lets
            for user in users.get(k, ()):
                waits[user] -= 1
                if waits[user] == 0:
                    heappush(ready, user)
        return None if waits else Block(tuple(lets), self.block.results)


def _used(unit: Unit) -> set[Var]:
    used: set[Var] = set()
    for let in unit.lets:
        used.update(mentioned(let.op))
        for var in let.vars:
            used.update(type_vars(var.type))
    return used.difference(*[let.vars for let in unit.lets])
