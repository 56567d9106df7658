"""The lets of a block while some are merged: what depends on what, and an order in which everything is defined first.

Sets of lets are integers, one bit for each, so that asking for a dependence through others is one operation. What
consumes an array counts as depending on what used it before, so that no copy becomes necessary. What is in range only
because of what was checked before it (`independence.py`) depends on the last let that may end the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dlang.ir.anf import Array, Assert, Let, Var
from dlang.ir.traverse import mentioned, type_vars
from dlang.optimize.effects import consumed_by
from dlang.optimize.independence import stands_alone


class Items:
    """Lets in their first order; those that were merged stand together.

    alone: which lets need none of those before them that may end the run, by what they bind. That does not depend on
    what is merged, so several trials with one block share it.
    """

    def __init__(self, alone: dict[tuple[Var, ...], bool] | None = None) -> None:
        self.alone = {} if alone is None else alone
        self.lets: list[Let] = []
        self.above: list[int] = []  # for each: all that it depends on, through others too
        self.below: list[list[int]] = []  # and what depends on it itself
        self.direct: list[int] = []
        self.place: list[int] = []  # where it stood; of merged lets the last
        self.home: dict[Var, int] = {}
        self.users: dict[Var, set[int]] = {}  # of an array: the lets that mention it
        self.count = 0
        self.last_effect: int | None = None
        self.effects = 0  # the items that have effects, a bit for each
        self.certified: set[Var] = set()
        self.latest: tuple[Let, _Needs] | None = None  # the let that was asked of last, and what it needs

    def append(self, let: Let, effects: bool) -> int:
        """A let of its own; those with effects keep their order."""
        k = len(self.lets)
        needs = self._needs(let)
        sources, direct, above = needs.sources, needs.direct, needs.direct | needs.through
        if effects:
            if self.last_effect is not None:
                sources = sources | {self.last_effect}
                direct |= 1 << self.last_effect
                above |= 1 << self.last_effect | self.above[self.last_effect]
            self._note_effect(k)
        self.lets.append(let)
        self.direct.append(direct)
        self.above.append(above)
        self.below.append([])
        for j in sources:
            self.below[j].append(k)
        self.place.append(self._next())
        self._note(k, let)
        return k

    def joinable(self, let: Let, among: int, effects: bool) -> int:
        """Returns those of some items that the let may join, as a set of bits.

        It depends on them through no others, and on what they check at no other point than its own; with effects it
        goes ahead of none that have some.
        """
        among &= ~self._needs(let).through
        if effects and self.last_effect is not None:
            among &= ~self.above[self.last_effect]
        return among if not among & self.effects or self._stands_alone(let) else among & ~self.effects

    def _note_effect(self, k: int) -> None:
        self.last_effect = k
        self.effects |= 1 << k

    def _note(self, k: int, let: Let) -> None:
        self.latest = None
        for var in let.vars:
            self.home[var] = k
        if isinstance(let.op, Assert):
            self.certified.update(let.vars)
        for var in mentioned(let.op):
            if isinstance(var.type, Array):
                self.users.setdefault(var, set()).add(k)

    def join(self, k: int, let: Let, effects: bool) -> None:
        """Item k becomes the merger of itself and a let that has not been appended."""
        needs, mask = self._needs(let), ~(1 << k)
        sources, direct, through = needs.sources, needs.direct, needs.through
        if effects:
            if self.last_effect is not None:
                sources = sources | {self.last_effect}
                direct |= 1 << self.last_effect
                through |= self.above[self.last_effect]
            self._note_effect(k)
        for j in sources:
            if j != k and not self.direct[k] >> j & 1:
                self.below[j].append(k)
        self.direct[k] |= direct & mask
        more = (direct | through) & mask
        self.place[k] = self._next()
        self._note(k, let)
        work = [k]
        while work:  # what depends on the item depends on that, too
            j = work.pop()
            if more & ~self.above[j]:
                self.above[j] |= more
                work += self.below[j]

    def ordered(self) -> tuple[Let, ...]:
        """The lets in their old order as far as dependences allow."""
        out: list[Let] = []
        done = 0
        for k in sorted(range(len(self.lets)), key=self.place.__getitem__):
            stack = [k]
            while stack:
                top = stack[-1]
                missing = self.direct[top] & ~done
                if done >> top & 1:
                    stack.pop()
                elif missing:
                    stack.append((missing & -missing).bit_length() - 1)
                else:
                    done |= 1 << top
                    out.append(self.lets[top])
                    stack.pop()
        return tuple(out)

    def _next(self) -> int:
        self.count += 1
        return self.count

    def _sources(self, let: Let) -> set[int]:
        used = mentioned(let.op)
        for var in let.vars:
            used += type_vars(var.type)
        sources = {self.home[v] for v in used if v in self.home}
        for var in consumed_by(let.op):
            sources |= self.users.get(var, set())
        if self.last_effect is not None and self.last_effect not in sources:
            if not self._stands_alone(let):
                sources.add(self.last_effect)
        return sources

    def _stands_alone(self, let: Let) -> bool:
        alone = self.alone.get(let.vars)
        if alone is None:
            alone = stands_alone(let.op, self.certified)
            if let.vars:
                self.alone[let.vars] = alone
        return alone

    def _needs(self, let: Let) -> _Needs:
        """Finds the lets that a let depends on.

        Many items are tried for one let, so that is found once, as long as nothing is added.
        """
        if self.latest is None or self.latest[0] is not let:
            sources = self._sources(let)
            direct = through = 0
            for j in sources:
                direct |= 1 << j
                through |= self.above[j]
            self.latest = let, _Needs(sources, direct, through)
        return self.latest[1]


@dataclass(frozen=True, slots=True)
class _Needs:
    """The lets that a let depends on: at once, as numbers and as bits, and through others."""

    sources: set[int]
    direct: int
    through: int


def bits(mask: int) -> Iterator[int]:
    """The numbers of the bits of a mask, the greatest first."""
    while mask:
        k = mask.bit_length() - 1
        yield k
        mask ^= 1 << k
