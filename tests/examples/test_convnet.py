"""A convolutional network learns from images that are never twice the same, and stops in time."""

from __future__ import annotations

from tests.examples.running import numbers, printed, thorough


@thorough
def test_unseen_digits_are_read() -> None:
    out = printed("convnet", "--seed", "1", "--epochs", "20")
    assert numbers(out, r"it reads (\d+\.\d) of 100 unseen digits")[0] > 95.0


@thorough
def test_training_ends_when_it_gets_no_better() -> None:
    out = printed("convnet", "--seed", "1", "--epochs", "20", "--patience", "1", "--lr", "0.2")
    (best,) = numbers(out, r"after epoch (\d+) it reads")
    assert out.count("epoch ") - 1 == best + 1 < 20
