"""A shot at billiards is improved through all its collisions."""

from __future__ import annotations

from tests.examples.running import numbers, printed, thorough


@thorough
def test_the_ball_comes_to_rest_at_the_spot() -> None:
    out = printed("billiards", "--seed", "2")
    (before,) = numbers(out, r"shots misses by (\d+\.\d) mm")
    (after,) = numbers(out, r"of L-BFGS by (\d\.\de[+-]\d+) mm")
    assert before > 10.0 and after < 1e-6
    assert out.count("X") == 1 and numbers(out, r"(\d+) collisions")[0] > 2
