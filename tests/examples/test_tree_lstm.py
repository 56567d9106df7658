"""A network for trees learns logic on small expressions and reads larger ones."""

from __future__ import annotations

from tests.examples.running import numbers, printed, thorough


@thorough
def test_larger_expressions_than_it_has_seen_are_read() -> None:
    out = printed("tree_lstm", "--steps", "150", "--seed", "1")
    assert numbers(out, r"step 150: loss (\d\.\d+)")[0] < 0.1
    assert numbers(out, r"depth  6, .* (\d+\.\d) of 100")[0] > 98.0
