"""The prover of inequalities: what follows is proven, what does not is not."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dlang.inequalities import Facts
from dlang.polynomials import Poly


@dataclass(frozen=True)
class V:
    name: str
    serial: int


n, m, h = V("n", 1), V("m", 2), V("h", 3)
i, j = V("i", 4), V("j", 5)
N, M, H, I, J = map(Poly.of, (n, m, h, i, j))
ZERO: Poly[V] = Poly({})


@pytest.fixture
def facts() -> Facts[V]:
    """n and m are sizes, 0 <= i < n, 0 <= j < m, h = n // 2."""
    known: Facts[V] = Facts()
    known.size(n)
    known.size(m)
    known.floors[h] = (N, Poly.of(2))
    known.size(h)
    known.between(i, (ZERO,), (N,))
    known.between(j, (ZERO,), (M,))
    return known


@pytest.mark.parametrize(
    ("p", "follows"),
    [
        (N, True),
        (N - 1, True),  # there is an i below it
        (N - 2, False),
        (N - I - 1, True),
        (N - I - 2, False),
        (N * M - I * M - J - 1, True),
        (N * M - I * M - J - 2, False),
        (N - H, True),
        (N - H - 1, True),  # for n = 1 by rounding
        (H * 2 - N, False),
        (I - J, False),
        (I * I - 1, False),
    ],
)
def test_what_follows(facts: Facts[V], p: Poly[V], follows: bool) -> None:
    assert facts.proves_nonnegative(p) == follows


def test_a_sum_is_an_integer_where_a_bound_of_a_term_makes_it_one(facts: Facts[V]) -> None:
    """With any w and 0 <= k < n - w: k + w is one, for it is below n, and k + 3 w may be none."""
    k, w = Poly.of(V("k", 6)), Poly.of(V("w", 7))
    facts.between(V("k", 6), (ZERO,), (N - w,))
    facts.narrow(V("w", 7), (N - Poly.of(2**62),), (N + Poly.of(2**62),))
    assert facts.exact(k + w) and facts.exact(-k - w)
    assert not facts.exact(k + w * 3) and not facts.exact(k * w + w) and not facts.exact(k * w + k)


def test_a_floor_by_a_size_times_that_is_at_most_what_was_divided() -> None:
    """With h = (n - m) // s and 0 <= i <= h, 0 <= j < m: i s + j < n, which windows of any stride need."""
    s = V("s", 0)
    known: Facts[V] = Facts()
    for size in (n, m, s):
        known.size(size)
    known.floors[h] = (N - M, Poly.of(s))
    known.between(i, (ZERO,), (H + 1,))
    known.between(j, (ZERO,), (M,))
    assert known.proves_less(I * Poly.of(s) + J, N) and known.proves_nonnegative(N - M - H * Poly.of(s))
    assert not known.proves_less(I * Poly.of(s) + J + 1, N) and not known.proves_nonnegative(N - M - 2 * H * Poly.of(s))


def test_what_is_learned_in_a_scope_is_forgotten_with_it(facts: Facts[V]) -> None:
    mark = facts.mark()
    facts.narrow(i, (Poly.of(2),), (N - 3,))
    assert facts.proves_nonnegative(I - 2) and facts.proves_less(I, N - 3) and facts.proves_nonnegative(I)
    facts.undo(mark)
    assert not facts.proves_nonnegative(I - 2) and not facts.proves_less(I, N - 3) and facts.proves_less(I, N)


def test_numbers_with_ends_in_terms_of_numbers_with_ends_are_soon_given_up(facts: Facts[V]) -> None:
    """Each of 40 numbers is at least any of those before it: so there are 40! ways down to the first."""
    numbers: list[V] = []
    for k in range(40):
        v = V(f"k{k}", 10 + k)
        facts.between(v, tuple([Poly.of(u) for u in (*numbers, i)]), (N,))
        numbers.append(v)
    assert not facts.proves_nonnegative(Poly.of(numbers[-1]) - 1) and facts.exact(Poly.of(numbers[-1]) + 1)
    assert facts.proves_nonnegative(Poly.of(numbers[3]))


def test_ends_in_terms_of_each_other_are_looked_at_once() -> None:
    """With 1 <= m <= h + i and m - h <= i < m: bounds that go round in a circle prove nothing more."""
    asked: list[Poly[V]] = []

    class Counting(Facts[V]):
        def _obvious(self, p: Poly[V]) -> bool:
            asked.append(p)
            return super()._obvious(p)

    known = Counting()
    known.size(m)
    known.size(h)
    known.floors[h] = (M, Poly.of(2))
    known.between(m, (Poly.of(1),), (H + I + 1, I * 2 + 1))
    known.between(i, (M - H, ZERO), (M,))
    assert known.proves_nonnegative(M - I - 1) and known.proves_nonnegative(H + I - M)
    asked.clear()
    assert not known.proves_nonnegative(-4 * M + 4)
    assert len(asked) <= 12
