"""An element that code changes time and again is a number, and its loops are comprehensions where they may be."""

from __future__ import annotations

import numpy as np
import pytest

from dlang.ir.anf import Comp, For, Update
from dlang.ir.verify import verify
from dlang.optimize.vectorise_loops import vectorise_loops
from dlang.pipeline import normalise
from tests.optimize.programs import assert_same, count, program, run
from tests.specialize.support import lowered

X = np.array([[0.5, -1.25, 2.0], [0.75, -0.5, 3.0], [1.5, 2.5, -3.5], [0.25, 0.0, -1.0]])
ARGS = [(X, np.array([1.0, -0.5, 0.25])), (X[:1], np.array([2.0, 0.5, -1.0]))]

# each body of `fn f(x: f64[n, m], v: f64[m]) -> f64[n]`, with y = zeros(n)
POINTS = {
    "a sum behind a value": "for i < n { y[i] = 1.5; for j < m { y[i] += x[i, j] * v[j] } }",
    "two sums, and a function": (
        "for i < n { for j < m { y[i] += x[i, j] }; for t in v { y[i] -= t }; y[i] = tanh(y[i]) }"
    ),
    "an extremum": "for i < n { y[i] = 9.0; for j < m { y[i] = minimum(y[i], x[i, j]) } }",
    "a comparison": "for i < n { for j < m { if x[i, j] > y[i] { y[i] = x[i, j] } } }",
    "branches": "for i < n { y[i] = sum(x[i]); if y[i] < 1.0 { y[i] = 1.0 - y[i] }; if y[i] > 2.0 { y[i] /= 2.0 } }",
    "in place": "for i < n { y[i] = y[i] + sum(x[i]); y[i] = y[i] ** 2; for t in v { y[i] -= t } }",
    "a row of an iteration": "let r = [[t, 2.0 * t] for t in x[.., 0]]; for i < n { y[i] = max(r[i]) }",
    "rows": "var z = x; for i < n, j < m { z[i, j] = z[i, j] * v[j] + 1.0 }; for i < n { y[i] = sum(z[i]) }",
    "under a condition": "for i < n { if x[i, 0] > 0.6 { y[i] = sin(x[i, 0]) } }",
    "its own, under a condition": (
        "for i < n { y[i] = x[i, 1] }; for i in 1..n { if y[i] > 0.0 { y[i] -= (y[i] + 0.5) / (1.0 + y[i] ** 2) } }"
    ),
    "two arrays, in both arms": (
        "var z = x[.., 0]; for i < n { if z[i] > 0.6 { y[i] = z[i] * 2.0; z[i] += y[i] } else { z[i] = y[i] - 1.0 } }; "
        "y += z"
    ),
    "with the next one, under a condition": (
        "for i < n { y[i] = x[i, 0] }; for i < n - 1 { if x[i, 1] > 0.0 { y[i] = y[i + 1] - y[i] } }"
    ),
    "of two axes, under conditions": (
        "var z = x; for i < n, j < m { if z[i, j] > v[j] { if z[i, j] > 1.0 { z[i, j] = 1.0 } else "
        "{ z[i, j] *= v[j] } } }; for i < n { y[i] = sum(z[i]) }"
    ),
}
NUMBERS = {
    "a recurrence": "for i < n { y[i] = 1.0; for j < m { y[i] = y[i] * sum(x[i]) + v[j] } }",
    "sums in branches": (
        "for i < n { for j < m { if v[j] > 0.0 { y[i] += x[i, j]; y[i] *= 1.5 } else { y[i] = 2.0 * y[i] } } }"
    ),
}
KEPT = {
    "the one before": "for i in 1..n { y[i] = y[i - 1]; for j < m { y[i] += x[i, j] } }",
    "the last in between": "for i < n { y[i] = 1.0; y[n - 1] += 0.5; for j < m { y[i] += x[i, j] * y[n - 1] } }",
    "one of data": "for i < n { y[i * i % n] = 1.0; for j < m { y[i * i % n] += x[i, j] } }",
    "the other end": "for i < n { y[i] = y[n - 1 - i] * 0.5 + x[i, 0] }",
    "the one before, under a condition": "for i in 1..n { if x[i, 0] > y[i - 1] { y[i] = y[i - 1] + x[i, 1] } }",
    "one that is there under a condition": "for i in 0..m { if i < n { y[i] = y[i] * v[i] + x[i, 0] } }",
    "a row of the one before, under conditions": (
        "var z = x; for i in 1..n { for j < m { if x[i, j] > v[j] { var t = z[i - 1, j]\n"
        "if j > 0 { t = maximum(t, z[i - 1, j - 1]) }; if j < m - 1 { t += z[i - 1, j + 1] }; z[i, j] = t } } }\n"
        "for i < n { y[i] = sum(z[i]) }"
    ),
    "an element that may be missing": "for i < n { for j in 5..n { y[5] = y[5] * 2.0 + 1.0 } }; y += sum(x)",
}


@pytest.mark.parametrize("body", [*POINTS.values(), *NUMBERS.values(), *KEPT.values()])
def test_values_stay(body: str) -> None:
    for args in ARGS:
        f = lowered(f"fn f(x: f64[n, m], v: f64[m]) -> f64[n] {{ var y = zeros(n); {body}; y }}", "f")
        sizes = args[0].shape
        assert_same(f.run(*sizes, *args, optimised=True), f.run(*sizes, *args), exact=False)


@pytest.mark.parametrize(
    ("body", "loops"),
    [
        *[(b, 0) for b in POINTS.values()],
        (KEPT["the one before"], 1),
        (KEPT["the other end"], 1),
        (KEPT["a row of the one before, under conditions"], 1),
    ],
)
def test_points_that_need_nothing_of_each_other_are_no_loop(body: str, loops: int) -> None:
    f = lowered(f"fn f(x: f64[n, m], v: f64[m]) -> f64[n] {{ var y = zeros(n); {body}; y }}", "f")
    assert count(normalise(f.program, [f.entry.name], verify=True), For) == loops


CHAIN = """
fn f(n.0: i64, x.1: f64[n.0], y.2: f64[n.0], k.3: i64) -> (r.4: f64[n.0]) {
  a.5: f64[n.0] = update y.2[k.3] = 1.0
  b.6: f64[n.0] = comp i.7 in 0..n.0 {
    t.8: f64 = read x.1[i.7]
    yield t.8
  } to keep [n.0] [k.3] sum into a.5
  t.9: f64 = read b.6[k.3]
  USE
  c.10: f64[n.0] = update b.6[k.3 + AT] = t.9
  yield c.10
}
"""


@pytest.mark.parametrize(("at", "use", "changes"), [("0", "", 2), ("1", "", 3), ("0", "u.11: f64 = read b.6[0]", 3)])
def test_changes_of_one_element_are_one_unless_others_see_it(at: str, use: str, changes: int) -> None:
    before = program(CHAIN.replace("AT", at).replace("USE", use))
    after = vectorise_loops(before)
    args = [3, np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.25, 0.125]), 1]
    verify(after)
    assert count(after, Update, Comp) == changes
    assert_same(run(before, args), run(after, args))
