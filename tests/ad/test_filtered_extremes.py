"""The greatest and the least of the elements that a condition keeps: no array of them is made."""

from __future__ import annotations

import numpy as np
import pytest

import dlang
from dlang.diagnostics import DlangError
from dlang.ir import anf
from dlang.ir.traverse import walk
from dlang.pipeline import optimise
from tests.ad.four_ways import four_ways
from tests.specialize.support import lowered

VALUES = {
    "greatest": "max(x[i] * y[i] for i if x[i] < 0.5)",
    "least": "min(sin(x[i]) for i if y[i] > 0.2) ** 2",
    "of each group": "sum(max(x[i] * y[i] for i if k[i] % 2 == g) ** 2 for g < 2)",
    "of pairs": "max(x[i] * y[j] for i, j if i < j)",
    "in rows": "sum(min(x[i] - y[j] for j if j != i) * x[i] for i)",
    "of ranges that differ": "max(x[i] * y[j] for i < n, j < i + 1 if x[j] < 0.6)",
}
HEAD = "fn f(x: f64[n], y: f64[n], k: i64[n]) -> f64 = "
X = np.array([0.3, 0.9, 0.1, 0.45, 0.7])
Y = np.array([0.8, 0.25, 0.6, 0.4, 0.35])
K = np.array([3, 0, 2, 1, 4])


@pytest.mark.parametrize("name", VALUES)
def test_derivatives(name: str) -> None:
    four_ways(HEAD + VALUES[name], [5, X, Y, K])


@pytest.mark.parametrize("name", VALUES)
def test_no_array_of_those_that_are_kept_is_made(name: str) -> None:
    made = lowered(HEAD + VALUES[name], "f")
    program = optimise(made.program, [made.entry.name], verify=True)
    lets = [let for f in program.functions.values() for let in walk(f.body)]
    assert not any(isinstance(let.op, anf.Compact) for let in lets)
    reference = dlang.compile(HEAD + VALUES[name], backend="interp").f
    np.testing.assert_allclose(dlang.compile(HEAD + VALUES[name]).f(X, Y, K), reference(X, Y, K), rtol=1e-13)


@pytest.mark.parametrize("backend", ["interp", "cpu"])
def test_nothing_that_is_kept_has_no_extreme(backend: str) -> None:
    module = dlang.compile(
        """
fn greatest(x: f64[n], t: f64) -> f64 = max(v for v in x if v > t)
fn least(x: i64[n], t: i64) -> i64 = min(v for v in x if v > t)
fn rows(x: f64[n, m], t: f64) -> f64 = sum(max(v for v in row if v > t) for row in x)
fn ranges(x: f64[n], t: f64) -> f64 = max(x[j] for i < n, j < i if x[j] > t)
""",
        backend=backend,
    )
    assert module.greatest([0.5, np.nan, 0.7], 0.6) == 0.7 and module.greatest([0.5, np.nan], -np.inf) == 0.5
    assert module.least([3, 1, 2], 1) == 2 and module.rows([[1.0, 2.0], [3.0, 0.5]], 0.7) == 5.0
    assert module.ranges([0.1, 0.9, 0.3], 0.0) == 0.9
    nothing = [
        lambda: module.greatest([0.5, 0.7], 0.9),
        lambda: module.greatest(np.zeros(0), 0.0),
        lambda: module.least([3, 1], 7),
        lambda: module.rows([[1.0, 2.0], [0.1, 0.5]], 0.7),
        lambda: module.ranges([0.1, 0.9], 0.5),
    ]
    for call in nothing:
        with pytest.raises(DlangError, match="of nothing"):
            call()
