"""Programs at sizes 0 and 1, with indices from data. `python -m tests.fuzz --edges` makes many more."""

from __future__ import annotations

import pytest

from tests.fuzz.edges import PARAMETERS, program, wrong_at_an_edge

FOUND = {
    "an element is there because of what was checked for another one": (
        "sum([where(true, m[c[0], 0], q[d[0]]) for i < 2])"
    ),
    "a sum of nothing is not added to an element that is not there": (
        "{ var s = 1.0; for i < k { s += { var a = zeros(n); for t < i { a[1] += x }; sum(a) } }; s }"
    ),
    "nor where a branch asks for it": (
        "{ var a = q; for i < 2 { if { var b = zeros(n); for t < i { b[j] += x }; sum(b) } > 1.0 { a[1] = 1.0 } };"
        " sum(a) }"
    ),
    "a row that no iteration looks at": "{ var s = x; for i < k { s = sin(s) + q[i] * sum(cumsum(m[j])) }; s }",
    "the first row of none": "{ var s = x; for i < n { s = sin(s) + p[i] * sum(cumsum(m[0])) }; s }",
    "a part that no iteration looks at": ("{ var s = x; for i < k { s = sin(s) + q[i] * sum(concat(p[..j], q)) }; s }"),
    "rows that no iteration needs": "{ var s = 0.0; for i < k { for t < j { s += q[i] * sin(p[c[i]]) } }; s }",
}


@pytest.mark.parametrize("body", FOUND.values(), ids=FOUND)
def test_programs_that_were_found(body: str) -> None:
    assert wrong_at_an_edge(f"fn main({PARAMETERS}) -> f64 = {body}\n") is None


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_programs_at_random(first: int) -> None:
    for seed in range(first, first + 6):
        text = program(seed)
        found = wrong_at_an_edge(text)
        assert found is None, f"{found}\n{text}"
