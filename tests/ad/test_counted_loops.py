"""Gradients of random loops that count somehow, compiled in reverse and forward mode, against the reference."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dlang.host.errors import RunError
from tests.ad.four_ways import agree, compiled
from tests.optimize.loops import Loops


@pytest.mark.parametrize("seed", range(12))
def test_gradients_of_random_loops_agree(seed: int) -> None:
    loops = Loops(random.Random(seed)).function()
    made = compiled(loops.replace("fn f(", "fn g(") + "\nfn f(x: f64[n], m: i64) -> f64 = sin(g(x, m).0)")
    for n, m in ((4, 3), (5, -1), (2, 6), (3, 2)):
        args = [n, np.sin(np.arange(1.0, n + 1)), m]
        try:
            expected = made.reference(args)
        except RunError:
            continue  # an index is out of range
        agree(made, expected, made.reverse(args))
        agree(made, expected, made.forward(args))
