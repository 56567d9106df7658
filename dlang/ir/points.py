"""Integers for which all holds that is known of some variables: what is below 0 there can't follow to be at least 0.

They are drawn at random, in the order in which the variables were bound, each between such of its bounds as are known
then; a quotient, a remainder and a choice are what they are of these. A draw with which something does not hold is no
such point, and if there is none among a few, nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from dlang.ir.affine import Knowledge
from dlang.ir.anf import Atom, Lit, Op, Prim, Size, Var, poly
from dlang.ir.types import I64
from dlang.ops.primitives import GAPS
from dlang.polynomials import Coefficient

DRAWS = 32
FAR = 12  # how far a variable that has no end is from the other one, at most


def find_point(known: Knowledge, definitions: Mapping[Var, Op], opened: Mapping[Var, Size]) -> dict[Var, int] | None:
    """Integers of the variables of which something is known, for which it holds; None if none are found.

    definitions: of variables; opened: those that are polynomials of others.
    """
    facts, random = known.facts, Random(0)
    all_sizes = [*known.nonnegative, *(p for ends in facts.bounds.values() for side in ends for p in side)]
    wanted = {*facts.bounds, *facts.sizes, *facts.floors, *(v for p in all_sizes for v in p.atoms())}
    in_order = sorted(wanted, key=lambda v: v.serial)
    for _ in range(DRAWS):
        draw = _Draw(known, definitions, opened, random)
        try:
            for v in in_order:
                draw.of(v)
        except _Impossible:
            continue
        if draw.holds():
            return draw.values
    return None


def value_at(p: Size, values: Mapping[Var, int]) -> Coefficient | None:
    """Computes a polynomial; None if there is no value of one of its variables."""
    total: Coefficient = 0
    for factors, c in p.terms.items():
        for v in factors:
            if v not in values:
                return None
            c = c * values[v]
        total = total + c
    return total


class _Impossible(Exception):
    """A draw with which something does not hold, or that goes round in a circle."""


@dataclass(slots=True)
class _Draw:
    """values: of variables so far; under_way: those that others are computed for; tests: outcomes of what is none of
    integers."""

    known: Knowledge
    definitions: Mapping[Var, Op]
    opened: Mapping[Var, Size]
    random: Random
    values: dict[Var, int] = field(default_factory=dict)
    under_way: set[Var] = field(default_factory=set)
    tests: dict[Atom, bool] = field(default_factory=dict)

    def of(self, v: Var) -> int:
        """The value of a variable, drawn if there is none."""
        if v not in self.values:
            if v in self.under_way:
                raise _Impossible
            self.under_way.add(v)
            self.values[v] = self.made(v)
            self.under_way.discard(v)
        return self.values[v]

    def number(self, atom: Atom) -> int:
        return self.size(poly(atom).substitute(self.opened.get))

    def size(self, p: Size) -> int:
        for v in p.atoms():
            self.of(v)
        found = value_at(p, self.values)
        if not isinstance(found, int):
            raise _Impossible
        return found

    def made(self, v: Var) -> int:
        """A variable that is made of others, computed; any other is one of the integers between its ends."""
        facts = self.known.facts
        if v in facts.floors:
            dividend, divisor = map(self.size, facts.floors[v])
            if divisor <= 0:
                raise _Impossible
            return dividend // divisor
        match self.definitions.get(v):
            case Prim("minimum", args):
                return min(map(self.number, args))
            case Prim("maximum", args):
                return max(map(self.number, args))
            case Prim("select", (condition, x, y)):
                return self.number(x if self.test(condition) else y)
            case Prim("mod", (x, y)) if (divisor := self.number(y)) != 0:
                return self.number(x) % divisor
            case _:
                return self.drawn(v)

    def drawn(self, v: Var) -> int:
        """One of the integers between those ends of a variable that are known so far."""
        lows, highs = self.known.facts.bounds.get(v, ((), ()))
        below = [n for p in lows if isinstance(n := value_at(p, self.values), int)]
        above = [n for p in highs if isinstance(n := value_at(p, self.values), int)]
        if v in self.known.facts.sizes:
            below.append(0)
        low = max(below) if below else min(above, default=0) - self.random.randint(0, FAR)
        high = min(above) if above else low + self.random.randint(0, FAR)
        if low > high:
            raise _Impossible
        return self.random.choice((low, high, self.random.randint(low, high)))

    def test(self, condition: Atom) -> bool:
        """Tells whether a condition holds; of what is no comparison of integers, it is drawn."""
        if isinstance(condition, Lit):
            return bool(condition.value)
        match self.definitions.get(condition):
            case Prim("not", (a,)):
                return not self.test(a)
            case Prim("and", (a, b)):
                return self.test(a) and self.test(b)
            case Prim("or", (a, b)):
                return self.test(a) or self.test(b)
            case Prim("eq", (a, b)) if a.type == I64:
                return self.number(a) == self.number(b)
            case Prim("ne", (a, b)) if a.type == I64:
                return self.number(a) != self.number(b)
            case Prim(name, (a, b)) if name in GAPS and a.type == I64:
                sign, less = GAPS[name]
                return (self.number(b) - self.number(a)) * sign + less >= 0
            case _:
                return self.tests.setdefault(condition, self.random.random() < 0.5)

    def holds(self) -> bool:
        """Tells whether all that is known holds."""
        facts = self.known.facts
        return (
            all(self.values[v] >= 0 for v in facts.sizes)
            and all(self.size(p) >= 0 for p in self.known.nonnegative)
            and all(
                all(self.size(low) <= self.values[v] for low in lows)
                and all(self.values[v] <= self.size(high) for high in highs)
                for v, (lows, highs) in facts.bounds.items()
            )
        )
