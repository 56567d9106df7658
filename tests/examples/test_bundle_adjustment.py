"""Cameras and points are found to within what the photographs say."""

from __future__ import annotations

from tests.examples.running import numbers, printed, thorough


@thorough
def test_cameras_and_points_are_found() -> None:
    out = printed("bundle_adjustment", "--seed", "1")
    (before,) = numbers(out, r"step  0: off by +(\d+\.\d+) pixels")
    (after,) = numbers(out, r"off by +(\d+\.\d+) pixels, with damping [^\n]*\npoints")
    # an error of 0.5 pixels in each of 2 * 462 numbers, of which 8 * 11 + 100 * 3 - 7 are explained
    assert before > 20.0 and 0.33 < after < 0.43
    were, are = numbers(out, r"were off by +(\d+) mm\nand are off by +(\d+\.\d) mm")
    assert were > 200.0 and are < 20.0
