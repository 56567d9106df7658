"""A transformer is less and less surprised by a text."""

from __future__ import annotations

from tests.examples.running import numbers, printed, thorough


@thorough
def test_the_surprise_falls() -> None:
    out = printed("transformer", "--steps", "100", "--batch", "8", "--seed", "1")
    first, last = numbers(out, r"step 20: (\d\.\d+) (?:.*\n)*step 100: (\d\.\d+)")
    assert first > 5.0 and last < 4.2
