"""The minimum cut against trying every choice, on random graphs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from hypothesis import HealthCheck, given, settings, strategies as st

from dlang.ad.rematerialise import Value, minimum_cut


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Value], list[int]]:
    values: list[Value] = []
    for k in range(draw(st.integers(1, 7))):
        again = draw(st.one_of(st.none(), st.integers(0, 9)))
        operands = draw(st.sets(st.integers(0, k - 1))) if k else set()
        values.append(Value(draw(st.integers(0, 12)), again, tuple(operands)))
    return values, sorted(draw(st.sets(st.integers(0, len(values) - 1))))


def cost(values: Sequence[Value], saved: set[int], again: set[int]) -> int:
    return sum(values[k].save for k in saved) + sum(values[k].again or 0 for k in again)


def suffices(values: Sequence[Value], wanted: Sequence[int], saved: set[int], again: set[int]) -> bool:
    """Whether what is wanted and what it is computed from is there."""
    there = saved | again
    possible = all(values[k].again is not None and there.issuperset(values[k].operands) for k in again)
    return possible and there.issuperset(wanted)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs())
def test_no_other_choice_is_cheaper(graph: tuple[list[Value], list[int]]) -> None:
    values, wanted = graph
    saved, again = minimum_cut(values, wanted)
    assert suffices(values, wanted, saved, again) and not saved & again
    for choice in product("-sa", repeat=len(values)):
        some, more = ({k for k, c in enumerate(choice) if c == mark} for mark in "sa")
        if suffices(values, wanted, some, more):
            assert cost(values, saved, again) <= cost(values, some, more)


def test_of_equal_choices_the_one_that_computes_less_is_taken() -> None:
    values = [Value(4, None), Value(5, 1, (0,)), Value(6, 1, (1,))]
    assert minimum_cut(values, [2]) == ({2}, set())
    assert minimum_cut(values, [0, 2]) == ({0}, {1, 2})


def test_operands_are_saved_once_for_all_that_is_computed_from_them() -> None:
    values = [Value(8, None), *[Value(8, 1, (0,)) for _ in range(3)]]
    assert minimum_cut(values, [1]) == ({1}, set())
    assert minimum_cut(values, [1, 2, 3]) == ({0}, {1, 2, 3})
