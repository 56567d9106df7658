"""Facts about integers where a piece of code runs: sizes, indices of binders, conditions that were tested."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dlang.inequalities import Facts
from dlang.polynomials import Poly
from dlang.typecheck import core
from dlang.typecheck.context import Checker
from dlang.typecheck.terms import size_variables
from dlang.typecheck.types import Floor, Size, SizeAtom, SizeVar, TypeCon, resolve, resolve_size

SizePoly = Poly[SizeAtom]
ZERO: SizePoly = Poly({})


@dataclass(slots=True)
class Knowledge:
    """The facts that hold where a piece of code runs.

    facts: inequalities between sizes and immutable integers. tested: pairs of values of which the first is at most the
    second, as they were computed. below, above: of a value, the others of the pairs in which it is second, first.
    """

    cx: Checker
    facts: Facts[SizeAtom] = field(default_factory=Facts)
    tested: list[tuple[SizePoly, SizePoly]] = field(default_factory=list)
    below: dict[SizePoly, list[SizePoly]] = field(default_factory=dict)
    above: dict[SizePoly, list[SizePoly]] = field(default_factory=dict)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forgets at the end of the block the facts learned in it."""
        mark, count = self.facts.mark(), len(self.tested)
        yield
        self.facts.undo(mark)
        while len(self.tested) > count:
            p, q = self.tested.pop()
            self.above[p].pop()
            self.below[q].pop()

    # ---- integers as polynomials -------------------------------------------------------------------------------------
    def symbol(self, e: core.Expr) -> Size | None:
        """An integer as a polynomial of sizes and immutable names."""
        t = resolve(e.type)
        if not isinstance(t, TypeCon) or t.name != "i64":
            return None
        found = self.cx.symbol(e)
        return None if found is None else resolve_size(found)

    def polynomial(self, size: Size) -> SizePoly:
        """A size whose variables the facts know."""
        size = resolve_size(size)
        for v in size_variables(size):
            if v.rigid and not (v in self.cx.indices or v in self.cx.births):
                self.facts.size(v)
        for a in size.poly.atoms():
            if isinstance(a, Floor) and not self.is_size(a):
                divisor = self.polynomial(a.divisor)
                if divisor.constant is None or divisor.constant > 0:
                    dividend = self.polynomial(a.dividend)
                    self.facts.floors[a] = (dividend, divisor)
                    if self.small(dividend) and self.facts.proves_nonnegative(dividend):
                        self.facts.size(a)
        return size.poly

    # ---- learning ----------------------------------------------------------------------------------------------------
    def count(self, local: core.Local, size: Size) -> None:
        """0 <= local < size."""
        v = self.cx.symbols[local].poly.atom
        if v is not None:
            self.facts.narrow(v, (ZERO,), (self.polynomial(size),))

    def range(self, local: core.Local, low: core.Expr, high: core.Expr, step: core.Expr | None) -> None:
        v = self.cx.symbols[local].poly.atom
        by = self.symbol(step) if step is not None else None
        stride = by.poly.constant if by is not None else 1 if step is None else None
        if v is None or not stride:
            return
        first, last = self.symbol(low), self.symbol(high)
        lows, highs = self.ends(first), self.ends(last)
        if stride > 0:
            self.facts.narrow(v, lows, highs)
        else:  # from low down to what is greater than high
            self.facts.narrow(v, tuple([h + 1 for h in highs]), tuple([x + 1 for x in lows]))

    def ends(self, size: Size | None) -> tuple[SizePoly, ...]:
        """The end of a range, if it is known and so small that nothing between two such wraps."""
        p = None if size is None else self.polynomial(size)
        return (p,) if p is not None and self.small(p) else ()

    def assume(self, condition: core.Expr, truth: bool) -> None:
        """A condition holds from here on, or does not."""
        match condition:
            case core.Logic(operator=operator, left=left, right=right):
                if (operator == "and") == truth:
                    self.assume(left, truth)
                    self.assume(right, truth)
            case core.Not(operand=operand):
                self.assume(operand, not truth)
            case core.Arith(operator=operator, left=left, right=right):
                a, b = self.symbol(left), self.symbol(right)
                if a is None or b is None:
                    return
                p, q = self.polynomial(a), self.polynomial(b)
                match operator, truth:
                    case ("<", True) | (">=", False):
                        self.at_most(p, q - 1)
                    case ("<=", True) | (">", False):
                        self.at_most(p, q)
                    case (">", True) | ("<=", False):
                        self.at_most(q, p - 1)
                    case (">=", True) | ("<", False):
                        self.at_most(q, p)
                    case ("==", True) | ("!=", False):
                        self.at_most(p, q)
                        self.at_most(q, p)
                    case _:
                        return
            case _:
                return

    def at_most(self, p: SizePoly, q: SizePoly) -> None:
        """p <= q holds. An integer that may be anything is bounded only as it stands, because arithmetic with it may
        have wrapped."""
        p, q = self.polynomial(Size(p)), self.polynomial(Size(q))
        self.tested.append((p, q))
        self.above.setdefault(p, []).append(q)
        self.below.setdefault(q, []).append(p)
        gap = q - p
        if self.small(gap):
            self.nonnegative(gap)
        elif p.atom is not None and self.small(q):
            self.facts.narrow(p.atom, (), (q + 1,))
        elif q.atom is not None and self.small(p):
            self.facts.narrow(q.atom, (p,), ())

    def nonnegative(self, gap: SizePoly) -> None:
        """gap >= 0, where nothing has wrapped: a bound of the variable that was made last."""
        linear = [v for v in gap.atoms() if all(v not in m or m == (v,) for m in gap.terms)]
        linear = [v for v in linear if gap.terms[(v,)] in (1, -1)]
        if not linear:
            return
        v = max(linear, key=lambda v: (not self.is_size(v), v.serial))
        rest, up = gap.without(v), gap.terms[(v,)] == 1
        if self.is_size(v) and up and rest.constant is not None:  # n >= 3: there is something with 0 <= … <= n - 3
            self.facts.between(SizeVar(0), (ZERO,), (gap + 1,))
        else:
            least = (ZERO,) if self.is_size(v) else ()
            self.facts.narrow(v, (*least, -rest) if up else least, () if up else (rest + 1,))

    def is_size(self, v: SizeAtom) -> bool:
        return v in self.facts.sizes

    def small(self, p: SizePoly) -> bool:
        """Tells whether arithmetic with these numbers doesn't wrap: sizes, and what lies between two such numbers."""
        return all(self.is_size(v) or self.enclosed(v) for v in p.atoms())

    def enclosed(self, v: SizeAtom) -> bool:
        lows, highs = self.facts.bounds.get(v, ((), ()))
        named = v in self.cx.births or v in self.cx.indices
        return bool(lows and highs) or (isinstance(v, SizeVar) and not named)

    # ---- proofs ------------------------------------------------------------------------------------------------------
    def at_least(self, p: SizePoly, least: SizePoly) -> bool:
        difference = self.polynomial(Size(resolve_size(Size(p)).poly - resolve_size(Size(least)).poly))
        return self.small(difference) and self.facts.proves_nonnegative(difference)

    def within(self, index: Size, size: Size) -> bool:
        """Tells whether 0 <= index < size follows, or was tested."""
        p, last = self.polynomial(index), resolve_size(size).poly - 1
        low = self.at_least(p, ZERO) or any(self.at_least(x, ZERO) for x in self.below.get(p, ()))
        return low and (self.at_least(last, p) or any(self.at_least(last, q) for q in self.above.get(p, ())))
