"""What is known of i64 variables, and a prover for inequalities between polynomials: conservative and linear time.

Sizes are at least 0; an axis lies between its bounds; h = p // c gives c·h <= p. `proves_nonnegative` substitutes the
worst case of each bounded variable, innermost first, and then asks whether every coefficient is at least 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from dlang.ir.anf import Size, Var
from dlang.polynomials import Poly


@dataclass(slots=True)
class Facts:
    """sizes: variables known to be at least 0. bounds: low <= v <= high, in variables that were bounded before.

    floors: h = dividend // divisor for a positive divisor. What is known here is that the code here runs: so there is
    a v between its bounds. `mark` and `undo` leave a scope in which more was known.
    """

    sizes: set[Var] = field(default_factory=set)
    bounds: dict[Var, tuple[tuple[Size, ...], tuple[Size, ...]]] = field(default_factory=dict)
    floors: dict[Var, tuple[Size, int]] = field(default_factory=dict)
    _learned: list[tuple[Var, bool]] = field(default_factory=list)  # what was added, and whether as a size

    def size(self, v: Var) -> None:
        if v not in self.sizes:
            self.sizes.add(v)
            self._learned.append((v, True))

    def between(self, v: Var, lows: tuple[Size, ...], highs: tuple[Size, ...]) -> None:
        """Every low <= v < every high."""
        self.bounds[v] = (lows, tuple([h - 1 for h in highs]))
        self._learned.append((v, False))

    def forget(self, v: Var) -> None:
        """The end of the scope of a bounded variable."""
        self.bounds.pop(v, None)

    def mark(self) -> int:
        return len(self._learned)

    def undo(self, mark: int) -> None:
        """Forgets what was learned since `mark`."""
        for v, as_size in self._learned[mark:]:
            if as_size:
                self.sizes.discard(v)
            else:
                self.bounds.pop(v, None)
        del self._learned[mark:]

    def proves_nonnegative(self, p: Size, depth: int = 0) -> bool:
        """Whether p >= 0 follows."""
        if all(c >= 0 and all(a in self.sizes for a in m) for m, c in p.terms.items()):
            return True
        if depth > 6:
            return False
        bounded = [v for v in dict.fromkeys(p.atoms()) if v in self.bounds]
        if bounded:
            v = max(bounded, key=lambda v: v.serial)
            try:
                k = p.coefficient(v)
            except ValueError:
                return False
            lows, highs = self.bounds[v]
            if self.proves_nonnegative(k, depth + 1):
                ends = lows
            elif self.proves_nonnegative(-k, depth + 1):
                ends = highs
            else:
                return False
            rest = p.without(v)
            return any(self.proves_nonnegative(rest + k * end, depth + 1) for end in ends)
        for v in dict.fromkeys(p.atoms()):
            if v in self.floors:
                dividend, divisor = self.floors[v]
                k = p.coefficient(v)
                c = k.constant
                if c is not None and c < 0:
                    scaled = p.without(v) + dividend * Poly[Var]({(): Fraction(c) / divisor})
                    return self.proves_nonnegative(scaled, depth + 1)
        inhabited = self._inhabited(p)
        return inhabited is not None and self.proves_nonnegative(inhabited, depth + 3)

    def _inhabited(self, p: Size) -> Size | None:
        """p with n replaced by n' + 1 where some variable in scope lies in 0 <= v < n, so that n is at least 1."""
        for lows, highs in self.bounds.values():
            for low in lows:
                for high in highs:
                    gap = high - low
                    for m, c in gap.terms.items():
                        n = m[0] if len(m) == 1 else None
                        if n is not None and c == 1 and n in self.sizes and p.mentions((n,)):
                            # n >= 0 - rest, where gap = n + rest >= 0
                            rest = gap.without(n)
                            if rest.constant is not None and rest.constant < 0:
                                return _replaced(p, n, Poly.of(n) - rest)
        return None

    def proves_less(self, p: Size, q: Size) -> bool:
        """Whether p < q follows."""
        return self.proves_nonnegative(q - p - 1)


def _replaced(p: Size, n: Var, by: Size) -> Size:
    return p.substitute(lambda a: by if a is n else None)
