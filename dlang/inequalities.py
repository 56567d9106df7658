"""Facts about integers, and a prover for inequalities between polynomials: conservative, and of a few steps.

Sizes are at least 0 and at most `LARGEST`; an index lies between its bounds; h = p // q gives q·h <= p.
`proves_nonnegative` substitutes the worst case of each bounded variable, indices first and the innermost of them, and
then asks whether every coefficient is at least 0. It is for the numbers of mathematics: what a program computes as an
i64 is such a number only where it is `exact`, that is, where nothing has wrapped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Generic

from dlang.polynomials import A, Coefficient, Poly

Bounds = tuple[tuple[Poly[A], ...], tuple[Poly[A], ...]]

LEAST, GREATEST = -(2**63), 2**63 - 1  # of an i64
LARGEST = 2**47  # the greatest size of an axis: no processor has more memory, and sums of a few such sizes are i64s
SUM = 2**62  # what sums of sizes are below; a size that is not ends the run where it is used
DEPTH = 6  # of bounds in terms of bounds
ROOM = 256  # goals of a proof, each of several ends of a number having a share of them


@dataclass(slots=True)
class Facts(Generic[A]):
    """sizes: variables known to be at least 0. bounds: low <= v <= high, in variables that were bounded before.

    floors: h = dividend // divisor for a positive divisor. What is known here is that the code here runs: so there is
    a v between its bounds. Of v that are `certified` that is not used: what does not mention such a v may run where its
    check does not. `mark` and `undo` leave a scope in which more was known.

    Found from the bounds when it is asked for: spans, of what bounds mention, by how much it exceeds 0 at least for
    each v that lies between such; spanned: of which v those of what are found.
    """

    sizes: set[A] = field(default_factory=set)
    bounds: dict[A, Bounds[A]] = field(default_factory=dict)
    floors: dict[A, tuple[Poly[A], Poly[A]]] = field(default_factory=dict)
    certified: set[A] = field(default_factory=set)
    _learned: list[tuple[A, Bounds[A] | None]] = field(default_factory=list)  # None: as a size; else the bounds before
    _spans: dict[A, dict[A, Coefficient]] = field(default_factory=dict)
    _spanned: dict[A, list[A]] = field(default_factory=dict)
    _changed: dict[A, None] = field(default_factory=dict)

    def copy(self) -> Facts[A]:
        """The same facts, of which more can be learned."""
        return Facts(
            set(self.sizes),
            dict(self.bounds),
            dict(self.floors),
            set(self.certified),
            _spans=dict(zip(self._spans, map(dict, self._spans.values()), strict=True)),
            _spanned=dict(self._spanned),
            _changed=dict(self._changed),
        )

    def size(self, v: A) -> None:
        if v not in self.sizes:
            self.sizes.add(v)
            self._learned.append((v, None))

    def between(self, v: A, lows: tuple[Poly[A], ...], highs: tuple[Poly[A], ...]) -> None:
        """Every low <= v < every high, in place of what was known of v."""
        self._learned.append((v, self.bounds.get(v, ((), ()))))
        self.bounds[v] = (lows, tuple([h - 1 for h in highs]))
        self._changed[v] = None

    def certify(self, v: A, size: Poly[A]) -> None:
        """0 <= v < size, as a check or the type of the data says: only where v is mentioned that holds."""
        self.certified.add(v)
        self.between(v, (Poly[A]({}),), (size,))

    @contextmanager
    def mentioned(self, vars: Iterable[A]) -> Iterator[None]:
        """Some certified variables prove all that is asked inside: it is of code that mentions them."""
        known = self.certified.intersection(vars)
        self.certified -= known
        self._changed.update(dict.fromkeys(known))
        yield
        self.certified |= known
        self._changed.update(dict.fromkeys(known))

    @contextmanager
    def without(self, vars: Set[A]) -> Iterator[None]:
        """Nothing is known of some variables inside."""
        sizes, bounds = self.sizes & vars, {v: self.bounds[v] for v in vars if v in self.bounds}
        self.sizes -= sizes
        for v in bounds:
            del self.bounds[v]
        self._changed.update(dict.fromkeys(bounds))
        yield
        self.sizes |= sizes
        self.bounds |= bounds
        self._changed.update(dict.fromkeys(bounds))

    def narrow(self, v: A, lows: tuple[Poly[A], ...], highs: tuple[Poly[A], ...]) -> None:
        """Every low <= v < every high, beside what was known of v. What is weaker by a number is left out."""
        below, above = self.bounds.get(v, ((), ()))
        below = tuple([b for b in below if not any(_is_less(b, low) for low in lows)])
        above = tuple([a + 1 for a in above if not any(_is_less(high - 1, a) for high in highs)])
        lows = tuple([low for low in lows if not any(_is_less(low, b) for b in below)])
        highs = tuple([high for high in highs if not any(_is_less(a, high) for a in above)])
        self.between(v, (*lows, *below), (*highs, *above))

    def forget(self, v: A) -> None:
        """The end of the scope of a bounded variable."""
        self.bounds.pop(v, None)
        self._changed[v] = None

    def mark(self) -> int:
        return len(self._learned)

    def undo(self, mark: int) -> None:
        """Forgets what was learned since `mark`."""
        for v, before in reversed(self._learned[mark:]):
            if before is None:
                self.sizes.discard(v)
            elif before == ((), ()):
                self.forget(v)
            else:
                self.bounds[v] = before
                self._changed[v] = None
        del self._learned[mark:]

    def proves_nonnegative(
        self, p: Poly[A], depth: int = 0, room: int = ROOM, replaced: frozenset[A] = frozenset()
    ) -> bool:
        """Tells whether p >= 0 follows. room: goals that may be tried; numbers have ends in terms of numbers.

        replaced: variables whose ends were looked at already; ends in terms of each other go round in a circle.
        """
        if self._obvious(p):
            return True
        if depth > DEPTH or not room or p.constant is not None:
            return False
        atoms = [v for v in dict.fromkeys(p.atoms()) if all(m.count(v) <= 1 for m in p.terms)]
        bounded = [v for v in atoms if v in self.bounds and v not in replaced]
        if bounded:
            v = max(bounded, key=lambda v: (v not in self.sizes, v.serial))
            k = p.coefficient(v)
            lows, highs = self.bounds[v]
            if k.constant is not None:
                ends = lows if k.constant >= 0 else highs
            elif self.proves_nonnegative(k, depth + 1, room, replaced):
                ends = lows
            elif self.proves_nonnegative(-k, depth + 1, room, replaced):
                ends = highs
            else:
                return False
            others, share, replaced = p.without(v), room // max(len(ends), 1), replaced | {v}
            return any(self.proves_nonnegative(others + k * end, depth + 1, share, replaced) for end in ends)
        for v in atoms:
            if v in self.floors:
                dividend, divisor = self.floors[v]
                times = ratio(p.coefficient(v), divisor)
                if times is not None and times < 0:
                    worst = p.without(v) + dividend * Poly[A]({(): times})
                    if divisor.constant and all(isinstance(x, int) for x in p.terms.values()):  # then p > -1 is enough
                        worst = worst + Poly[A]({(): 1 - Fraction(1) / divisor.constant})
                    return self.proves_nonnegative(worst, depth + 1, room, replaced)
        return self._obvious(self._inhabited(p))

    def _obvious(self, p: Poly[A]) -> bool:
        """Tells whether every term is at least 0."""
        return all(c >= 0 and all(a in self.sizes for a in m) for m, c in p.terms.items())

    def _inhabited(self, p: Poly[A]) -> Poly[A]:
        """p with n replaced by n' + k where some variable in scope lies in 0 <= v <= n - k, so that n is at least k."""
        sizes = self.sizes.intersection(p.atoms())
        if not sizes:
            return p
        for v in self._changed:
            self._span(v)
        self._changed.clear()
        least: dict[A, Coefficient] = {}
        for n in sizes:
            if spans := self._spans.get(n):
                least[n] = max(spans.values())
        return p.substitute(lambda a: Poly.of(a) + Poly[A]({(): least[a]}) if a in least else None)

    def _span(self, v: A) -> None:
        """Finds what follows from v lying between its bounds, of what is greater than 0 then if it is a size."""
        for size in self._spanned.pop(v, ()):
            del self._spans[size][v]
        least_sizes: dict[A, Coefficient] = {}
        lows, highs = self.bounds.get(v, ((), ()))
        for low in lows:
            for high in () if v in self.certified else highs:
                gap = high - low
                for m, c in gap.terms.items():
                    n = m[0] if len(m) == 1 else None
                    if n is not None and c == 1:
                        constant = gap.without(n).constant
                        if constant is not None and -constant > least_sizes.get(n, 0):
                            least_sizes[n] = -constant
        for n, least in least_sizes.items():
            self._spans.setdefault(n, {})[v] = least
        if least_sizes:
            self._spanned[v] = list(least_sizes)

    def proves_less(self, p: Poly[A], q: Poly[A]) -> bool:
        """Tells whether p < q follows."""
        return self.proves_nonnegative(q - p - 1)

    # ---- what does not wrap ------------------------------------------------------------------------------------------
    def exact(self, p: Poly[A]) -> bool:
        """Tells whether p, computed with i64s that wrap, is the number that it is in mathematics."""
        low, high = self.ends(p)
        return (low >= LEAST or self._is_at_most(-p, -LEAST)) and (high <= GREATEST or self._is_at_most(p, GREATEST))

    def _is_at_most(self, p: Poly[A], limit: int) -> bool:
        """Tells whether p is no more than a number by the bound of a variable in it: i + w where i <= n - w."""
        for v in dict.fromkeys(p.atoms()):
            c, remainder = p.terms.get((v,), 0), p.without(v)
            if isinstance(c, int) and c and v in self.bounds and len(remainder.terms) == len(p.terms) - 1:
                lows, highs = self.bounds[v]
                if any(self.ends(remainder + bound * c)[1] <= limit for bound in (highs if c > 0 else lows)):
                    return True
        return False

    def small(self, p: Poly[A]) -> bool:
        """Tells whether all variables of p are sizes, or lie between numbers that are no larger than sums of sizes."""
        ends = [self._ends_of(v, 0, ROOM) for v in dict.fromkeys(p.atoms())]
        return all(low >= -SUM and high <= SUM for low, high in ends)

    def ends(self, p: Poly[A], depth: int = 0, room: int = ROOM) -> tuple[Coefficient, Coefficient]:
        """Two numbers between which p lies, whose variables are i64s. room: bounds that may be looked at."""
        low: Coefficient = 0
        high: Coefficient = 0
        for m, c in p.terms.items():
            products: tuple[Coefficient, ...] = (c,)
            for v in m:
                one = self._ends_of(v, depth, room)
                corners = [a * b for a in products for b in one]
                products = (min(corners), max(corners))
            low, high = low + products[0], high + products[-1]
        return low, high

    def _ends_of(self, v: A, depth: int, room: int) -> tuple[Coefficient, Coefficient]:
        low: Coefficient = LEAST
        high: Coefficient = GREATEST
        if v in self.sizes:
            low, high = 0, GREATEST if v in self.floors else LARGEST
        if depth < DEPTH and room:
            if v in self.bounds:
                lows, highs = self.bounds[v]
                share = room // max(len(lows) + len(highs), 1)
                low = max([low, *[self.ends(x, depth + 1, share)[0] for x in lows]])
                high = min([high, *[self.ends(x, depth + 1, share)[1] for x in highs]])
            if v in self.floors:
                ends = self.ends(self.floors[v][0], depth + 1, room)  # the divisor is at least 1
                low, high = max(low, min(ends[0], 0)), min(high, max(ends[1], 0))
        return low, max(low, high)


def _is_less(p: Poly[A], q: Poly[A]) -> bool:
    """Tells whether p <= q is known because the two differ by a number."""
    gap = (q - p).constant
    return gap is not None and gap >= 0


def ratio(p: Poly[A], q: Poly[A]) -> Fraction | None:
    """Returns the number c with p = c·q, if there is one; q is not 0."""
    monomial, c = next(iter(q.terms.items()))
    times = Fraction(p.terms.get(monomial, 0)) / c
    return times if p == q * Poly[A]({(): times}) else None
