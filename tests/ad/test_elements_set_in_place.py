"""Derivatives of loops that set elements of arrays at places from data: both modes, the reference and differences."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ad.four_ways import four_ways

RNG = np.random.default_rng(7)
BODIES = {
    "a multiple of what was there": "q[k[i], j] = q[k[i], j] * x[i] + x[k[n - 1 - i]]",
    "elements of another row": "q[k[i], j] = q[k[i], j] + x[i] * q[k[(i + 1) % n], j] ** 2",
    "only elements of another row": "q[k[i], j] = x[i] * sin(q[k[(i + 1) % n], j])",
    "nothing that was there": "q[k[i], j] = x[i] * f64(j + 1)",
    "what was there, twice": "q[k[i], j] = q[k[i], j] * x[i] + sin(q[k[i], j])",
    "under a condition": "if x[i] > 0.1 { q[k[i], j] = q[k[i], j] * x[i] }",
    "a branch over what was there": "q[k[i], j] = if q[k[i], j] > 0.3 { q[k[i], j] * x[i] } else { x[k[i]] }",
    "two arrays at once": "q[k[i], j] = q[k[i], j] * p[k[i]]\n    p[k[i]] = p[k[i]] * 0.9 + 0.1 * x[i]",
    "columns": "q[i, j % d] = q[i, j % d] * x[i] + x[k[i]]",
    "a table of places": "q[(k[i] + j) % n, j] = q[(k[i] + j) % n, j] * x[i] + 1.0",
    "places that meet": "q[k[i], k[j] % d] = q[k[i], k[j] % d] * x[i] + x[j]",
}
ROWS = {
    "rows": "q[k[i]] = q[k[i]] * x[i] + q[k[(i + 1) % n]]",
    "parts of rows": "q[k[i], 1..d] = q[k[i], 0..d - 1] * x[i]",
    "columns": "q[.., k[i] % d] = q[.., k[i] % d] * x[i] + x",
}


@pytest.mark.parametrize("name", BODIES)
def test_elements_of_rows(name: str) -> None:
    text = f"""
fn f(x: f64[n], k: Idx<n>[n]) -> f64 {{
  let d = 3
  var p = x * x
  var q = [sin(x[i]) + 0.1 * f64(j) for i < n, j < d]
  for i < n, j < d {{
    {BODIES[name]}
  }}
  sum(q[i, j] ** 2 * (1.0 + 0.1 * f64(j)) for i < n, j < d) + sum(p)
}}"""
    four_ways(text, [5, RNG.uniform(0.2, 0.9, 5), np.array([3, 1, 4, 1, 0])])


@pytest.mark.parametrize("name", ROWS)
def test_slices(name: str) -> None:
    text = f"""
fn f(x: f64[n], k: Idx<n>[n]) -> f64 {{
  let d = 4
  var q = [sin(x[i]) + 0.1 * f64(j) for i < n, j < d]
  for i < n {{ {ROWS[name]} }}
  sum(q ** 2)
}}"""
    four_ways(text, [5, RNG.uniform(0.2, 0.9, 5), np.array([3, 1, 4, 1, 0])])
