"""A check in a comprehension is made even if what its elements become needs nothing of it."""

from __future__ import annotations

import pytest

from tests.fuzz import compare

HEAD = "fn main(p: f64[n], q: f64[k], m: f64[n, k], x: f64, j: i64) -> "
PROGRAMS = {
    "an assertion": "f64[n] = 2.0 * [{ assert p[i] < -9.0\n p[i] } for i < n]",
    "a failure in an arm": 'f64 = sum(sin([{ if p[i] > -9.0 { fail("a") }\n p[i] } for i < n]))',
    "the largest of nothing": "f64[n] = sin([max(p[i] for l < k if q[l] > 9.0) for i < n])",
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_checks_of_fused_elements(case: str) -> None:
    assert compare.disagreement(HEAD + PROGRAMS[case] + "\n") is None
