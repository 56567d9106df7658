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
    "an element of what is as long as was checked for no iteration": (
        "{ var s = x; for t < l { let g = [sin(p[1]) * p[i] for i < n - 2]; s = sin(s) + sum(g) + sum(sin(g)) }; s }"
    ),
    "elements behind a number that was checked as a size for no iteration": (
        "if j < 9 { var s = x; for t < l { let z = [x * f64(i) for i < j]; s = sin(s) + sum(z * z)"
        " + sum(cumsum([p[i + j] for i < n - j])) }; s } else { x }"
    ),
    "an element that was in range because a size was no negative number": (
        "{ var b = m; let e = minimum(j, 9); let g = b[0, 0]; b[0, 0] = 1.0; let z = [x * f64(i) for i < e];"
        " let y = m[e, 0]; y * y + sum(z) + sum(b) }"
    ),
    "the cotangent of an element that each term of a sum checks": (
        "{ let b = [p[i] * q[t] for i < n, t < k]; sum([sum(b[j, r] for i < l) for r < n]) }"
    ),
    "what a derivative saves of an element that a sum checks": (
        "{ var s = x; for i < l { s += { let a = [m[i, i] for t < n]; sum(a[i] * w[j, t] for t < i) } }; s }"
    ),
    "elements that sums of nothing would be added to": (
        "{ let a = [{ let b = [q[t] for i < k]; sum(b[i] * q[t] for i < k) } for s < k, t < l]; sum(a * a) }"
    ),
    "what all terms of a sum over powers share, of which there are none": (
        "sum([{ var s = 0.0; for t < i { s += u[j] * p[i] ** t }; s } for i < n])"
    ),
    "an element that no term of a sum over powers is added to": (
        "{ var a = m; for i < n { for t < i { a[i, j] += u[j] * p[i] ** t } }; sum(a * a) }"
    ),
    "rows that no iteration needs": "{ var s = 0.0; for i < k { for t < j { s += q[i] * sin(p[c[i]]) } }; s }",
}


@pytest.mark.parametrize("body", FOUND.values(), ids=FOUND)
def test_programs_that_were_found(body: str) -> None:
    assert wrong_at_an_edge(f"fn main({PARAMETERS}) -> f64 = {body}\n") is None


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_programs_at_random(first: int) -> None:
    for seed in range(first, first + 6):
        text = program(seed)
        found = wrong_at_an_edge(text, seed)
        assert found is None, f"{found}\n{text}"
