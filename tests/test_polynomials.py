"""Division of polynomials, which has to give what multiplication takes back, whatever the atoms stand for."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from random import Random

from dlang.polynomials import Poly


@dataclass(frozen=True)
class Unknown:
    serial: int


ATOMS = [Unknown(k) for k in range(3)]


def made(random: Random, terms: int, degree: int) -> Poly[Unknown]:
    out: Poly[Unknown] = Poly({})
    for _ in range(terms):
        term: Poly[Unknown] = Poly({(): random.randint(-4, 4)})
        for _ in range(random.randint(0, degree)):
            term = term * random.choice(ATOMS)
        out = out + term
    return out


def test_a_product_divided_by_a_factor_is_the_other_factor() -> None:
    random = Random(0)
    for _ in range(500):
        p, q = made(random, 4, 3), made(random, 3, 2)
        if q.terms:
            assert (p * q).quotient(q) == p


def test_a_quotient_is_one_and_nothing_else_is_given_for_one() -> None:
    random, found = Random(1), 0
    for _ in range(2000):
        p, q = made(random, 3, 2), made(random, 2, 1)
        w = p.quotient(q)
        if w is not None:
            found += 1
            assert w * q == p and q.terms
            assert all(isinstance(c, int) for c in w.terms.values())
        elif q.constant is None:  # then some numbers tell: where q divides everywhere, it divides
            values = [{a: random.randint(-50, 50) for a in ATOMS} for _ in range(60)]
            pairs = [(p.evaluate(v.__getitem__), q.evaluate(v.__getitem__)) for v in values]
            assert any(b and a % b for a, b in pairs)
    assert found > 50


def test_a_quotient_with_too_many_terms_is_not_looked_for() -> None:
    x = Poly.of(ATOMS[0])
    power = Poly({(ATOMS[0],) * 60: 1}) - 1
    quotient = power.quotient(x - 1)
    assert quotient is not None and len(quotient.terms) == 60
    assert (x * x).quotient(Poly({})) is None


def test_polynomials_that_are_equal_have_the_same_terms_however_they_were_computed() -> None:
    random, half = Random(2), Poly[Unknown]({(): Fraction(1, 2)})
    for _ in range(300):
        p, atom = made(random, 4, 1), random.choice(ATOMS)
        exact = [-p, p.without(atom), p.without_constant(), p.coefficient(atom), (p * half).substitute({atom: p}.get)]
        for q in (*exact, Poly.of(random.randint(-1, 1)), Poly.of(atom)):
            assert q.terms == Poly(q.terms).terms and hash(q) == hash(Poly(q.terms))
            assert all(c and (isinstance(c, int) or c.denominator != 1) for c in q.terms.values())
