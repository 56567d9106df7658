"""Derivatives of what becomes a loop, or a product of matrices, before it is differentiated: both modes, the reference
and central differences agree."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ad.four_ways import four_ways
from tests.codegen import test_masks as masks
from tests.optimize import (
    test_counted_calls as calls,
    test_products_in_loops as products,
    test_running_powers as powers,
)

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("name", [*calls.LOOPS, *calls.CALLS])
def test_recursion_that_counts_and_other_recursion(name: str) -> None:
    four_ways(calls.PROGRAM + f"fn f(c: f64[k], x: f64) -> f64 = {name}(c, x)", [4, RNG.normal(size=4), 0.7])


@pytest.mark.parametrize("name", products.NAMES)
def test_products_in_loops_and_under_conditions(name: str) -> None:
    text = products.PRODUCTS + f"fn f(x: f64[n, c], w: f64[c, h], u: f64[h, m]) -> f64 = {name}(x, w, u)"
    four_ways(text, [4, 5, 3, 2, *(0.5 * RNG.normal(size=shape) for shape in ((4, 5), (5, 3), (3, 2)))])


@pytest.mark.parametrize("name", [*powers.RUNNING, *powers.OTHERS])
def test_sums_over_powers(name: str) -> None:
    value = f"sum(sin({name}(c, x)))" if name != "inside" else "inside(c, x)"
    four_ways(
        powers.PROGRAM + f"fn f(c: f64[k], x: f64[n]) -> f64 = {value}",
        [4, 3, RNG.normal(size=4), RNG.uniform(0.5, 1.5, 3)],
    )


@pytest.mark.parametrize("name", ["both", "updated", "shared", "looped", "far", "checked"])
def test_branches_in_lanes(name: str) -> None:
    text = masks.PROGRAM + f"fn f(x: f64[n], k: Idx<n>[n], c: f64[m]) -> f64 = sum(sin({name}(x, k, c)))"
    x = (np.arange(19.0) * 7 % 19 + 0.4) / 20  # no element is at an edge
    four_ways(text, [19, 9, x, np.arange(19) * 5 % 19, RNG.uniform(size=9)])


@pytest.mark.parametrize("step", ["maximum(l, v) + log1p(exp(-abs(l - v)))", "m + log(exp(v - m) + exp(l - m))"])
def test_logarithms_of_sums_without_a_guard(step: str) -> None:
    loop = f"var l = first\n  for v in x {{ let m = maximum(l, v); l = {step} }}\n  l"
    four_ways(f"fn f(first: f64, x: f64[n]) -> f64 {{\n  {loop}\n}}", [5, 0.3, RNG.normal(size=5)])
