"""Polynomials with exact coefficients over atoms: the normal form of sizes, bounds and indices.

Two sizes are equal when their normal forms are. Atoms are hashable and ordered by an integer attribute `serial`; what
they stand for is the business of the stage that uses them: size variables in `typecheck/`, i64 values in `ir/`.

So equality of sizes is decidable, quick, and easy to explain in an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from fractions import Fraction
from typing import Generic, Protocol, TypeVar

Coefficient = int | Fraction


MOST_PRODUCTS = 4_000
"""Of two terms, when polynomials are multiplied: a power of a sum of a few atoms would soon fill any memory."""


MOST_FACTORS = 64
"""Of a term; squares of squares get there in six steps."""


class TooManyTerms(Exception):
    """A product of polynomials would have more terms, or terms of more factors, than a size may have."""


class Atom(Protocol):
    serial: int


A = TypeVar("A", bound=Atom)
Monomial = tuple[A, ...]


def _reduced(c: Coefficient) -> Coefficient:
    return c.numerator if c.denominator == 1 else c


def _rank(m: Monomial[A]) -> tuple[int, list[int]]:
    """The rank of a monomial: by its degree, then by its atoms. Products keep the order of their factors."""
    return len(m), [-a.serial for a in m]


def _without(m: Monomial[A], factors: Monomial[A]) -> Monomial[A] | None:
    """A monomial divided by another, None where that does not divide it."""
    left = list(m)
    for a in factors:
        if a not in left:
            return None
        left.remove(a)
    return tuple(left)


class Poly(Generic[A]):
    """An immutable polynomial; `terms` maps a monomial (its atoms sorted by serial) to a coefficient that isn't 0."""

    __slots__ = ("terms", "_hash")

    def __init__(self, terms: Mapping[Monomial[A], Coefficient]) -> None:
        self.terms: dict[Monomial[A], Coefficient] = {
            m: c if isinstance(c, int) else _reduced(c) for m, c in terms.items() if c
        }
        self._hash: int | None = None

    @staticmethod
    def _of_reduced(terms: dict[Monomial[A], Coefficient]) -> Poly[A]:
        """The polynomial of terms of which none is 0, each a number that is reduced: those of other polynomials."""
        p = Poly.__new__(Poly)
        p.terms, p._hash = terms, None
        return p

    @staticmethod
    def of(value: int | A | Poly[A]) -> Poly[A]:
        if isinstance(value, Poly):
            return value
        if isinstance(value, int):
            return Poly._of_reduced({(): value} if value else {})
        return Poly._of_reduced({(value,): 1})

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self.constant == other
        return isinstance(other, Poly) and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __add__(self, other: int | A | Poly[A]) -> Poly[A]:
        right = Poly.of(other)
        if not right.terms:
            return self
        if not self.terms:
            return right
        total = dict(self.terms)
        for m, c in right.terms.items():
            total[m] = total.get(m, 0) + c
        return Poly(total)

    def __neg__(self) -> Poly[A]:
        return Poly._of_reduced({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: int | A | Poly[A]) -> Poly[A]:
        right = Poly.of(other)
        if not right.terms:
            return self
        total = dict(self.terms)
        for m, c in right.terms.items():
            total[m] = total.get(m, 0) - c
        return Poly(total)

    def __mul__(self, other: int | A | Poly[A]) -> Poly[A]:
        """The product; raises TooManyTerms."""
        out: dict[Monomial[A], Coefficient] = {}
        right = Poly.of(other).terms
        if len(right) == 1 and right.get(()) == 1:
            return self
        if len(self.terms) * len(right) > MOST_PRODUCTS:
            raise TooManyTerms
        for m, c in self.terms.items():
            for n, d in right.items():
                key = tuple(sorted(m + n, key=lambda a: a.serial)) if m and n else m or n
                if len(key) > MOST_FACTORS:
                    raise TooManyTerms
                out[key] = out.get(key, 0) + c * d
        return Poly(out)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: int | A | Poly[A]) -> Poly[A]:
        return Poly.of(other) - self

    def divided(self, divisor: int) -> Poly[A] | None:
        """The quotient by an integer if every coefficient stays whole, else None."""
        out = {m: Fraction(c) / divisor for m, c in self.terms.items()}
        return None if any(c.denominator != 1 for c in out.values()) else Poly(out)

    def quotient(self, divisor: Poly[A]) -> Poly[A] | None:
        """The polynomial with whole coefficients that gives this one when it is multiplied by the divisor; None if
        there is none, or if it has too many terms to look for.
        """
        if not self.terms or not divisor.terms:
            return self if divisor.terms else None
        top = max(divisor.terms, key=_rank)
        remainder, quotient_terms = dict(self.terms), dict[Monomial[A], Coefficient]()
        while remainder:
            lead = max(remainder, key=_rank)
            over, factor = _without(lead, top), Fraction(remainder[lead]) / divisor.terms[top]
            if (
                over is None
                or factor.denominator != 1
                or (len(quotient_terms) + 1) * len(divisor.terms) > MOST_PRODUCTS
            ):
                return None
            quotient_terms[over] = factor.numerator
            for m, c in divisor.terms.items():
                key = tuple(sorted(over + m, key=lambda a: a.serial))
                left = remainder.get(key, 0) - factor.numerator * c
                if left:
                    remainder[key] = left
                else:
                    remainder.pop(key, None)
        return Poly(quotient_terms)

    @property
    def constant(self) -> Coefficient | None:
        """The value if there is no atom, else None."""
        if not self.terms:
            return 0
        return self.terms.get((), None) if len(self.terms) == 1 else None

    @property
    def atom(self) -> A | None:
        """The atom if the polynomial is just that atom, else None."""
        if len(self.terms) == 1:
            ((m, c),) = self.terms.items()
            if c == 1 and len(m) == 1:
                return m[0]
        return None

    def atoms(self) -> Iterator[A]:
        """Every atom, with repetitions."""
        for m in self.terms:
            yield from m

    def mentions(self, atoms: Iterable[A]) -> bool:
        if not self.terms:
            return False
        wanted: Set[A]
        if isinstance(atoms, set | frozenset):
            wanted = atoms
        else:
            wanted = atoms.keys() if isinstance(atoms, dict) else set(atoms)
        return not all(map(wanted.isdisjoint, self.terms))

    def is_linear(self, atom: A) -> bool:
        """Tells whether no term has a power of `atom` above the first."""
        return all(m.count(atom) <= 1 for m in self.terms)

    def coefficient(self, atom: A) -> Poly[A]:
        """The factor of `atom`; raises ValueError if the polynomial is not linear in it."""
        out: dict[Monomial[A], Coefficient] = {}
        for m, c in self.terms.items():
            k = m.count(atom)
            if k > 1:
                raise ValueError(f"not linear in {atom}")
            if k:
                out[tuple([a for a in m if a is not atom])] = c
        return Poly._of_reduced(out)

    def without(self, atom: A) -> Poly[A]:
        """The terms that do not mention `atom`."""
        return Poly._of_reduced({m: c for m, c in self.terms.items() if atom not in m})

    def without_constant(self) -> Poly[A]:
        """The terms that mention an atom."""
        return Poly._of_reduced({m: c for m, c in self.terms.items() if m})

    def substitute(self, replace: Callable[[A], Poly[A] | None]) -> Poly[A]:
        """Each atom replaced by `replace(atom)`; None keeps it. Returns self if nothing is replaced."""
        replacements = {a: r for m in self.terms for a in m if (r := replace(a)) is not None}
        if not replacements:
            return self
        total: dict[Monomial[A], Coefficient] = {}
        for m, c in self.terms.items():
            replaced = [replacements[a] for a in m if a in replacements]
            term: Poly[A] = Poly._of_reduced({tuple([a for a in m if a not in replacements]): c})
            for r in replaced:
                term = term * r
            for n, d in term.terms.items():
                total[n] = total.get(n, 0) + d
        return Poly(total)

    def evaluate(self, value: Callable[[A], int]) -> int:
        total: Coefficient = 0
        for m, c in self.terms.items():
            for a in m:
                c = c * value(a)
            total = total + c
        return total if isinstance(total, int) else int(total)

    def render(self, name: Callable[[A], str]) -> str:
        """`2*n + m - 1`: terms of higher degree first, then in order of serial."""
        order = sorted(self.terms.items(), key=lambda mc: (-len(mc[0]), [a.serial for a in mc[0]]))
        out = ""
        for m, c in order:
            size = abs(c)
            body = "*".join(([str(size)] if size != 1 or not m else []) + [name(a) for a in m])
            out += ((" - " if c < 0 else " + ") if out else ("-" if c < 0 else "")) + body
        return out or "0"

    def __repr__(self) -> str:
        return self.render(str)
