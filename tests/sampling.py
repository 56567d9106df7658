"""Tests of which `make test` runs a sample, and `make test-slow` all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def every_combination(first: Iterable[Any], second: Sequence[Any], quick: int) -> list[Any]:
    """Pairs of values as the parameters of a test. Of each first value, `quick` pairs are in `make test`: the second
    values take turns, so that each of these is there with many of the first.
    """
    out = []
    for k, a in enumerate(first):
        for j, b in enumerate(second):
            marks = [] if (j - k * quick) % len(second) < quick else [pytest.mark.slow]
            out.append(pytest.param(a, b, marks=marks))
    return out
